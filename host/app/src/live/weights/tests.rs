//! Weights of a small model that learn from simulated sessions. There are two kinds of questions, and users want one letter for each. They say so with
//! thumbs and corrections alone. Both letters are wanted as often, so feedback that is given to other sessions tells nothing.

use super::material::LiveSession;
use super::section::{WeightsPlan, WeightsSection};
use super::step::{Aged, Learner, Stepped};
use clawhost_core::{Episode, Llm, Message, ModelRequest, ModelResponse, Origin, Role, Turn, derive_seed};
use clawhost_learn::policy::{Generated, SupervisedStep};
use clawhost_model::device::ComputeDevice;
use clawhost_model::train::{OptimizerSettings, Schedule};
use clawhost_model::{Example, Learned, LocalModel, ModelFolder, TinyModel, TuningSettings, Vocabulary};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What models answer.
const LETTERS: [&str; 2] = ["a", "b"];
/// Sessions in all, and of a step.
const SESSIONS: usize = 40;
const BATCH: usize = 10;
/// The learning rate and how often a session is learned from, chosen on the seeds 1 to 6.
pub(super) const RATE: f64 = 0.003;
const EPOCHS: u32 = 8;
/// Sessions of a user whose adapter learns, and of a step. Adapters have few weights and learn from one user: batches of ten sessions leave some models
/// with one letter for everything. Chosen on the seeds 1 to 6, too.
pub(super) const OWN_SESSIONS: usize = 80;
/// See [`OWN_SESSIONS`].
pub(super) const OWN_BATCH: usize = 8;
/// What is learned from.
pub(super) const SIGNALS: [&str; 3] = ["binary", "hint", "combined"];
/// Answers to held-out users.
const HELD_OUT: u64 = 200;

fn asked(text: &str) -> Message {
    Message::text(Role::User, Origin::User, text)
}

/// A question of one of two kinds.
pub(super) fn question(number: u64) -> String {
    format!("{}{}?", if number.is_multiple_of(2) { "x" } else { "y" }, number / 2 % 100)
}

/// What users want to be answered.
pub(super) fn wanted(number: u64) -> &'static str {
    LETTERS[(number % 2) as usize]
}

/// What users want who differ from them in everything.
fn wanted_by_others(number: u64) -> &'static str {
    wanted(number + 1)
}

fn letter(seed: u64, name: &str, number: u64) -> &'static str {
    LETTERS[(derive_seed(seed, name, number) % 2) as usize]
}

/// A model that answers a question with any of the letters, and follows a hint.
pub(super) fn taught_model(seed: u64) -> ModelFolder {
    let vocabulary = Vocabulary::Characters("\n 0123456789?abxyHint:#".to_owned());
    let tiny = TinyModel { vocabulary, width: 32, layers: 2, heads: 2, context: 64, seed, ..TinyModel::default() };
    let folder = tiny.make().unwrap();
    let format = folder.chat_format("tiny").unwrap();
    let example = |number: u64| {
        let answer = letter(seed, "answer", number);
        let question = question(derive_seed(seed, "question", number) % 400);
        // Not always, so that it knows how an answer ends that does not follow.
        let hint =
            if derive_seed(seed, "follows", number).is_multiple_of(8) { letter(seed, "hint", number) } else { answer };
        let question = if number.is_multiple_of(2) { question } else { format!("{question}\n\nHint: {hint}") };
        let talk = [asked(&question), Message::text(Role::Assistant, Origin::Policy, answer)];
        Example::new(vec![format.given(&talk, &[], 0, 64).unwrap()])
    };
    let out = tempfile::tempdir().unwrap();
    let settings = TuningSettings {
        learned: Learned::Full,
        optimizer: OptimizerSettings::default(),
        schedule: Schedule::constant(0.01),
    };
    let mut tuner = folder.open_tuning(&settings, &ComputeDevice::processor(), out.path()).unwrap();
    for step in 0..150 {
        let examples: Vec<Example> = (0..16).map(|number| example(step * 16 + number)).collect();
        let all: Vec<&Example> = examples.iter().collect();
        let supervised = SupervisedStep::new(all.iter().map(|one| vec![true; one.lengths()[0]]).collect()).unwrap();
        tuner.step(&supervised, &all).unwrap();
    }
    tuner.keep(clawhost_learn::CheckpointKind::Last).unwrap();
    let place = clawhost_model::CheckpointWriter::place(out.path(), clawhost_learn::CheckpointKind::Last);
    ModelFolder::read(&place, &crate::TextHost::InProcess).unwrap()
}

