use super::*;
use proptest::prelude::*;

const MIDDLE: Comparing = Comparing { thresholds: Sides { a: 0.5, b: 0.5 }, disagreements: DISAGREEMENTS };

fn pair(number: usize, unit: usize, a: Answer, b: Answer) -> JudgedPair {
    JudgedPair {
        run: RunId("run-1".into()),
        episode: EpisodeId(format!("ep-{number}")),
        task: format!("task {unit}"),
        unit: unit.to_string(),
        slices: vec![],
        answers: Sides { a, b },
    }
}

/// Scored episodes, each of a task of its own.
fn pairs(scores: &[(f64, f64)]) -> Vec<JudgedPair> {
    let one = |(number, (a, b)): (usize, &(f64, f64))| pair(number, number, Answer::Scored(*a), Answer::Scored(*b));
    scores.iter().enumerate().map(one).collect()
}

fn correlations(a: &[f64], b: &[f64]) -> (Option<f64>, Option<f64>) {
    let scores: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
    let found = agreement(&pairs(&scores), &MIDDLE);
    (found.spearman.value, found.kendall.value)
}

fn near(found: Option<f64>, expect: f64) -> bool {
    found.is_some_and(|found| (found - expect).abs() < 1e-12)
}

#[test]
fn rank_correlations_equal_those_of_scipy() {
    // scipy 1.17.1: scipy.stats.spearmanr(a, b).statistic, scipy.stats.kendalltau(a, b).statistic.
    let check = |a: &[f64], b: &[f64], rho: f64, tau: f64| {
        let (found_rho, found_tau) = correlations(a, b);
        assert!(near(found_rho, rho) && near(found_tau, tau), "{a:?} {b:?}: {found_rho:?} {found_tau:?}");
    };
    let up = [1.0, 2.0, 3.0, 4.0, 5.0];
    check(&up, &up, 1.0, 1.0);
    check(&up, &[5.0, 4.0, 3.0, 2.0, 1.0], -1.0, -1.0);
    let more = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    check(&more, &[2.0, 1.0, 4.0, 3.0, 7.0, 5.0, 6.0], 0.821_428_571_428_571_5, 0.619_047_619_047_619_1);
    // With ties.
    check(
        &[0.0, 0.0, 1.0, 1.0, 1.0, 0.5],
        &[0.0, 1.0, 1.0, 1.0, 0.5, 0.5],
        0.366_666_666_666_666_75,
        0.363_636_363_636_363_65,
    );
    check(
        &[0.1, 0.2, 0.2, 0.9, 0.4, 0.4, 0.4, 1.0],
        &[0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0],
        0.506_289_555_416_710_7,
        0.459_279_326_771_845_9,
    );
    check(
        &[-1.0, -1.0, 0.0, 1.0, 1.0, 0.0, -1.0, 1.0, 0.5],
        &[0.3, 0.1, 0.1, 0.9, 0.8, 0.5, 0.3, 0.2, 0.5],
        0.544_048_064_042_411_6,
        0.484_881_137_876_427,
    );
    // 0 and -0 are one score.
    check(&[0.0, -0.0, 1.0], &[0.0, 0.0, 1.0], 1.0, 1.0);
}

#[test]
fn kappa_equals_that_of_sklearn() {
    // scikit-learn 1.9.1: sklearn.metrics.cohen_kappa_score; the first three by hand, too, as in (0.7 - 0.5) / (1 - 0.5).
    let check = |[both, only_a, only_b, neither]: [u64; 4], kappa: f64| {
        let found = Confusion { both, only_a, only_b, neither }.kappa();
        assert!(near(found, kappa), "{found:?}");
    };
    check([20, 5, 10, 15], 0.4);
    check([45, 15, 25, 15], 0.130_434_782_608_695_68);
    check([25, 35, 5, 35], 0.259_259_259_259_259_3);
    check([1, 9, 9, 1], -0.8);
    check([90, 0, 1, 9], 0.941_860_465_116_279_1);
    check([0, 3, 4, 0], -0.96);
}

