//! Every gradient is the derivative of its loss, independently of the division into micro-batches.

use super::*;
use proptest::prelude::*;

/// Accuracy of central differences of a smooth loss, relative to 1.
const TOLERANCE: f64 = 2e-7;
const STEP: f64 = 1e-5;

/// Log-probs of one sequence: new, old, rollout, reference, teacher, mask, turn rewards.
#[derive(Debug, Clone)]
struct Random {
    tokens: Vec<([f64; 5], bool)>,
    reward: f64,
}

fn random_sequence() -> impl Strategy<Value = Random> {
    let token = (prop::array::uniform5(-2.0..-0.05_f64), prop::bool::weighted(0.8));
    (prop::collection::vec(token, 1..6), 0.0..1.0_f64).prop_map(|(tokens, reward)| Random { tokens, reward })
}

fn random_groups() -> impl Strategy<Value = Vec<Vec<Random>>> {
    prop::collection::vec(prop::collection::vec(random_sequence(), 2..4), 1..4)
}

/// Shifts `old`, rollout and teacher of a token together with its new log-prob, so that weights with a stopped gradient stay
/// constant.
#[derive(Clone, Copy)]
struct Shift {
    sequence: usize,
    token: usize,
    by: f64,
    with_old: bool,
}

/// Loss and gradients with one new log-prob shifted; `None` if nothing is trained.
fn outcome(objective: PolicyGradient, groups: &[Vec<Random>], shift: Shift) -> Option<Outcome> {
    let mut number = 0;
    let mut new = Vec::new();
    let mut member = |random: &Random| {
        let column = |which: usize| -> Vec<f64> {
            let moves = which == 0 || (shift.with_old && [1, 2, 4].contains(&which));
            let at = |(at, (numbers, _)): (usize, &([f64; 5], bool))| {
                let is_shifted = moves && number == shift.sequence && at == shift.token;
                numbers[which] + if is_shifted { shift.by } else { 0.0 }
            };
            random.tokens.iter().enumerate().map(at).collect()
        };
        new.push(column(0));
        let recorded = Recorded {
            sequence: number.to_string(),
            reward: Some(random.reward),
            rollout: column(2),
            trainer: Some(column(1)),
            reference: Some(column(3)),
            teacher: Some(column(4)),
            mask: random.tokens.iter().map(|(_, trained)| *trained).collect(),
            turn_ends: if random.tokens.len() > 2 { vec![2, random.tokens.len()] } else { vec![] },
            ..Recorded::default()
        };
        number += 1;
        Trajectory::new(recorded).unwrap()
    };
    let group = |members: &Vec<Random>| TrajectoryGroup {
        task: "t".into(),
        members: members.iter().map(&mut member).collect(),
    };
    let experience = Experience::new(objective, groups.iter().map(group).collect()).unwrap();
    let step = experience.whole().ok()?;
    let of =
        |sequence: usize| step.trained(sequence).unwrap().trajectory().recorded().sequence.parse::<usize>().unwrap();
    let micro_batch: Vec<Evaluation<'_>> = (0..step.sequences())
        .map(|sequence| Evaluation { sequence, new: &new[of(sequence)], ..Evaluation::default() })
        .collect();
    let mut outcome = step.loss(&micro_batch).unwrap();
    // By the index of the trajectory, including dropped ones.
    let mut gradients: Vec<Vec<f64>> = new.iter().map(|new| vec![0.0; new.len()]).collect();
    for (sequence, gradient) in outcome.gradients.into_iter().enumerate() {
        gradients[of(sequence)] = gradient;
    }
    outcome.gradients = gradients;
    Some(outcome)
}

/// Whether a ratio is so near to a bound that the difference quotient would cross it.
fn is_at_a_bound(objective: PolicyGradient, groups: &[Vec<Random>]) -> bool {
    let (low, high) = match objective.surrogate {
        Surrogate::Clip { low, high } | Surrogate::SequenceClip { low, high } => (low, high),
        Surrogate::BoundedWeight { .. } | Surrogate::Importance => return false,
    };
    let near = |log_ratio: f64| [1.0 - low, 1.0 + high].iter().any(|bound| (log_ratio.exp() - bound).abs() < 1e-4);
    groups.iter().flatten().any(|sequence| {
        let trained = sequence.tokens.iter().filter(|(_, trained)| *trained);
        let ratios: Vec<f64> = trained.map(|(numbers, _)| numbers[0] - numbers[1]).collect();
        near(ratios.iter().sum::<f64>() / ratios.len().max(1) as f64) || ratios.into_iter().any(near)
    })
}

