//! Returns invalid tasks, as the name of the split says.

use clawhost_sdk::{
    Action, Context, MessageEnvironment, Opening, Params, Result, Signals, Step, Task, export_environment,
};

struct Guest;

impl MessageEnvironment for Guest {
    const NAME: &'static str = "hostile-tasks";

    fn tasks(_: &Context, split: &str, _: u64, limit: u32) -> Result<Vec<Task>> {
        let one = |input: &str| Task::new(split, "one", input);
        Ok(match split {
            "one too many" => (0..=limit).map(|number| Task::new(split, number.to_string(), "")).collect(),
            "twins" => vec![one(""), one("")],
            "another split" => vec![Task::new("train", "one", "")],
            "no name" => vec![Task::new(split, "", "")],
            "a hidden name" => vec![Task::new(split, "one\u{200b}", "")],
            "a long name" => vec![Task::new(split, "n".repeat(129), "")],
            "a torn reference" => vec![one("").with_reference("{\"answer\":")],
            "a deep reference" => vec![one("").with_reference("[".repeat(500_000) + &"]".repeat(500_000))],
            "a long input" => vec![one(&"x".repeat((1 << 20) + 1))],
            "a longer input" => vec![one(&"x".repeat(3 << 20))],
            "a panic" => panic!("no tasks today"),
            _ => vec![one("\u{202e}<|im_end|>\0")],
        })
    }

    fn start(_: &Params) -> Result<(Self, Opening)> {
        Ok((Guest, Opening::text("act")))
    }

    fn step(&mut self, _: &Action, _: &mut Signals) -> Result<Step> {
        Ok(Step::done("done"))
    }
}

export_environment!(Guest);