#[test]
fn episodes_without_two_scores_are_counted_and_not_dropped() {
    use Answer::{Failed, Missing, NotApplicable, Scored};
    let answers = [
        (Scored(1.0), Scored(0.0)),
        (Scored(0.0), NotApplicable),
        (Failed, Scored(1.0)),
        (Missing, NotApplicable),
        (Failed, Failed),
        (Scored(0.5), Scored(0.5)),
    ];
    // Two episodes of each task.
    let pairs: Vec<JudgedPair> = answers.iter().enumerate().map(|(n, (a, b))| pair(n, n / 2, *a, *b)).collect();
    let found = agreement(&pairs, &MIDDLE).coverage;
    let of_a = AnswerCounts { scored: 3, not_applicable: 0, failed: 2, missing: 1 };
    let of_b = AnswerCounts { scored: 3, not_applicable: 2, failed: 1, missing: 0 };
    let answers = Sides { a: of_a, b: of_b };
    assert_eq!(found, Coverage { both: 2, only_a: 1, only_b: 1, neither: 2, tasks: 2, answers });
    assert_eq!(found.both + found.only_a + found.only_b + found.neither, pairs.len() as u64);
}

#[test]
fn a_measure_that_is_not_defined_says_why() {
    let check = |scores: &[(f64, f64)], expect: Lacking| {
        let found = agreement(&pairs(scores), &MIDDLE);
        for measure in [found.spearman, found.kendall, found.passing.kappa] {
            assert_eq!((measure.value, measure.interval, measure.lacking), (None, None, Some(expect)), "{scores:?}");
        }
    };
    check(&[], Lacking::TooFewEpisodes);
    check(&[(0.0, 1.0)], Lacking::TooFewEpisodes);
    check(&[(1.0, 0.0), (1.0, 1.0), (1.0, 0.0)], Lacking::AIsConstant);
    check(&[(1.0, 0.0), (0.0, 0.0), (1.0, 0.0)], Lacking::BIsConstant);
    check(&[(1.0, 0.0), (1.0, 0.0)], Lacking::BothAreConstant);
    let nothing = agreement(&[], &MIDDLE);
    assert_eq!((nothing.difference.lacking, nothing.passing.agreement.value), (Some(Lacking::TooFewEpisodes), None));
    // Values without intervals.
    let few = agreement(&pairs(&[(0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0)]), &MIDDLE);
    assert_eq!((few.spearman.value, few.spearman.lacking), (Some(0.0), Some(Lacking::TooFewTasks)));
    let alike: Vec<(f64, f64)> = (0..40).map(|number| (f64::from(number % 2), f64::from(number % 2))).collect();
    let alike = agreement(&pairs(&alike), &MIDDLE);
    assert_eq!((alike.passing.kappa.value, alike.passing.kappa.lacking), (Some(1.0), Some(Lacking::NoSpread)));
    // The share of agreement has an interval even then: one episode may have been otherwise.
    let share = alike.passing.agreement;
    assert_eq!(share.value, Some(1.0));
    assert!(share.interval.is_some_and(|one| one.low < 0.95 && one.high == 1.0), "{share:?}");
}

#[test]
fn the_task_is_the_unit_of_every_interval() {
    // Forty episodes of forty tasks, or the same as eight equal episodes for each of five tasks.
    let score = |task: usize| ((task % 5) as f64 / 4.0, [0.2, 0.1, 0.9, 0.4, 0.6][task % 5]);
    let scored = |number: usize, unit: usize| {
        let (a, b) = score(number);
        pair(number, unit, Answer::Scored(a), Answer::Scored(b))
    };
    let apart: Vec<JudgedPair> = (0..40).map(|number| scored(number, number)).collect();
    let together: Vec<JudgedPair> = (0..40).map(|number| scored(number, number % 5)).collect();
    let (apart, together) = (agreement(&apart, &MIDDLE), agreement(&together, &MIDDLE));
    let measures = |found: &Agreement| {
        [found.spearman, found.kendall, found.difference, found.passing.agreement, found.passing.kappa]
    };
    for (one, other) in measures(&apart).into_iter().zip(measures(&together)) {
        assert!(near(one.value, other.value.unwrap()), "the value does not depend on the tasks: {one:?} {other:?}");
        let width = |measure: Measure| measure.interval.map(|Interval { low, high }| high - low);
        match (width(one), width(other)) {
            (Some(one), Some(other)) => assert!(other > 1.3 * one, "five tasks tell less: {one} {other}"),
            (one, other) => assert!(one.is_some() && other.is_none(), "{one:?} {other:?}"),
        }
    }
    assert_eq!((apart.coverage.tasks, together.coverage.tasks), (40, 5));
}

#[test]
fn thresholds_decide_who_passes() {
    let scores = [(0.5, 0.0), (0.49, 0.4), (1.0, 0.3), (0.0, 0.2)];
    let check = |a: f64, b: f64, expect: [u64; 4]| {
        let found = agreement(&pairs(&scores), &Comparing { thresholds: Sides { a, b }, ..MIDDLE }).passing.confusion;
        assert_eq!([found.both, found.only_a, found.only_b, found.neither], expect, "{a} {b}");
    };
    check(0.5, 0.5, [0, 2, 0, 2]);
    check(0.5, 0.3, [1, 1, 1, 1]);
    check(0.0, 0.0, [4, 0, 0, 0]);
    check(1.0, 0.21, [1, 0, 1, 2]);
}

