//! Losses and gradients equal those of an independent implementation (PyTorch, float64, autograd), off-policy.

use super::*;

/// The reference values have six digits.
const TOLERANCE: f64 = 5.1e-7;

fn check(objective: PolicyGradient, loss: f64, gradient: [f64; 3], what: &str) {
    let experience = experience(objective);
    let outcome = experience.whole().unwrap().loss(&evaluations(&NEW)).unwrap();
    close(&[outcome.loss], &[loss], TOLERANCE, what);
    close(&outcome.gradients[0], &gradient, TOLERANCE, what);
}

#[test]
fn losses_and_gradients_equal_the_reference() {
    check(policy("grpo"), 0.045_363, [0.0, -0.026_473, -0.058_917], "grpo");
    check(policy("dapo"), -0.135_185, [0.0, -0.039_710, -0.088_376], "dapo");
    check(policy("dr_grpo"), -0.029_207, [0.0, -0.014_042, -0.031_250], "dr_grpo");
    check(policy("rloo"), -0.460_509, [-0.337_465, -0.112_332, -0.25], "rloo");
    check(policy("is"), -1.897_489, [-0.954_359, -0.317_679, -0.707_007], "is");
    check(policy("cispo"), 0.110_888, [-0.113_121, -0.039_710, -0.088_376], "cispo");
    check(policy("gspo"), 0.027_011, [-0.049_872; 3], "gspo");
    check(policy("opd"), -0.071_648, [-0.016_873, 0.016_850, 0.012_500], "opd");
    check(combined(), -0.126_811, [0.0, -0.022_860, -0.075_876], "combined");
    // Seven nats from the teacher: the advantage is not clipped.
    let outcome = far_from_the_teacher(policy("opd"), &NEW);
    close(&[outcome.loss], &[0.304_665], TOLERANCE, "far");
    close(&outcome.gradients[0], &[-0.016_873, 0.393_163, 0.012_5], TOLERANCE, "far");
}

/// The step of all four trajectories with these new log-probs. The teacher thinks little of the second token of the first.
fn far_from_the_teacher(objective: PolicyGradient, new: &[&[f64]]) -> Outcome {
    let far = groups(|number, recorded| {
        if number == 0 {
            recorded.teacher = Some(vec![-0.3, -8.2, -0.6]);
        }
    });
    Experience::new(objective, far).unwrap().whole().unwrap().loss(&evaluations(new)).unwrap()
}

/// Optimisers are almost independent of the length of a gradient, so only its direction distinguishes objectives.
fn direction(name: &str, new: &[&[f64]]) -> Vec<f64> {
    let gradient = far_from_the_teacher(policy(name), new).gradients.concat();
    let length = gradient.iter().map(|slope| slope * slope).sum::<f64>().sqrt();
    gradient.into_iter().map(|slope| slope / length).collect()
}

/// The pairs of objectives whose gradients have the same direction.
fn alike(new: &[&[f64]]) -> Vec<[&'static str; 2]> {
    let names = PolicyGradient::NAMES;
    let mut pairs = Vec::new();
    for (place, one) in names.iter().enumerate() {
        for other in &names[place + 1..] {
            let (first, second) = (direction(one, new), direction(other, new));
            let apart = first.iter().zip(&second).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt();
            if apart < 1e-3 {
                pairs.push([*one, *other]);
            }
        }
    }
    pairs
}

#[test]
fn every_objective_differs_from_the_others_after_the_first_step() {
    assert_eq!(alike(&NEW), Vec::<[&str; 2]>::new());
    // In the first step every ratio is 1, and no bound acts: objectives that differ in their bounds alone are the same.
    let expect = [["grpo", "gspo"], ["dapo", "is"], ["dapo", "cispo"], ["dr_grpo", "rloo"], ["is", "cispo"]];
    assert_eq!(alike(&OLD), expect);
    let exact = |name: &str| far_from_the_teacher(policy(name), &OLD).gradients;
    assert_eq!(exact("dapo"), exact("cispo"), "bit for bit");
}

#[test]
fn the_divergence_equals_the_reference() {
    // A negligible reward weight isolates the KL term.
    let silent = policy("dapo").reward.map(|reward| RewardTerm { weight: 1e-12, ..reward });
    let objective = PolicyGradient { reward: silent, kl: 1.0, ..policy("dapo") };
    check(objective, 0.049_826, [0.022_659, -0.081_090, 0.011_895], "k3");
}

#[test]
fn the_preference_loss_equals_the_reference() {
    let reply = |number: usize| Reply::new("r", REFERENCE[number], vec![true; REFERENCE[number].len()]).unwrap();
    let step = PreferenceStep::new(0.1, vec![Pair { chosen: reply(0), rejected: reply(1) }]).unwrap();
    let outcome = step.loss(&evaluations(&NEW[..2])).unwrap();
    close(&[outcome.loss], &[0.688_160], TOLERANCE, "dpo");
    // beta times the probability of the reverse order, on every token of either reply.
    let slope = 0.1 / (1.0 + 0.01_f64.exp());
    close(&outcome.gradients[0], &[-slope; 3], 1e-12, "chosen");
    close(&outcome.gradients[1], &[slope; 2], 1e-12, "rejected");
    assert_eq!(outcome.metrics.named().by_name()["preference_accuracy"], 1.0);
}

