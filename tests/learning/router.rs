//! The router layer in the loop: it learns which light needs the dear model, from rewards alone.

use crate::third_layer::HabitStage;
use crate::world::*;
use async_trait::async_trait;
use clawhost_core::{
    About, Context, Episode, Failure, FailureKind, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse,
    ModelRouter, Origin, PluginIdentity, Role, RouteCandidate, RouteChoice, RoutingPlugin, Usage, code,
};
use clawhost_follower::Follower;
use clawhost_learn::Layer as _;
use clawhost_learn::router::{Budget, CostWeight, Features, Fixed, Logged, Router, RouterSettings, Table};
use clawhost_learning::{
    LayerReport, LearnPlan, LearnPorts, LearnReport, LearnedRouter, RoutedModel, RoutedModels, RouterKeeper,
    RouterPorts, RouterStage, RoutingFailures,
};
use clawhost_testkit::{about, identity};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Tokens of a request and of its answer.
const TOKENS: u64 = 100;

/// Answers by the colour in the last message; an empty answer is a failure of the endpoint.
struct Says {
    name: &'static str,
    answer: fn(&str) -> &'static str,
}

#[async_trait]
impl Llm for Says {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "fake".into(), model: self.name.into(), version: "1".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let text = request.messages.last().unwrap().plain_text();
        let answer = (self.answer)(text.rsplit(' ').next().unwrap());
        if answer.is_empty() {
            return Err(ModelError::Unavailable("nobody is there".into()));
        }
        let message = Message::text(Role::Assistant, Origin::Policy, answer);
        let usage = Usage { prompt_tokens: TOKENS - 1, completion_tokens: 1, ..Usage::default() };
        Ok(ModelResponse::new(message, usage, "stop"))
    }
}

/// A cheap model with this behaviour, and a dear one that is always right.
fn models(cheap: fn(&str) -> &'static str) -> Arc<RoutedModels> {
    let says = |name, answer| Arc::new(Says { name, answer }) as Arc<dyn Llm>;
    Arc::new(BTreeMap::from([("cheap".into(), says("cheap", cheap)), ("dear".into(), says("dear", right))]))
}

fn waits(_: &str) -> &'static str {
    "wait"
}

fn fails(_: &str) -> &'static str {
    ""
}

/// A router between both, with the cheap one as the incumbent.
fn router(escalates: bool) -> Router {
    let mut table = Table::new([("cheap".to_owned(), 1.0), ("dear".to_owned(), 10.0)]).unwrap();
    if escalates {
        table = table.with_escalation("cheap", "dear").unwrap();
    }
    let usual = RouterSettings::new(&table, Fixed::Model("cheap".into()), CostWeight::Fixed(0.1));
    let typical_units = TOKENS as f64 / 1e6;
    let settings = RouterSettings { typical_units, reference_cost: usual.reference_cost * typical_units, ..usual };
    Router::new(settings, table, Features::names_of_requests()).unwrap()
}

/// Remembers what was kept.
#[derive(Default)]
struct Kept(Mutex<Option<LearnedRouter>>);

impl RouterKeeper for Kept {
    fn keep(&self, result: LearnedRouter) -> Result<(), String> {
        *self.0.lock().unwrap() = Some(result);
        Ok(())
    }
}

impl Kept {
    fn taken(&self) -> (Router, Vec<Logged>) {
        let LearnedRouter { router, log, .. } = self.result();
        (router, log)
    }

    fn result(&self) -> LearnedRouter {
        self.0.lock().unwrap().take().unwrap()
    }
}

fn plan(iterations: u64, test_pairs: u64) -> LearnPlan {
    LearnPlan { iterations, test_pairs, ..small().run() }
}

fn ports(world: &World, router: Router, models: Arc<RoutedModels>, kept: &Arc<Kept>) -> LearnPorts {
    let stage = RouterStage::new(RouterPorts { name: "lights".into(), router, models, keeper: kept.clone() }).unwrap();
    world.ports(vec![Box::new(stage)])
}

fn fresh(store: Arc<Shelf>) -> World {
    World { store, ..World::new(Proposer::of(&[])) }
}

