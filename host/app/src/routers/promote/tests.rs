use super::super::candidate::{NewCandidate, add};
use super::super::files::{read_state, routers_folder};
use super::super::log::{add_to_log, decided};
use super::super::versions::{KEPT_VERSIONS, roll_back_router, router_versions};
use super::super::{RouterBook, write_router};
use super::*;
use clawhost_learn::Layer as _;
use clawhost_learn::router::offline::{LEAST_EFFECTIVE_SAMPLE, Refusal};
use clawhost_learn::router::{
    Budget, CostWeight, Fixed, Logged, Policy, Router, Simulation, WorldSettings, simulation,
};
use std::sync::OnceLock;

/// Decisions that a candidate learns from, and those after them.
const EARLIER: usize = 2_000;
const LATER: usize = 6_000;

/// A world's router with its log.
fn world() -> &'static Simulation {
    static ONCE: OnceLock<Simulation> = OnceLock::new();
    ONCE.get_or_init(|| {
        let decisions = (EARLIER + LATER) as u64;
        simulation(&WorldSettings { decisions, fresh: 1, ..WorldSettings::default() }, 4).unwrap()
    })
}

/// What was learned from the earlier part of the log.
fn learned() -> Router {
    let Simulation { router, log, .. } = world();
    let mut learned = Router::new(router.settings().clone(), router.table().clone(), router.names().to_vec()).unwrap();
    log[..EARLIER].chunks(100).for_each(|chunk| assert!(learned.learn(chunk).is_ok()));
    learned
}

/// The same state that always asks the dear model.
fn dear() -> Router {
    let mut router = learned();
    router.set_policy(Policy::Fixed(Fixed::Model("dear".into())));
    router
}

/// A data folder with a router `r` that is served, and a candidate that was learned when the log had the earlier decisions.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new(served: &Router, candidate: &Router, earlier: &[Logged]) -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        write_router(&bench.folder(), "r", served, earlier).unwrap();
        bench.learn("run-1", candidate);
        bench
    }

    fn folder(&self) -> std::path::PathBuf {
        routers_folder(self.0.path())
    }

    /// A learning run writes its result.
    fn learn(&self, run: &str, router: &Router) -> bool {
        let log = read_log(&self.folder(), "r").unwrap();
        let log = (log.len() as u64, log.last().map(decided));
        let settled = self.stored().book.gate.settled;
        add(&self.folder(), "r", settled.as_deref(), NewCandidate { run, learned_ms: 7, log, router }).unwrap()
    }

    fn log(&self, later: &[Logged]) {
        add_to_log(&self.folder(), "r", later).unwrap();
    }

    fn stored(&self) -> StoredRouter {
        read_state(&router_file(&self.folder(), "r", "json")).unwrap().unwrap()
    }

    fn promote(&self) -> Promotion {
        promote_router(self.0.path(), "r").unwrap()
    }

    fn runs(&self) -> Vec<String> {
        waiting_candidates(&self.stored()).unwrap().into_iter().map(|candidate| candidate.run).collect()
    }

    /// Numbers of the versions, the served one first.
    fn versions(&self) -> Vec<u64> {
        router_versions(self.0.path(), Some("r")).unwrap().1.iter().map(|one| one.version).collect()
    }
}

fn later() -> &'static [Logged] {
    &world().log[EARLIER..]
}

#[test]
fn a_better_candidate_is_promoted_as_a_version_that_a_rollback_returns_from() {
    let (served, candidate) = (dear(), learned());
    let bench = Bench::new(&served, &candidate, &world().log[..EARLIER]);
    bench.log(later());
    let found = bench.promote();
    assert_eq!((&found.verdict, found.candidate.later, found.missing), (&Verdict::Better, LATER as u64, 0));
    let evaluation = found.evaluation.unwrap();
    assert!(evaluation.gain.interval.0 > 0.0 && evaluation.candidate.effective_sample > LEAST_EFFECTIVE_SAMPLE);
    let Promoted { before, now } = found.promoted.unwrap();
    assert_eq!((before.identity, now.identity), (served.identity(), candidate.identity()), "what was judged is served");
    assert_eq!((before.version, now.version), (served.version(), served.version() + 1));
    assert_eq!((bench.runs().len(), bench.stored().router.identity()), (0, candidate.identity()));
    let back = roll_back_router(bench.0.path(), "r", None).unwrap();
    assert_eq!((back.to.version, back.now.identity), (before.version, served.identity()));
    let refused = promote_router(bench.0.path(), "r").unwrap_err().to_string();
    assert_eq!(refused, "router r has no candidate; another learning run of it makes one");
}

