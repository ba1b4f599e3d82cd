use super::*;
use clawhost_core::derive_seed;

/// Episodes of tasks with consecutive seeds.
fn cells(episodes: &[(&str, u64, Option<f64>)]) -> Cells {
    Cells::of(episodes.iter().copied())
}

fn check(found: Option<Contrast>, design: Design, mean: f64, interval: Option<(f64, f64)>) {
    let found = found.unwrap();
    assert_eq!(found.design, design);
    assert!((found.mean - mean).abs() < 1e-12, "{found:?}");
    match (found.interval, interval) {
        (None, None) => {}
        (Some(got), Some((low, high))) => {
            assert!(
                (got.low - low).abs() < 1e-3 && (got.high - high).abs() < 1e-3,
                "{got:?} instead of {low} to {high}"
            );
        }
        (got, _) => panic!("{got:?} instead of {interval:?}"),
    }
}

#[test]
fn episodes_of_a_task_and_seed_are_averaged_and_tasks_are_the_unit() {
    let first = cells(&[("a", 1, Some(0.0)), ("b", 1, Some(0.5)), ("c", 1, Some(0.0))]);
    let second = cells(&[("a", 1, Some(1.0)), ("a", 1, Some(0.0)), ("b", 1, Some(0.5)), ("c", 1, Some(1.0))]);
    // Differences 0.5, 0, 1: mean 0.5, sd 0.5, t(2) = 4.303: half 1.2422; widened by 1.96 * 2 / 3 = 1.3066.
    let half = (1.2422_f64.powi(2) + 1.3066_f64.powi(2)).sqrt();
    let design = Design::Paired { pairs: 3, tasks: 3, missing_first: 0, missing_second: 0 };
    check(contrast(&first, &second, true), design, 0.5, Some((0.5 - half, 0.5 + half)));
    // Unpaired: means 1/6 and 2/3, variances of the means 1/36 each, Welch's degrees 4: t = 2.776.
    let half = (2.776_f64.powi(2) / 18.0 + 1.3066_f64.powi(2)).sqrt();
    let design = Design::Unpaired { tasks_first: 3, tasks_second: 3 };
    check(contrast(&first, &second, false), design, 0.5, Some((0.5 - half, 0.5 + half)));
}

#[test]
fn a_pair_with_one_score_is_missing_and_counted_by_its_side() {
    let first = cells(&[("a", 1, Some(0.0)), ("b", 1, None), ("c", 1, Some(0.0)), ("d", 1, None), ("e", 1, Some(0.0))]);
    let second =
        cells(&[("a", 1, Some(1.0)), ("b", 1, Some(0.0)), ("c", 1, None), ("d", 1, None), ("f", 1, Some(1.0))]);
    // One pair of three is a small overlap. Means 0 and 2/3, variances 0 and 1/9, Welch's degrees 2: t = 4.303.
    let (mean, half) = (2.0 / 3.0, ((4.303_f64 / 3.0).powi(2) + 1.3066_f64.powi(2)).sqrt());
    let design = Design::Unpaired { tasks_first: 3, tasks_second: 3 };
    check(contrast(&first, &second, true), design, mean, Some((mean - half, mean + half)));
    let more = |cells: &Cells| {
        let mut more = cells.clone();
        more.0.extend((0..9).map(|seed| (("g".to_owned(), seed), Some(0.5))));
        more
    };
    let design = Design::Paired { pairs: 10, tasks: 2, missing_first: 1, missing_second: 1 };
    let found = contrast(&more(&first), &more(&second), true).unwrap();
    assert_eq!((found.design, found.mean), (design, 0.1));
}

#[test]
fn without_common_seeds_or_values_nothing_is_paired() {
    let ones = |seed| cells(&[("a", seed, Some(1.0)), ("b", seed, Some(1.0))]);
    let is_paired =
        |second: &Cells| contrast(&ones(1), second, true).map(|found| matches!(found.design, Design::Paired { .. }));
    assert_eq!(is_paired(&ones(1)), Some(true));
    assert_eq!(is_paired(&ones(2)), Some(false), "other seeds are other tasks");
    assert_eq!(is_paired(&cells(&[("a", 1, None)])), None);
    assert_eq!(is_paired(&Cells::default()), None);
    let one = cells(&[("a", 1, Some(1.0)), ("a", 2, Some(0.0))]);
    assert_eq!(contrast(&one, &one, true).unwrap().interval, None, "one task has no variance");
    let same = contrast(&ones(1), &ones(1), true).unwrap().interval.unwrap();
    assert!(same.low < 0.0 && same.high > 0.0, "equal differences leave doubt: {same:?}");
}

/// A number from 0 to 1.
fn uniform(seed: u64, purpose: &str, position: u64) -> f64 {
    derive_seed(seed, purpose, position) as f64 / (1_u64 << 53) as f64
}

/// A simulated experiment: `tasks` of different difficulty, each with `seeds` environment seeds and two episodes. The second policy is
/// better by an effect that differs between tasks, with this mean.
fn simulated(experiment: u64, (tasks, seeds): (u64, u64), effect: f64, is_same: bool) -> (Cells, Cells) {
    let mut runs = [Vec::new(), Vec::new()];
    for (side, run) in runs.iter_mut().enumerate() {
        for task in 0..tasks {
            // Without common tasks, the second run draws tasks of its own.
            let own = if side == 1 && !is_same { task + tasks } else { task };
            let difficulty = uniform(experiment, "difficulty", own);
            let gain = effect + 0.3 * (uniform(experiment, "gain", own) - 0.5);
            let chance = 0.2 + 0.4 * difficulty + if side == 1 { gain } else { 0.0 };
            for draw in 0..2 * seeds {
                let place = (own * 2 * seeds + draw) * 2 + side as u64;
                let reward = if uniform(experiment, "reward", place) < chance { 1.0 } else { 0.0 };
                run.push((own.to_string(), draw / 2, Some(reward)));
            }
        }
    }
    let [first, second] =
        runs.map(|run| Cells::of(run.iter().map(|(task, seed, reward)| (task.as_str(), *seed, *reward))));
    (first, second)
}

#[test]
fn intervals_contain_the_effect_in_nineteen_of_twenty_experiments() {
    const EXPERIMENTS: u64 = 600;
    const EFFECT: f64 = 0.1;
    for (size, is_same) in [((12, 4), true), ((40, 1), true), ((12, 4), false), ((40, 1), false)] {
        let (mut held, mut width) = (0, 0.0);
        for experiment in 0..EXPERIMENTS {
            let (first, second) = simulated(experiment + 90_000, size, EFFECT, is_same);
            let interval = contrast(&first, &second, is_same).unwrap().interval.unwrap();
            held += u64::from(interval.low <= EFFECT && EFFECT <= interval.high);
            width += (interval.high - interval.low) / EXPERIMENTS as f64;
        }
        let share = held as f64 / EXPERIMENTS as f64;
        // Three standard errors of 600 experiments are .027.
        assert!(share > 0.923, "{size:?}, paired {is_same}: {share}");
        assert!(width < 1.2, "{size:?}, paired {is_same}: {width}");
    }
}

#[test]
fn pairs_of_equal_tasks_give_the_narrower_interval() {
    let width = |may_pair| {
        let widths = (0..100).map(|experiment| {
            let (first, second) = simulated(experiment + 70_000, (40, 4), 0.1, true);
            let interval = contrast(&first, &second, may_pair).unwrap().interval.unwrap();
            interval.high - interval.low
        });
        widths.sum::<f64>() / 100.0
    };
    assert!(width(true) < 0.9 * width(false), "{} {}", width(true), width(false));
}
