//! The `clawhost` program (floor 5): arguments, terminal and exit codes. The operations are in `clawhost-app`.
//!
//! The library is the program; two binaries start it. `clawhost` runs local models on the processor. `clawhost-gpu`
//! exists with the feature `gpu` or `cuda`, and also runs them on GPUs.
//!
//! Invariant: results go to standard output; progress and notes for people go to standard error.

mod access_log;
mod args;
mod background;
mod build;
mod cases;
mod check;
mod collect;
mod compare;
mod config;
mod connect;
mod context;
mod data_folder;
mod demo;
mod dev;
mod device;
mod doctor;
mod endpoints;
mod episodes;
mod eval;
mod exit;
mod feedback;
mod forget;
mod inspect;
mod keys;
mod learn;
mod learn_summary;
mod memory;
mod model;
mod modules;
mod new;
mod play;
mod playbook;
mod plot;
mod proof;
mod rehearsal;
mod replay;
mod reward_comparison;
mod reward_history;
mod router;
mod run;
mod runs;
mod score;
mod serve;
mod setup;
mod shell;
mod signals;
mod signing_keys;
mod subprocess;
mod summary;
mod sweep;
mod tail;
mod tasks;
mod terminal;
mod top;
mod train_step;
mod tries;
mod weights;
mod words;

use args::Command;
use clap::{CommandFactory as _, FromArgMatches as _};
use context::Context;
use exit::Exit;
use std::process::ExitCode;

fn completions(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::Arguments::command(), "clawhost", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(Exit::Ok)
}

/// Executes a command.
async fn dispatch(context: &Context, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(arguments) => run::run(context, &arguments).await,
        Command::Learn(arguments) => learn::run(context, &arguments).await,
        Command::Eval(arguments) => eval::run(context, &arguments).await,
        Command::Serve(arguments) => serve::run(context, &arguments).await,
        Command::Start(arguments) => background::start(context, &arguments).await,
        Command::Stop => background::stop(context).await,
        Command::Reload => background::reload(context).await,
        Command::Status => background::status(context).await,
        Command::Setup(arguments) => setup::run(context, &arguments),
        Command::Config(command) => config::run(context, &command),
        Command::Connect(arguments) => connect::run(context, &arguments),
        Command::Top(arguments) => top::run(context, &arguments).await,
        Command::Collect(arguments) => collect::run(context, &arguments).await,
        Command::Score(arguments) => score::run(context, &arguments).await,
        Command::TrainStep(arguments) => train_step::run(context, &arguments).await,
        Command::Feedback(arguments) => feedback::run(context, &arguments).await,
        Command::Replay(arguments) => replay::run(context, &arguments).await,
        Command::Prove(arguments) => proof::prove(context, &arguments).await,
        Command::Verify(arguments) => proof::verify(context, &arguments).await,
        Command::New(arguments) => new::run(context, &arguments),
        Command::Build(arguments) => build::run(context, &arguments),
        Command::Dev(arguments) => dev::run(context, &arguments).await,
        Command::Test(arguments) => cases::run(context, &arguments).await,
        Command::Check(arguments) => check::run(context, &arguments).await,
        Command::Play(arguments) => play::run(context, &arguments).await,
        Command::Publish(arguments) => modules::publish(context, &arguments).await,
        Command::Add(arguments) => modules::add(context, &arguments).await,
        Command::Update(arguments) => modules::update(context, &arguments).await,
        Command::Pull(arguments) => modules::pull(context, &arguments).await,
        Command::List(arguments) => modules::list(context, &arguments).await,
        Command::Search(arguments) => modules::search(context, &arguments).await,
        Command::Yank(arguments) => modules::yank(context, &arguments).await,
        Command::Inspect(arguments) => inspect::run(context, &arguments).await,
        Command::Tasks(arguments) => tasks::run(context, &arguments).await,
        Command::Sweep(arguments) => sweep::run(context, &arguments).await,
        Command::Compare(arguments) => compare::run(context, &arguments),
        Command::Runs(command) => runs::run(context, &command).await,
        Command::Episodes(command) => episodes::run(context, &command).await,
        Command::Playbook(command) => playbook::run(context, &command).await,
        Command::Router(command) => router::run(context, &command).await,
        Command::Model(command) => model::run(context, command).await,
        Command::Endpoints(command) => endpoints::run(context, &command),
        Command::Keys(command) => keys::run(context, &command),
        Command::Memory(command) => memory::run(context, &command).await,
        Command::Forget(arguments) => forget::run(context, &arguments).await,
        Command::Data(command) => data_folder::run(context, &command).await,
        Command::Demo(command) => demo::run(context, &command).await,
        Command::Doctor(arguments) => doctor::run(context, &arguments).await,
        Command::Completions(arguments) => completions(arguments.shell),
        // They serve other processes of this program, and need no async runtime.
        Command::CompileComponent | Command::InterpretTexts => Ok(Exit::Usage),
        Command::ProbeDevice { what } => subprocess::probe(&what),
    }
}

fn begun(arguments: args::Arguments) -> anyhow::Result<Exit> {
    let context = Context::new(arguments.common);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(dispatch(&context, arguments.command));
    // Cancelled episodes may be in a slow call, and a thread may be reading a line: neither is awaited.
    runtime.shutdown_background();
    exit
}

/// Sets what drivers read from the environment and the user did not set.
#[allow(unsafe_code, reason = "a driver reads its place from the environment alone")]
fn prepare_drivers() {
    for (name, value) in clawhost_app::drivers().environment() {
        // SAFETY: the program has just begun and has one thread, so nobody reads the environment meanwhile.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Prints help, the version, or what is wrong with the arguments, which it quotes.
fn not_parsed(error: &clap::Error) -> ExitCode {
    use std::io::Write as _;
    let text = error.render().ansi().to_string();
    // If the output is closed, the message cannot be shown.
    let _ = match error.use_stderr() {
        true => write!(terminal::stderr(), "{text}"),
        false => write!(terminal::stdout(), "{text}"),
    };
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Runs the program. `name` is its name in help. Call it before any thread starts: it may change the environment.
pub fn main(name: &'static str) -> ExitCode {
    prepare_drivers();
    let matches = args::Arguments::command().name(name).try_get_matches();
    let arguments = match matches.and_then(|matches| args::Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return not_parsed(&error),
    };
    // Dropped at the end, it writes what waits.
    let _access_log = match access_log::start(&arguments.command) {
        Ok(writing) => writing,
        Err(error) => return failed(&error),
    };
    let done = match arguments.command {
        Command::CompileComponent => return subprocess::compile(),
        Command::InterpretTexts => return subprocess::texts(),
        // It may hang or die in a driver, so it starts no threads.
        Command::ProbeDevice { what } => subprocess::probe(&what),
        _ => begun(arguments),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) if exit::is_broken_pipe(&error) => Exit::Ok.into(),
        Err(error) => failed(&error),
    }
}

/// Prints an error.
fn failed(error: &anyhow::Error) -> ExitCode {
    use std::io::Write as _;
    // If standard error is closed, the message cannot be shown.
    // Errors of libraries quote what they read.
    let message = episodes::safe(&exit::message(error));
    let _ = writeln!(terminal::stderr(), "\x1b[1;31merror:\x1b[0m {message}");
    if let Some(report) = exit::report(error) {
        let _ = writeln!(terminal::stderr(), "{report}");
    }
    Exit::of(error).into()
}
