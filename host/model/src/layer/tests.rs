//! What a batch changes in the weights, and what it leaves unchanged.

use super::*;
use crate::device::ComputeDevice;
use crate::train::{OptimizerSettings, Schedule};
use crate::{Learned, LearningSettings, LocalModel, ModelFolder, TinyModel, TokenCalls};
use clawhost_core::{
    EpisodeId, Llm as _, Message, ModelRequest, Origin, Role, StateId, TaughtToken, Teacher as _, UnknownFields,
};
use clawhost_learn::policy::{Credit, GeneratedSequence, TruncatedImportance, TurnCredit, Updates};
use clawhost_learn::{Applied, CheckpointKind, Group, LayerOutcome, Member, Removed, learn};
use std::num::NonZeroU32;

/// Answers per question.
const TRIES: u64 = 8;

fn folder() -> ModelFolder {
    TinyModel { seed: 4, ..TinyModel::default() }.make().unwrap()
}

fn settings(change: impl FnOnce(&mut PolicyGradient)) -> LearningSettings {
    let mut objective = PolicyGradient::named("dapo", NonZeroU32::new(64).unwrap()).unwrap();
    objective.reward.as_mut().unwrap().truncation = policy::Truncation::Keep;
    change(&mut objective);
    LearningSettings {
        learned: Learned::Full,
        objective,
        updates: Updates::default(),
        optimizer: OptimizerSettings::default(),
        schedule: Schedule::constant(0.05),
    }
}

fn opened(change: impl FnOnce(&mut PolicyGradient)) -> (Arc<LocalModel>, WeightsLayer) {
    folder().open_learning("tiny", &settings(change), &ComputeDevice::processor()).unwrap()
}

/// Answers of the model to one question. Every second one has a reward.
async fn played(model: &LocalModel, change: impl Fn(&mut Generated)) -> Batch {
    played_within(model, None, change).await
}

/// The same, within a regular expression.
async fn played_within(model: &LocalModel, pattern: Option<&str>, change: impl Fn(&mut Generated)) -> Batch {
    let mut members = Vec::new();
    for number in 0..TRIES {
        let request = ModelRequest {
            messages: vec![Message::text(Role::User, Origin::Environment, "12+34=")],
            tools: Vec::new(),
            temperature: Some(1.0),
            max_tokens: 6,
            stop: Vec::new(),
            seed: Some(number),
            unknown: pattern.map(|pattern| UnknownFields {
                dialect: "openai".into(),
                fields: serde_json::Map::from_iter([("guided_regex".to_owned(), pattern.into())]),
            }),
            ..ModelRequest::default()
        };
        let record = *model.complete(&request).await.unwrap().tokens.unwrap();
        let mask = [vec![false; record.prompt.len()], vec![true; record.tokens.len()]].concat();
        let mut generated = Generated {
            sequences: vec![GeneratedSequence { tokens: [record.prompt, record.tokens].concat(), mask }],
            turn_ends: vec![record.logprob_sampled.len()],
            states: Vec::new(),
            turn_rewards: None,
            rollout: record.logprob_sampled,
            temperature: record.temperature,
            version: record.version,
            restricted: record.restricted,
            grammars: record.grammar.map(Some).into_iter().collect(),
            truncated: false,
            taught: Vec::new(),
            unrewarded: false,
        };
        change(&mut generated);
        members.push(Member {
            episode: EpisodeId(format!("e{number}")),
            reward: (number % 2) as f64,
            shown: 0,
            generated: Some(Arc::new(generated)),
        });
    }
    let group = Group { task: "sum".into(), seed: 1, drawn: Vec::new(), propensity: 1.0, members };
    let state_id = StateId(Digest::of(b"state"));
    Batch { number: 0, state_id, groups: vec![group], answers: Vec::new(), removed: Removed::default() }
}

/// The same with several groups.
async fn played_groups(model: &LocalModel, groups: u64) -> Batch {
    let mut batch = played(model, |_| {}).await;
    let Some(first) = batch.groups.pop() else { panic!("one group was played") };
    for number in 0..groups {
        let mut group = Group { task: format!("sum {number}"), seed: number, ..first.clone() };
        for (place, member) in group.members.iter_mut().enumerate() {
            member.episode = EpisodeId(format!("g{number}e{place}"));
            // Another half of the members in every group.
            member.reward = f64::from(u8::from((place as u64 >> (number % 3)) & 1 == 1));
        }
        batch.groups.push(group);
    }
    batch
}

