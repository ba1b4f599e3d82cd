use super::*;
use crate::{Ending, Failure, FailureKind, code};
use proptest::prelude::*;

fn plugin(name: &str, source: RewardSource, verdict: Verdict) -> RewardRecord {
    let reward = PluginIdentity { name: name.into(), version: "1".into(), digest: Digest::of(name.as_bytes()) };
    RewardRecord { reward, source, verdict, ..Feedback::new(0.0, "").unwrap().record() }
}

fn scored(value: f64) -> Verdict {
    Verdict::Scored(ScoreCard::plain(value))
}

fn failed() -> Verdict {
    Verdict::Failed(Failure::new(FailureKind::Trap, code::TRAP, "trapped"))
}

fn user(score: f64) -> RewardRecord {
    Feedback::new(score, "").unwrap().record()
}

const SIMULATED: RewardRule<'static> = RewardRule { is_live: false, expects: &[] };
const LIVE: RewardRule<'static> = RewardRule { is_live: true, expects: &[] };

fn added(revision: u32, reward: f64) -> Admission {
    Admission::Added { revision, reward: Some(reward) }
}

#[test]
fn feedback_and_corrections_are_revisions_that_overwrite_nothing() {
    let mut records = vec![plugin("exact", RewardSource::Outcome, scored(1.0))];
    assert_eq!(admit(user(-1.0), (10, None), SIMULATED, &mut records), added(1, -1.0));
    assert_eq!(admit(user(0.5), (20, None), SIMULATED, &mut records), added(2, 0.5), "a correction");
    assert_eq!(admit(user(-1.0), (30, None), SIMULATED, &mut records), added(3, -1.0), "the corrected score");
    let same = Admission::Unchanged { revision: 3, reward: Some(-1.0) };
    assert_eq!(admit(user(-1.0), (40, None), SIMULATED, &mut records), same, "an equal verdict changes nothing");
    assert_eq!(records.len(), 4);
    let revisions: Vec<_> = history(&records).into_iter().map(|one| (one.revision, one.at, one.reward)).collect();
    let expected =
        [(0, None, Some(1.0)), (1, Some(10), Some(-1.0)), (2, Some(20), Some(0.5)), (3, Some(30), Some(-1.0))];
    assert_eq!(revisions, expected);
    let at: Vec<RewardRecord> = verdicts_at(&records, 25).cloned().collect();
    assert_eq!(effective_reward(&at), Some(0.5), "earlier rewards can be computed again");
}

#[test]
fn a_key_identifies_one_verdict() {
    let mut records = Vec::new();
    let key = || Some("click-1".to_owned());
    assert_eq!(admit(user(1.0), (1, key()), SIMULATED, &mut records), added(1, 1.0));
    assert_eq!(admit(user(0.0), (2, Some("click-2".into())), SIMULATED, &mut records), added(2, 0.0));
    // A repeated request changes nothing, even if another verdict is valid by now.
    let unchanged = Admission::Unchanged { revision: 1, reward: Some(0.0) };
    assert_eq!(admit(user(1.0), (3, key()), SIMULATED, &mut records), unchanged);
    let refused = Admission::Refused(NotAdmitted::KeyReused { key: "click-1".into(), revision: 1 });
    assert_eq!(admit(user(-1.0), (4, key()), SIMULATED, &mut records), refused);
    // A new key is recorded even if the verdict is equal, because it must be found when used again.
    assert_eq!(admit(user(0.0), (5, Some("click-3".into())), SIMULATED, &mut records), added(3, 0.0));
    let refused = Admission::Refused(NotAdmitted::KeyReused { key: "click-3".into(), revision: 3 });
    assert_eq!(admit(user(1.0), (6, Some("click-3".into())), SIMULATED, &mut records), refused);
    assert_eq!(records.len(), 3);
}

#[test]
fn a_plugin_adds_a_verdict_once_and_replaces_a_failed_one() {
    let mut records = vec![plugin("exact", RewardSource::Outcome, failed())];
    records[0].weight = 2.0;
    let mended = plugin("exact", RewardSource::Judge, scored(0.5));
    assert_eq!(admit(mended, (1, None), SIMULATED, &mut records), added(1, 0.5));
    assert_eq!((records[1].weight, records[1].source), (2.0, RewardSource::Outcome), "it replaces the failed verdict");
    let again = plugin("exact", RewardSource::Outcome, scored(1.0));
    let unchanged = Admission::Unchanged { revision: 1, reward: Some(0.5) };
    assert_eq!(admit(again, (2, None), SIMULATED, &mut records), unchanged);
    // Another reward is post hoc.
    let other = plugin("other", RewardSource::Outcome, scored(0.0));
    assert_eq!(admit(other, (3, None), SIMULATED, &mut records), added(2, 0.5));
    assert!(records[2].post_hoc);
}

#[test]
fn later_verdicts_count_if_expected_or_live() {
    let check = |rule: RewardRule<'_>, source: RewardSource, expect: Option<f64>| {
        let mut records = Vec::new();
        admit(plugin("late", source, scored(1.0)), (5, None), rule, &mut records);
        assert_eq!(effective_reward(&records), expect, "{rule:?} {source:?}");
    };
    let expects = [ExpectedVerdict { source: RewardSource::Judge, until: 3 }];
    let waiting = RewardRule { is_live: false, expects: &expects };
    check(SIMULATED, RewardSource::Outcome, None);
    check(SIMULATED, RewardSource::User, Some(1.0));
    check(LIVE, RewardSource::Outcome, Some(1.0));
    check(waiting, RewardSource::Judge, Some(1.0));
    check(waiting, RewardSource::Outcome, None);
}