/// Learns; returns the report, and what was kept.
async fn learned(
    world: &World,
    plan: LearnPlan,
    router: Router,
    models: Arc<RoutedModels>,
) -> (LearnReport, Router, Vec<Logged>) {
    let kept = Arc::new(Kept::default());
    let report = world.begin(plan, ports(world, router, models, &kept)).await.unwrap();
    let (router, log) = kept.taken();
    (report, router, log)
}

/// The model that an episode was played by.
fn asked(episode: &Episode) -> String {
    episode.turns[0].answered_by.as_ref().unwrap().model.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_learns_which_tasks_need_the_dear_model() {
    let world = fresh(Arc::default());
    let (report, router, log) = learned(&world, plan(12, 64), router(false), models(waits)).await;
    assert_eq!(report.layer_names(), ["router"]);
    assert_eq!(report.layers, [LayerReport::Other("router".into())]);
    assert!(report.iterations.iter().all(|one| one.learned.is_ok() && one.metrics()["router.episodes"] == 64.0));
    let evaluation = report.evaluation.unwrap();
    let (before, after, lift) = (evaluation.before.unwrap(), evaluation.after.unwrap(), evaluation.lift.unwrap());
    assert!(before.mean < 0.7 && after.mean > 0.9 && lift.low > 0.1, "{before:?} {after:?}");
    assert_eq!((router.learned(), log.len()), (768, 768));
    // The router distinguishes the colours by the words of requests that failed.
    let played = world.store.of_phases("test-after");
    let dear = |colours: [&str; 2]| {
        let of_colours = || played.iter().filter(|one| colours.iter().any(|colour| one.task.input.ends_with(colour)));
        of_colours().filter(|one| asked(one) == "dear").count() as f64 / of_colours().count() as f64
    };
    let (needed, not_needed) = (dear(["red", "green"]), dear(["grey", "white"]));
    assert!(needed > 0.85 && needed - not_needed > 0.2, "{needed} {not_needed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decision_is_logged_with_its_propensities_and_held_by_the_model_that_answered() {
    let world = fresh(Arc::default());
    let (_, _, log) = learned(&world, plan(5, 0), router(false), models(waits)).await;
    let episodes: BTreeMap<String, Episode> =
        world.store.all().into_iter().map(|episode| (episode.id.to_string(), episode)).collect();
    assert_eq!((log.len(), episodes.len()), (320, 320));
    for Logged { decision, outcome } in &log {
        decision.check().unwrap();
        let episode = &episodes[&decision.session];
        assert_eq!(
            asked(episode),
            decision.action().unwrap().model,
            "the decision that was made again is the one of then"
        );
        assert_eq!((Some(outcome.reward), outcome.units), (episode.reward, [1e-4, 0.0]));
    }
    let versions: std::collections::BTreeSet<u64> = log.iter().map(|logged| logged.decision.version).collect();
    assert_eq!(versions.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4], "one state per iteration");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_router_killed_at_any_store_call_and_resumed_gives_the_same_result() {
    let stored = |world: &World| {
        let (store, run) = (&world.store, World::run());
        (store.state(&run), store.large(&run), store.all(), store.summary(&run))
    };
    let plan = plan(2, 4);
    let whole = fresh(Arc::default());
    let kept = Arc::new(Kept::default());
    let expected = whole.begin(plan.clone(), ports(&whole, budgeted(0.1), models(waits), &kept)).await.unwrap();
    let LearnedRouter { router: expected_router, log: expected_log, spent: expected_spent } = kept.result();
    let (kept_in_store, calls, mut killed) = (stored(&whole), whole.store.calls(), 0);
    for at in 0..calls {
        let store = Shelf::dying(at);
        let (first, kept) = (fresh(store.clone()), Arc::new(Kept::default()));
        let result = first.begin(plan.clone(), ports(&first, budgeted(0.1), models(waits), &kept)).await;
        store.revive(None);
        if result.is_ok() {
            continue;
        }
        killed += 1;
        let later = fresh(store);
        let resumed = ports(&later, budgeted(0.1), models(waits), &kept);
        assert_eq!(later.resume(plan.clone(), resumed).await.unwrap(), expected, "killed at call {at}");
        assert!(stored(&later) == kept_in_store, "killed at call {at}: what is stored differs");
        let LearnedRouter { router, log, spent } = kept.result();
        assert_eq!((router.digest(), log), (expected_router.digest(), expected_log.clone()), "killed at call {at}");
        assert_eq!(spent, expected_spent, "killed at call {at}");
    }
    assert!(killed > calls / 2, "{killed} of {calls} calls");
}

/// A router whose weight of cost follows a budget.
fn budgeted(per_day: f64) -> Router {
    let mut router = router(false);
    let budget = Budget { per_day, start: 0.1, rate: 0.1 };
    let (table, incumbent) = (router.table().clone(), router.settings().incumbent.clone());
    router.reconfigure(table, incumbent, CostWeight::Budget(budget)).unwrap();
    router
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_spends_raises_the_weight_of_cost_and_takes_no_time() {
    let spend = async |per_day: f64| {
        let (world, kept) = (fresh(Arc::default()), Arc::new(Kept::default()));
        world.begin(plan(5, 0), ports(&world, budgeted(per_day), models(waits), &kept)).await.unwrap();
        let LearnedRouter { router, log, spent } = kept.result();
        let cost = |logged: &Logged| router.cost(logged.decision.action().unwrap(), &logged.outcome).unwrap();
        let logged: f64 = log.iter().map(cost).sum();
        assert!((spent - logged).abs() < 1e-12 && spent > 0.0, "{spent} {logged}");
        let weight = 0.1 + 0.1 * spent / per_day;
        assert!((router.cost_weight() - weight).abs() < 1e-9, "{} {weight}", router.cost_weight());
        // The decisions that are made again are those of then, though the weight has moved since.
        let all = world.store.all();
        let asked_of = |session: &str| asked(all.iter().find(|one| one.id.to_string() == session).unwrap());
        let is_same = |one: &Logged| one.decision.action().unwrap().model == asked_of(&one.decision.session);
        assert!(log.iter().all(is_same) && router.learned() == 320, "it decides by what it learned after 200");
        router.identity()
    };
    assert_eq!(spend(0.01).await, spend(0.01).await, "equal runs are equal");
    spend(10.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn episodes_without_a_reward_cost_what_they_cost() {
    let rewarded = |episode: &Episode| !episode.task.input.ends_with("grey");
    let marks = Marks::by(move |episode| rewarded(episode).then(|| f64::from(u8::from(is_right(episode)))));
    let world = World { marks: Arc::new(marks), ..fresh(Arc::default()) };
    let kept = Arc::new(Kept::default());
    world.begin(plan(2, 0), ports(&world, router(false), models(waits), &kept)).await.unwrap();
    let LearnedRouter { router, log, spent } = kept.result();
    let logged: f64 = log.iter().filter_map(|one| router.cost(one.decision.action().ok()?, &one.outcome)).sum();
    assert!(log.len() < 128 && spent > logged + 1e-9, "{} {spent} {logged}", log.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_steps_with_all_layers_or_not_at_all() {
    let (world, kept) = (fresh(Arc::default()), Arc::new(Kept::default()));
    let mut habit = HabitStage::new(Arc::new(Follower));
    habit.layer.breaks = Some(0);
    let mut ports = ports(&world, router(false), models(waits), &kept);
    ports.stages.insert(0, Box::new(habit));
    let report = world.begin(plan(2, 0), ports).await.unwrap();
    let learned: Vec<_> = report.iterations.iter().map(|one| one.learned.clone()).collect();
    assert_eq!(learned, [Err("layer habit: broken".to_owned()), Ok(())]);
    let (router, log) = kept.taken();
    assert_eq!((router.learned(), router.version(), log.len()), (64, 1, 64), "of the second iteration alone");
    assert!(log.iter().all(|logged| logged.decision.time == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_and_a_playbook_are_compared_alone_and_together() {
    let world = World::new(Proposer::of(&[RED, GREEN]));
    let kept = Arc::new(Kept::default());
    let models = Arc::new(BTreeMap::from([
        ("cheap".to_owned(), Arc::new(Follower) as Arc<dyn Llm>),
        ("dear".to_owned(), Arc::new(Says { name: "dear", answer: right }) as Arc<dyn Llm>),
    ]));
    let mut ports = ports(&world, router(false), models, &kept);
    ports.stages.push(Box::new(world.harness(small().harness())));
    let report = world.begin(plan(6, 32), ports).await.unwrap();
    assert_eq!(report.layer_names(), ["router", "harness"]);
    let arms = report.evaluation.unwrap().arms;
    let names: Vec<String> = arms.iter().map(|arm| arm.layers.join(" ")).collect();
    assert_eq!(names, ["router", "harness", "router harness"]);
    let lift = |arm: usize| arms[arm].lift.unwrap().mean;
    assert!(lift(0) > 0.0 && lift(1) > 0.0 && lift(2) > lift(0).max(lift(1)) - 0.1, "{arms:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rewards_that_never_come_teach_nothing() {
    let rewarded = |episode: &Episode| !episode.task.input.ends_with("grey");
    let marks = Marks::by(move |episode| rewarded(episode).then(|| f64::from(u8::from(is_right(episode)))));
    let world = World { marks: Arc::new(marks), ..fresh(Arc::default()) };
    let (_, router, log) = learned(&world, plan(2, 0), router(false), models(waits)).await;
    let scored = world.store.all().iter().filter(|episode| episode.reward.is_some()).count();
    assert!(scored < 128 && scored > 64);
    assert_eq!((router.learned(), log.len()), (scored as u64, scored));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_always_fails_is_left() {
    let world = fresh(Arc::default());
    let (report, router, _) = learned(&world, plan(12, 0), router(false), models(fails)).await;
    let failed = |at: usize| report.iterations[at].removed;
    assert!(
        failed(0) > 40 && failed(11) < 10,
        "{:?}",
        report.iterations.iter().map(|one| one.removed).collect::<Vec<_>>()
    );
    assert_eq!(router.learned(), 768, "a failure of the model is an outcome of the action");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_escalation_asks_the_second_model_when_the_first_fails() {
    let world = fresh(Arc::default());
    let (_, _, log) = learned(&world, plan(3, 0), router(true), models(fails)).await;
    let escalations: Vec<&Logged> =
        log.iter().filter(|logged| logged.decision.action().unwrap().then.is_some()).collect();
    assert!(!escalations.is_empty());
    for logged in escalations {
        assert_eq!((logged.outcome.reward, logged.outcome.units), (1.0, [0.0, 1e-4]), "the dear one answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_escalation_follows_the_failure_of_a_tool() {
    let model = {
        let mut router = router(true);
        // Only the escalation is worth anything.
        router.set_policy(clawhost_learn::router::Policy::Random);
        RoutedModel::new("r", Arc::new(router), models(waits)).unwrap()
    };
    let message = |role, text: &str| Message::text(role, Origin::User, text);
    let opening = message(Role::User, "colour: red");
    let asked = async |seed: u64, more: &[Message]| {
        let messages = std::iter::once(opening.clone()).chain(more.iter().cloned()).collect();
        let request = ModelRequest { messages, seed: Some(seed), ..ModelRequest::default() };
        model.complete(&request).await.unwrap().answered_by.unwrap().model
    };
    let answer = message(Role::Assistant, "wait");
    let (fine, error) = (message(Role::Tool, "done: red"), message(Role::Tool, "error: red"));
    let mut seen = BTreeMap::<Vec<String>, u32>::new();
    for seed in 0..60 {
        let turns = vec![
            asked(seed, &[]).await,
            asked(seed, &[answer.clone(), fine.clone()]).await,
            asked(seed, &[answer.clone(), error.clone()]).await,
            asked(seed, &[answer.clone(), error.clone(), answer.clone(), fine.clone()]).await,
        ];
        *seen.entry(turns).or_default() += 1;
    }
    let found: Vec<String> = seen.keys().map(|turns| turns.join(" ")).collect();
    assert_eq!(
        found,
        ["cheap cheap cheap cheap", "cheap cheap dear dear", "dear dear dear dear"],
        "one decision for all turns"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rewards_outside_of_the_routers_range_are_refused_before_anything_is_played() {
    let mut marks = Marks::default();
    marks.description.minimum = -1.0;
    let world = World { marks: Arc::new(marks), ..fresh(Arc::default()) };
    let error =
        world.begin(plan(1, 0), ports(&world, router(false), models(waits), &Arc::default())).await.unwrap_err();
    assert_eq!(error.to_string(), "router: its rewards are 0 to 1, and those of this run -1 to 1");
    assert!(world.store.all().is_empty());
}

#[test]
fn a_model_of_the_table_must_be_there() {
    let known =
        models(waits).iter().filter(|(name, _)| *name == "cheap").map(|(n, m)| (n.clone(), m.clone())).collect();
    let ports = RouterPorts {
        name: "r".into(),
        router: router(false),
        models: Arc::new(known),
        keeper: Arc::new(Kept::default()),
    };
    let error = RouterStage::new(ports).err().unwrap();
    assert_eq!(error.to_string(), "router: there is no model dear in the table of models; there is cheap");
}

/// A plugin that asks the dear model about short requests, or fails.
struct Plugged {
    identity: PluginIdentity,
    about: About,
    fails: bool,
}

impl Plugged {
    fn plugin(fails: bool) -> RoutingPlugin {
        let router = Arc::new(Self { identity: identity("plugged"), about: about("plugged"), fails });
        RoutingPlugin { router, options: Vec::new() }
    }
}

#[async_trait]
impl ModelRouter for Plugged {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn about(&self) -> &About {
        &self.about
    }

    async fn route(
        &self,
        _: &Context,
        features: &[(String, f64)],
        candidates: &[RouteCandidate],
    ) -> Result<RouteChoice, Failure> {
        if self.fails {
            return Err(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, "plugged is closed"));
        }
        let names: Vec<&str> = candidates.iter().map(|known| known.name.as_str()).collect();
        assert_eq!(names, ["cheap", "dear"]);
        let is_short = features.iter().any(|(name, value)| name == "characters" && *value < 20_f64.ln_1p());
        let propensities = if is_short { vec![0.0, 1.0] } else { vec![1.0, 0.0] };
        Ok(RouteChoice { chosen: usize::from(is_short), propensities })
    }
}

async fn answered(model: &RoutedModel, texts: &[(Role, &str)]) -> String {
    let origin = |role: &Role| if *role == Role::Assistant { Origin::Policy } else { Origin::User };
    let messages = texts.iter().map(|(role, text)| Message::text(*role, origin(role), *text)).collect();
    let response = model.complete(&ModelRequest { messages, ..ModelRequest::default() }).await.unwrap();
    response.answered_by.unwrap().model
}

#[tokio::test]
async fn a_plugin_decides_for_an_episode_and_its_failures_are_counted() {
    let failures = Arc::new(RoutingFailures::default());
    let plain = RoutedModel::new("lights", Arc::new(router(false)), models(waits)).unwrap();
    let plugged = plain.clone().with_plugin(Plugged::plugin(false), failures.clone());
    assert_ne!(plugged.identity(), plain.identity(), "something else decides");
    let long = "a request of many more than twenty characters";
    assert_eq!(answered(&plugged, &[(Role::User, "red")]).await, "dear");
    assert_eq!(answered(&plugged, &[(Role::User, long)]).await, "cheap");
    let later = [(Role::User, "red"), (Role::Assistant, long), (Role::User, long)];
    assert_eq!(answered(&plugged, &later).await, "dear", "one decision for all turns");
    assert!(failures.all().is_empty());

    let failing = plain.with_plugin(Plugged::plugin(true), failures.clone());
    for text in ["red", "green", "red"] {
        assert_eq!(answered(&failing, &[(Role::User, text)]).await, "cheap", "the incumbent");
    }
    let told: Vec<(String, u64, String)> =
        failures.all().into_iter().map(|one| (one.router, one.count, one.first.message)).collect();
    assert_eq!(told, [("lights".to_owned(), 2, "plugged is closed".to_owned())], "one decision for an episode");
}
