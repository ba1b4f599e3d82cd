//! Common mistakes in implementations.

use super::*;
use clawhost_core::Digest;

fn error(change: impl Fn(&mut Recorded)) -> String {
    let mut recorded = recorded(0);
    change(&mut recorded);
    Trajectory::new(recorded).unwrap_err().to_string()
}

fn whole(objective: PolicyGradient, change: impl Fn(usize, &mut Recorded)) -> Outcome {
    let experience = Experience::new(objective, groups(change)).unwrap();
    let step = experience.whole().unwrap();
    let number = |sequence: usize| {
        let name = &step.trained(sequence).unwrap().trajectory().recorded().sequence;
        name.trim_start_matches('e').parse::<usize>().unwrap()
    };
    let micro_batch: Vec<_> = (0..step.sequences())
        .map(|sequence| Evaluation { sequence, new: NEW[number(sequence)], ..Evaluation::default() })
        .collect();
    step.loss(&micro_batch).unwrap()
}

#[test]
fn columns_of_wrong_length_and_invalid_numbers_are_named_with_their_position() {
    let check = |change: &dyn Fn(&mut Recorded), expect: &str| {
        let error = error(change);
        assert!(error.starts_with("sequence e0") && error.contains(expect), "{error}");
    };
    check(&|recorded| recorded.mask = vec![true], "mask has 1 numbers for 3 tokens");
    check(&|recorded| recorded.trainer = Some(vec![-1.0]), "trainer has 1 numbers for 3 tokens");
    check(&|recorded| recorded.reference = Some(vec![]), "reference has 0 numbers");
    check(&|recorded| recorded.teacher = Some(vec![-1.0]), "teacher has 1 numbers");
    check(&|recorded| recorded.turn_ends = vec![2, 2, 3], "turns end at [2, 2, 3]");
    check(&|recorded| recorded.turn_ends = vec![1, 2], "ends must increase up to 3");
    check(&|recorded| recorded.reward = Some(f64::NAN), "rewards is NaN, which is not finite; leave out");
    check(&|recorded| recorded.rollout[1] = f64::NAN, "token 1: the rollout log-prob is NaN");
    check(&|recorded| recorded.reference = Some(vec![-1.0, -1.0, f64::NEG_INFINITY]), "token 2: the reference");
    check(
        &|recorded| recorded.rollout[2] = 1.2,
        "token 2: the rollout log-prob is 1.2; log-probs are finite and at most 0",
    );
}

