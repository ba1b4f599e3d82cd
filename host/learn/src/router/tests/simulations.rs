//! The router in the simulated world, over seeds that no constant was chosen by.

use crate::router::*;

/// Penalty and exploration were chosen in an earlier version of the world, with other seeds.
const SEEDS: std::ops::Range<u64> = 0..10;

fn utility(report: &SimulationReport, policy: &str) -> f64 {
    report.earned(policy).unwrap().utility
}

fn reports(settings: &WorldSettings) -> Vec<SimulationReport> {
    SEEDS.map(|seed| simulate(settings, seed).unwrap()).collect()
}

fn print(reports: &[SimulationReport]) {
    for report in reports {
        let row = |earned: &Earned| format!("{} {:.3}", earned.policy, earned.utility);
        let rows: Vec<String> = report.policies.iter().map(row).collect();
        let (seed, recovered, over, slope) =
            (report.seed, report.recovered, report.recovered_over_actions, report.slope);
        println!("seed {seed}: {recovered:.3?} {over:.3?} slope {slope:.2?} | {}", rows.join(", "));
    }
}

/// Number of seeds on which at least this share was recovered.
fn recovered(reports: &[SimulationReport], share: f64) -> usize {
    reports.iter().filter(|report| report.recovered.unwrap() >= share).count()
}

#[test]
fn two_thousand_decisions_recover_nine_tenths_of_what_features_can_give() {
    let reports = reports(&WorldSettings::default());
    print(&reports);
    assert!(recovered(&reports, 0.9) >= 9);
    for report in &reports {
        let gain = utility(report, "best feature policy") - utility(report, &format!("always {}", report.best_model));
        assert!(gain > 0.05, "seed {}: features can give {gain}", report.seed);
        for control in ["always cheap", "always dear", "random", "tiers", "router without features", "oracle by class"]
        {
            assert!(utility(report, "router") > utility(report, control), "seed {}: {control}", report.seed);
        }
    }
}

#[test]
fn with_escalation_nine_tenths_are_recovered_too() {
    let noticing = Noticing { failures: 0.7, false_alarms: 0.05 };
    let reports = reports(&WorldSettings { escalation: Some(noticing), ..WorldSettings::default() });
    print(&reports);
    assert!(recovered(&reports, 0.9) >= 9);
}

#[test]
fn with_four_models_eight_tenths_are_recovered() {
    let model =
        |name: &str, price: f64, right: f64, follows: f64| WorldModel { name: name.into(), price, right, follows };
    let models = vec![
        model("a", 1.0, 0.55, 1.0),
        model("b", 3.0, 0.7, 0.8),
        model("c", 10.0, 0.85, 0.5),
        model("d", 30.0, 0.95, 0.2),
    ];
    let reports = reports(&WorldSettings { models, decisions: 4_000, ..WorldSettings::default() });
    print(&reports);
    assert!(recovered(&reports, 0.8) >= 9);
}

#[test]
fn without_information_in_features_the_router_equals_the_best_model() {
    for cost_weight in [0.05, 0.4] {
        let reports = reports(&WorldSettings { auc: 0.5, cost_weight, ..WorldSettings::default() });
        print(&reports);
        for report in &reports {
            let lost = utility(report, &format!("always {}", report.best_model)) - utility(report, "router");
            assert!(lost < 0.02, "seed {}: {lost}", report.seed);
        }
    }
}

#[test]
fn regret_grows_slower_than_decisions() {
    let reports = reports(&WorldSettings { decisions: 8_000, floor: 0.0, forgetting: 1.0, ..WorldSettings::default() });
    print(&reports);
    for report in &reports {
        assert_eq!(report.regret.len(), 5);
        assert!(report.slope.unwrap() <= 0.6, "seed {}: {:?}", report.seed, report.regret);
    }
}

#[test]
fn less_exploration_costs_less_and_learns_as_well() {
    let of = |exploration: f64| {
        let reports = reports(&WorldSettings { decisions: 8_000, exploration, ..WorldSettings::default() });
        let count = reports.len() as f64;
        let regret = reports.iter().map(|report| report.regret.last().unwrap().1).sum::<f64>() / count;
        (regret, reports.iter().map(|report| report.recovered.unwrap()).sum::<f64>() / count)
    };
    let (half, full) = (of(0.5), of(EXPLORATION));
    println!("regret and recovered share at 0.5: {half:.3?}, at 1: {full:.3?}");
    assert!(full.0 < 0.75 * half.0);
    assert!(full.1 > half.1 - 0.02);
}
