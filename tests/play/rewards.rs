//! Several rewards in one run, and later scoring.

use super::*;
use clawhost_core::{Clock, Episode, RewardSource, StoreError};
use clawhost_play::{Environments, EpisodeSource, Rescoring, RewardFunction, ScoreReport, Unread, score_stored};
use clawhost_testkit::Marks;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

async fn play_rules(plan: Plan, rewards: Vec<ScoringRule>) -> (RunReport, Arc<Memory>) {
    let store = Arc::new(Memory::default());
    let ports = Ports {
        environments: Environments::One(Arc::new(Counting::default())),
        rewards,
        policy: ChatPolicy::new(Arc::new(Parrot::default()), None, Sampling::default()),
        store: store.clone(),
        clock: Arc::new(Still),
        meter: Arc::new(Free),
    };
    let report = play_ports(plan, ports, &Cancel::default()).await.unwrap();
    (report, store)
}

fn rule(judge: Judge) -> ScoringRule {
    ScoringRule::new(Arc::new(judge), vec![])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_reliable_source_decides_and_every_reward_is_reported() {
    let judge = rule(Judge::giving(0.125).named("judge").from(RewardSource::Judge));
    let outcome = rule(Judge::giving(1.0).named("outcome"));
    let second = ScoringRule { weight: 3.0, ..rule(Judge::giving(0.0).named("second")) };
    let (report, store) = play_rules(plan(6), vec![judge.clone(), outcome.clone(), second]).await;
    assert_eq!(report.reward_mean, Some(0.25), "the weighted mean of the outcomes");
    let means: Vec<_> = report.by_reward.iter().map(|reward| reward.mean).collect();
    assert_eq!(means, [Some(0.125), Some(1.0), Some(0.0)]);
    assert!(store.episodes().iter().all(|episode| episode.verdicts.len() == 3));

    let (report, _) = play_rules(plan(6), vec![judge.clone(), ScoringRule { weight: 0.0, ..outcome.clone() }]).await;
    assert_eq!(report.reward_mean, Some(0.125), "a weight of 0 does not decide");
    let by_choice = ScoringRule { source: RewardSource::User, ..judge };
    let (report, _) = play_rules(plan(6), vec![by_choice, outcome]).await;
    assert_eq!(report.reward_mean, Some(0.125), "the operator can choose a reward's source");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_judge_does_not_affect_an_outcome_and_is_counted() {
    let judge = rule(Judge::broken().from(RewardSource::Judge));
    let (report, _) = play_rules(Plan { failure_budget: 1.0, ..plan(6) }, vec![judge, rule(Judge::giving(1.0))]).await;
    assert_eq!((report.reward_mean, report.scored, report.failed), (Some(1.0), 6, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn scope_each_scores_episodes_separately_and_scope_group_together() {
    let plan = Plan { group: 4, ..plan(8) };
    let (_, store) = play_rules(plan, vec![rule(Judge::giving(1.0)), rule(Judge::of_groups())]).await;
    for episode in store.episodes() {
        let [each, group] = &episode.verdicts[..] else { panic!("{:?}", episode.verdicts) };
        assert!(each.group_digest.is_none() && group.group_digest.is_some());
        let Verdict::Scored(card) = &group.verdict else { panic!("{group:?}") };
        assert_eq!(card.value, 0.25, "it received the group of four");
        assert_ne!(each.seed, 0);
    }
    let seeds: std::collections::BTreeSet<u64> = store.episodes().iter().map(|e| e.verdicts[0].seed).collect();
    let of_groups: std::collections::BTreeSet<u64> = store.episodes().iter().map(|e| e.verdicts[1].seed).collect();
    assert_eq!((seeds.len(), of_groups.len()), (8, 2), "one seed per call");
}

/// A reward that reads these parts, and gives 0 to every episode.
fn reading(reads: &[&str]) -> ScoringRule {
    ScoringRule::new(Arc::new(RewardFunction::new("reader", |_| Some(0.0)).reading(reads)), vec![])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_that_found_nothing_to_read_is_reported() {
    let rewards = vec![
        rule(Judge::giving(1.0)),
        reading(&["artefact records", "reference-field records"]),
        reading(&["signal nowhere", "reference-value"]),
        reading(&["signal nowhere"]),
        // An unknown declaration is ignored.
        reading(&["artefact records", "the weather"]),
        reading(&[]),
    ];
    let check = |unread: &[Unread]| {
        let told: Vec<_> =
            unread.iter().map(|one| (one.reward.name.as_str(), one.reads.as_str(), one.episodes)).collect();
        let records = "artefact `records` and a reference with `records`";
        assert_eq!(told, [("reader", records, 10), ("reader", "signal `nowhere`", 10)]);
    };
    let (report, store) = play_rules(plan(10), rewards.clone()).await;
    check(&report.unread);
    check(&rescore(&store, &rewards).await.unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_episode_that_has_what_a_reward_reads_is_enough() {
    // Episodes end after one to several turns. All of them have the signal, and none has tool results.
    let (report, _) =
        play_rules(plan(10), vec![reading(&["signal turn"]), reading(&["tool-results", "signal turn"])]).await;
    assert_eq!(report.unread, []);
    let (report, _) = play_rules(plan(10), vec![reading(&["tool-results"])]).await;
    assert_eq!(report.unread.len(), 1);
}

/// The stored episodes, in groups.
struct Kept(Vec<Vec<Episode>>);

impl Kept {
    fn of(store: &Memory) -> Self {
        let mut episodes: Vec<Episode> = store.episodes().iter().map(|episode| (**episode).clone()).collect();
        episodes.sort_by_key(|episode| episode.index);
        let mut groups: Vec<Vec<Episode>> = Vec::new();
        for episode in episodes {
            match groups.last_mut() {
                Some(group) if group[0].group() == episode.group() => group.push(episode),
                _ => groups.push(vec![episode]),
            }
        }
        groups.reverse();
        Self(groups)
    }
}

impl EpisodeSource for Kept {
    fn next_group(&mut self) -> Result<Option<Vec<Episode>>, StoreError> {
        Ok(self.0.pop())
    }
}

const HOW: Rescoring = Rescoring { concurrency: 3, again: false, failures_allowed: 1000 };

async fn rescore(store: &Memory, rules: &[ScoringRule]) -> ScoreReport {
    rescore_as(store, rules, HOW).await
}

async fn rescore_as(store: &Memory, rules: &[ScoringRule], how: Rescoring) -> ScoreReport {
    score_stored(&mut Kept::of(store), rules, (store, &Still), how, &Cancel::default(), |_| {}).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_reward_is_post_hoc_and_changes_no_reward() {
    let (_, store) = play_rules(plan(10), vec![rule(Judge::giving(1.0).named("old"))]).await;
    let new = rule(Judge::giving(0.25).named("new"));
    let report = rescore(&store, std::slice::from_ref(&new)).await;
    let rescored = &report.rewards[0];
    assert_eq!((rescored.added, rescored.mean, rescored.mean_before), (10, Some(0.25), Some(1.0)));
    for episode in store.episodes() {
        assert_eq!(episode.reward, Some(1.0), "the run's reward is unchanged");
        assert!(episode.verdicts[1].post_hoc && !episode.verdicts[0].post_hoc);
    }
    let changed = Judge::giving(0.5).named("old");
    let asked = changed.asked.clone();
    let changed = rule(changed);
    let again = rescore(&store, &[new, changed.clone()]).await;
    assert_eq!((again.rewards[0].added, again.rewards[0].unchanged), (0, 10), "recorded once");
    assert_eq!(again.rewards[0].mean, Some(0.25), "existing verdicts are summarised");
    assert_eq!(asked.load(Ordering::Relaxed), 0, "existing verdicts are not requested again");
    let compared = rescore_as(&store, &[changed], Rescoring { again: true, ..HOW }).await;
    assert_eq!(
        (compared.rewards[0].differing, asked.load(Ordering::Relaxed)),
        (10, 10),
        "unless a comparison is requested"
    );
    assert_eq!(compared.rewards[0].mean, Some(1.0), "existing verdicts are unchanged");
    assert!(store.episodes().iter().all(|episode| episode.reward == Some(1.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_verdict_is_replaced_by_a_successful_one() {
    let mended = Arc::new(AtomicBool::new(false));
    let down = || rule(Judge::down(mended.clone(), 0.5));
    let other = rule(Judge::giving(1.0).named("other"));
    let (report, store) = play_rules(Plan { failure_budget: 1.0, ..plan(6) }, vec![down(), other]).await;
    assert_eq!((report.scored, report.failed), (0, 6));
    let still = rescore(&store, &[down()]).await;
    assert_eq!((still.rewards[0].failed, still.rewards[0].mean), (6, None));
    assert!(still.rewards[0].failure.as_deref().unwrap().contains("the judge is down"));
    mended.store(true, Ordering::Relaxed);
    let good = rescore(&store, &[down()]).await;
    assert_eq!((good.rewards[0].made_good, good.rewards[0].failed), (6, 0));
    for episode in store.episodes() {
        assert_eq!(episode.reward, Some(0.75), "computed again with the other verdict");
        let [failed, _, mended] = &episode.verdicts[..] else { panic!("{:?}", episode.verdicts) };
        assert!(failed.failed(), "the failed verdict stays in the record");
        assert_eq!((mended.post_hoc, mended.later.as_ref().map(|later| later.revision)), (false, Some(1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_that_finds_itself_not_applicable_makes_no_revision() {
    let (_, store) = play_rules(plan(6), vec![rule(Judge::giving(1.0).named("old"))]).await;
    let marks = |give: fn(&Episode) -> Option<f64>| ScoringRule::new(Arc::new(Marks::by(give)), vec![]);
    for _ in 0..2 {
        let report = rescore(&store, &[marks(|episode| (episode.index % 2 == 0).then_some(0.5))]).await;
        assert_eq!((report.rewards[0].silent, report.rewards[0].mean), (3, Some(0.5)));
    }
    for episode in store.episodes() {
        let expect = if episode.index % 2 == 0 { (2, 1) } else { (1, 0) };
        assert_eq!((episode.verdicts.len(), episode.revision()), expect, "episode {}", episode.index);
    }
    // It replaces a failure, so it is an answer.
    let down = Arc::new(AtomicBool::new(false));
    let broken = Plan { failure_budget: 1.0, ..plan(2) };
    let (_, store) =
        play_rules(broken, vec![rule(Judge::down(down, 0.5)), rule(Judge::giving(1.0).named("other"))]).await;
    assert!(store.episodes().iter().all(|episode| episode.reward.is_none()));
    let judge = rule(Judge::silent("down"));
    let report = rescore(&store, &[judge]).await;
    assert_eq!((report.rewards[0].silent, report.rewards[0].made_good), (2, 2));
    assert!(store.episodes().iter().all(|episode| episode.reward == Some(1.0) && episode.revision() == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_failed_verdicts_are_requested_again() {
    let mended = Arc::new(AtomicBool::new(false));
    let (_, store) =
        play_rules(Plan { failure_budget: 1.0, ..plan(4) }, vec![rule(Judge::down(mended.clone(), 0.5))]).await;
    mended.store(true, Ordering::Relaxed);
    let judge = Judge::down(mended, 0.5);
    let asked = judge.asked.clone();
    let judge = rule(judge);
    rescore(&store, std::slice::from_ref(&judge)).await;
    rescore(&store, std::slice::from_ref(&judge)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 4, "the second time all verdicts exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn scoring_stops_at_its_failure_budget_and_when_the_model_budget_is_exhausted() {
    let (_, store) = play_rules(plan(40), vec![rule(Judge::giving(1.0))]).await;
    let few = Rescoring { failures_allowed: 3, concurrency: 1, again: false };
    let report = rescore_as(&store, &[rule(Judge::broken())], few).await;
    assert_eq!(report.stopped, Some(StopReason::FailureBudget { failed: 4, allowed: 3 }));
    assert!(report.episodes < 10, "{}", report.episodes);
    let spent = rescore_as(&store, &[rule(Judge::spent())], few).await;
    assert_eq!(spent.stopped, Some(StopReason::ModelBudget));
    assert_eq!(spent.rewards[0].failed, 0, "this does not count as a failure");
    assert!(store.episodes().iter().all(|episode| episode.verdicts.iter().all(|known| known.reward.name != "spent")));
    let (report, _) = play_rules(plan(40), vec![rule(Judge::spent())]).await;
    assert_eq!((report.stopped, report.failed), (Some(StopReason::ModelBudget), 0), "likewise in a run");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_episodes_are_not_scored_later() {
    let store = Arc::new(Memory::default());
    let environment = Counting { failing: 5, ..Counting::default() };
    let plan = Plan { failure_budget: 1.0, ..plan(20) };
    let played = play_with(plan, environment, vec![], store.clone(), &Cancel::default()).await;
    let failed = played.report.unwrap().failed;
    assert!(failed > 0, "some failed");
    let report = rescore(&store, &[rule(Judge::giving(1.0))]).await;
    assert_eq!((report.episodes + report.not_complete, report.not_complete), (20, failed));
    assert!(store.episodes().iter().all(|episode| episode.ending.is_complete() || episode.verdicts.is_empty()));
}

/// A clock that goes back at every read.
struct Skewed(AtomicU64);

impl Clock for Skewed {
    fn now_ms(&self) -> u64 {
        self.0.fetch_sub(3_600_000, Ordering::Relaxed)
    }
    fn monotonic_us(&self) -> u64 {
        self.0.fetch_sub(1_000_000, Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backwards_clock_changes_no_result() {
    let mut reports = Vec::new();
    for clock in [Arc::new(Still) as Arc<dyn Clock>, Arc::new(Skewed(AtomicU64::new(u64::MAX / 2)))] {
        let store = Arc::new(Memory::default());
        let ports = Ports {
            environments: Environments::One(Arc::new(Counting::default())),
            rewards: vec![rule(Judge::by_seed())],
            policy: ChatPolicy::new(Arc::new(Parrot::default()), None, Sampling::default()),
            store: store.clone(),
            clock,
            meter: Arc::new(Free),
        };
        let report = play_ports(plan(5), ports, &Cancel::default()).await.unwrap();
        assert!(store.episodes().iter().flat_map(|episode| &episode.turns).all(|turn| turn.timing.policy_us == 0));
        reports.push(serde_json::to_value(report).unwrap());
    }
    assert_eq!(reports[0], reports[1]);
}