#[test]
fn new_log_probs_that_do_not_match_the_step_are_errors() {
    let experience = experience(policy("grpo"));
    let step = experience.whole().unwrap();
    let check = |micro_batch: &[Evaluation<'_>], expect: &str| {
        let error = step.loss(micro_batch).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let one = |sequence, new| Evaluation { sequence, new, ..Evaluation::default() };
    check(&[one(4, NEW[0])], "sequence 4: the step has sequences 0 to 3");
    check(&[one(0, NEW[0]), one(0, NEW[0])], "sequence 0: occurs twice");
    check(&[one(1, NEW[0])], "sequence e1: new has 3 numbers for 2 tokens");
    check(&[one(2, &[f64::NAN])], "sequence e2, token 0: the new log-prob is NaN");
    check(&[one(2, &[f64::NEG_INFINITY])], "the new log-prob is -inf");
    check(&[Evaluation { entropy: Some(&[]), ..one(2, NEW[2]) }], "entropy is not one finite number");
    for (numbers, expect) in [(vec![0, 0], "twice"), (vec![4], "trajectory 4 of 4"), (vec![], "no trained token")] {
        let error = experience.step(&numbers).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

#[test]
fn the_denominator_belongs_to_the_step_not_to_the_micro_batch() {
    let experience = experience(policy("dapo"));
    let step = experience.whole().unwrap();
    let micro_batch = evaluations(&NEW);
    let alone = step.loss(&micro_batch[..1]).unwrap();
    let whole = step.loss(&micro_batch).unwrap();
    assert_eq!(alone.gradients[0], whole.gradients[0]);
    let smaller = experience.step(&[0]).unwrap().loss(&micro_batch[..1]).unwrap();
    close(
        &[smaller.gradients[0][1]],
        &[whole.gradients[0][1] * 8.0 / 3.0],
        1e-12,
        "another step has another denominator",
    );
}

#[test]
fn masked_tokens_get_no_gradient_and_count_in_no_mean() {
    let masked = |number: usize, recorded: &mut Recorded| {
        if number == 0 {
            recorded.mask = vec![false, true, true];
        }
    };
    for name in PolicyGradient::NAMES {
        let outcome = whole(PolicyGradient { kl: 0.1, ..policy(name) }, masked);
        assert_eq!(outcome.gradients[0][0], 0.0, "{name}");
        assert!(outcome.gradients[0][2] != 0.0, "{name}: the last token, the end of the sequence, is trained");
    }
    let outcome = whole(policy("is"), masked);
    assert_eq!(outcome.metrics.named().by_name()["ratio_max"], 0.7_f64.exp());
    // Mean over the two trained tokens, not over three.
    let ratio = (-0.8_f64 / 2.0).exp();
    let outcome = whole(policy("gspo"), masked);
    close(&outcome.gradients[0], &[0.0, -ratio * 0.707_007 / 8.0, -ratio * 0.707_007 / 8.0], 5e-7, "gspo");
    let outcome = whole(policy("dapo"), masked);
    close(&[outcome.gradients[0][2]], &[-0.707_007 / 7.0], 5e-7, "seven tokens are trained");
}

#[test]
fn old_log_probs_stay_fixed_for_later_steps() {
    let experience = experience(policy("is"));
    let ratio = |new: &[&[f64]]| {
        let step = experience.whole().unwrap();
        step.loss(&evaluations(new)).unwrap().metrics.named().by_name()["ratio_mean"]
    };
    assert_eq!(ratio(&OLD), 1.0);
    assert!((ratio(&NEW) - 1.0).abs() > 0.01, "a second step is off-policy");
}

#[test]
fn importance_is_corrected_exactly_once() {
    // In the first step the trainer's log-probs equal the new ones.
    let with_trainer = |number: usize, recorded: &mut Recorded| recorded.trainer = Some(NEW[number].to_vec());
    let corrected = whole(policy("is"), with_trainer);
    let straight = whole(policy("is"), |_, _| ());
    // Below the cap (only the first token of e3 is above it) both equal the ratio to the rollout times the advantage.
    for sequence in 0..3 {
        close(&corrected.gradients[sequence], &straight.gradients[sequence], 1e-12, "once");
    }
    close(&[corrected.gradients[3][0]], &[-2.0_f64.min(0.7_f64.exp()) * 0.706_907], 5e-7, "limited by the cap");
    let metrics = corrected.metrics.named().by_name();
    assert_eq!((metrics["ratio_max"], metrics["tis_truncated_share"]), (1.0, 1.0 / 8.0));
    assert_eq!(straight.metrics.named().by_name()["tis_weight_mean"], 1.0);
    // The KL term is not weighted.
    let divergence =
        |change: fn(usize, &mut Recorded)| whole(PolicyGradient { kl: 1.0, ..policy("grpo") }, change).metrics.kl_loss;
    assert_eq!(divergence(|number, recorded| recorded.trainer = Some(NEW[number].to_vec())), divergence(|_, _| ()));
}

#[test]
fn a_failed_member_has_no_reward_and_a_group_of_one_is_dropped() {
    let failed = groups(|number, recorded| {
        if number == 1 {
            recorded.reward = None;
        }
    });
    let experience = Experience::new(policy("grpo"), failed).unwrap();
    let places: Vec<_> = experience.trained().iter().map(|trained| (trained.group(), trained.member())).collect();
    assert_eq!(places, [(1, 0), (1, 1)]);
    let report = experience.report();
    assert_eq!((report.failed, report.too_small, report.comparable(), report.zero_variance.len()), (1, 1, 1, 0));
    assert_eq!(report.named().by_name()["reward_mean"], (1.0 + 0.25 + 0.75) / 3.0);
}

#[test]
fn groups_without_variance_are_dropped_and_listed() {
    let equal = || {
        groups(|number, recorded| {
            if number < 2 {
                recorded.reward = Some(1.0);
            }
        })
    };
    let experience = Experience::new(policy("dapo"), equal()).unwrap();
    assert_eq!(experience.trained().len(), 2);
    assert_eq!(experience.report().zero_variance, ["a"]);
    assert_eq!(experience.report().named().by_name()["zero_variance_share"], 0.5);
    assert_eq!(Experience::new(combined(), equal()).unwrap().trained().len(), 4, "the teacher gives a gradient");
    let nothing = groups(|_, recorded| recorded.reward = Some(0.0));
    let error = Experience::new(policy("grpo"), nothing).unwrap().whole().unwrap_err().to_string();
    assert!(error.contains("every group was dropped"), "{error}");
}

#[test]
fn truncated_episodes_are_masked_kept_or_penalised() {
    // The last of three was truncated, with a reward of 0.
    let advantages = |truncation| {
        let member = |number: usize, reward| {
            let truncated = number == 2;
            Trajectory::new(Recorded { reward: Some(reward), truncated, ..recorded(number) }).unwrap()
        };
        let members = vec![member(0, 1.0), member(1, 0.5), member(2, 0.0)];
        let reward = Some(RewardTerm { truncation, ..RewardTerm::of(Advantage::Centred) });
        let group = TrajectoryGroup { task: "a".into(), members };
        let experience = Experience::new(PolicyGradient { reward, ..policy("dr_grpo") }, vec![group]).unwrap();
        let advantages: Vec<f64> = experience.trained().iter().map(|trained| trained.advantages()[0]).collect();
        (advantages, experience.report().truncated, experience.report().named().by_name()["truncation_share"])
    };
    assert_eq!(advantages(Truncation::Mask), (vec![0.25, -0.25], 1, 1.0 / 3.0));
    assert_eq!(advantages(Truncation::Keep), (vec![0.5, 0.0, -0.5], 0, 1.0 / 3.0));
    let (penalised, ..) = advantages(Truncation::Penalty(0.3));
    close(&penalised, &[0.6, 0.1, -0.7], 1e-12, "penalty");
}

#[test]
fn credit_per_turn_adds_the_advantage_of_the_turn_to_that_of_the_episode() {
    let credited = |rewards: [f64; 2], states: [&str; 2], credit: Credit| {
        let member = |number: usize| {
            let states = vec![Digest::of(b"a"), Digest::of(states[number].as_bytes())];
            let reward = Some(rewards[number]);
            Trajectory::new(Recorded { reward, states, turn_ends: vec![1, 3], ..recorded(0) }).unwrap()
        };
        let group = TrajectoryGroup { task: "a".into(), members: vec![member(0), member(1)] };
        let experience = Experience::new(PolicyGradient { credit, ..policy("dr_grpo") }, vec![group]).unwrap();
        experience.trained().iter().map(|trained| trained.advantages().to_vec()).collect::<Vec<_>>()
    };
    let turn = Credit::Turn(TurnCredit { discount: 0.5, weight: 1.0 });
    // The episodes differ by .5 from their mean, the first turns by a quarter, the second ones meet no other.
    let expect = [vec![0.75, 0.5, 0.5], vec![-0.75, -0.5, -0.5]];
    assert_eq!(credited([1.0, 0.0], ["b", "c"], turn), expect);
    assert_eq!(credited([1.0, 0.0], ["b", "c"], Credit::Episode), [vec![0.5; 3], vec![-0.5; 3]]);
    assert_eq!(credited([1.0, 1.0], ["b", "b"], turn), Vec::<Vec<f64>>::new(), "nothing differs");
    // Equal episodes, of which the second comes back to the first state.
    assert_eq!(credited([1.0, 1.0], ["b", "a"], turn).len(), 2);
}

#[test]
fn a_judge_of_turns_adds_to_the_outcome_and_changes_no_other_part() {
    let credited = |rewards: [f64; 2], judged: [Option<Vec<f64>>; 2], credit: Credit| {
        let member = |number: usize| {
            let (reward, turn_rewards) = (Some(rewards[number]), judged[number].clone());
            // No observation repeats.
            let states = vec![Digest::of(&[number as u8, 0]), Digest::of(&[number as u8, 1])];
            Trajectory::new(Recorded { reward, states, turn_rewards, turn_ends: vec![1, 3], ..recorded(0) }).unwrap()
        };
        let group = TrajectoryGroup { task: "a".into(), members: vec![member(0), member(1)] };
        let experience = Experience::new(PolicyGradient { credit, ..policy("dr_grpo") }, vec![group])?;
        Ok::<_, crate::LearnError>(experience.trained().iter().map(|one| one.advantages().to_vec()).collect::<Vec<_>>())
    };
    let judge = |weight: f64| Credit::Judge(JudgeCredit { weight });
    let judged = || [Some(vec![0.0, 1.0]), Some(vec![1.0, 0.0])];
    // The outcome is .5 of the better one; the judge prefers the second turn of it and the first of the other.
    let expect = vec![vec![0.0, 1.0, 1.0], vec![0.0, -1.0, -1.0]];
    assert_eq!(credited([1.0, 0.0], judged(), judge(1.0)).unwrap(), expect);
    let expect = vec![vec![0.25, 0.75, 0.75], vec![-0.25, -0.75, -0.75]];
    assert_eq!(credited([1.0, 0.0], judged(), judge(0.5)).unwrap(), expect);
    // Equal outcomes teach by their turns.
    let expect = vec![vec![-0.5, 0.5, 0.5], vec![0.5, -0.5, -0.5]];
    assert_eq!(credited([1.0, 1.0], judged(), judge(1.0)).unwrap(), expect);
    assert_eq!(credited([1.0, 0.0], judged(), Credit::Episode).unwrap(), [vec![0.5; 3], vec![-0.5; 3]]);
    let error = credited([1.0, 0.0], [None, None], judge(1.0)).unwrap_err().to_string();
    assert!(error.contains("no reward scored the turns of any episode"), "{error}");
}

#[test]
fn columns_of_turns_are_checked() {
    let check = |change: &dyn Fn(&mut Recorded), expect: &str| {
        let error = error(change);
        assert!(error.contains(expect), "{error}");
    };
    check(&|recorded| recorded.states = vec![Digest::of(b"a"); 2], "states has 2 numbers for 1 turns");
    check(&|recorded| recorded.turn_rewards = Some(vec![1.0, 0.0]), "turn rewards has 2 numbers for 1 turns");
    check(&|recorded| recorded.turn_rewards = Some(vec![f64::NAN]), "number 0 of its turn rewards is NaN");
}

#[test]
fn a_trajectory_without_a_needed_column_is_an_error() {
    let check = |objective: PolicyGradient, change: &dyn Fn(&mut Recorded), expect: &str| {
        let error = Experience::new(objective, groups(|_, recorded| change(recorded))).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let with_divergence = PolicyGradient { kl: 0.02, ..policy("grpo") };
    check(with_divergence, &|recorded| recorded.reference = None, "has no reference log-probs");
    check(policy("opd"), &|recorded| recorded.teacher = None, "has no teacher log-probs");
    let old = |recorded: &mut Recorded| recorded.version_lag = 1;
    check(policy("grpo"), &old, "has a version lag of 1 and no trainer log-probs");
    let uncorrected = PolicyGradient { truncated_importance: None, ..policy("grpo") };
    check(uncorrected, &old, "enable truncated importance sampling");
    let settings = PolicyGradient { kl: -1.0, ..policy("grpo") };
    check(settings, &|_| (), "kl is -1; expected 0 or more");
}

#[test]
fn distillation_follows_the_teacher_per_token_independently_of_rewards() {
    let outcome = |change: fn(usize, &mut Recorded)| whole(policy("opd"), change);
    let expect = outcome(|_, _| ());
    let unscored = outcome(|_, recorded| recorded.reward = None);
    assert_eq!(expect.gradients, unscored.gradients);
    assert!(expect.gradients[0][0] < 0.0 && expect.gradients[0][1] > 0.0, "each token moves towards the teacher");
}

#[test]
fn a_fully_masked_trajectory_is_compared_but_not_trained() {
    let forced = groups(|number, recorded| {
        if number == 1 {
            recorded.mask = vec![false, false];
        }
    });
    let experience = Experience::new(policy("grpo"), forced).unwrap();
    assert_eq!((experience.trained().len(), experience.report().untrained), (3, 1));
    close(experience.trained()[0].advantages(), &[0.707_007; 3], 5e-7, "the other member was in the baseline");
}

#[test]
fn preferences_compare_sums_and_need_both_replies() {
    let reply = |numbers: &[f64]| Reply::new("r", numbers, vec![true; numbers.len()]).unwrap();
    // Twice the length at equal log-probs per token; a mean would not differ.
    let pair = Pair { chosen: reply(&[-1.0; 4]), rejected: reply(&[-1.0; 2]) };
    let step = PreferenceStep::new(1.0, vec![pair]).unwrap();
    let new: [&[f64]; 2] = [&[-0.5; 4], &[-0.5; 2]];
    let outcome = step.loss(&evaluations(&new)).unwrap();
    close(&[outcome.loss], &[(1.0 + (-1.0_f64).exp()).ln()], 1e-12, "margin 2 - 1");
    let error = step.loss(&evaluations(&new)[..1]).unwrap_err().to_string();
    assert!(
        error.contains("sequence 0: the other reply of its pair, sequence 1, is in another micro-batch"),
        "{error}"
    );
    let far: [&[f64]; 2] = [&[-500.0; 4], &[-0.1; 2]];
    let outcome = step.loss(&evaluations(&far)).unwrap();
    assert!((outcome.loss - 1997.8).abs() < 1e-9 && outcome.gradients[0][0] == -1.0, "no overflow");
    assert!(PreferenceStep::new(0.0, vec![]).unwrap_err().to_string().contains("beta is 0"));
    assert!(PreferenceStep::new(0.1, vec![]).unwrap_err().to_string().contains("no pair"));
    assert!(Reply::new("r", &[-1.0], vec![false]).unwrap_err().to_string().contains("no token of the reply"));
}

#[test]
fn overflow_is_an_error() {
    let step = SupervisedStep::new(vec![vec![true; 2]]).unwrap();
    let error = step.loss(&evaluations(&[[-1e308; 2]])).unwrap_err().to_string();
    assert!(error.contains("the loss is inf or a gradient is not finite"), "{error}");
    let far = groups(|number, recorded| recorded.reward = Some(if number == 0 { 1.7e308 } else { 0.0 }));
    let experience = Experience::new(policy("is"), far).unwrap();
    let outcome = experience.whole().unwrap().loss(&evaluations(&NEW));
    assert!(outcome.is_err() || outcome.is_ok_and(|outcome| outcome.loss.is_finite()));
}
