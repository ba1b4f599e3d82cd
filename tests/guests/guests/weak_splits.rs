//! Publishes one task in two splits: what is tested has been trained on.

use clawhost_sdk::{
    Action, Context, MessageEnvironment, Opening, Params, Result, Signals, Split, Status, Step, Task,
    export_environment,
};

struct Guest;

impl MessageEnvironment for Guest {
    const NAME: &'static str = "weak-splits";

    fn splits() -> Vec<Split> {
        vec![Split::new("train", 1), Split::new("test", 1)]
    }

    fn tasks(_: &Context, split: &str, offset: u64, _: u32) -> Result<Vec<Task>> {
        Ok(if offset == 0 { vec![Task::new(split, format!("{split}-0"), "What is 6 * 7?")] } else { vec![] })
    }

    fn start(params: &Params) -> Result<(Self, Opening)> {
        Ok((Guest, Opening::text(format!("{} ({})", params.task.input, params.context.seed))))
    }

    fn step(&mut self, _: &Action, _: &mut Signals) -> Result<Step> {
        Ok(Step::silent().say("Thank you.").with_status(Status::Terminated))
    }
}

export_environment!(Guest);
