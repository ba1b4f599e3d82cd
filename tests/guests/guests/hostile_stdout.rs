//! Prints a hundred thousand lines to standard output.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-stdout";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        let out = wasip2::cli::stdout::get_stdout();
        for _ in 0..100_000 {
            out.blocking_write_and_flush(b"a line on standard output\n").map_err(|error| format!("{error:?}"))?;
        }
        Ok(Next::Done("printed".into()))
    }
}

export_environment!(Guest);
