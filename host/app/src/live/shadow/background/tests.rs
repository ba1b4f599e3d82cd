//! Shadow answers as specifications: ended sessions in a real store, a model that knows the lesson or does not, and a judge.

use super::*;
use crate::WorkspaceSettings;
use crate::live::learning::{LearningSection, TrialsState};
use crate::live::shadow::ShadowSection;
use crate::live::shadow::pair::tests::{episode, lesson, plan};
use crate::live::shadow::state::LessonCounts;
use crate::live::{LiveMode, SkillsSection};
use async_trait::async_trait;
use clawhost_core::{
    Blob, Change, Episode, EpisodeId, EpisodeStore as _, LlmIdentity, Message, Origin, Part, Proposal, Recorded, Role,
    RunId, TrialsChange, TrialsStore as _, Usage,
};
use clawhost_gateway::ModelSource;
use clawhost_learn::playbook::Playbook;
use clawhost_testkit::{SetClock, live_run};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

const RUN: &str = "run-live";
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// What a model does with a request.
type Answers = dyn Fn(&ModelRequest) -> Result<String, ModelError> + Send + Sync;

/// A model, with what it was asked.
struct Model {
    name: &'static str,
    answers: Box<Answers>,
    /// Tokens that it says an answer took.
    tokens: u64,
    asked: Mutex<Vec<String>>,
}

