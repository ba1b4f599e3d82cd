//! Values that the boundary refuses: rewards, reflectors, tools, roles.

use super::*;
use clawhost_core::{FailureKind, Playbook, Reflector as _, Reward as _, Verdict, code};

async fn judge(folder: &Path, guest: &str) -> Result<Vec<Verdict>, Failure> {
    let host = pooled();
    let reward = host.reward(guest, &guests::bytes(folder, guest), ModelGrants::default()).await.unwrap();
    let verdicts = reward.score(&Context::default(), &[recorded(), recorded()]).await.verdicts;
    // The next call works: every call has an instance of its own.
    let calm =
        host.reward("reward_exact", &guests::bytes(folder, "reward_exact"), ModelGrants::default()).await.unwrap();
    assert_eq!(calm.score(&Context::default(), &[recorded()]).await.verdicts.unwrap().len(), 1);
    verdicts
}

/// Every verdict is refused, alone, with this code.
async fn check_verdicts(folder: &Path, guest: &str, code: &str, says: &str) {
    for verdict in judge(folder, guest).await.unwrap() {
        let Verdict::Failed(failure) = verdict else { panic!("{guest}: {verdict:?}") };
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Invalid, code), "{guest}: {failure}");
        assert!(failure.message.contains(says), "{guest}: {failure}");
        assert!(failure.message.contains(&guest.replace('_', "-")), "{guest} is named: {failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_odd_number_leaves_a_reward() {
    let Some(folder) = folder("no_odd_number_leaves_a_reward") else { return };
    check_verdicts(&folder, "hostile_nan", code::NOT_FINITE, "the value is NaN").await;
    check_verdicts(&folder, "hostile_infinite", code::NOT_FINITE, "the value is inf").await;
    check_verdicts(&folder, "hostile_range", code::OUT_OF_RANGE, "outside the declared range 0 to 1").await;
    check_verdicts(&folder, "hostile_confidence", code::OUT_OF_RANGE, "the confidence 1.5 is outside 0 to 1").await;
    check_verdicts(&folder, "hostile_parts", code::DUPLICATE, "two parts of a score named `a`").await;
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
async fn a_range_beyond_one_is_refused_at_load_with_what_to_do() {
    let Some(folder) = folder("a_range_beyond_one_is_refused") else { return };
    let bytes = guests::bytes(&folder, "hostile_scale");
    let error = pooled().reward("hostile_scale", &bytes, ModelGrants::default()).await.unwrap_err().to_string();
    assert!(error.contains("a range from 0 to 10; rewards lie between -1 and 1: divide by the largest"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_group_is_judged_whole() {
    let Some(folder) = folder("a_large_group_is_judged_whole") else { return };
    let host = pooled();
    let bytes = guests::bytes(&folder, "reward_exact");
    let reward = host.reward("reward_exact", &bytes, ModelGrants::default()).await.unwrap();
    // More than the handles that a guest may hoard.
    let verdicts = reward.score(&Context::default(), &vec![recorded(); 1100]).await.verdicts.unwrap();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Scored(card) if card.value == 1.0)));
    assert_eq!(verdicts.len(), 1100);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_hides_in_what_people_read_before_they_trust() {
    let Some(folder) = folder("nothing_hides_in_what_people_read") else { return };
    let bytes = guests::bytes(&folder, "hostile_about");
    let error = pooled().environment("hostile_about", &bytes, ModelGrants::default()).await.unwrap_err().to_string();
    assert!(error.contains("hidden characters in the summary") && error.contains("\\u{1b}[8m"), "{error}");
    assert!(!error.contains('\u{1b}'));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_that_breaks_the_rules_is_refused_whole() {
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
async fn nothing_follows_the_end_of_an_episode() {
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
async fn an_environment_cannot_speak_for_the_system_or_the_policy() {
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
async fn a_reflector_proposes_within_limits_and_sees_no_reference() {
    let Some(folder) = folder("a_reflector_proposes") else { return };
    let host = pooled();
    let load = async |guest: &str| {
        host.reflector(guest, &guests::bytes(&folder, guest), ModelGrants::default()).await.unwrap()
    };
    let reflect =
        async |guest: &str| load(guest).await.reflect(&Context::default(), &Playbook::default(), &[recorded()]).await;
    let proposals = reflect("odd_reflector").await.unwrap();
    let clawhost_core::Change::Add(entry) = &proposals[0].change else { panic!("{proposals:?}") };
    assert_eq!(entry.text, "0 entries, reference None");
    assert_eq!(proposals[0].evidence[0].episode, recorded().id.0);
    let failure = reflect("hostile_proposals").await.unwrap_err();
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Invalid, code::LENGTH), "{failure}");
}
