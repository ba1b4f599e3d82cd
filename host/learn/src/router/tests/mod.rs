//! Tests of the router.

mod budget;
mod decisions;
mod input;
mod layer;
mod offline;
mod plugin;
mod regression;
mod shown;
mod simulations;

use super::*;

/// A router with one feature `x`, and models `cheap` and `dear` at prices 1 and 10.
fn router(change: impl FnOnce(&mut RouterSettings)) -> Router {
    let table = table(&[("cheap", 1.0), ("dear", 10.0)]);
    let incumbent = Fixed::Model("dear".into());
    let mut settings = RouterSettings::new(&table, incumbent, CostWeight::Fixed(0.1));
    change(&mut settings);
    Router::new(settings, table, vec!["x".into()]).unwrap()
}

fn table(models: &[(&str, f64)]) -> Table {
    Table::new(models.iter().map(|(model, price)| ((*model).to_owned(), *price))).unwrap()
}

fn features(x: f64) -> Features {
    Features::new(vec![("x".into(), x)]).unwrap()
}

/// Decides about a session at a feature and a seed.
fn decide(router: &Router, x: f64, seed: u64) -> Decision {
    let features = features(x);
    let session = format!("s{seed}");
    router.decide(&Request { session: &session, time: seed, features: &features, words: &[], seed }).unwrap()
}

/// A decision for this model, as if it had been drawn.
fn chosen(router: &Router, x: f64, model: &str) -> Decision {
    let mut decision = decide(router, x, 0);
    decision.chosen = decision.choices.iter().position(|choice| choice.action.to_string() == model).unwrap();
    decision
}

fn outcome(reward: f64) -> Outcome {
    Outcome { reward, units: [1.0, 0.0] }
}

/// Learns the same outcome of a model so many times.
fn teach(router: &mut Router, model: &str, reward: f64, times: usize) {
    for _ in 0..times {
        let decision = chosen(router, 0.0, model);
        router.learn(&[Logged { decision, outcome: outcome(reward) }]).unwrap();
    }
}

/// Propensity of a model.
fn propensity(router: &Router, model: &str) -> f64 {
    decide(router, 0.0, 0).choices.iter().find(|choice| choice.action.to_string() == model).unwrap().propensity
}
