use clawhost_sdk::{Environment, Next, Random, Result, Signals, export_environment};

/// One episode. It holds the right answer.
pub struct {{type}}(i64);

impl Environment for {{type}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = "0.1.0";
    const SUMMARY: &'static str = "how many steps does a tower have?";

    fn start(_task: &str, seed: u64) -> Result<(Self, String)> {
        let mut random = Random::new(seed);
        let (floors, steps) = (random.between(2, 40), random.between(10, 30));
        let question = format!("A tower has {floors} floors with {steps} steps each.\ncalculate {floors} * {steps}");
        Ok((Self(floors * steps), question))
    }

    fn step(&mut self, action: &str, signals: &mut Signals) -> Result<Next> {
        let answer: i64 = action.trim().parse().map_err(|_| "answer with one whole number")?;
        signals.set("right", f64::from(u8::from(answer == self.0)));
        Ok(Next::Done(if answer == self.0 { "Right." } else { "Wrong." }.into()))
    }
}

export_environment!({{type}});
