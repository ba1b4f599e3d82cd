//! Distillation over the most likely tokens of a teacher and a bin with the rest.

use super::*;

/// Log-probs of three tokens under the policy, at every token of [`NEW`].
const LIKELY: [f64; 3] = [-1.2, -0.9, -2.5];
/// The teacher's tokens with their log-probs.
const TAUGHT: [(u32, f64); 3] = [(4, -0.6), (9, -1.4), (2, -3.0)];

fn over_bins(weight: f64, top: u8) -> PolicyGradient {
    PolicyGradient { distillation: Some(Distillation { weight, top }), ..policy("opd") }
}

fn taught(objective: PolicyGradient, change: impl Fn(usize, &mut Recorded)) -> Experience {
    let groups = groups(|number, recorded| {
        recorded.likely = vec![TAUGHT.to_vec(); recorded.rollout.len()];
        change(number, recorded);
    });
    Experience::new(objective, groups).unwrap()
}

/// The step of all trajectories, with one log-prob of sequence 0 shifted: of token 1 and the teacher's first token.
fn shifted(objective: PolicyGradient, by: f64, change: impl Fn(usize, &mut Recorded)) -> Outcome {
    let experience = taught(objective, change);
    let likely: Vec<Vec<Vec<f64>>> = NEW.iter().map(|new| vec![LIKELY.to_vec(); new.len()]).collect();
    let mut likely = likely;
    likely[0][1][0] += by;
    let all: Vec<Evaluation<'_>> =
        evaluations(&NEW).into_iter().zip(&likely).map(|(one, likely)| Evaluation { likely, ..one }).collect();
    experience.whole().unwrap().loss(&all).unwrap()
}

#[test]
fn the_loss_over_bins_equals_the_reference() {
    // Computed by an independent script (numpy, float64): the same divergence at each of eight tokens, and its mean.
    let outcome = shifted(over_bins(1.0, 3), 0.0, |_, _| {});
    close(&[outcome.loss], &[0.127_846_646], 1e-8, "loss");
    let slopes = [-0.034_097_632, 0.009_876_340, 0.001_993_999];
    assert_eq!(outcome.likely.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2, 1, 2]);
    for found in outcome.likely.iter().flatten() {
        close(found, &slopes, 1e-8, "slopes");
    }
    assert_eq!(outcome.gradients.concat(), [0.0; 8], "nothing depends on the drawn tokens");
    let metrics = outcome.metrics.named().by_name();
    close(&[metrics["distillation_advantage_mean"]], &[-0.127_846_646], 1e-8, "advantage");
    close(&[metrics["distillation_tail"]], &[0.210_151_129], 1e-8, "tail");
}

#[test]
fn the_gradient_over_bins_is_the_derivative_of_the_loss() {
    let masked = |number: usize, recorded: &mut Recorded| recorded.mask[0] = number != 0;
    for (what, objective) in [
        ("opd", over_bins(0.7, 3)),
        ("with rewards and a divergence", PolicyGradient { kl: 0.1, ..over_bins(0.7, 3) }),
        (
            "beside a clip",
            PolicyGradient { distillation: Some(Distillation { weight: 2.0, top: 3 }), ..policy("dapo") },
        ),
    ] {
        let slope = shifted(objective, 0.0, masked).likely[0][1][0];
        let quotient = (shifted(objective, 1e-5, masked).loss - shifted(objective, -1e-5, masked).loss) / 2e-5;
        assert!(slope != 0.0 && (slope - quotient).abs() < 1e-9, "{what}: {slope} instead of {quotient}");
        assert_eq!(shifted(objective, 0.0, masked).likely[0][0], [0.0; 3], "{what}: a token that is not trained");
    }
}

#[test]
fn rewards_act_on_drawn_tokens_and_the_teacher_on_its_own() {
    let objective = PolicyGradient { distillation: Some(Distillation { weight: 1.0, top: 3 }), ..policy("dapo") };
    let both = shifted(objective, 0.0, |_, _| {});
    let rewards = experience(policy("dapo")).whole().unwrap().loss(&evaluations(&NEW)).unwrap();
    assert_eq!(both.gradients, rewards.gradients);
    assert_eq!(both.metrics.reward_loss, rewards.metrics.reward_loss);
    close(&[both.loss - rewards.loss], &[0.127_846_646], 1e-8, "loss");
}

#[test]
fn missing_log_probs_of_the_teachers_tokens_are_errors() {
    let check = |change: &dyn Fn(&mut Recorded), expect: &str| {
        let member = |number| {
            let mut recorded = recorded(number);
            recorded.likely = vec![TAUGHT.to_vec(); recorded.rollout.len()];
            change(&mut recorded);
            Trajectory::new(recorded)
        };
        let found = member(0).and_then(|one| {
            let group = TrajectoryGroup { task: "a".into(), members: vec![one, member(1)?] };
            Experience::new(over_bins(1.0, 3), vec![group])
        });
        let error = found.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(&|recorded| recorded.likely.clear(), "has no most likely tokens of the teacher");
    check(&|recorded| drop(recorded.likely.pop()), "likely has 2 numbers for 3 tokens");
    check(&|recorded| recorded.likely[0][1].0 = 4, "named one token twice");
    check(&|recorded| recorded.likely[0][1].1 = f64::NAN, "log-prob is NaN");
    let experience = taught(over_bins(1.0, 3), |_, _| {});
    let few = vec![vec![-1.0; 2]; 3];
    let evaluation = Evaluation { likely: &few, ..evaluations(&NEW)[0] };
    let error = experience.whole().unwrap().loss(&[evaluation]).unwrap_err().to_string();
    assert!(error.contains("most likely tokens are not one for each"), "{error}");
}
