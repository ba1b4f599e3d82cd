//! Trains the three layers of the demonstration of all layers, and measures them.

use super::NoMeter;
use super::game::{objective, options};
use super::halted::{Part, whole};
use super::harness_arms::newest_playbook;
use super::plugins::DemoPlugins;
use crate::events::Watch;
use crate::{AppError, EventSink, SystemClock};
use clawhost_core::{Attributes, Llm, RunId, RunLabels, Sampling, SpecDocument};
use clawhost_engine::ReflectorPlugin;
use clawhost_follower::Follower;
use clawhost_learn::budget::BudgetPlan;
use clawhost_learn::gate::ALPHA;
use clawhost_learn::harness::{Admission, HarnessSettings, PlaybookView};
use clawhost_learn::playbook::{Playbook, TOKEN_BUDGET};
use clawhost_learn::policy::Updates;
use clawhost_learn::router::{CostWeight, Features, Fixed, Policy, Router, RouterSettings, Table};
use clawhost_learning::{
    Evaluation, GatePlan, HarnessPlan, HarnessPorts, HarnessStage, LearnPlan, LearnPorts, LearnReport, LearnStart,
    LearnedRouter, MemoryStore, Reflecting, RoutedModel, RoutedModels, RouterKeeper, RouterPorts, RouterStage,
    Schedule, Turn, UniformPlaybook, WarmStart, WarmStartReport, WeightsPlan, WeightsPorts, WeightsStage,
    evaluate_playbooks, learn,
};
use clawhost_model::device::ComputeDevice;
use clawhost_model::train::OptimizerSettings;
use clawhost_model::{Demonstrator, Learned, LearningSettings, LocalModel, TinyModel, Vocabulary, WeightsLayer};
use clawhost_play::{Cancel, ChatPolicy, Environments, Plan, PlayedRun, Ports, RunRequest, play_run};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};

/// The vocabulary: the words of `env_shop.wasm?talk=terse` and of a playbook about it.
const WORDS: &str = "tier region paid by age item class gift damaged coupon bronze silver gold north south islands card voucher \
                     transfer days weeks months book toy garment gift_yes gift_no damaged_yes damaged_no coupon_yes coupon_no \
                     not looked up when is and always answer refund replace escalate deny offer_credit look_up_order \
                     look_up_customer Lessons from experience : - ?";
/// Largest number of words of a conversation: a playbook of twenty lessons, a case, and both look-ups.
const CONTEXT: usize = 320;
/// Words of an answer: the name of a tool, and its end.
const ANSWER: u32 = 2;
/// Episodes at once: all of an iteration, because the model computes them in one batch.
const TOGETHER: usize = 1024;
/// Largest number of turns of a case.
const TURNS: u32 = 6;
/// Demonstrations of practice, those of a step, and the steps: six rounds, after which the model follows most lessons, and not yet all.
const DEMONSTRATIONS: u64 = 8192;
const BATCH: u64 = 32;
const PRACTICE_STEPS: u64 = 1600;
/// Learning rates of the first and of the last step of practice, and of rewards.
const PRACTICE_RATE: f64 = 3e-3;
const LAST_PRACTICE_RATE: f64 = 1.5e-4;
const RATE: f64 = 1e-3;
/// Episodes of training and gate for the playbook.
pub const LESSON_BUDGET: u64 = 600;
/// Iterations of the weights and of the router, their episodes, and the size of their groups.
const WEIGHTS_ITERATIONS: u64 = 60;
const ROUTER_ITERATIONS: u64 = 20;
const EPISODES: u64 = 64;
const GROUP: u32 = 8;
/// Pairs of test episodes.
pub const FULL_TEST_PAIRS: u64 = 200;
/// The names of the models in the router's table.
const TINY: &str = "tiny";
const DEAR: &str = "dear";
/// Prices of the models.
const PRICES: [f64; 2] = [1.0, 10.0];
/// Reward that a request at the median price is worth.
const COST_WEIGHT: f64 = 0.05;
/// Words of a typical episode, in units of prices.
const TYPICAL: f64 = 2e-4;
/// The name of the playbook.
const PLAYBOOK: &str = "demo";
/// Number of the house whose playbook is a control, added to the seed.
const FOREIGN: u64 = 1_000;
/// First group of the episodes that compare routings, far from those of training and test.
const ROUTING_FROM: u64 = 1 << 41;

/// A way to route requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// As the router learned.
    Learned,
    /// At random.
    Random,
    /// All to the tiny model.
    Tiny,
    /// All to the dear model.
    Dear,
}