/// A layer that takes this many steps on a batch of four groups, and its metrics.
async fn divided(name: &str, epochs: u32, minibatches: u32) -> (WeightsLayer, BTreeMap<&'static str, f64>, Batch) {
    let objective = PolicyGradient::named(name, NonZeroU32::new(64).unwrap()).unwrap();
    let number = |number| NonZeroU32::new(number).unwrap();
    let updates = Updates { epochs: number(epochs), minibatches: number(minibatches) };
    let settings = settings(|own| {
        let truncation = own.reward.unwrap().truncation;
        *own = objective;
        own.reward.as_mut().unwrap().truncation = truncation;
    });
    let settings = LearningSettings { updates, ..settings };
    let (model, mut layer) = folder().open_learning("tiny", &settings, &ComputeDevice::processor()).unwrap();
    let batch = played_groups(&model, 4).await;
    let found = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    (layer, found, batch)
}

#[tokio::test]
async fn the_first_minibatch_is_on_policy_and_later_ones_are_bounded() {
    let (_, one, _) = divided("dapo", 1, 1).await;
    assert_eq!((one["optimizer_steps"], one["clip_fraction"]), (1.0, 0.0));
    assert!((one["ratio_max"] - 1.0).abs() < 1e-4, "{one:?}");

    let (mut layer, all, batch) = divided("dapo", 2, 2).await;
    assert_eq!((all["optimizer_steps"], all["version"]), (4.0, 1.0), "one version of the weights");
    assert!(all["ratio_max"] > 1.28 && all["clip_fraction"] > 0.0 && all["approx_kl"] > 0.0, "{all:?}");
    assert!(all["logprob_mismatch_max"] < 1e-4, "the mismatch is that before the first step: {all:?}");
    assert_eq!(all["tokens"], one["tokens"], "tokens of an epoch");

    // The pass before the steps is over the first minibatch alone.
    let fresh = layer.forward_backward(&batch).unwrap();
    layer.clear_pending();
    assert!((fresh.metrics.by_name()["ratio_max"] - 1.0).abs() < 1e-4, "{fresh:?}");
    // An update of several steps is one version: the same answers are one version late, and then two.
    let late = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    assert!(!late.contains_key("dropped_old_weights") && late["version"] == 2.0, "{late:?}");
    let oldest = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    assert_eq!(oldest["dropped_old_weights"], 4.0 * TRIES as f64);
}

#[tokio::test]
async fn a_mismatch_in_any_minibatch_is_refused() {
    let (model, mut layer) = opened(|_| {});
    layer.divide_into(Updates { epochs: NonZeroU32::MIN, minibatches: NonZeroU32::new(4).unwrap() });
    let batch = played_groups(&model, 4).await;
    for place in 0..4 {
        let mut batch = batch.clone();
        let generated = batch.groups[place].members[0].generated.as_mut().unwrap();
        Arc::make_mut(generated).rollout[0] += 0.01;
        let before = Layer::digest(&layer);
        let applied = learn(&mut [&mut layer], &batch).unwrap();
        assert!(matches!(&applied.outcomes[0], LayerOutcome::LeftOut(_)), "group {place}: {:?}", applied.outcomes);
        assert_eq!(Layer::digest(&layer), before);
    }
    assert_eq!(metrics(&learn(&mut [&mut layer], &batch).unwrap())["optimizer_steps"], 4.0);
}

#[tokio::test]
async fn a_later_step_that_fails_takes_all_steps_back() {
    let (model, mut layer) = opened(|_| {});
    layer.divide_into(Updates { epochs: NonZeroU32::new(8).unwrap(), minibatches: NonZeroU32::MIN });
    let batch = played_groups(&model, 4).await;
    // Finite weights, with which the next pass overflows.
    layer.trainer.set_schedule(Schedule::constant(1e30));
    let before = layer.snapshot().unwrap();
    let (digest, version) = (Layer::digest(&layer), model.engine().current());
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    assert_eq!(applied.outcomes, [LayerOutcome::RolledBack], "{:?}", applied.rolled_back);
    assert_eq!((layer.snapshot().unwrap(), Layer::digest(&layer)), (before, digest));
    assert_eq!(model.engine().current().digest, version.digest);
    assert!(layer.pending.is_none(), "nothing is left over");
    // The first step alone does not fail.
    layer.divide_into(Updates::default());
    assert!(learn(&mut [&mut layer], &batch).unwrap().moved());
}