#[test]
fn only_decisions_after_the_candidate_judge_it() {
    // The whole log would promote it, and a part of it was learned from: none of it is later.
    let bench = Bench::new(&dear(), &learned(), &world().log);
    let found = bench.promote();
    assert_eq!(found.verdict, Verdict::Refused(Refusal::EffectiveSample { found: 0.0 }));
    assert_eq!((found.candidate.later, found.missing, found.evaluation, found.promoted), (0, 250, None, None));
    assert_eq!(bench.stored().router.identity(), dear().identity());
}

#[test]
fn too_few_decisions_are_no_judgement_and_the_candidate_waits() {
    let bench = Bench::new(&dear(), &learned(), &world().log[..EARLIER]);
    bench.log(&later()[..100]);
    let found = bench.promote();
    assert!(matches!(found.verdict, Verdict::Refused(Refusal::EffectiveSample { found }) if found > 0.0));
    // An estimate from ten that tell something.
    assert!((150..4_000).contains(&found.missing), "{}", found.missing);
    assert_eq!((found.number, bench.promote().number, bench.stored().book.gate.judged), (1, 1, 0));
    assert_eq!((bench.runs(), bench.stored().router.digest()), (vec!["run-1".to_owned()], dear().digest()));
}

#[test]
fn a_candidate_that_is_no_better_is_kept_and_every_judgement_makes_the_next_one_stricter() {
    let bench = Bench::new(&learned(), &learned(), &world().log[..EARLIER]);
    bench.log(later());
    let judged: Vec<_> = (0..3).map(|_| bench.promote()).collect();
    assert!(judged.iter().all(|found| found.verdict == Verdict::Keep && found.promoted.is_none()));
    let numbers: Vec<u32> = judged.iter().map(|found| found.number).collect();
    assert_eq!((numbers, bench.stored().book.gate.judged), (vec![1, 2, 3], 3));
    let alphas: Vec<f64> = judged.iter().map(|found| found.alpha).collect();
    assert!(alphas[0] > alphas[1] && alphas[1] > alphas[2] && alphas.iter().sum::<f64>() < ALPHA);
    let width = |found: &Promotion| {
        let (low, high) = found.evaluation.as_ref().unwrap().candidate.utility.interval;
        high - low
    };
    assert!(width(&judged[2]) > width(&judged[0]));
    assert_eq!(bench.runs(), ["run-1"], "more decisions may tell");
}

#[test]
fn wrong_propensities_are_refused_and_count_as_a_judgement() {
    let bench = Bench::new(&dear(), &learned(), &world().log[..EARLIER]);
    let mut wrong = later().to_vec();
    for choice in wrong.iter_mut().flat_map(|logged| &mut logged.decision.choices) {
        choice.propensity = 1.0 - choice.propensity;
    }
    bench.log(&wrong);
    let found = bench.promote();
    assert!(matches!(found.verdict, Verdict::Refused(Refusal::Disagreement { .. })), "{:?}", found.verdict);
    assert_eq!((bench.stored().book.gate.judged, found.promoted), (1, None));
}

#[test]
fn a_result_that_waits_behind_a_candidate_takes_its_place() {
    let bench = Bench::new(&dear(), &learned(), &world().log[..EARLIER]);
    bench.log(&later()[..50]);
    assert!(!bench.learn("run-2", &learned()));
    let all = waiting_candidates(&bench.stored()).unwrap();
    assert_eq!(all.iter().map(|one| (one.run.as_str(), one.later)).collect::<Vec<_>>(), [("run-1", 50), ("run-2", 0)]);
    let (dropped, next) = discard_candidate(bench.0.path(), "r").unwrap();
    assert_eq!((dropped.run.as_str(), next.unwrap().run.as_str()), ("run-1", "run-2"));
    assert_eq!(bench.runs(), ["run-2"]);
    assert!(discard_candidate(bench.0.path(), "r").unwrap().1.is_none());
    assert!(discard_candidate(bench.0.path(), "r").is_err());
}