impl Routing {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Learned, Self::Random, Self::Tiny, Self::Dear];

    /// As text.
    pub fn words(self) -> &'static str {
        match self {
            Self::Learned => "learned",
            Self::Random => "random",
            Self::Tiny => "always tiny",
            Self::Dear => "always dear",
        }
    }

    fn policy(self) -> Policy {
        match self {
            Self::Learned => Policy::Greedy,
            Self::Random => Policy::Random,
            Self::Tiny => Policy::Fixed(Fixed::Model(TINY.to_owned())),
            Self::Dear => Policy::Fixed(Fixed::Model(DEAR.to_owned())),
        }
    }
}

/// What a way to route requests gives on test tasks, per episode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Routed {
    /// The way.
    pub routing: Routing,
    /// Mean reward.
    pub reward: f64,
    /// Share of the episodes that the dear model played.
    pub dear: f64,
    /// Mean cost, as a multiple of a typical request's at the median price.
    pub cost: f64,
    /// Mean utility: reward less what the cost is worth.
    pub utility: f64,
}

/// What the run learned, except for the weights, which the model holds.
pub(super) struct LearnedLayers {
    pub(super) playbook: Playbook,
    router: Router,
}

/// Keeps the router of the run.
#[derive(Default)]
struct Kept(Mutex<Option<Router>>);

impl RouterKeeper for Kept {
    fn keep(&self, result: LearnedRouter) -> Result<(), String> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result.router);
        Ok(())
    }
}

/// The ports, the models and the settings.
pub(super) struct FullTrial<'a> {
    seed: u64,
    ports: Ports,
    reflector: Arc<ReflectorPlugin>,
    play: Plan,
    model: Arc<LocalModel>,
    weights: Arc<Mutex<WeightsLayer>>,
    settings: LearningSettings,
    cancel: &'a Cancel,
    events: &'a dyn EventSink,
}

impl<'a> FullTrial<'a> {
    /// The tiny model of a seed.
    pub(super) fn model(seed: u64) -> TinyModel {
        let words = WORDS.split_whitespace().map(str::to_owned).collect();
        TinyModel {
            vocabulary: Vocabulary::Words(words),
            layers: 3,
            context: CONTEXT,
            includes_system_prompt: true,
            seed,
            ..TinyModel::default()
        }
    }

    /// Loads the plugins and creates the model.
    pub(super) async fn new(
        seed: u64,
        plugins: &DemoPlugins<'_>,
        device: &ComputeDevice,
        (cancel, events): (&'a Cancel, &'a dyn EventSink),
    ) -> Part<Self> {
        let environment = plugins.environment("env_shop.wasm").await?;
        let reward = plugins.reward("reward_state.wasm", &Attributes::new()).await?;
        let reflector = plugins.reflector("reflector_rules.wasm").await?;
        let settings = LearningSettings {
            learned: Learned::Full,
            objective: objective(ANSWER.saturating_mul(TURNS))?,
            updates: Updates::default(),
            optimizer: OptimizerSettings::default(),
            schedule: clawhost_model::train::Schedule { peak: RATE, warmup: 5, total: WEIGHTS_ITERATIONS, floor: 0.1 },
        };
        let (model, weights) = Self::model(seed).make()?.open_learning(TINY, &settings, device)?;
        let sampling = Sampling { temperature: Some(1.0), top_p: None, max_tokens: ANSWER };
        let ports = Ports {
            environments: Environments::One(environment),
            rewards: vec![reward],
            policy: ChatPolicy::new(model.clone(), None, sampling),
            store: Arc::new(MemoryStore::default()),
            clock: Arc::new(SystemClock::default()),
            meter: Arc::new(NoMeter),
        };
        let play = Plan {
            concurrency: TOGETHER,
            options: options(&[("talk", "terse")]),
            max_turns: TURNS,
            episode_bytes: plugins.host.limits().episode_bytes,
            failure_budget: 0.0,
            ..Plan::new(EPISODES, GROUP, seed)
        };
        Ok(Self {
            seed,
            ports,
            reflector,
            play,
            model,
            weights: Arc::new(Mutex::new(weights)),
            settings,
            cancel,
            events,
        })
    }

    fn weights_stage(&self, warm_start: Option<WarmStart>) -> WeightsStage {
        let plan = WeightsPlan {
            settings: serde_json::json!(self.settings),
            warm_start,
            refills: 0,
            difficulty: None,
            evaluate_every: 0,
            evaluate_episodes: 0,
        };
        let demonstrator: Arc<dyn Llm> = Arc::new(Demonstrator::new(self.model.clone()));
        WeightsStage::new(
            plan,
            WeightsPorts {
                weights: self.weights.clone(),
                demonstrator: Some(demonstrator),
                teaching: None,
                routed: None,
            },
        )
    }