pub(super) async fn answer(model: &dyn Llm, question: &str, seed: u64) -> ModelResponse {
    let request = ModelRequest {
        messages: vec![asked(question)],
        max_tokens: 2,
        temperature: Some(1.0),
        seed: Some(seed),
        ..ModelRequest::default()
    };
    model.complete(&request).await.unwrap()
}

/// Held-out users who get what they want.
pub(super) async fn satisfied(model: &Arc<LocalModel>, seed: u64) -> f64 {
    satisfied_as(model, wanted, seed).await
}

async fn satisfied_as(model: &Arc<LocalModel>, wanted: fn(u64) -> &'static str, seed: u64) -> f64 {
    let mut satisfied = 0.0;
    for number in 0..HELD_OUT {
        let said = answer(&**model, &question(number), derive_seed(seed, "held out", number)).await;
        satisfied += f64::from(u8::from(said.message.plain_text() == wanted(number)));
    }
    satisfied
}

/// The mean share of satisfied users over seeds, with its interval of 95 % over seeds: answers of one model depend on each other. Student's t for the
/// six seeds of the test; a little wide for more.
pub(super) fn share(satisfied: &[f64]) -> (f64, f64, f64) {
    let shares: Vec<f64> = satisfied.iter().map(|count| count / HELD_OUT as f64).collect();
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = 2.571 * (variance / count).sqrt();
    (mean, mean - half, mean + half)
}

/// A session of one question: a thumb for every answer, and a correction of every bad one.
pub(super) fn session(number: u64, said: ModelResponse, signal: &str) -> LiveSession {
    session_of(number, said, signal, wanted)
}

fn session_of(number: u64, said: ModelResponse, signal: &str, wanted: fn(u64) -> &'static str) -> LiveSession {
    let golden = include_str!("../../../../../tests/golden/episode-2.json");
    let mut episode: Episode = serde_json::from_str(golden).unwrap();
    let is_good = said.message.plain_text() == wanted(number);
    let turn = episode.turns[0].clone();
    episode.turns = vec![Turn {
        observation: vec![asked(&question(number))],
        action: said.message,
        tokens: said.tokens,
        tool_results: Vec::new(),
        ..turn
    }];
    (episode.policy.system_prompt, episode.policy.playbook, episode.tools) = (None, None, Vec::new());
    let corrects = !is_good && signal != "binary";
    LiveSession {
        name: format!("run-1/ep-{number:04}"),
        scope: None,
        traces: BTreeSet::new(),
        class: "agent".to_owned(),
        reward: (signal != "hint").then_some(if is_good { 1.0 } else { -1.0 }),
        hints: if corrects { vec![(Some(0), wanted(number).to_owned())] } else { Vec::new() },
        generated: Generated::of(&episode).unwrap(),
        weights: Vec::new(),
        episode: Arc::new(episode),
    }
}

pub(super) fn plan(signal: &str) -> WeightsPlan {
    let section = WeightsSection {
        model: Some("tiny".to_owned()),
        from: vec!["all".to_owned()],
        signal: Some(signal.to_owned()),
        rate: Some(RATE),
        epochs: Some(EPOCHS),
        adapter_rank: Some(0),
        ..WeightsSection::default()
    };
    section.plan().unwrap().unwrap()
}

