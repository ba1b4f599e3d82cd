//! Values that the boundary rejects: rewards, reflectors, tools, roles.

use super::*;
use clawhost_core::{FailureKind, Playbook, Reflector as _, Reward as _, Verdict, code};

async fn judge(folder: &Path, guest: &str) -> Result<Vec<Verdict>, Failure> {
    let host = pooled();
    let reward = host.reward(guest, &guests::bytes(folder, guest), ModelGrants::default()).await.unwrap();
    let verdicts = reward.score(&Context::default(), &[recorded(), recorded()]).await.verdicts;
    // The next call works: every call uses a new instance.
    let calm =
        host.reward("reward_exact", &guests::bytes(folder, "reward_exact"), ModelGrants::default()).await.unwrap();
    assert_eq!(calm.score(&Context::default(), &[recorded()]).await.verdicts.unwrap().len(), 1);
    verdicts
}

/// Every verdict fails separately with this code.
async fn check_verdicts(folder: &Path, guest: &str, code: &str, says: &str) {
    for verdict in judge(folder, guest).await.unwrap() {
        let Verdict::Failed(failure) = verdict else { panic!("{guest}: {verdict:?}") };
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Invalid, code), "{guest}: {failure}");
        assert!(failure.message.contains(says), "{guest}: {failure}");
        assert!(failure.message.contains(&guest.replace('_', "-")), "{guest} is named: {failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_numbers_of_a_reward_are_rejected() {
    let Some(folder) = folder("invalid_numbers_of_a_reward_are_rejected") else { return };
    check_verdicts(&folder, "hostile_nan", code::NOT_FINITE, "the value is NaN").await;
    check_verdicts(&folder, "hostile_infinite", code::NOT_FINITE, "the value is inf").await;
    check_verdicts(&folder, "hostile_range", code::OUT_OF_RANGE, "outside the declared range 0 to 1").await;
    check_verdicts(&folder, "hostile_confidence", code::OUT_OF_RANGE, "the confidence 1.5 is outside 0 to 1").await;
    check_verdicts(&folder, "hostile_parts", code::DUPLICATE, "two parts of a score named `a`").await;
    check_verdicts(&folder, "hostile_verdict", code::LENGTH, "bytes of a verdict, but at most 524288 are allowed")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_that_misbehaves_as_a_whole_fails_as_a_whole() {
    let Some(folder) = folder("a_reward_that_misbehaves") else { return };
    for (guest, kind, code, says) in [
        ("hostile_count", FailureKind::Invalid, code::COUNT, "1 verdicts for 2 episodes"),
        ("hostile_handles", FailureKind::Limit, code::HANDLES, "too many host resources"),
        ("hostile_index", FailureKind::Trap, code::TRAP, "episode 1000000 of a group of 2"),
    ] {
        let failure = judge(&folder, guest).await.unwrap_err();
        assert_eq!((failure.kind, failure.code.as_str()), (kind, code), "{guest}: {failure}");
        assert!(failure.message.contains(says), "{guest}: {failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_beyond_one_is_rejected_at_load_with_the_remedy() {
    let Some(folder) = folder("a_range_beyond_one_is_refused") else { return };
    let bytes = guests::bytes(&folder, "hostile_scale");
    let error = pooled().reward("hostile_scale", &bytes, ModelGrants::default()).await.unwrap_err().to_string();
    assert!(error.contains("a range from 0 to 10; rewards lie between -1 and 1: divide by the largest"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_group_is_scored_as_a_whole() {
    let Some(folder) = folder("a_large_group_is_scored_as_a_whole") else { return };
    let host = pooled();
    let bytes = guests::bytes(&folder, "reward_exact");
    let reward = host.reward("reward_exact", &bytes, ModelGrants::default()).await.unwrap();
    // More than the usual limit of handles.
    let verdicts = reward.score(&Context::default(), &vec![recorded(); 1100]).await.verdicts.unwrap();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Scored(card) if card.value == 1.0)));
    assert_eq!(verdicts.len(), 1100);
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_characters_in_descriptions_are_rejected() {
    let Some(folder) = folder("nothing_hides_in_what_people_read") else { return };
    let bytes = guests::bytes(&folder, "hostile_about");
    let error = pooled().environment("hostile_about", &bytes, ModelGrants::default()).await.unwrap_err().to_string();
    assert!(error.contains("hidden characters in the summary") && error.contains("\\u{1b}[8m"), "{error}");
    assert!(!error.contains('\u{1b}'));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_opening_is_rejected() {
    let Some(folder) = folder("an_opening_that_breaks_the_rules") else { return };
    let host = pooled();
    let failure = one_step(&host, &folder, "hostile_tools", ModelGrants::default()).await.unwrap_err();
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Invalid, code::MALFORMED), "{failure}");
    assert!(failure.message.contains("tool look: its schema is not JSON"), "{failure}");
    let failure = one_step(&host, &folder, "hostile_tools_twins", ModelGrants::default()).await.unwrap_err();
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Invalid, code::DUPLICATE), "{failure}");
    assert!(failure.message.contains("two tools named `look`"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_after_the_end_of_an_episode_fail() {
    let Some(folder) = folder("nothing_follows_the_end") else { return };
    let host = pooled();
    let bytes = guests::bytes(&folder, "env_math");
    let plugin = host.environment("env_math", &bytes, ModelGrants::default()).await.unwrap();
    let task = plugin.tasks(&Context::default(), "train", 0, 1).await.unwrap().remove(0);
    let (mut live, _) = plugin.start(StartParams { task, ..params(1) }).await.unwrap();
    let last = live.step(&action("4"), &[]).await.unwrap();
    assert_eq!(last.status, clawhost_core::Status::Terminated);
    let failure = live.step(&action("5"), &[]).await.unwrap_err();
    assert!(failure.message.contains("`step` after the end of the episode"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_cannot_use_the_system_or_assistant_role() {
    let Some(folder) = folder("an_environment_cannot_speak_for_the_system") else { return };
    let host = pooled();
    let bytes = guests::bytes(&folder, "hostile_roles");
    let plugin = host.environment("hostile_roles", &bytes, ModelGrants::default()).await.unwrap();
    let (_live, opening) = plugin.start(params(1)).await.unwrap();
    for message in opening.observation {
        assert_eq!((message.role, message.origin), (Role::User, Origin::Environment));
        assert!(message.tool_calls.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_are_limited_and_reflectors_see_rewards_and_no_references() {
    let Some(folder) = folder("a_reflector_proposes") else { return };
    let host = pooled();
    let load = async |guest: &str| {
        host.reflector(guest, &guests::bytes(&folder, guest), ModelGrants::default()).await.unwrap()
    };
    let reflect = async |guest: &str, group: &[_]| {
        load(guest).await.reflect(&Context::default(), &Playbook::default(), group).await
    };
    let group = [Some(0.25), None].map(|reward| Arc::new(Episode { reward, ..(*recorded()).clone() }));
    let proposals = reflect("odd_reflector", &group).await.unwrap();
    let clawhost_core::Change::Add(entry) = &proposals[0].change else { panic!("{proposals:?}") };
    assert_eq!(entry.text, "0 entries, reference None, rewards [Some(0.25), None]");
    assert_eq!(proposals[0].evidence[0].episode, recorded().id.0);
    let failure = reflect("hostile_proposals", &group).await.unwrap_err();
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Invalid, code::LENGTH), "{failure}");
}
