//! Runs of several environments.

use crate::{play_ports, ports};
use clawhost_core::RunId;
use clawhost_core::{Context, Discrepancy, Environment, Episode, EpisodeId, PluginIdentity};
use clawhost_play::{
    Basis, Cancel, Environments, EpisodeSummary, Mixture, Part, Plan, PlayError, PlayedRun, Ports, ReplayOutcome,
    RunReport, RunRequest, ScoringRule, check_episode, fetch_shuffled, play_run, replay_episode,
};
use clawhost_testkit::{Counting, Judge, Memory, Silent, Still, plan};
use std::sync::Arc;

/// An environment of this name with this many tasks and turns.
fn counting(name: &str, tasks: u64, turns: u32) -> Counting {
    let identity = PluginIdentity::native(name);
    let mut environment = Counting { identity, tasks, turns, ..Counting::default() };
    environment.description.about.name = name.to_owned();
    environment
}

fn part(name: &str, weight: f64, environment: Counting) -> Part {
    let options = vec![("size".to_owned(), name.to_owned())];
    Part { name: name.to_owned(), weight, environment: Arc::new(environment), options }
}

/// A part with one turn an episode and one task, and a part of three times the weight with three turns.
fn parts() -> Vec<Part> {
    vec![part("a", 1.0, counting("short", 1, 1)), part("b", 3.0, counting("long", 1000, 3))]
}

fn mixture() -> Environments {
    Environments::Mixture(Arc::new(Mixture::new(parts()).unwrap()))
}

fn rule(judge: Judge, part: Option<&str>) -> ScoringRule {
    ScoringRule { part: part.map(str::to_owned), ..ScoringRule::new(Arc::new(judge), vec![]) }
}

fn mixed(rewards: Vec<ScoringRule>, store: Arc<Memory>) -> Ports {
    Ports { environments: mixture(), rewards, ..ports(Counting::default(), Vec::new(), store) }
}

async fn play(plan: Plan, rewards: Vec<ScoringRule>) -> (RunReport, Arc<Memory>) {
    let store = Arc::new(Memory::default());
    let report = play_ports(plan, mixed(rewards, store.clone()), &Cancel::default()).await.unwrap();
    (report, store)
}

fn in_order(store: &Memory) -> Vec<Arc<Episode>> {
    let mut episodes = store.episodes();
    episodes.sort_by_key(|episode| episode.index);
    episodes
}

