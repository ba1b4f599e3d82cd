//! A router by length: a long request goes to the dearest model, a short one to the cheapest.
//!
//! A share of the requests (`floor`) is spread over all candidates, so that its log tells what other routers would have earned. Of candidates
//! of one price the first is taken; a pair of models, of which the second takes over on failure, is taken by the floor alone.

use clawhost_sdk::{Candidate, Choice, Context, OptionSpec, Result, RouteRequest, Router, export_router};

/// The router.
#[derive(Debug)]
pub struct Length;

/// Characters from which a request is long: about 500 tokens.
const LONG: f64 = 2_000.0;
/// Share of the requests that is spread over all candidates.
const FLOOR: f64 = 0.1;

/// The operator's choices.
struct Options {
    long: f64,
    floor: f64,
}

impl Options {
    fn of(context: &Context) -> Result<Self> {
        let (long, floor): (f64, f64) = (context.option_or("long", LONG)?, context.option_or("floor", FLOOR)?);
        if !(long.is_finite() && long >= 0.0) {
            return Err(format!("long={long}; 0 or more characters").into());
        }
        if !(0.0..=1.0).contains(&floor) {
            return Err(format!("floor={floor}; 0 to 1").into());
        }
        Ok(Self { long, floor })
    }
}

impl Router for Length {
    const NAME: &'static str = "router-length";
    const SUMMARY: &'static str = "long requests to the dearest model, short ones to the cheapest";

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("long", LONG.to_string(), "characters of the conversation from which a request is long"),
            OptionSpec::new(
                "floor",
                FLOOR.to_string(),
                "share of the requests that is spread over all candidates, 0 to 1",
            ),
        ]
    }

    fn check(context: &Context) -> Result<()> {
        Options::of(context).map(|_| ())
    }

    fn route(request: &RouteRequest, candidates: &[Candidate], context: &Context) -> Result<Choice> {
        let Options { long, floor } = Options::of(context)?;
        let is_long = request.characters() >= long;
        let alone = candidates.iter().filter(|known| known.then_price.is_none());
        let better = |best: &Candidate, other: &Candidate| match is_long {
            true => other.price > best.price,
            false => other.price < best.price,
        };
        let chosen = alone.reduce(|best, other| if better(best, other) { other } else { best });
        let chosen = chosen.ok_or("there is no candidate with a single model")?;
        Choice::mostly(&chosen.name, floor, candidates, context)
    }
}

export_router!(Length);

#[cfg(test)]
mod tests {
    use super::*;

    fn context(seed: u64, options: &[(&str, &str)]) -> Context {
        Context::new(seed, options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn candidates() -> Vec<Candidate> {
        let both = Candidate { then_price: Some(10.0), ..Candidate::new("small > large", 1.0) };
        vec![Candidate::new("large", 10.0), Candidate::new("middle", 5.0), Candidate::new("small", 1.0), both]
    }

    fn of_length(characters: f64, options: &[(&str, &str)]) -> Choice {
        let request = RouteRequest::new([("characters", characters.ln_1p())]);
        Length::route(&request, &candidates(), &context(3, options)).unwrap()
    }

    #[test]
    fn long_requests_go_to_the_dearest_model_and_short_ones_to_the_cheapest() {
        let check = |characters: f64, options: &[(&str, &str)], expect: &str| {
            let choice = of_length(characters, options);
            let likely = choice.propensities.iter().find(|known| known.probability > 0.5).unwrap();
            assert_eq!(likely.candidate, expect, "{characters} {options:?}");
        };
        check(1_999.0, &[], "small");
        check(2_001.0, &[], "large");
        check(100.0, &[("long", "50")], "large");
        check(0.0, &[("long", "0")], "large");
    }

    #[test]
    fn the_floor_is_spread_over_all_candidates() {
        let choice = of_length(0.0, &[]);
        let shares: Vec<f64> = choice.propensities.iter().map(|known| known.probability).collect();
        let expect = [0.025, 0.025, 0.925, 0.025];
        assert!(shares.iter().zip(expect).all(|(share, expect)| (share - expect).abs() < 1e-9), "{shares:?}");
        assert_eq!(of_length(0.0, &[("floor", "0")]).probability("large"), Some(0.0));
    }

    #[test]
    fn options_out_of_range_are_refused() {
        let refused = |name: &str, value: &str| Length::check(&context(0, &[(name, value)])).unwrap_err();
        assert_eq!(refused("floor", "1.5").message(), "floor=1.5; 0 to 1");
        assert_eq!(refused("long", "-1").message(), "long=-1; 0 or more characters");
        assert!(refused("floor", "much").message().contains("write it as in floor=0.1"));
        Length::check(&context(0, &[])).unwrap();
    }
}