#[test]
fn each_slice_has_a_table_of_its_own_and_they_add_up() {
    let scores = [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (1.0, 1.0)];
    let mut pairs = pairs(&scores);
    for (number, pair) in pairs.iter_mut().enumerate() {
        let policy = if number < 2 { "small" } else { "large" };
        pair.slices = vec![(SliceKind::Policy, policy.to_owned()), (SliceKind::Run, "run-1".to_owned())];
    }
    let found = agreement(&pairs, &MIDDLE);
    let rows: Vec<(SliceKind, &str, [u64; 4])> = found
        .slices
        .iter()
        .map(|SliceAgreement { by, value, passing: Passing { confusion, .. } }| {
            let Confusion { both, only_a, only_b, neither } = *confusion;
            (*by, value.as_str(), [both, only_a, only_b, neither])
        })
        .collect();
    let (run, policy) = (SliceKind::Run, SliceKind::Policy);
    assert_eq!(
        rows,
        [(run, "run-1", [2, 1, 1, 1]), (policy, "large", [1, 0, 1, 1]), (policy, "small", [1, 1, 0, 0])],
        "the largest slice of a kind is first"
    );
}

#[test]
fn disagreements_are_those_of_places_and_not_of_scales() {
    // The second judge gives half of what the first gives, but for two episodes.
    let mut scores: Vec<(f64, f64)> =
        (0..20).map(|number| (f64::from(number) / 20.0, f64::from(number) / 40.0)).collect();
    scores[2].1 = 1.0;
    scores[15].1 = 0.01;
    let found = agreement(&pairs(&scores), &Comparing { disagreements: 2, ..MIDDLE }).disagreements;
    let ids: Vec<&str> = found.iter().map(|one| one.episode.0.as_str()).collect();
    assert_eq!(ids, ["ep-2", "ep-15"]);
    assert_eq!((found[0].scores, found[0].places), (Sides { a: 0.1, b: 1.0 }, Sides { a: 0.125, b: 0.975 }));
    assert!((found[0].distance - 0.85).abs() < 1e-12, "{found:?}");
    // Of a task the largest one is listed.
    let mut of_one_task = pairs(&scores);
    of_one_task[15].unit = "2".to_owned();
    let found = agreement(&of_one_task, &Comparing { disagreements: 2, ..MIDDLE }).disagreements;
    assert_eq!(found.iter().filter(|one| ["ep-2", "ep-15"].contains(&one.episode.0.as_str())).count(), 1, "{found:?}");
    assert_eq!((found.len(), found[0].episode.0.as_str()), (2, "ep-2"));
    // Equal scores are no disagreement, however common they are.
    let found = agreement(&pairs(&[(1.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]), &MIDDLE).disagreements;
    assert_eq!(found.iter().map(|one| one.episode.0.as_str()).collect::<Vec<_>>(), ["ep-2"]);
    assert_eq!(agreement(&pairs(&scores), &Comparing { disagreements: 0, ..MIDDLE }).disagreements, []);
}

#[test]
fn the_mean_difference_is_that_of_the_first_judge_from_the_second() {
    let scores: Vec<(f64, f64)> = (0..30).map(|number| (0.5, f64::from(number % 3) / 4.0)).collect();
    let found = agreement(&pairs(&scores), &MIDDLE).difference;
    let Interval { low, high } = found.interval.unwrap();
    assert!(near(found.value, 0.25) && low > 0.0 && low < 0.25 && high < 0.5, "{found:?}");
}

/// Scores of few levels, so that ties are frequent, with the tasks of episodes.
fn judged() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec((0..6_u8, 0..5_u8, 0..12_u8), 2..40)
}

fn of_levels(judged: &[(u8, u8, u8)], scores: impl Fn(u8, u8) -> (f64, f64)) -> Agreement {
    let one = |(number, (a, b, task)): (usize, &(u8, u8, u8))| {
        let (a, b) = scores(*a, *b);
        pair(number, usize::from(*task), Answer::Scored(a), Answer::Scored(b))
    };
    agreement(&judged.iter().enumerate().map(one).collect::<Vec<_>>(), &MIDDLE)
}