    fn harness_stage(&self, budget: BudgetPlan) -> HarnessStage {
        let plan = HarnessPlan {
            settings: HarnessSettings { admission: Admission::Bundle, ..HarnessSettings::default() },
            gate: GatePlan { every: budget.batches, pairs: budget.pairs, alpha: ALPHA },
            budget: Some(budget),
            ..HarnessPlan::default()
        };
        let ports = HarnessPorts {
            reflectors: vec![Reflecting { reflector: self.reflector.clone(), options: Attributes::new() }],
            evolver: None,
            embedder: None,
            playbook: PLAYBOOK.to_owned(),
            initial: Playbook::default(),
        };
        HarnessStage::new(plan, ports)
    }

    /// The models that the router chooses from.
    fn models(&self) -> Arc<RoutedModels> {
        let tiny: Arc<dyn Llm> = self.model.clone();
        let dear: Arc<dyn Llm> = Arc::new(Follower);
        Arc::new(RoutedModels::from([(TINY.to_owned(), tiny), (DEAR.to_owned(), dear)]))
    }

    fn router() -> Part<Router> {
        let table = Table::new([TINY, DEAR].into_iter().map(str::to_owned).zip(PRICES))?;
        let incumbent = Fixed::Model(TINY.to_owned());
        let usual = RouterSettings::new(&table, incumbent, CostWeight::Fixed(COST_WEIGHT));
        let reference_cost = usual.reference_cost * TYPICAL;
        let settings = RouterSettings { typical_units: TYPICAL, reference_cost, ..usual };
        Ok(Router::new(settings, table, Features::names_of_requests())?)
    }

    /// Practises in other houses.
    pub(super) async fn practise(&self) -> Part<WarmStartReport> {
        let warm_start = WarmStart {
            demonstrations: DEMONSTRATIONS,
            options: Attributes::new(),
            batch: BATCH,
            rate: PRACTICE_RATE,
            last_rate: LAST_PRACTICE_RATE,
            // Out of reach: some lines of every handbook are missing. The last steps, with a low rate, teach most.
            target: 1.0,
            every: PRACTICE_STEPS / 4,
            episodes: 200,
            steps: PRACTICE_STEPS,
        };
        let options = [self.play.options.clone(), options(&[("practice", "yes"), ("noise", "0")])].concat();
        let play = Plan { options, ..self.play.clone() };
        let store = Arc::new(MemoryStore::default());
        let stages: Vec<Box<dyn clawhost_learning::LearningStage>> =
            vec![Box::new(self.weights_stage(Some(warm_start)))];
        let plan = LearnPlan { play, test_pairs: 0, ..LearnPlan::new(0, self.seed) };
        let report = self.run("practice", plan, stages, &self.ports.policy, &store).await?;
        let practice = report.weights().and_then(|weights| weights.warm_start.clone());
        Ok(practice.unwrap_or_default())
    }

    /// All layers learn in one run, one after the other: lessons first, then the weights that read them, then the router between both models.
    pub(super) async fn learn(&self) -> Part<(LearnReport, LearnedLayers)> {
        let budget = BudgetPlan::new(LESSON_BUDGET, ALPHA)?;
        let turn = |layer, iterations| Turn { layer, iterations, episodes: EPISODES, group: GROUP };
        let lessons = Turn { episodes: budget.batch, group: 1, ..turn("harness", budget.batches) };
        let turns = vec![lessons, turn("weights", WEIGHTS_ITERATIONS), turn("router", ROUTER_ITERATIONS)];
        let iterations = turns.iter().map(|turn| turn.iterations).sum();
        let kept = Arc::new(Kept::default());
        let ports = RouterPorts {
            name: PLAYBOOK.to_owned(),
            router: Self::router()?,
            models: self.models(),
            keeper: kept.clone(),
        };
        let stages: Vec<Box<dyn clawhost_learning::LearningStage>> = vec![
            Box::new(self.weights_stage(None)),
            Box::new(RouterStage::new(ports)?),
            Box::new(self.harness_stage(budget)),
        ];
        let plan = LearnPlan {
            play: self.play.clone(),
            test_pairs: FULL_TEST_PAIRS,
            schedule: Schedule::Turns(turns),
            ..LearnPlan::new(iterations, self.seed)
        };
        let store = Arc::new(MemoryStore::default());
        let report = self.run("full", plan, stages, &self.ports.policy, &store).await?;
        let router = kept.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let router = router.ok_or_else(|| AppError::Host("the run kept no router".to_owned()))?;
        Ok((report, LearnedLayers { playbook: newest_playbook(&store, PLAYBOOK)?, router }))
    }