#[tokio::test]
async fn equal_batches_give_equal_weights_and_every_objective_gives_its_own() {
    const NAMES: [&str; 7] = ["grpo", "dapo", "dr_grpo", "rloo", "is", "cispo", "gspo"];
    let mut found = BTreeMap::new();
    for name in NAMES {
        found.insert(digest(divided(name, 2, 2).await.0.host()), name);
    }
    assert_eq!(found.len(), NAMES.len(), "{found:?}");
    assert_eq!(found.get(&digest(divided("dapo", 2, 2).await.0.host())), Some(&"dapo"), "bit for bit");
    let [one, other] = [divided("dapo", 1, 1).await.0, divided("cispo", 1, 1).await.0];
    assert_eq!(digest(one.host()), digest(other.host()), "with one step, no bound acts");
}

fn metrics(applied: &Applied) -> BTreeMap<&'static str, f64> {
    match &applied.outcomes[0] {
        LayerOutcome::Stepped(forward, step) => {
            forward.metrics.iter().chain(step.metrics.iter()).map(|(metric, value)| (metric.name(), value)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn rewards_can_follow_demonstrations_directly() {
    let (model, mut layer) = opened(|_| {});
    let batch = played(&model, |_| {}).await;
    let shown: Vec<Arc<Generated>> =
        batch.groups[0].members.iter().filter_map(|member| member.generated.clone()).collect();
    layer.supervise(&shown, 0.01).unwrap();
    layer.end_supervision();
    Weights::publish(&mut layer).unwrap();
    let batch = played(&model, |_| {}).await;
    let before = Layer::digest(&layer);
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    let found = metrics(&applied);
    assert!(applied.learned() && found["loss"].is_finite() && found["gradient_norm"] > 0.0, "{found:?}");
    assert_ne!(Layer::digest(&layer), before);
    assert_eq!(found["version"], 2.0, "demonstrations were one step");
}

/// Another shape, and other weights.
fn teacher() -> TokenCalls {
    let teacher = TinyModel { seed: 8, width: 32, layers: 1, ..TinyModel::default() }.make().unwrap();
    assert!(teacher.has_tokenizer_of(&folder()));
    TokenCalls::new(teacher.open("teacher", &ComputeDevice::processor()).unwrap())
}

/// Adds what a teacher says of the answers.
async fn taught(teacher: &TokenCalls, mut batch: Batch, likely: u8) -> Batch {
    for member in batch.groups.iter_mut().flat_map(|group| &mut group.members) {
        let generated = Arc::make_mut(member.generated.as_mut().unwrap());
        let sequence = &generated.sequences[0];
        let all = teacher.teach(&sequence.tokens, generated.temperature, likely).await.unwrap();
        let sampled = all.into_iter().zip(sequence.mask.iter().skip(1)).filter(|(_, is_sampled)| **is_sampled);
        generated.taught = sampled.map(|(token, _)| token).collect();
    }
    batch
}

/// A layer that distils by so many of the teacher's most likely tokens.
fn distilling(top: u8) -> (Arc<LocalModel>, WeightsLayer) {
    let mut objective = PolicyGradient::named("opd", NonZeroU32::MIN).unwrap();
    objective.distillation.as_mut().unwrap().top = top;
    let settings = LearningSettings { objective, schedule: Schedule::constant(0.01), ..settings(|_| {}) };
    folder().open_learning("tiny", &settings, &ComputeDevice::processor()).unwrap()
}

#[tokio::test]
async fn distillation_moves_the_policy_towards_its_teacher_without_rewards() {
    let teacher = teacher();
    // The drawn token alone, the teacher's four most likely tokens and the rest, and all sixteen tokens.
    for top in [0, 4, 16] {
        let (model, mut layer) = distilling(top);
        let without = metrics_or_reason(&learn(&mut [&mut layer], &equal(&model).await).unwrap());
        assert!(without.unwrap_err().contains("has no teacher log-probs"));
        let (mut behind, mut tails) = (Vec::new(), Vec::new());
        for _ in 0..25 {
            let batch = taught(&teacher, equal(&model).await, top).await;
            let found = metrics(&learn(&mut [&mut layer], &batch).unwrap());
            assert_eq!(found["reward_advantage_mean"], 0.0);
            behind.push(-found["distillation_advantage_mean"]);
            tails.extend(found.get("distillation_tail").copied());
        }
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (first, last) = (mean(&behind[..3]), mean(&behind[15..]));
        assert!(first > 0.02 && last < 0.4 * first, "{top}, the divergence in nats per token: {behind:?}");
        match top {
            0 => assert!(tails.is_empty()),
            4 => assert!(tails.iter().all(|tail| (0.01..0.99).contains(tail)), "{tails:?}"),
            _ => assert!(tails.iter().all(|tail| *tail < 1e-5), "{tails:?}"),
        }
    }
}

#[tokio::test]
async fn a_teacher_scores_at_the_temperature_of_the_answers() {
    let (model, _) = distilling(16);
    let teacher = teacher();
    let batch = taught(&teacher, played(&model, |generated| generated.temperature = 0.5).await, 16).await;
    let generated = batch.groups[0].members[0].generated.clone().unwrap();
    for token in &generated.taught {
        let sum: f64 = token.likely.iter().map(|(_, logprob)| logprob.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "all tokens of the vocabulary: {sum}");
    }
    let sequence = &generated.sequences[0];
    let warm = teacher.teach(&sequence.tokens, 1.0, 16).await.unwrap();
    let sharp = teacher.teach(&sequence.tokens, 0.5, 16).await.unwrap();
    // The ratio of two probabilities is squared at half of the temperature.
    let ratio = |token: &TaughtToken| token.likely[0].1 - token.likely[1].1;
    assert!(warm.iter().zip(&sharp).all(|(warm, sharp)| (2.0 * ratio(warm) - ratio(sharp)).abs() < 1e-9));
}

#[tokio::test]
async fn a_policy_that_equals_its_teacher_does_not_move_by_its_likely_tokens() {
    let (model, mut layer) = distilling(3);
    let twin = TokenCalls::new(folder().open("twin", &ComputeDevice::processor()).unwrap());
    let batch = taught(&twin, equal(&model).await, 3).await;
    let found = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    assert!(found["distillation_advantage_mean"].abs() < 1e-9 && found["gradient_norm"] < 1e-5, "{found:?}");
}

/// Answers that all have the same reward.
async fn equal(model: &LocalModel) -> Batch {
    let mut batch = played(model, |_| {}).await;
    batch.groups[0].members.iter_mut().for_each(|member| member.reward = 0.0);
    batch
}

/// The metrics of a step, or why the layer was left out.
fn metrics_or_reason(applied: &Applied) -> Result<BTreeMap<&'static str, f64>, String> {
    match &applied.outcomes[0] {
        LayerOutcome::LeftOut(why) => Err(why.to_string()),
        _ => Ok(metrics(applied)),
    }
}

/// Two turns per episode with one token each. A turn is right if its token is the one wanted there; the rewards of episodes are equal.
/// Returns the share of right turns, too.
async fn two_turns(model: &LocalModel, seed: u64) -> (Batch, f64) {
    let mut batch = played(model, |_| {}).await;
    let mut right = 0.0;
    for (number, member) in (0..).zip(&mut batch.groups[0].members) {
        let mut generated = Generated { rollout: vec![], ..(**member.generated.as_ref().unwrap()).clone() };
        (generated.sequences, generated.turn_ends) = (vec![], vec![]);
        let mut rewards = Vec::new();
        for (question, wanted) in [("1+1=", 7), ("2+2=", 3)] {
            let request = ModelRequest {
                messages: vec![Message::text(Role::User, Origin::Environment, question)],
                temperature: Some(1.0),
                max_tokens: 1,
                seed: Some(seed * TRIES + number),
                ..ModelRequest::default()
            };
            let record = *model.complete(&request).await.unwrap().tokens.unwrap();
            rewards.push(f64::from(u8::from(record.tokens == [wanted])));
            let mask = [vec![false; record.prompt.len()], vec![true; record.tokens.len()]].concat();
            generated.rollout.extend(record.logprob_sampled);
            generated.turn_ends.push(generated.rollout.len());
            generated.states.push(Digest::of(question.as_bytes()));
            generated.sequences.push(GeneratedSequence { tokens: [record.prompt, record.tokens].concat(), mask });
        }
        right += rewards.iter().sum::<f64>() / (2 * TRIES) as f64;
        generated.turn_rewards = Some(rewards);
        (member.reward, member.generated) = (0.5, Some(Arc::new(generated)));
    }
    (batch, right)
}

#[tokio::test]
async fn credit_per_turn_teaches_what_equal_episodes_cannot() {
    let (model, mut layer) = opened(|_| {});
    let (batch, _) = two_turns(&model, 0).await;
    assert!(!learn(&mut [&mut layer], &batch).unwrap().moved(), "equal rewards of episodes teach nothing");
    let (model, mut layer) = opened(|objective| objective.credit = Credit::Turn(TurnCredit::default()));
    let mut right = Vec::new();
    for seed in 0..20 {
        let (batch, share) = two_turns(&model, seed).await;
        right.push(share);
        learn(&mut [&mut layer], &batch).unwrap();
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&right[..2]), mean(&right[15..]));
    assert!(first < 0.3 && last > 0.8, "{first} to {last}: {right:?}");
}

#[tokio::test]
async fn answers_of_older_weights_are_reweighted_and_too_old_ones_dropped() {
    let (model, mut layer) = opened(|_| {});
    let batch = played(&model, |_| {}).await;
    let first = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    assert!((first["tis_weight_mean"] - 1.0).abs() < 1e-4, "{first:?}");

    // The same answers, one version late. The current weights compute their log-probs.
    let cap = TruncatedImportance::default().cap;
    let mut weights = Vec::new();
    let now = model.engine().current();
    let crate::generate::Model::Processor(processor) = &now.model else { panic!("it answers on the processor") };
    for member in &batch.groups[0].members {
        let generated = member.generated.as_ref().unwrap();
        let sequence = &generated.sequences[0];
        let mut cache = processor.cache();
        let mut work =
            [crate::cpu::Work { cache: &mut cache, tokens: &sequence.tokens, logits: Vec::new(), every: true }];
        processor.forward(&mut work);
        let rows: Vec<&[f32]> = work[0].logits.chunks_exact(16).collect();
        let written = sequence.tokens.iter().zip(&sequence.mask).enumerate().filter(|(_, (_, mask))| **mask);
        for ((place, (token, _)), rollout) in written.zip(&generated.rollout) {
            let row = rows[place - 1];
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let whole: f64 = row.iter().map(|logit| f64::from(logit - most).exp()).sum();
            let logprob = f64::from(row[*token as usize] - most) - whole.ln();
            weights.push((logprob - f64::from(*rollout)).exp().min(cap));
        }
    }
    let expected = weights.iter().sum::<f64>() / weights.len() as f64;
    let late = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    assert!((late["tis_weight_mean"] - expected).abs() < 1e-4, "{expected} in {late:?}");
    assert!((expected - 1.0).abs() > 1e-3, "the step moved something: {expected}");
    assert!((late["ratio_mean"] - 1.0).abs() < 1e-4, "the ratio refers to the current weights before their step");
    assert!(late["logprob_mismatch_max"] > 1e-3 && late["version"] == 2.0, "{late:?}");

    // Two versions late.
    let before = Layer::digest(&layer);
    let oldest = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    assert_eq!(oldest["dropped_old_weights"], TRIES as f64);
    assert_eq!((oldest.get("loss"), Layer::digest(&layer)), (None, before));
}

#[tokio::test]
async fn answers_from_an_unknown_distribution_are_refused_with_a_count() {
    let (model, mut layer) = opened(|_| {});
    let batch = played(&model, |generated| generated.restricted = generated.rollout.len() % 2 == 0).await;
    let cut = batch.groups[0].members.iter().filter(|one| one.generated.as_ref().unwrap().restricted).count();
    let found = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    assert!(cut > 0 && cut < TRIES as usize, "{cut}");
    assert_eq!(found["dropped_unknown_distribution"], cut as f64);
}

#[tokio::test]
async fn answers_within_a_grammar_are_learned_among_the_tokens_that_it_allowed() {
    let pattern = Some("[0-9]{2}[+][0-9]");
    let (model, mut layer) = opened(|_| {});
    let batch = played_within(&model, pattern, |_| {}).await;
    let members = &batch.groups[0].members;
    let generated: Vec<&Generated> = members.iter().map(|one| &**one.generated.as_ref().unwrap()).collect();
    assert!(generated.iter().all(|one| !one.restricted && one.rollout.len() == 5), "{generated:?}");
    // The plus and the end are forced.
    assert!(generated.iter().all(|one| (one.rollout[2], one.rollout[4]) == (0.0, 0.0)), "{generated:?}");
    let before = Layer::digest(&layer);
    let found = metrics(&learn(&mut [&mut layer], &batch).unwrap());
    assert!(found["logprob_mismatch_max"] < 1e-4, "{found:?}");
    assert_ne!(Layer::digest(&layer), before);

    // Without the masks the same answers have other log-probs, which are refused.
    let (model, mut layer) = opened(|_| {});
    let batch = played_within(&model, pattern, |generated| generated.grammars.clear()).await;
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    let LayerOutcome::LeftOut(why) = &applied.outcomes[0] else { panic!("{:?}", applied.outcomes) };
    assert!(why.to_string().contains("log-prob"), "{why}");
}

#[tokio::test]
async fn answers_whose_masks_nobody_can_compute_are_left_out_one_by_one() {
    let pattern = Some("[0-9]{2}[+][0-9]");
    let dropped = |applied: &Applied| metrics(applied).get("dropped_unknown_distribution").copied();
    // The grammar of one answer is not what its digest says.
    let (model, mut layer) = opened(|_| {});
    let mut batch = played_within(&model, pattern, |_| {}).await;
    let first = Arc::make_mut(batch.groups[0].members[0].generated.as_mut().unwrap());
    first.grammars[0].as_mut().unwrap().text.push('x');
    let before = Layer::digest(&layer);
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    assert_eq!(dropped(&applied), Some(1.0), "{applied:?}");
    assert_ne!(Layer::digest(&layer), before);
    // Nobody compiles grammars here.
    let (model, mut layer) = opened(|_| {});
    let batch = played_within(&model, pattern, |_| {}).await;
    layer.grammars = None;
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    assert_eq!(dropped(&applied), Some(TRIES as f64), "{applied:?}");
}

#[tokio::test]
async fn a_teacher_is_not_compared_with_answers_within_a_grammar() {
    let (teacher, (model, mut layer)) = (teacher(), distilling(3));
    let batch = played_within(&model, Some("[0-9]{2}[+][0-9]"), |_| {}).await;
    let batch = taught(&teacher, batch, 3).await;
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    assert_eq!(metrics(&applied)["dropped_unknown_distribution"], TRIES as f64, "{applied:?}");
}

#[tokio::test]
async fn rollouts_whose_log_probs_differ_from_the_trainer_are_refused() {
    let (model, mut layer) = opened(|_| {});
    let batch = played(&model, |generated| generated.rollout[0] += 0.01).await;
    let before = Layer::digest(&layer);
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    let LayerOutcome::LeftOut(why) = &applied.outcomes[0] else { panic!("{:?}", applied.outcomes) };
    assert!(why.to_string().contains("log-prob"), "{why}");
    assert_eq!(Layer::digest(&layer), before);
}

#[tokio::test]
async fn the_divergence_refers_to_the_initial_weights() {
    let (model, mut layer) = opened(|objective| objective.kl = 0.5);
    let first = metrics(&learn(&mut [&mut layer], &played(&model, |_| {}).await).unwrap());
    assert!(first["kl"].abs() < 1e-6 && first["kl_loss"].abs() < 1e-6, "{first:?}");
    let second = metrics(&learn(&mut [&mut layer], &played(&model, |_| {}).await).unwrap());
    assert!(second["kl"] > 1e-4 && second["kl_loss"] > 0.0, "{second:?}");
}

#[tokio::test]
async fn equal_rewards_teach_nothing() {
    let (model, mut layer) = opened(|_| {});
    let mut batch = played(&model, |_| {}).await;
    batch.groups[0].members.iter_mut().for_each(|member| member.reward = 1.0);
    let before = Layer::digest(&layer);
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    assert_eq!((metrics(&applied)["zero_variance_share"], Layer::digest(&layer)), (1.0, before));
    assert!(matches!(&applied.outcomes[0], LayerOutcome::Stepped(_, step) if step.updates == 0), "{applied:?}");
}

#[tokio::test]
async fn weights_are_written_if_requested() {
    let place = tempfile::tempdir().unwrap();
    let (model, mut layer) = opened(|_| {});
    layer.keep(CheckpointKind::Last).unwrap();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    layer.keep_in(CheckpointWriter::new(place.path(), folder()));
    learn(&mut [&mut layer], &played(&model, |_| {}).await).unwrap();
    layer.keep(CheckpointKind::Last).unwrap();
    let read = ModelFolder::read(&place.path().join("last"), &crate::tokens::TextHost::InProcess).unwrap();
    assert_eq!(digest(&read.weights), model.engine().current().digest);
}