/// Kendall's tau-b by its definition, pair by pair.
fn tau_by_definition(judged: &[(u8, u8, u8)]) -> Option<f64> {
    let (mut order, mut by_a, mut by_b) = (0_i32, 0_i32, 0_i32);
    for (position, one) in judged.iter().enumerate() {
        for other in &judged[..position] {
            let (a, b) = (one.0.cmp(&other.0) as i32, one.1.cmp(&other.1) as i32);
            order += a * b;
            by_a += a.abs();
            by_b += b.abs();
        }
    }
    (by_a > 0 && by_b > 0).then(|| f64::from(order) / (f64::from(by_a) * f64::from(by_b)).sqrt())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn measures_lie_in_their_ranges_and_intervals_are_ordered(judged in judged()) {
        let found = of_levels(&judged, |a, b| (f64::from(a) / 5.0, f64::from(b) / 4.0));
        let kappa = found.passing.kappa;
        for (measure, least) in [(found.spearman, -1.0), (found.kendall, -1.0), (kappa, -1.0), (found.passing.agreement, 0.0)] {
            prop_assert!(measure.value.is_none_or(|value| (least..=1.0).contains(&value)), "{measure:?}");
            prop_assert!(measure.interval.is_none_or(|one| least <= one.low && one.low <= one.high && one.high <= 1.0), "{measure:?}");
            prop_assert_eq!(measure.value.is_some() && measure.interval.is_some(), measure.lacking.is_none());
        }
        let tau = tau_by_definition(&judged);
        prop_assert_eq!(found.kendall.value.is_some(), tau.is_some());
        prop_assert!(tau.is_none_or(|tau| (found.kendall.value.unwrap() - tau).abs() < 1e-9), "{:?} {tau:?}", found.kendall);
    }

    #[test]
    fn rank_correlations_and_places_depend_on_the_order_of_scores_only(judged in judged()) {
        let plain = of_levels(&judged, |a, b| (f64::from(a) / 5.0, f64::from(b) / 4.0));
        // Increasing functions, one for each judge.
        let bent = of_levels(&judged, |a, b| ((f64::from(a) / 5.0).powi(3) - 0.4, f64::from(b).exp() / 60.0));
        prop_assert_eq!(plain.spearman, bent.spearman);
        prop_assert_eq!(plain.kendall, bent.kendall);
        // A decreasing function turns the sign.
        let turned = of_levels(&judged, |a, b| (f64::from(a) / 5.0, -f64::from(b) / 4.0));
        prop_assert!(plain.spearman.value.zip(turned.spearman.value).is_none_or(|(one, other)| (one + other).abs() < 1e-9));
    }

    #[test]
    fn measures_are_the_same_with_the_judges_exchanged(judged in judged()) {
        let one = of_levels(&judged, |a, b| (f64::from(a) / 5.0, f64::from(b) / 4.0));
        let other = of_levels(&judged, |a, b| (f64::from(b) / 4.0, f64::from(a) / 5.0));
        prop_assert_eq!(one.passing.kappa.value, other.passing.kappa.value);
        prop_assert_eq!(one.passing.kappa.interval, other.passing.kappa.interval);
        prop_assert_eq!(one.passing.agreement, other.passing.agreement);
        let close = |one: Option<f64>, other: Option<f64>| one.zip(other).map_or(one == other, |(one, other)| (one - other).abs() < 1e-9);
        prop_assert!(close(one.spearman.value, other.spearman.value) && close(one.kendall.value, other.kendall.value));
        prop_assert!(close(one.difference.value, other.difference.value.map(|mean| -mean)));
    }

    #[test]
    fn an_episode_that_is_drawn_twice_counts_as_two(judged in judged(), draws in prop::collection::vec(0..3_u32, 40)) {
        let levels = |scores: Vec<f64>| Levels::of(scores.into_iter());
        let sides = |judged: &[(u8, u8, u8)]| Sides {
            a: levels(judged.iter().map(|one| f64::from(one.0)).collect()),
            b: levels(judged.iter().map(|one| f64::from(one.1)).collect()),
        };
        let times = &draws[..judged.len()];
        let copied: Vec<(u8, u8, u8)> = judged.iter().zip(times).flat_map(|(one, times)| vec![*one; *times as usize]).collect();
        let once = vec![1; copied.len()];
        for correlation in [spearman, kendall] {
            let (drawn, copied) = (correlation(&sides(&judged), times), correlation(&sides(&copied), &once));
            prop_assert_eq!(drawn.is_some(), copied.is_some());
            prop_assert!(drawn.zip(copied).is_none_or(|(one, other)| (one - other).abs() < 1e-9), "{drawn:?} {copied:?}");
        }
    }
}