/// Gives thumbs to other sessions of the batch than they are about, and corrections to sessions of both kinds in turns.
pub(super) fn shuffled(mut sessions: Vec<LiveSession>, seed: u64, corrected: &mut [usize; 2]) -> Vec<LiveSession> {
    let mut rewards: Vec<_> = sessions.iter().map(|one| one.reward).collect();
    for place in (1..rewards.len()).rev() {
        let other = derive_seed(seed, "shuffle", place as u64) as usize % (place + 1);
        rewards.swap(place, other);
    }
    for (number, (session, reward)) in sessions.iter_mut().zip(rewards).enumerate() {
        session.reward = reward;
        for (_, text) in &mut session.hints {
            let count = &mut corrected[number % 2];
            *text = LETTERS[*count % 2].to_owned();
            *count += 1;
        }
    }
    sessions
}

/// A model behind all sessions.
async fn learned(folder: &ModelFolder, signal: &str, shuffles: bool, seed: u64) -> Arc<LocalModel> {
    let mut learner = Learner::open(folder, "tiny", &plan(signal), &ComputeDevice::processor(), None).unwrap();
    let mut corrected = [0, 1];
    for step in 0..SESSIONS / BATCH {
        let mut sessions = Vec::new();
        for number in (200 + step * BATCH..).take(BATCH).map(|number| number as u64) {
            let said = answer(&**learner.model(), &question(number), derive_seed(seed, "session", number)).await;
            sessions.push(session(number, said, signal));
        }
        if shuffles {
            sessions = shuffled(sessions, derive_seed(seed, "step", step as u64), &mut corrected);
        }
        // Hints alone are learned from where there are some.
        sessions.retain(|one| one.reward.is_some() || !one.hints.is_empty());
        let sessions: Vec<Aged> = sessions.into_iter().map(|session| (session, Some(0))).collect();
        let stepped = learner.step(step as u64, sessions).await.unwrap();
        assert!(!matches!(stepped, Stepped::Refused(_)), "{signal}: {stepped:?}");
    }
    learner.model().clone()
}