#[test]
fn the_supervised_loss_is_the_mean_over_the_tokens_of_the_step() {
    let step = SupervisedStep::new(vec![vec![false, true, true], vec![true, true]]).unwrap();
    let outcome = step.loss(&evaluations(&NEW[..2])).unwrap();
    close(&[outcome.loss], &[(2.0 + 0.5 + 1.0 + 0.3) / 4.0], 1e-12, "sft");
    close(&outcome.gradients[0], &[0.0, -0.25, -0.25], 0.0, "the prompt has no gradient, the last token has one");
    close(&outcome.gradients[1], &[-0.25, -0.25], 0.0, "sft");
}

#[test]
fn metrics_equal_hand_counted_values() {
    let experience = experience(PolicyGradient { kl: 1.0, ..policy("grpo") });
    let step = experience.whole().unwrap();
    let entropy = [0.5, 1.0, 1.5];
    let mut micro_batch = evaluations(&NEW);
    micro_batch[0].entropy = Some(&entropy);
    let outcome = step.loss(&micro_batch).unwrap();
    let metrics = outcome.metrics.named().by_name();
    let check = |name: &str, expect: f64| close(&[metrics[name]], &[expect], TOLERANCE, name);
    let ratios = [0.3_f64, -0.8, 0.0, -0.8, 0.3, 0.0, 0.7, -0.4].map(f64::exp);
    // Above the bound with a positive advantage: the first token of e0 and of e3. Below it with a negative one: the first of
    // e1.
    check("clip_fraction", 3.0 / 8.0);
    check("ratio_mean", ratios.iter().sum::<f64>() / 8.0);
    check("ratio_max", 0.7_f64.exp());
    check("approx_kl", ratios.iter().map(|ratio| ratio - 1.0 - ratio.ln()).sum::<f64>() / 8.0);
    check("kl", 0.049_826);
    check("entropy", 1.0);
    check("logprob_mismatch_mean", (0.3 + 0.8 + 0.8 + 0.3 + 0.7 + 0.4) / 8.0);
    check("logprob_mismatch_max", 0.8);
    check("tis_truncated_share", 0.0);
    check("tis_weight_mean", 1.0);
    check("reward_loss", 0.045_363);
    check("kl_loss", outcome.loss - metrics["reward_loss"]);
    assert!(!metrics.contains_key("preference_accuracy") && !metrics.contains_key("distillation_advantage_mean"));
    let report = experience.report().named().by_name();
    let check = |name: &str, expect: f64| close(&[report[name]], &[expect], 1e-12, name);
    check("reward_mean", 0.5);
    check("reward_std", (0.625_f64 / 3.0).sqrt());
    check("length_mean", 2.0);
    check("truncation_share", 0.0);
    check("zero_variance_share", 0.0);
}

#[test]
fn terms_of_a_combined_objective_add_up() {
    let experience = experience(combined());
    let outcome = experience.whole().unwrap().loss(&evaluations(&NEW)).unwrap();
    let metrics = outcome.metrics.named().by_name();
    let advantages = [0.707_007, -0.707_007, -0.706_907, 0.706_907];
    let mut by_hand = 0.0;
    let mut teacher = 0.0;
    for number in 0..4 {
        for at in 0..NEW[number].len() {
            let from_teacher = REFERENCE[number][at] - OLD[number][at];
            let advantage = advantages[number] + from_teacher;
            let ratio = (NEW[number][at] - OLD[number][at]).exp();
            by_hand -= (ratio * advantage).min(ratio.clamp(0.8, 1.2) * advantage) / 8.0;
            teacher += from_teacher / 8.0;
        }
    }
    close(&[outcome.loss], &[by_hand], 1e-6, "combined");
    close(&[metrics["reward_loss"] + metrics["distillation_loss"]], &[outcome.loss], 1e-12, "parts");
    close(&[metrics["distillation_advantage_mean"]], &[teacher], 1e-12, "teacher");
    assert!(metrics["reward_loss"] != 0.0 && metrics["distillation_loss"] != 0.0);
}

#[test]
fn the_terms_of_the_loss_are_means_over_steps_and_the_mismatch_is_that_before_the_first() {
    let experience = experience(PolicyGradient { kl: 1.0, ..policy("grpo") });
    let step = |new: &[&[f64]]| experience.whole().unwrap().loss(&evaluations(new)).unwrap().metrics;
    let (first, second) = (step(&OLD), step(&NEW));
    let mut both = first.clone();
    both.merge(&second.clone().without_mismatch());
    both.per_step(2);
    let (first, second, both) = (first.named().by_name(), second.named().by_name(), both.named().by_name());
    for name in ["reward_loss", "kl_loss", "clip_fraction", "ratio_mean", "approx_kl"] {
        close(&[both[name]], &[(first[name] + second[name]) / 2.0], 1e-12, name);
    }
    assert_eq!((first["clip_fraction"], second["clip_fraction"]), (0.0, 3.0 / 8.0));
    assert_eq!(both["ratio_max"], second["ratio_max"]);
    assert_eq!((both["logprob_mismatch_max"], both["logprob_mismatch_mean"]), (0.0, 0.0));
}

#[test]
fn rloo_gradients_equal_the_published_formula() {
    let first = |name: &str| {
        let experience = experience(policy(name));
        let outcome = experience.whole().unwrap().loss(&evaluations(&OLD)).unwrap();
        (experience.trained()[0].advantages().to_vec(), outcome.gradients[0].clone())
    };
    let (advantages, gradient) = first("rloo");
    close(&advantages, &[1.0; 3], 1e-12, "own reward minus the other's");
    close(&gradient, &[-0.25; 3], 1e-12, "sum over tokens, mean over trajectories");
}
