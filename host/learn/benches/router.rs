//! Time of a router's decision and of an outcome, on one thread: `cargo bench -p clawhost-learn --bench router`.
//!
//! Four models with three escalations, and all features of a request.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use clawhost_learn::LearnError;
use clawhost_learn::router::{
    CostWeight, Features, Fixed, Logged, Outcome, Request, RequestSummary, Router, RouterSettings, Table, word_buckets,
};
use std::hint::black_box;
use std::time::Instant;

const WARM: u64 = 1_000;
const DECISIONS: u64 = 20_000;
const OUTCOMES: u64 = 500;
const TEXT: &str =
    "Please look at the order of this customer and say whether it can be refunded under the rules of March.";

fn request(number: u64) -> RequestSummary {
    RequestSummary { characters: 500 + number % 4_000, turns: (number % 7) as u32, ..RequestSummary::default() }
}

fn main() -> Result<(), LearnError> {
    let models = [("a", 1.0), ("b", 3.0), ("c", 10.0), ("d", 30.0)];
    let mut table = Table::new(models.map(|(model, price)| (model.to_owned(), price)))?;
    for model in ["a", "b", "c"] {
        table = table.with_escalation(model, "d")?;
    }
    let settings = RouterSettings::new(&table, Fixed::Model("d".into()), CostWeight::Fixed(0.1));
    let mut router = Router::new(settings, table, Features::names_of_requests())?;
    let decide = |router: &Router, number: u64| {
        let words = word_buckets(TEXT);
        let likeness = router.likeness().of(&words);
        let features = Features::of(&RequestSummary { likeness, ..request(number) })?;
        router.decide(&Request { session: "s", time: number, features: &features, words: &words, seed: number })
    };
    let outcome = |number: u64| Outcome { reward: (number % 2) as f64, units: [1.0, 0.0] };
    for number in 0..WARM {
        let decision = decide(&router, number)?;
        router.learn(&[Logged { decision, outcome: outcome(number) }])?;
    }
    let micros = |began: Instant, count: u64| began.elapsed().as_secs_f64() * 1e6 / count as f64;
    let began = Instant::now();
    for number in 0..DECISIONS {
        black_box(decide(&router, number)?);
    }
    println!("a decision, with features and words of a request of 100 characters: {:.1} us", micros(began, DECISIONS));
    let features = Features::of(&request(7))?;
    let began = Instant::now();
    for number in 0..DECISIONS {
        let request = Request { session: "s", time: number, features: &features, words: &[], seed: number };
        black_box(router.decide(&request)?);
    }
    println!("a decision with given features: {:.1} us", micros(began, DECISIONS));
    let logged = Logged { decision: decide(&router, 0)?, outcome: outcome(0) };
    let began = Instant::now();
    for _ in 0..OUTCOMES {
        router.learn(std::slice::from_ref(&logged))?;
    }
    println!("an outcome, with the identity of the new parameters: {:.0} us", micros(began, OUTCOMES));
    let batch = vec![logged; OUTCOMES as usize];
    let began = Instant::now();
    router.learn(&batch)?;
    println!("an outcome in a batch of {OUTCOMES}: {:.1} us", micros(began, OUTCOMES));
    Ok(())
}