    /// Compares the learned playbook with one of another house, which the rule follower learned there.
    pub(super) async fn foreign(&self, learned: &LearnedLayers) -> Part<Evaluation> {
        let budget = BudgetPlan::new(LESSON_BUDGET, ALPHA)?;
        let house = (self.seed + FOREIGN).to_string();
        let options = [self.play.options.clone(), options(&[("house", &house)])].concat();
        let play = Plan { episodes: budget.batch, group: 1, options, ..self.play.clone() };
        let store = Arc::new(MemoryStore::default());
        let plan = LearnPlan { play, test_pairs: 0, ..LearnPlan::new(budget.batches, self.seed) };
        let policy = self.ports.policy.with_model(Arc::new(Follower));
        self.run("foreign", plan, vec![Box::new(self.harness_stage(budget))], &policy, &store).await?;
        let view = |playbook: Playbook| PlaybookView::serving(playbook, &Default::default(), TOKEN_BUDGET);
        let (evaluation, report) = evaluate_playbooks(
            RunId("demo-foreign-test".to_owned()),
            &self.play,
            FULL_TEST_PAIRS,
            self.ports.clone(),
            [view(learned.playbook.clone()), view(newest_playbook(&store, PLAYBOOK)?)],
            (SpecDocument::none(), RunLabels::default()),
            (self.cancel, &Watch(self.events)),
        )
        .await?;
        whole(report.stopped)?;
        Ok(evaluation)
    }

    /// Routes test tasks in one way, with the learned playbook and weights.
    pub(super) async fn route(&self, routing: Routing, learned: &LearnedLayers) -> Part<Routed> {
        let mut router = learned.router.clone();
        router.set_policy(routing.policy());
        let model = RoutedModel::new(PLAYBOOK, Arc::new(router.clone()), self.models())?;
        let view = PlaybookView::serving(learned.playbook.clone(), &Default::default(), TOKEN_BUDGET);
        let policy = self.ports.policy.with_model(Arc::new(model)).guided(Arc::new(UniformPlaybook(view)));
        let plan = Plan {
            episodes: FULL_TEST_PAIRS,
            group: 1,
            split: Some("test".to_owned()),
            first_group: ROUTING_FROM,
            ..self.play.clone()
        };
        let ports = Ports { policy, store: Arc::new(MemoryStore::default()), ..self.ports.clone() };
        let request = RunRequest::new(RunId(format!("demo-route-{}", routing.words())), plan, ports);
        let request = RunRequest { keeps_episodes: true, ..request };
        let PlayedRun { report, episodes } = play_run(request, self.cancel, &Watch(self.events)).await?;
        whole(report.stopped)?;
        let count = episodes.len().max(1) as f64;
        let (mut reward, mut dear, mut cost) = (0.0, 0.0, 0.0);
        for episode in &episodes {
            reward += episode.reward.unwrap_or(0.0);
            let name = |turn: &clawhost_core::Turn| turn.answered_by.as_ref().map(|by| by.model.clone());
            dear += f64::from(u8::from(episode.turns.first().and_then(name).as_deref() == Some(DEAR)));
            for turn in &episode.turns {
                let price = name(turn).and_then(|name| router.table().price(&name)).unwrap_or(0.0);
                let words = turn.usage.prompt_tokens.saturating_add(turn.usage.completion_tokens);
                cost += price * words as f64 / 1e6;
            }
        }
        let (reward, dear, cost) = (reward / count, dear / count, cost / count);
        let (utility, cost) = (router.utility(reward, cost), cost / router.settings().reference_cost);
        Ok(Routed { routing, reward, dear, cost, utility })
    }

    async fn run(
        &self,
        name: &str,
        plan: LearnPlan,
        stages: Vec<Box<dyn clawhost_learning::LearningStage>>,
        policy: &ChatPolicy,
        store: &Arc<MemoryStore>,
    ) -> Part<LearnReport> {
        let play = Ports { store: store.clone(), policy: policy.clone(), ..self.ports.clone() };
        let ports = LearnPorts { play, learning: store.clone(), stages, source: None };
        // The run is never stored.
        let start = LearnStart::New(SpecDocument::none());
        let run = RunId(format!("demo-{name}"));
        let mut report = learn(run, plan, ports, start, self.cancel, &Watch(self.events)).await?;
        whole(report.stopped.take())?;
        Ok(report)
    }
}