#[tokio::test]
async fn forty_sessions_make_held_out_users_content_and_shuffled_feedback_does_not() {
    let seeds: u64 = std::env::var("CLAWHOST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let mut before = Vec::new();
    let mut after: [[Vec<f64>; 2]; SIGNALS.len()] = Default::default();
    for seed in 101..101 + seeds {
        let folder = taught_model(seed);
        let model = folder.open("tiny", &ComputeDevice::processor()).unwrap();
        before.push(satisfied(&model, seed).await);
        for (signal, after) in SIGNALS.into_iter().zip(&mut after) {
            for (shuffles, after) in [false, true].into_iter().zip(after) {
                after.push(satisfied(&learned(&folder, signal, shuffles, seed).await, seed).await);
            }
        }
    }
    eprintln!("before {:.2?} {before:?}", share(&before));
    for (signal, [after, control]) in SIGNALS.into_iter().zip(&after) {
        eprintln!("{signal} {:.2?} {after:?}", share(after));
        eprintln!("{signal}, shuffled {:.2?} {control:?}", share(control));
        let (before, after, control) = (share(&before), share(after), share(control));
        assert!(after.1 > before.2, "{signal}: {before:?} to {after:?}");
        assert!(control.1 <= before.2, "{signal}: shuffled feedback improves nothing: {before:?} to {control:?}");
    }
}

#[tokio::test]
async fn a_step_that_diverges_is_taken_back() {
    let folder = taught_model(7);
    let plan = WeightsPlan { rate: 1.0, ..plan("binary") };
    let mut learner = Learner::open(&folder, "tiny", &plan, &ComputeDevice::processor(), None).unwrap();
    let before = learner.state().unwrap();
    let mut sessions: Vec<Aged> = Vec::new();
    for number in 0..8 {
        let said = answer(&**learner.model(), &question(number), number).await;
        sessions.push((session(number, said, "binary"), Some(0)));
    }
    let Stepped::Refused(why) = learner.step(0, sessions).await.unwrap() else { panic!("it was taken") };
    assert!(why.contains("use a smaller rate"), "{why}");
    assert_eq!(learner.state().unwrap(), before);
}

#[tokio::test]
async fn sessions_that_teach_nothing_change_nothing() {
    let folder = taught_model(7);
    let mut learner = Learner::open(&folder, "tiny", &plan("combined"), &ComputeDevice::processor(), None).unwrap();
    let before = learner.state().unwrap();
    let said = answer(&**learner.model(), &question(0), 1).await;
    let good = LiveSession { reward: Some(1.0), hints: Vec::new(), ..session(0, said, "combined") };
    let same = vec![(good.clone(), Some(0)), (good.clone(), Some(0))];
    // Weights of before the first version, and weights that nobody knows.
    let old = vec![(good.clone(), Some(3)), (LiveSession { reward: Some(-1.0), ..good }, None)];
    for sessions in [same, old, Vec::new()] {
        let stepped = learner.step(0, sessions).await.unwrap();
        assert!(matches!(stepped, Stepped::Nothing(_)), "{stepped:?}");
        assert_eq!(learner.state().unwrap(), before);
    }
}

/// An adapter behind all sessions of a user, and the model with it as a gateway serves it.
async fn adapted(folder: &ModelFolder, wanted: fn(u64) -> &'static str, seed: u64) -> Arc<LocalModel> {
    let base = folder.open("tiny", &ComputeDevice::processor()).unwrap();
    let section = WeightsSection {
        model: Some("tiny".to_owned()),
        from: vec!["all".to_owned()],
        rate: Some(RATE),
        epochs: Some(EPOCHS),
        adapter_rank: Some(8),
        adapters: Some("user".to_owned()),
        ..WeightsSection::default()
    };
    let plan = section.plan().unwrap().unwrap();
    let (mut serving, mut weights, mut state) = (base.clone(), folder.clone(), None::<Vec<u8>>);
    for step in 0..OWN_SESSIONS / OWN_BATCH {
        let mut learner =
            Learner::open(&weights, "tiny", &plan, &ComputeDevice::processor(), state.as_deref()).unwrap();
        let mut sessions: Vec<Aged> = Vec::new();
        for number in (200 + step * OWN_BATCH..).take(OWN_BATCH).map(|number| number as u64) {
            let said = answer(&*serving, &question(number), derive_seed(seed, "session", number)).await;
            sessions.push((session_of(number, said, "combined", wanted), Some(0)));
        }
        let stepped = learner.step(step as u64, sessions).await.unwrap();
        assert!(!matches!(stepped, Stepped::Refused(_)), "{stepped:?}");
        weights.weights = learner.layer().host().clone();
        state = Some(learner.state().unwrap());
        let adapter = clawhost_model::AdapterFolder::of(&weights.weights, "").unwrap();
        serving = base.adapted(step as u64, &adapter).unwrap().unwrap();
    }
    serving
}

#[tokio::test]
async fn adapters_of_users_who_want_the_opposite_make_both_content() {
    let seeds: u64 = std::env::var("CLAWHOST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let [mut before, mut first, mut second, mut other] = [(); 4].map(|()| Vec::new());
    for seed in 101..101 + seeds {
        let folder = taught_model(seed);
        let base = folder.open("tiny", &ComputeDevice::processor()).unwrap();
        before.push(satisfied(&base, seed).await);
        let (one, two) = (adapted(&folder, wanted, seed).await, adapted(&folder, wanted_by_others, seed).await);
        first.push(satisfied(&one, seed).await);
        second.push(satisfied_as(&two, wanted_by_others, seed).await);
        other.push(satisfied(&two, seed).await);
        assert_eq!(satisfied(&base, seed).await, *before.last().unwrap(), "the model below answers as before");
    }
    eprintln!("before {:.2?}, own adapters {:.2?} {:.2?}", share(&before), share(&first), share(&second));
    eprintln!("the adapter of somebody else {:.2?}", share(&other));
    for after in [&first, &second] {
        assert!(share(after).1 > share(&before).2, "{before:?} to {after:?}");
    }
    assert!(share(&other).2 < share(&before).1, "one set of weights could not make both content: {other:?}");
}