#[test]
fn an_episode_is_pending_until_its_verdicts_arrive_or_expire() {
    let expect = |source, until| ExpectedVerdict { source, until };
    let both = [expect(RewardSource::User, 100), expect(RewardSource::Outcome, 50)];
    let check = |records: &[RewardRecord], now: u64, state: EpisodeState| {
        assert_eq!(EpisodeState::at(&both, records, now), state, "{now} {records:?}");
    };
    let pending = |until| EpisodeState::Pending { until };
    check(&[], 0, pending(100));
    check(&[], 99, pending(100));
    check(&[], 100, EpisodeState::Decided);
    let outcome = plugin("exact", RewardSource::Outcome, scored(1.0));
    check(&[user(1.0)], 0, pending(50));
    check(&[user(1.0)], 50, EpisodeState::Decided);
    check(std::slice::from_ref(&outcome), 60, pending(100));
    check(&[user(1.0), outcome.clone()], 0, EpisodeState::Decided);
    check(&[user(1.0), plugin("exact", RewardSource::Outcome, failed())], 0, pending(50));
    let post_hoc = RewardRecord { post_hoc: true, ..outcome };
    check(&[user(1.0), post_hoc], 0, pending(50));
    assert_eq!(EpisodeState::at(&[], &[], 0), EpisodeState::Decided, "without expectations at once");
}

#[test]
fn a_failed_episode_waits_for_nothing() {
    let golden = include_str!("../../../../tests/golden/episode-2.json");
    let mut episode: Episode = serde_json::from_str(golden).unwrap();
    episode.expects = vec![ExpectedVerdict { source: RewardSource::User, until: 100 }];
    assert_eq!(episode.state(0), EpisodeState::Pending { until: 100 });
    episode.ending = Ending::Failed(Failure::new(FailureKind::Trap, code::TRAP, "trapped"));
    assert_eq!(episode.state(0), EpisodeState::Decided);
}

#[test]
fn as_of_returns_an_earlier_state() {
    let golden = include_str!("../../../../tests/golden/episode-2.json");
    let mut episode: Episode = serde_json::from_str(golden).unwrap();
    // The plugin's verdict is recorded; a person's is expected.
    episode.verdicts = vec![plugin("exact", RewardSource::Outcome, scored(0.25))];
    episode.expects = vec![ExpectedVerdict { source: RewardSource::User, until: 100 }];
    for (score, at) in [(1.0, 50), (-1.0, 200)] {
        let rule = RewardRule { is_live: false, expects: &episode.expects.clone() };
        admit(user(score), (at, None), rule, &mut episode.verdicts);
    }
    episode.reward = effective_reward(&episode.verdicts);
    let check = |at: u64, reward: Option<f64>, revision: u32| {
        let then = episode.as_of(at).unwrap_or_else(|| episode.clone());
        assert_eq!((then.reward, then.revision()), (reward, revision), "{at}");
    };
    check(49, None, 0);
    check(50, Some(1.0), 1);
    check(199, Some(1.0), 1);
    check(200, Some(-1.0), 2);
    assert!(episode.as_of(200).is_none(), "it is unchanged");
}

#[test]
fn revisions_are_bounded() {
    let mut records = Vec::new();
    for change in 0..REVISIONS {
        let score = f64::from(change % 2);
        assert!(matches!(admit(user(score), (1, None), SIMULATED, &mut records), Admission::Added { .. }));
    }
    let refused = Admission::Refused(NotAdmitted::TooManyRevisions);
    assert_eq!(admit(user(0.5), (1, None), SIMULATED, &mut records), refused);
}

#[test]
fn scores_and_texts_out_of_range_are_errors() {
    let check = |score: f64, bytes: usize, expect: Option<&str>| {
        let error = Feedback::new(score, "x".repeat(bytes)).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), expect);
    };
    check(-1.0, 0, None);
    let zero = Feedback::new(-0.0, "").unwrap().record();
    assert_eq!(serde_json::json!(zero.verdict)["scored"]["value"].to_string(), "0.0");
    check(1.0, FEEDBACK_TEXT_BYTES, None);
    check(1.01, 0, Some("the score 1.01 is not from -1 to 1"));
    check(f64::NAN, 0, Some("the score NaN is not from -1 to 1"));
    check(0.0, FEEDBACK_TEXT_BYTES + 1, Some("the text has 16385 bytes; at most 16384 are kept"));
}

proptest! {
    #[test]
    fn history_is_append_only(steps in proptest::collection::vec((0u8..3, -2i8..3, proptest::option::of(0u8..3)), 0..30)) {
        let mut records = vec![plugin("exact", RewardSource::Outcome, scored(0.25))];
        let mut past = history(&records);
        for (time, (kind, value, key)) in steps.into_iter().enumerate() {
            let value = f64::from(value) / 2.0;
            let record = match kind {
                0 => user(value),
                1 => plugin("exact", RewardSource::Outcome, scored(value)),
                _ => plugin("other", RewardSource::Judge, failed()),
            };
            let before = records.clone();
            let admission = admit(record, (time as u64, key.map(|key| key.to_string())), SIMULATED, &mut records);
            prop_assert_eq!(&records[..before.len()], &before[..], "earlier verdicts are unchanged");
            let now = history(&records);
            prop_assert_eq!(&now[..past.len()], &past[..], "earlier revisions are unchanged");
            match admission {
                Admission::Added { revision, reward } => {
                    prop_assert_eq!(now.len(), past.len() + 1);
                    prop_assert_eq!((now.last().unwrap().revision, now.last().unwrap().reward), (revision, reward));
                }
                Admission::Unchanged { reward, .. } => prop_assert_eq!(reward, past.last().unwrap().reward),
                Admission::Refused(_) => prop_assert_eq!(now.len(), past.len()),
            }
            past = now;
        }
    }
}
