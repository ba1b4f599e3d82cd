//! Attempts to leave the sandbox: files, sockets, names, forged handles. All fail.

use super::*;
use clawhost_core::{FailureKind, Reward as _, Verdict, code};

#[tokio::test(flavor = "multi_thread")]
async fn all_network_access_is_denied() {
    let Some(folder) = folder("every_way_to_the_network") else { return };
    let said = text(&one_step(&pooled(), &folder, "hostile_network", ModelGrants::default()).await.unwrap());
    let mut expected = Vec::new();
    for socket in ["tcp", "tcp6", "listen", "listen6", "udp", "udp6"] {
        expected.push(format!("{socket}: socket: access-denied"));
    }
    for name in ["localhost", "name", "address"] {
        expected.push(format!("{name}: look-up: permanent-resolver-failure"));
    }
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_folders_and_forged_handles_are_invalid() {
    let Some(folder) = folder("there_is_no_folder") else { return };
    let host = pooled();
    let bytes = guests::bytes(&folder, "hostile_files");
    let plugin = host.environment("hostile_files", &bytes, ModelGrants::default()).await.unwrap();
    let act = async |attack: &str| {
        let (mut live, _) = plugin.start(params(7)).await.unwrap();
        live.step(&action(attack), &[]).await
    };
    // Without a folder no path can lead outside, and there are no links.
    assert_eq!(text(&act("list").await.unwrap()), "0 folders []");
    for forged in ["0", "1", "3", "1000", "2147483648"] {
        let failure = act(forged).await.unwrap_err();
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Trap, code::TRAP), "{forged}: {failure}");
        assert!(failure.message.contains("handle"), "{forged}: {failure}");
    }
    next_episode_works(&host, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_dropped_handles_are_invalid() {
    let Some(folder) = folder("a_handle_that_was_not_given") else { return };
    let host = pooled();
    let bytes = guests::bytes(&folder, "hostile_forged");
    let reward = host.reward("hostile_forged", &bytes, ModelGrants::default()).await.unwrap();
    let judge = async |attack: &str| {
        let context = Context { seed: 1, options: vec![("attack".into(), attack.into())] };
        reward.score(&context, &[recorded()]).await.verdicts
    };
    for attack in ["0", "2^31", "the greatest", "one more", "given back", "given back twice", "another kind"] {
        let failure = judge(attack).await.unwrap_err();
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Trap, code::TRAP), "{attack}: {failure}");
        assert!(failure.message.contains("handle"), "{attack}: {failure}");
    }
    // The correct number works, so the attacks above fail for the intended reason.
    let verdicts = judge("none").await.unwrap();
    let Verdict::Scored(card) = &verdicts[0] else { panic!("{verdicts:?}") };
    assert_eq!(card.rationale, recorded().id.0);
    assert_eq!(host.guest_memory(), 0);
}

/// No borrowed handle outlives its call, and no call into a guest can start inside another, because the contract cannot
/// express it: guests export no function that takes a borrowed host handle, and import none that takes or returns a
/// callback, a future or a stream. (A host function also accesses only the store's data, never the store: see the text
/// guests that call out of `cabi_realloc` and post-return.)
#[test]
fn the_contract_cannot_express_re_entrance_or_kept_borrows() {
    let (resolve, worlds) = text::contract();
    let mut functions = 0;
    for world in worlds {
        let world = &resolve.worlds[world];
        for (imported, items) in [(true, &world.imports), (false, &world.exports)] {
            for item in items.values() {
                let wit_parser::WorldItem::Interface { id, .. } = item else { continue };
                for function in resolve.interfaces[*id].functions.values() {
                    functions += 1;
                    let kinds: Vec<String> = text::kinds(&resolve, function);
                    let name = &function.name;
                    assert!(
                        !kinds.iter().any(|kind| ["future", "stream"].contains(&kind.as_str())),
                        "{name}: {kinds:?}"
                    );
                    assert!(!name.starts_with("[async"), "{name} is entered while it waits");
                    let lent = kinds.iter().filter(|kind| kind.starts_with("borrow of ")).collect::<Vec<_>>();
                    // `self` of an exported method is the guest's own resource.
                    assert!(imported || lent.iter().all(|kind| *kind == "borrow of episode"), "{name}: {lent:?}");
                }
            }
        }
    }
    assert!(functions > 30, "the contract was read: {functions}");
}