#[test]
fn a_kill_between_serving_and_removing_promotes_once() {
    let bench = Bench::new(&dear(), &learned(), &world().log[..EARLIER]);
    bench.log(later());
    let file = bench.folder().join("r.run-1.candidate");
    let bytes = std::fs::read(&file).unwrap();
    assert!(bench.promote().promoted.is_some());
    std::fs::write(&file, bytes).unwrap();
    assert!(bench.runs().is_empty() && promote_router(bench.0.path(), "r").is_err());
}

#[test]
fn both_are_judged_at_the_prices_of_today() {
    let bench = Bench::new(&dear(), &dear(), &world().log[..EARLIER]);
    bench.log(later());
    let text = "cost_weight = 0.15\n[models.cheap]\nmodel = \"follower\"\nprice = 0\n[models.dear]\nmodel = \"random\"\nprice = 5\n";
    std::fs::write(router_file(&bench.folder(), "r", "toml"), text).unwrap();
    let cheaper = bench.promote().evaluation.unwrap();
    std::fs::write(router_file(&bench.folder(), "r", "toml"), text.replace("price = 5", "price = 50")).unwrap();
    let dearer = bench.promote().evaluation.unwrap();
    let ratio = |side: fn(&Evaluation) -> f64| side(&dearer) / side(&cheaper);
    assert!((ratio(|both| both.candidate.cost.value) - 10.0).abs() < 0.1, "{dearer:?}");
    assert!((ratio(|both| both.served.cost.value) - 10.0).abs() < 0.1, "{dearer:?}");
    std::fs::write(router_file(&bench.folder(), "r", "toml"), "").unwrap();
    let refused = promote_router(bench.0.path(), "r").unwrap_err().to_string();
    assert!(refused.contains("r.toml: ") && refused.contains("missing field `models`"), "{refused}");
}

#[test]
fn a_promoted_state_takes_over_the_weight_of_cost_that_the_sessions_have_reached() {
    let budgeted = |mut router: Router| {
        let (table, incumbent) = (router.table().clone(), router.settings().incumbent.clone());
        let budget = Budget { per_day: 100.0, start: 0.15, rate: 0.1 };
        router.reconfigure(table, incumbent, CostWeight::Budget(budget)).unwrap();
        router
    };
    let (mut served, mut candidate) = (budgeted(dear()), budgeted(learned()));
    served.spend(0, 100.0).unwrap();
    candidate.charge(500.0).unwrap();
    assert!(candidate.cost_weight() > 0.6 && (served.cost_weight() - 0.25).abs() < 1e-12);
    let bench = Bench::new(&served, &candidate, &world().log[..EARLIER]);
    bench.log(later());
    assert_eq!(bench.promote().verdict, Verdict::Better);
    let now = bench.stored().router;
    assert_eq!((now.cost_weight(), now.learned()), (served.cost_weight(), EARLIER as u64));
}

#[test]
fn the_latest_versions_are_kept_and_never_the_served_one_removed() {
    let bench = Bench::new(&learned(), &learned(), &[]);
    let first = bench.stored().router.version();
    let mut other = dear();
    other.renumber(first - 1);
    super::super::files::write_version(&bench.folder(), "r", &other).unwrap();
    for _ in 0..KEPT_VERSIONS + 5 {
        roll_back_router(bench.0.path(), "r", None).unwrap();
    }
    let versions = bench.versions();
    assert_eq!(versions.len(), KEPT_VERSIONS + 1, "{versions:?}");
    let served = bench.stored().router.version();
    assert_eq!(served, first + KEPT_VERSIONS as u64 + 5);
    assert_eq!(versions, (served - KEPT_VERSIONS as u64..=served).rev().collect::<Vec<_>>());
    assert_eq!(bench.stored().book, RouterBook::default());
}