fn every_policy() -> Vec<(&'static str, PolicyGradient)> {
    let mut all: Vec<_> =
        PolicyGradient::NAMES.into_iter().map(|name| (name, PolicyGradient { kl: 0.02, ..policy(name) })).collect();
    let plain = policy("gspo");
    all.push((
        "gspo with teacher, over tokens",
        PolicyGradient { distillation: Some(Distillation::default()), aggregation: Aggregation::Token, ..plain },
    ));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_gradient_is_the_derivative_of_its_loss(groups in random_groups()) {
        for (name, objective) in every_policy() {
            if is_at_a_bound(objective, &groups) {
                continue;
            }
            // A bounded weight has no gradient, so its inputs are shifted along to keep it constant. The reference is not
            // shifted.
            let with_old = matches!(objective.surrogate, Surrogate::BoundedWeight { .. });
            let shifted = |sequence, token, by| outcome(objective, &groups, Shift { sequence, token, by, with_old });
            let Some(here) = shifted(0, 0, 0.0) else { continue };
            for (sequence, gradient) in here.gradients.iter().enumerate() {
                for (token, slope) in gradient.iter().enumerate() {
                    let (above, below) = (shifted(sequence, token, STEP).unwrap(), shifted(sequence, token, -STEP).unwrap());
                    let quotient = (above.loss - below.loss) / (2.0 * STEP);
                    let error = (quotient - slope).abs() / (1.0 + slope.abs());
                    prop_assert!(error < TOLERANCE, "{name}, {sequence}, {token}: {slope} instead of {quotient}");
                }
            }
        }
    }

    #[test]
    fn supervised_and_preference_gradients_are_derivatives_of_their_losses(
        sequences in prop::collection::vec(random_sequence(), 2..=2),
    ) {
        let trained: Vec<Random> = sequences
            .into_iter()
            .map(|mut sequence| {
                sequence.tokens[0].1 = true;
                sequence
            })
            .collect();
        let mask = |number: usize| -> Vec<bool> { trained[number].tokens.iter().map(|(_, trained)| *trained).collect() };
        let column = |number: usize, which: usize| -> Vec<f64> {
            trained[number].tokens.iter().map(|(numbers, _)| numbers[which]).collect()
        };
        let reply = |number| Reply::new("r", &column(number, 3), mask(number)).unwrap();
        let steps: [Box<dyn StepBatch>; 2] = [
            Box::new(SupervisedStep::new(vec![mask(0), mask(1)]).unwrap()),
            Box::new(PreferenceStep::new(0.5, vec![Pair { chosen: reply(0), rejected: reply(1) }]).unwrap()),
        ];
        let new = [column(0, 0), column(1, 0)];
        for step in steps {
            let here = step.loss(&evaluations(&new)).unwrap();
            for sequence in 0..2 {
                for token in 0..new[sequence].len() {
                    let loss = |by: f64| {
                        let mut new = new.clone();
                        new[sequence][token] += by;
                        step.loss(&evaluations(&new)).unwrap().loss
                    };
                    let quotient = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
                    let slope = here.gradients[sequence][token];
                    prop_assert!((quotient - slope).abs() < TOLERANCE, "{slope} instead of {quotient}");
                }
            }
        }
    }

    #[test]
    fn gradients_do_not_depend_on_micro_batches_or_order(
        groups in prop::collection::vec(prop::collection::vec(random_sequence(), 3..4), 3..4),
        order in Just((0..9_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        for (name, objective) in every_policy() {
            let Some(whole) = outcome(objective, &groups, Shift { sequence: 0, token: 0, by: 0.0, with_old: false }) else {
                continue;
            };
            for parts in [1, 2, 7] {
                let cut = in_parts(objective, &groups, &order, parts);
                prop_assert!((cut.loss - whole.loss).abs() < 1e-12, "{name} in {parts}");
                let (metrics, expect) = (cut.metrics.named().by_name(), whole.metrics.named().by_name());
                prop_assert_eq!(metrics.len(), expect.len());
                for (metric, number) in metrics {
                    let is_equal = (number - expect[metric]).abs() < 1e-9 * (1.0 + number.abs());
                    prop_assert!(is_equal, "{name} in {parts}: {metric} is {number}, not {}", expect[metric]);
                }
                for (one, other) in cut.gradients.iter().flatten().zip(whole.gradients.iter().flatten()) {
                    prop_assert!((one - other).abs() < 1e-12, "{name} in {parts}: {one}, {other}");
                }
            }
        }
    }
}

/// The same step in this many micro-batches, with its sequences reordered.
fn in_parts(objective: PolicyGradient, groups: &[Vec<Random>], order: &[usize], parts: usize) -> Outcome {
    let all: Vec<&Random> = groups.iter().flatten().collect();
    let column = |random: &Random, which: usize| random.tokens.iter().map(|(numbers, _)| numbers[which]).collect();
    let member = |number: usize| {
        let random = all[number];
        let recorded = Recorded {
            sequence: number.to_string(),
            reward: Some(random.reward),
            rollout: column(random, 2),
            trainer: Some(column(random, 1)),
            reference: Some(column(random, 3)),
            teacher: Some(column(random, 4)),
            mask: random.tokens.iter().map(|(_, trained)| *trained).collect(),
            turn_ends: if random.tokens.len() > 2 { vec![2, random.tokens.len()] } else { vec![] },
            ..Recorded::default()
        };
        Trajectory::new(recorded).unwrap()
    };
    let groups = (0..3).map(|group| TrajectoryGroup {
        task: group.to_string(),
        members: (3 * group..3 * group + 3).map(member).collect(),
    });
    let experience = Experience::new(objective, groups.collect()).unwrap();
    let kept: Vec<usize> = order.iter().copied().filter(|number| *number < experience.trained().len()).collect();
    let step = experience.step(&kept).unwrap();
    let numbers: Vec<usize> = (0..step.sequences()).collect();
    let of =
        |sequence: usize| step.trained(sequence).unwrap().trajectory().recorded().sequence.parse::<usize>().unwrap();
    let (mut loss, mut metrics) = (0.0, Metrics::default());
    let mut gradients: Vec<Vec<f64>> = all.iter().map(|random| vec![0.0; random.tokens.len()]).collect();
    for part in numbers.chunks(numbers.len().div_ceil(parts)) {
        let new: Vec<Vec<f64>> = part.iter().map(|sequence| column(all[of(*sequence)], 0)).collect();
        let pairs = part.iter().zip(&new);
        let micro_batch: Vec<_> =
            pairs.map(|(sequence, new)| Evaluation { sequence: *sequence, new, ..Evaluation::default() }).collect();
        let outcome = step.loss(&micro_batch).unwrap();
        loss += outcome.loss;
        metrics.merge(&outcome.metrics);
        part.iter().zip(outcome.gradients).for_each(|(sequence, gradient)| gradients[of(*sequence)] = gradient);
    }
    Outcome { loss, gradients, likely: Vec::new(), metrics }
}