impl Model {
    fn new(
        name: &'static str,
        answers: impl Fn(&ModelRequest) -> Result<String, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self { name, answers: Box::new(answers), tokens: 15, asked: Mutex::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn said(request: &ModelRequest) -> String {
    request.messages.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n")
}

#[async_trait]
impl Llm for Model {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "openai".into(), model: self.name.into(), version: "here".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.asked.lock().unwrap().push(said(request));
        let message = Message::text(Role::Assistant, Origin::Policy, (self.answers)(request)?);
        let completion_tokens = self.tokens.min(1);
        let usage = Usage { prompt_tokens: self.tokens - completion_tokens, completion_tokens, ..Usage::default() };
        Ok(ModelResponse::new(message, usage, "stop"))
    }
}

/// Answers in German if the lesson says so.
fn obedient(request: &ModelRequest) -> Result<String, ModelError> {
    Ok(if said(request).contains("Answer in German.") { "zehn Kilometer" } else { "ten kilometres" }.to_owned())
}

/// Prefers answers in German.
fn german(request: &ModelRequest) -> Result<String, ModelError> {
    Ok(if said(request).contains("ANSWER A\nzehn") { "\\boxed{A}" } else { "\\boxed{B}" }.to_owned())
}

struct Bench {
    _folder: tempfile::TempDir,
    workspace: Workspace,
    clock: Arc<SetClock>,
    guide: Arc<LiveGuide>,
    plan: ShadowPlan,
    model: Arc<Model>,
    judge: Arc<Model>,
    shadow: ShadowAnswers,
    entry: Entry,
    sessions: u64,
}

impl Bench {
    async fn new(model: Model, judge: Model, change: impl FnOnce(&mut ShadowSection)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SetClock::default());
        clock.0.store(DAY_MS, Ordering::Relaxed);
        let settings = WorkspaceSettings { clock: Some(clock.clone()), ..WorkspaceSettings::new(folder.path()) };
        let workspace = Workspace::open(settings).unwrap();
        let entry = lesson();
        workspace.store().begin_run(&live_run(RUN, episode(&entry, false).state_id)).await.unwrap();
        let mut state = TrialsState::default();
        let text = entry.lesson.line();
        for user in 0..3 {
            let new = clawhost_core::Entry {
                id: String::new(),
                text: text.clone(),
                tags: vec![],
                needs: vec![],
                extra: vec![],
            };
            let proposal = Proposal { change: Change::Add(new), evidence: vec![], expected_effect: String::new() };
            state.trials.offer("stated", &proposal, user, (&Playbook::default(), 0));
        }
        let entry = state.trials.begin(0).unwrap().entry.clone();
        let document = Some(state.trials_document().unwrap());
        let change_state = TrialsChange { playbook: "live".into(), state: document, ..TrialsChange::default() };
        workspace.store().change_trials(change_state).await.unwrap();
        let learning = LearningSection { live_trials: true, ..LearningSection::default() };
        let guide = LiveGuide::new(folder.path(), LiveMode::Auto, &SkillsSection::default(), (learning, [7; 32]));
        let guide = Arc::new(guide.unwrap());
        let plan = plan(|section| {
            section.scopes = vec!["key:".into()];
            change(section);
        });
        let (model, judge) = (Arc::new(model), Arc::new(judge));
        let shadow = started(&workspace, &plan, &guide, (&model, &judge));
        Self { _folder: folder, workspace, clock, guide, plan, model, judge, shadow, entry, sessions: 0 }
    }

    /// As after another start of the gateway.
    fn restart(&mut self) {
        self.shadow = started(&self.workspace, &self.plan, &self.guide, (&self.model, &self.judge));
    }

    /// A session ends in which the lesson was held out.
    async fn session(&mut self, change: impl FnOnce(&mut Episode)) {
        let id = EpisodeId(format!("ep-{}", self.sessions));
        let mut episode = Episode {
            run: RunId(RUN.into()),
            id,
            index: self.sessions,
            verdicts: vec![],
            reward: None,
            ..episode(&self.entry, false)
        };
        change(&mut episode);
        self.sessions += 1;
        let recorded = Recorded { episode: Arc::new(episode), notes: BTreeMap::new(), replaces_existing: false };
        self.workspace.store().append(&RunId(RUN.into()), vec![recorded], Usage::default()).await.unwrap();
    }

    /// Looks until nothing more can be done at once.
    async fn look(&mut self) -> Looked {
        loop {
            match self.shadow.look().await.unwrap() {
                Looked::Again => {}
                other => return other,
            }
        }
    }

    /// Numbers of requests to the model and to the judge.
    fn asked(&self) -> (usize, usize) {
        (self.model.asked().len(), self.judge.asked().len())
    }

    fn counts(&self) -> LessonCounts {
        self.shadow.state.lessons.get(&self.entry.id.0).copied().unwrap_or_default()
    }
}

fn started(
    workspace: &Workspace,
    plan: &ShadowPlan,
    guide: &Arc<LiveGuide>,
    (model, judge): (&Arc<Model>, &Arc<Model>),
) -> ShadowAnswers {
    let served = |alias: &str, model: &Arc<Model>| Arc::new(ServedModel::new(alias, ModelSource::Local(model.clone())));
    // Another alias of the same model, which no test names.
    let all: Arc<[Arc<ServedModel>]> = Arc::from([served("other", model), served("m", model), served("judge", judge)]);
    ShadowAnswers::new(workspace, plan.clone(), guide.clone(), Box::new(move || all.clone())).unwrap()
}

#[tokio::test]
async fn a_judge_that_prefers_the_lesson_is_counted_for_it_and_nothing_of_the_session_changes() {
    let mut bench = Bench::new(Model::new("big", obedient), Model::new("small", german), |_| ()).await;
    for _ in 0..20 {
        bench.session(|_| ()).await;
    }
    let read = |bench: &Bench, id: u64| bench.workspace.reader().unwrap().episode(&format!("{RUN}/ep-{id}")).unwrap();
    let before: Vec<_> = (0..20).map(|id| read(&bench, id)).collect();
    assert_eq!(bench.look().await, Looked::Idle);
    assert_eq!(bench.asked(), (40, 20));
    assert_eq!((bench.counts().preferred.with, bench.counts().preferred.pairs()), (20, 20));
    let shown = bench.shadow.page().of_lesson(&bench.entry.id).unwrap();
    assert!(shown.preference == Some(1.0) && shown.interval.unwrap().0 > 0.0 && shown.better.unwrap() > 1_000.0);
    let first = bench.judge.asked().iter().filter(|asked| asked.contains("ANSWER A\nzehn")).count();
    assert!((3..=17).contains(&first), "the order is drawn: {first} of 20");
    assert!(bench.judge.asked().iter().all(|asked| !asked.contains("Answer in German.")), "the judge sees no lesson");
    assert!((0..20).all(|id| read(&bench, id) == before[id as usize]));
    assert_eq!(bench.workspace.reader().unwrap().ended_after(0, 100).unwrap().len(), 20, "there is no new record");
}

#[tokio::test]
async fn a_judge_that_always_names_the_first_answer_is_no_evidence() {
    let mut bench =
        Bench::new(Model::new("big", obedient), Model::new("small", |_| Ok("\\boxed{A}".into())), |_| ()).await;
    for _ in 0..60 {
        bench.session(|_| ()).await;
    }
    bench.look().await;
    let counts = bench.counts().preferred;
    assert!(counts.pairs() == 60 && (15..=45).contains(&counts.with), "{counts:?}");
    let shown = bench.shadow.page().of_lesson(&bench.entry.id).unwrap();
    let (low, high) = shown.interval.unwrap();
    assert!(low < 0.0 && high > 0.0 && shown.better.unwrap() < 20.0 && shown.worse.unwrap() < 20.0, "{shown:?}");
}

#[tokio::test]
async fn equal_answers_need_no_judge() {
    let mut bench = Bench::new(Model::new("big", |_| Ok("10".into())), Model::new("small", german), |_| ()).await;
    bench.session(|_| ()).await;
    bench.look().await;
    assert_eq!((bench.asked(), bench.counts().preferred.neither), ((2, 0), 1));
    assert_eq!(bench.shadow.state.spending.spent.tokens, 30, "what was not asked is not paid for");
}

#[tokio::test]
async fn an_endpoint_that_counts_no_tokens_is_paid_by_its_bound() {
    let (silent, judge) = (Model { tokens: 0, ..Model::new("big", obedient) }, Model::new("small", german));
    let mut bench = Bench::new(silent, Model { tokens: 0, ..judge }, |_| ()).await;
    bench.session(|_| ()).await;
    bench.look().await;
    let paid = bench.shadow.state.spending.spent.tokens;
    assert!(bench.asked() == (2, 1) && paid > 1_000, "{paid}");
    // One that counts its own tokens alone: an answer of one token costs as much as its bound.
    let half = Model { tokens: 1, ..Model::new("big", obedient) };
    let mut bench = Bench::new(half, Model { tokens: 1, ..Model::new("small", german) }, |_| ()).await;
    bench.session(|_| ()).await;
    bench.look().await;
    assert_eq!(bench.shadow.state.spending.spent.tokens, paid);
}

#[tokio::test]
async fn two_empty_answers_are_no_preference() {
    let mut bench = Bench::new(Model::new("big", |_| Ok(String::new())), Model::new("small", german), |_| ()).await;
    bench.session(|_| ()).await;
    assert_eq!(bench.look().await, Looked::Rests);
    assert_eq!((bench.asked(), bench.counts().failed, bench.counts().preferred.pairs()), ((2, 0), 1, 0));
    assert_eq!(bench.shadow.state.spending.spent.tokens, 30, "what was not asked is not paid for");
}

#[tokio::test]
async fn nothing_is_sent_of_a_scope_or_to_a_model_that_is_not_named() {
    let check = async |change: fn(&mut ShadowSection), session: fn(&mut Episode)| {
        let mut bench = Bench::new(Model::new("big", obedient), Model::new("small", german), change).await;
        bench.session(session).await;
        assert_eq!(bench.look().await, Looked::Idle);
        assert_eq!(bench.asked(), (0, 0));
        assert_eq!(bench.shadow.state.spending.spent.tokens, 0);
    };
    check(|section| section.scopes = vec!["key:shop".into()], |_| ()).await;
    check(|section| section.upstreams = vec!["none".into()], |_| ()).await;
    check(|section| section.judge = Some("none".into()), |_| ()).await;
    check(|_| (), |episode| episode.policy.model.model = "huge".into()).await;
    let image = |episode: &mut Episode| {
        let image = Blob { digest: "sha256:0".into(), media_type: "image/png".into(), size: 1 };
        episode.turns[0].observation[0].parts.push(Part::Blob(image));
    };
    check(|_| (), image).await;
}

#[tokio::test]
async fn the_budget_of_a_day_holds_over_a_restart() {
    let model = Model { tokens: 10_000, ..Model::new("big", obedient) };
    let mut bench =
        Bench::new(model, Model::new("small", german), |section| section.budget_tokens = Some(50_000)).await;
    for _ in 0..4 {
        bench.session(|_| ()).await;
    }
    assert_eq!(bench.look().await, Looked::Rests);
    // Each pair costs 20,015 tokens, and may cost more than what is left after the second one.
    assert_eq!((bench.asked(), bench.shadow.state.spending.spent.tokens), ((4, 2), 40_030));
    assert_eq!(bench.shadow.page().day().problem.as_deref(), Some("today's budget is spent"));
    bench.restart();
    assert_eq!(bench.look().await, Looked::Rests);
    assert_eq!(bench.asked(), (4, 2), "a restart gives no second budget");
    bench.clock.0.store(2 * DAY_MS, Ordering::Relaxed);
    assert_eq!(bench.look().await, Looked::Idle);
    assert_eq!((bench.asked(), bench.counts().preferred.with), ((8, 4), 4), "the next day goes on where it stopped");
    bench.restart();
    assert_eq!(bench.look().await, Looked::Idle);
    assert_eq!(bench.asked(), (8, 4), "nothing is asked twice");
}

#[tokio::test]
async fn a_session_that_may_cost_more_than_a_day_is_skipped() {
    let change = |section: &mut ShadowSection| section.budget_tokens = Some(50_000);
    let mut bench = Bench::new(Model::new("big", obedient), Model::new("small", german), change).await;
    let long = |episode: &mut Episode| episode.turns[0].observation[0].parts.push(Part::Text("x".repeat(20_000)));
    bench.session(long).await;
    bench.session(|_| ()).await;
    assert_eq!(bench.look().await, Looked::Idle);
    assert_eq!(bench.asked(), (2, 1), "the next one gets its answers");
}

#[tokio::test]
async fn prose_of_a_judge_is_no_vote_and_a_failure_is_no_preference() {
    let prose = |_: &ModelRequest| Ok("I like both.".to_owned());
    let mut bench = Bench::new(Model::new("big", obedient), Model::new("small", prose), |_| ()).await;
    bench.session(|_| ()).await;
    bench.look().await;
    let counts = bench.counts();
    assert_eq!((counts.without_vote, counts.failed, counts.preferred.pairs()), (1, 0, 0));
    assert_eq!(bench.shadow.page().of_lesson(&bench.entry.id).unwrap().preference, None);

    let fails = |_: &ModelRequest| Err(ModelError::Unavailable("out of order".into()));
    let mut bench = Bench::new(Model::new("big", fails), Model::new("small", german), |_| ()).await;
    bench.session(|_| ()).await;
    bench.session(|_| ()).await;
    assert_eq!(bench.look().await, Looked::Rests);
    assert_eq!((bench.asked(), bench.counts().failed), ((1, 0), 1), "a model that fails is left alone for a while");
    let paid = bench.shadow.state.spending.spent.tokens;
    assert!(paid > 0, "what a failed call cost is not known, so its bound is paid");
    bench.restart();
    assert_eq!(bench.look().await, Looked::Rests);
    assert_eq!(bench.asked(), (2, 0), "the first session is not asked about again");
}
