//! Returns an invalid verdict, as the option `attack` says.

use clawhost_sdk::{Context, Episode, Group, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "hostile-score";

    fn score(_: &Episode, context: &Context) -> Result<Verdict> {
        let half = || Verdict::scored(0.5);
        Ok(match context.option("attack").unwrap_or_default() {
            "1e308" => Verdict::scored(1e308),
            "-inf" => Verdict::scored(f64::NEG_INFINITY),
            "a little too much" => Verdict::scored(1.0 + f64::EPSILON),
            "a little too little" => Verdict::scored(-f64::from_bits(1)),
            "-0" => Verdict::scored(-0.0),
            "subnormal" => Verdict::scored(f64::from_bits(1)),
            "confidence NaN" => half().with_confidence(f64::NAN),
            "a part NaN" => half().with_part("part", f64::NAN),
            "turns" => half().with_turns(vec![0.0; 3]),
            "a turn NaN" => half().with_turns(vec![f64::NAN]),
            "a long reason" => half().because("x".repeat((64 << 10) + 1)),
            _ => half(),
        })
    }

    fn score_group(group: &Group, context: &Context) -> Result<Vec<Verdict>> {
        let mut verdicts =
            group.episodes().iter().map(|episode| Self::score(episode, context)).collect::<Result<Vec<_>>>()?;
        match context.option("attack") {
            Some("one too many") => verdicts.push(Verdict::scored(1.0)),
            Some("none") => verdicts.clear(),
            Some("a million") => verdicts = vec![Verdict::NotApplicable(String::new()); 1_000_000],
            _ => {}
        }
        Ok(verdicts)
    }
}

export_reward!(Guest);
