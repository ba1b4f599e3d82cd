//! The `clawhost` program (floor 5): arguments, terminal, exit codes, and the wiring of adapters to ports.
//!
//! Invariant: whatever a machine may read goes to standard output, everything for people's patience (progress, notes)
//! to standard error.

mod args;
mod data;
mod demo;
mod device;
mod doctor;
mod episodes;
mod eval;
mod exit;
mod hosting;
mod inspect;
mod learn;
mod learn_progress;
mod learn_summary;
mod model;
mod pace;
mod playbook;
mod plot;
mod plugin;
mod policy;
mod progress;
mod replay;
mod resume;
mod run;
mod run_file;
mod score;
mod setup;
mod shell;
mod stored;
mod summary;
mod weights;

use clap::{CommandFactory as _, FromArgMatches as _};
use exit::Exit;
use std::process::ExitCode;

fn completions(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::Arguments::command(), "clawhost", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(Exit::Ok)
}

fn main() -> ExitCode {
    let matches = args::Arguments::command().get_matches();
    let arguments = match args::Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("CLAWHOST_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
    let done = match arguments.command {
        args::Command::CompileComponent => return hosting::compile(),
        args::Command::ProbeDevice { what } => device::probe(&what),
        args::Command::Run(options) => run::main(&arguments.common, &options, &args::given(&matches)),
        args::Command::Eval(options) => eval::main(&arguments.common, &options),
        args::Command::Playbook(command) => playbook::main(&arguments.common, &command),
        args::Command::Model(command) => model::main(&arguments.common, &command),
        args::Command::Demo(demo) => demo::main(&arguments.common, &demo),
        args::Command::Inspect(options) => inspect::main(&arguments.common, &options),
        args::Command::Replay(options) => replay::main(&arguments.common, &options),
        args::Command::Score(options) => score::main(&arguments.common, &options),
        args::Command::Doctor(options) => doctor::main(&arguments.common, &options),
        args::Command::Completions(options) => completions(options.shell),
        args::Command::Episodes(command) => episodes::main(&arguments.common, &command),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) if exit::is_broken_pipe(&error) => Exit::Ok.into(),
        Err(error) => {
            let exit = Exit::of(&error);
            use std::io::Write as _;
            // Where standard error is gone there is nobody to tell.
            let _ = writeln!(anstream::stderr(), "\x1b[1;31merror:\x1b[0m {error:#}");
            if let Some(report) = exit::report(&error) {
                let _ = writeln!(anstream::stderr(), "{report}");
            }
            exit.into()
        }
    }
}
