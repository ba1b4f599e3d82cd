//! Gives an invalid choice, or none, as the option `attack` says.

use clawhost_sdk::{
    Candidate, Choice, Context, OptionSpec, Propensity, Result, RouteRequest, Router, export_router, kv,
};

struct Guest;

impl Router for Guest {
    const NAME: &'static str = "hostile-route";

    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::new("attack", "", "what is wrong with the choice")]
    }

    fn route(_: &RouteRequest, candidates: &[Candidate], context: &Context) -> Result<Choice> {
        let mut choice = Choice::drawn(candidates, &vec![1.0; candidates.len()], context)?;
        let attack = context.option("attack").unwrap_or_default();
        let mut first = |probability: f64| {
            if let Some(known) = choice.propensities.first_mut() {
                known.probability = probability;
            }
        };
        let of = |name: &str, probability: f64| Propensity { candidate: name.into(), probability };
        match attack {
            "NaN" => first(f64::NAN),
            "infinite" => first(f64::INFINITY),
            "negative" => first(-0.5),
            "above one" => first(1.5),
            "too much" => first(0.5 + 2e-6),
            "rounding" => first(0.5 + 5e-7),
            "twice" => {
                choice.propensities.pop();
                choice.propensities.extend(choice.propensities.first().cloned());
            }
            "missing" => choice.propensities.truncate(1),
            "none" => choice.propensities.clear(),
            "another" => {
                choice.propensities.pop();
                choice.propensities.push(of("b\u{1b}[2J", 0.5));
            }
            "one too many" => choice.propensities.push(of("c", 0.0)),
            "a million" => choice.propensities = vec![of("a", 0.0); 1_000_000],
            "no candidate" => choice.candidate = "c".into(),
            "what cannot be drawn" => {
                choice.propensities = vec![of("a", 1.0), of("b", 0.0)];
                choice.candidate = "b".into();
            }
            "another order" => choice.propensities.reverse(),
            "an error" => return Err("today is a holiday".into()),
            "a panic" => panic!("no route"),
            "a loop" => loop {
                std::hint::black_box(());
            },
            "memory" => {
                std::hint::black_box(vec![1_u8; 64 << 20]);
            }
            "notes" => kv::set("last", b"a")?,
            _ => {}
        }
        Ok(choice)
    }
}

export_router!(Guest);