#[tokio::test(flavor = "multi_thread")]
async fn each_part_gets_its_share_of_the_groups_with_its_own_environment_and_options() {
    let (report, store) = play(Plan { group: 2, ..plan(16) }, vec![rule(Judge::by_seed(), None)]).await;
    let told = |episode: &Arc<Episode>| {
        let simulated = episode.simulated().unwrap();
        let options: Vec<_> = simulated.options.iter().map(|(_, value)| value.as_str()).collect();
        let (part, environment) = (episode.task.part.clone().unwrap(), simulated.environment.name.clone());
        (part, environment, options.concat(), episode.turns.len())
    };
    let found: Vec<_> = in_order(&store).iter().map(told).collect();
    let a = ("a".to_owned(), "short".to_owned(), "a".to_owned(), 1);
    let b = ("b".to_owned(), "long".to_owned(), "b".to_owned(), 3);
    let groups = [&b, &a, &b, &b, &b, &a, &b, &b];
    let expect: Vec<_> = groups.into_iter().flat_map(|group| [group.clone(), group.clone()]).collect();
    assert_eq!(found, expect);
    let parts: Vec<_> = report.parts.iter().map(|one| (one.part.as_str(), one.episodes, one.scored)).collect();
    assert_eq!(parts, [("a", 4, 4), ("b", 12, 12)]);
    let mean = |part: &str| report.parts.iter().find(|one| one.part == part).unwrap().reward_mean.unwrap();
    let whole = (4.0 * mean("a") + 12.0 * mean("b")) / 16.0;
    assert!(
        (report.reward_mean.unwrap() - whole).abs() < 1e-9,
        "the mean of all is the mean of the parts by their episodes"
    );
    assert_eq!(store.begun.lock().unwrap().clone().unwrap().environment, "a+b");
    // The only task of a part is repeated, each time with another seed of the environment.
    let repeated: Vec<_> = report.episodes.iter().filter(|one| one.part.as_deref() == Some("a")).collect();
    assert!(repeated.iter().all(|one| one.task == "a/t0"), "{repeated:?}");
    let seeds: std::collections::BTreeSet<u64> =
        in_order(&store).iter().filter(|one| one.task.key() == "a/t0").map(|one| one.seed()).collect();
    assert_eq!(seeds.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_of_a_part_judges_the_episodes_of_that_part_alone() {
    let rewards = vec![rule(Judge::giving(0.25), Some("b")), rule(Judge::giving(1.0), Some("a"))];
    let (report, store) = play(plan(8), rewards).await;
    let means: Vec<_> = report.by_reward.iter().map(|one| (one.mean, one.scored)).collect();
    assert_eq!(means, [(Some(0.25), 6), (Some(1.0), 2)], "in the order of the rewards");
    for episode in in_order(&store) {
        let expect = if episode.task.part.as_deref() == Some("a") { 1.0 } else { 0.25 };
        assert_eq!((episode.reward, episode.verdicts.len()), (Some(expect), 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_of_a_mixture_equals_an_uninterrupted_one() {
    let (rewards, plan) = (|| vec![rule(Judge::by_seed(), Some("b")), rule(Judge::giving(0.5), None)], || plan(40));
    let (whole, store) = play(plan(), rewards()).await;
    let earlier: Vec<EpisodeSummary> = in_order(&store)[..13].iter().map(|one| EpisodeSummary::of(one)).collect();
    let again = Arc::new(Memory::default());
    let kept = store.recorded.lock().unwrap().iter().filter(|one| one.episode.index < 13).cloned().collect();
    *again.recorded.lock().unwrap() = kept;
    let request = RunRequest::new(RunId("run-test".into()), plan(), mixed(rewards(), again));
    let request = RunRequest { recorded: Some(earlier), ..request };
    let PlayedRun { report, .. } = play_run(request, &Cancel::default(), &Silent).await.unwrap();
    assert_eq!(serde_json::json!(report), serde_json::json!(whole));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_a_mixture_agree_and_another_part_is_found() {
    let (_, store) = play(plan(12), vec![rule(Judge::by_seed(), Some("b"))]).await;
    let basis: Basis = serde_json::from_value(store.begun.lock().unwrap().clone().unwrap().basis).unwrap();
    let check = |change: fn(&mut Episode), expect: &[&str]| {
        let episodes = in_order(&store);
        let mut episode = Episode::clone(&episodes[0]);
        assert_eq!(episode.task.part.as_deref(), Some("b"));
        change(&mut episode);
        let found: Vec<Discrepancy> = check_episode(&basis, &episode);
        assert_eq!(found.len(), expect.len(), "{found:?}");
        assert!(found.iter().zip(expect).all(|(one, expect)| one.what.starts_with(expect)), "{found:?}");
    };
    assert!(in_order(&store).iter().all(|episode| check_episode(&basis, episode).is_empty()));
    check(|_| (), &[]);
    check(|episode| episode.task.part = Some("c".into()), &["the part", "a verdict of"]);
    check(|episode| episode.task.part = None, &["the part", "a verdict of"]);
    check(|episode| episode.task.part = Some("a".into()), &["environment", "options", "a verdict of"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_with_a_part_in_a_run_of_one_environment_is_found() {
    let store = Arc::new(Memory::default());
    let ports = ports(Counting::default(), Vec::new(), store.clone());
    play_ports(plan(1), ports, &Cancel::default()).await.unwrap();
    let basis: Basis = serde_json::from_value(store.begun.lock().unwrap().clone().unwrap().basis).unwrap();
    let mut episode = Episode::clone(&in_order(&store)[0]);
    assert_eq!(check_episode(&basis, &episode), []);
    episode.task.part = Some("a".into());
    let found = check_episode(&basis, &episode);
    assert_eq!(found.iter().map(|one| one.what.as_str()).collect::<Vec<_>>(), ["the part"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn episodes_of_every_part_replay_with_their_own_environment() {
    let (_, store) = play(plan(8), Vec::new()).await;
    for episode in in_order(&store) {
        let own: Arc<dyn Environment> = match episode.task.part.as_deref() {
            Some("a") => Arc::new(counting("short", 1, 1)),
            _ => Arc::new(counting("long", 1000, 3)),
        };
        let outcome = replay_episode(own.as_ref(), &episode, usize::MAX, &Still).await;
        assert_eq!(outcome, ReplayOutcome::Exact, "{}", episode.task.key());
    }
}

#[tokio::test]
async fn fewer_tasks_are_a_prefix_of_more_and_each_part_is_shuffled_by_itself() {
    let context = Context::default();
    let tasks = async |wanted| {
        let found = fetch_shuffled(&mixture(), &context, ("train", 7), wanted, |_| true).await.unwrap();
        found.iter().map(|(task, _)| task.key()).collect::<Vec<_>>()
    };
    let many = tasks(400).await;
    assert_eq!(tasks(37).await, many[..37]);
    assert_eq!(many.iter().filter(|key| key.starts_with("a/")).count(), 100);
    let alone = Environments::One(Arc::new(counting("long", 1000, 3)));
    let order = clawhost_core::derive_seed(7, "part/b", 0);
    let alone = fetch_shuffled(&alone, &context, ("train", order), 300, |_| true).await.unwrap();
    let alone: Vec<_> = alone.iter().map(|(task, _)| format!("b/{}", task.id)).collect();
    assert_eq!(many.iter().filter(|key| key.starts_with("b/")).cloned().collect::<Vec<_>>(), alone);
    let twice = vec![part("a", 1.0, counting("same", 100, 1)), part("b", 1.0, counting("same", 100, 1))];
    let twice = Environments::Mixture(Arc::new(Mixture::new(twice).unwrap()));
    let twice = fetch_shuffled(&twice, &context, ("train", 7), 40, |_| true).await.unwrap();
    let ids: Vec<_> = twice.iter().map(|(task, _)| task.id.as_str()).collect();
    let equal = ids.chunks(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(equal < 5, "parts of one environment differ in their order: {ids:?}");
    let none = fetch_shuffled(&mixture(), &context, ("train", 7), 4, |task| task.id != "t0").await;
    assert!(
        matches!(none, Err(PlayError::NoTasks { environment, .. }) if environment == "short"),
        "a part without tasks"
    );
}

#[test]
fn parts_that_cannot_share_a_run_are_refused() {
    let other = |name: &str| {
        let mut environment = counting(name, 10, 1);
        environment.description.splits[0].name = "lessons".into();
        environment
    };
    let check = |parts: Vec<Part>, expect: &str| {
        let why = Mixture::new(parts).err().expect("it is refused").to_string();
        assert!(why.contains(expect), "{why}");
    };
    check(vec![part("a", 1.0, counting("a", 1, 1))], "at least two environments");
    check(
        vec![part("a", 1.0, counting("a", 1, 1)), part("a", 1.0, counting("b", 1, 1))],
        "two of its parts have the name `a`",
    );
    check(vec![part("a", 1.0, counting("a", 1, 1)), part("b", 0.0, counting("b", 1, 1))], "the weight of `b` is 0");
    check(
        vec![part("a", f64::NAN, counting("a", 1, 1)), part("b", 1.0, counting("b", 1, 1))],
        "the weight of `a` is NaN",
    );
    check(
        vec![part("a", 1.0, counting("a", 1, 1)), part("b", 1.0, other("b"))],
        "no split in common: a has train; b has lessons",
    );
}

/// The id of an episode depends on the parts: another weight, option or environment is another run.
#[tokio::test]
async fn whatever_determines_a_part_is_part_of_the_digest_of_the_run() {
    let digest = async |parts: Vec<Part>| -> EpisodeId {
        let environments = Environments::Mixture(Arc::new(Mixture::new(parts).unwrap()));
        let store = Arc::new(Memory::default());
        let ports = Ports { environments, ..mixed(Vec::new(), store.clone()) };
        play_ports(plan(1), ports, &Cancel::default()).await.unwrap().episodes[0].id.clone()
    };
    let usual = digest(parts()).await;
    assert_eq!(usual, digest(parts()).await);
    let changed: [fn(&mut Part); 4] = [
        |part| part.weight = 2.0,
        |part| part.name = "c".into(),
        |part| part.options.clear(),
        |part| part.environment = Arc::new(counting("other", 1, 1)),
    ];
    for change in changed {
        let mut parts = parts();
        change(&mut parts[0]);
        assert_ne!(digest(parts).await, usual);
    }
}
