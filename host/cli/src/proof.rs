//! `clawhost prove` and `clawhost verify`: a run as one file, and what can be shown from that file alone.

use crate::args::MachineArgs;
use crate::context::Context;
use crate::data_folder::size;
use crate::exit::{Exit, HELP};
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::Progress;
use clap::Args;
use clawhost_app::{
    AppError, Proof, ProveRequest, Proved, ProvedAdapter, Statement, VERIFY_CONCURRENCY, Verified, VerifyRequest,
};
use clawhost_core::{counted, escaped, thousands};
use clawhost_registry::{Trust, read_key};
use std::io::Write;
use std::path::PathBuf;

/// Number of differences that are shown. The others usually have the same cause.
const SHOWN: usize = 10;
/// Most bytes of a value or a reason that are shown.
const TEXT: usize = 1000;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ProveArgs {
    /// The run: its id, its name, a unique beginning of its id, or `last` for the newest
    #[arg(value_name = "RUN")]
    run: String,
    /// The file to write; it must not exist
    #[arg(long, value_name = "BUNDLE")]
    out: PathBuf,
    /// Pack references of tasks and your system prompt too. Without it, references are left out (environments know them), and if you gave a
    /// system prompt, episodes are packed as digests alone
    #[arg(long)]
    include_private: bool,
    /// The key that signs it, in a file BUNDLE.sig beside it: its name, or a file [default: it is not signed]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// What the signature calls you [default: the name of the key]
    #[arg(long, value_name = "NAME", requires = "key")]
    publisher: Option<String>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct VerifyArgs {
    /// The file that `clawhost prove` wrote
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Play only about so many episodes again, drawn at random; all numbers are still computed from all episodes [default: all episodes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Draw the sample of an earlier verification again [default: another sample each time, which its author cannot know]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), requires = "sample")]
    seed: Option<u64>,
    /// Parts of 64 episodes that are checked concurrently; never changes a result [default: 16]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrency: Option<u16>,
    /// The folder of a local model that answered: its answers are generated again, on a processor of the same class; may be repeated
    /// [default: answers of local models are recorded only]
    #[arg(long, value_name = "FOLDER")]
    model: Vec<String>,
    /// Instantiate without a reserved pool, for machines with little address space
    #[arg(long, help_heading = "Host")]
    on_demand: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) async fn prove(context: &Context, args: &ProveArgs) -> anyhow::Result<Exit> {
    // The data folder must exist: a proof needs a recorded run.
    context.reader()?;
    let workspace = context.workspace(&MachineArgs::default())?;
    let signer = match &args.key {
        Some(named) => {
            let key = read_key(&context.folder()?, named).map_err(AppError::from)?;
            Some((key, args.publisher.clone().unwrap_or_else(|| named.clone())))
        }
        None => None,
    };
    let (run, out) = (args.run.clone(), args.out.clone());
    let request = ProveRequest { run, out, include_private: args.include_private, signer };
    let progress = Progress::new(context, args.quiet, "packed");
    let signals = cancel_on_signal(Stopping::Replay);
    let proved = clawhost_app::prove(&workspace, &request, signals.cancel(), &progress).await;
    drop(signals);
    progress.finish();
    let proved = proved?;
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "proved": proved }))?;
        return Ok(Exit::Ok);
    }
    let Proved { run, bundled_as, file, bytes, digest, episodes, digests_only, components, adapter, signature } =
        proved;
    let mut out = crate::terminal::stdout();
    writeln!(out, "{}{run}, as {bundled_as}", row("proved"))?;
    writeln!(out, "{}{} ({})", row("bundle"), file.display(), size(bytes))?;
    writeln!(out, "{}{digest}", row("digest"))?;
    writeln!(out, "{}{}, {}", row("contains"), counted(episodes, "episode"), counted(components, "component"))?;
    match adapter {
        Some(ProvedAdapter::Packed { weights, bytes }) => {
            writeln!(out, "{}{}, for weights {}", row("adapter"), size(bytes), weights.short())?;
        }
        Some(ProvedAdapter::LeftOut { why }) => {
            writeln!(out, "{}not packed: {}", row("adapter"), escaped(&why, TEXT))?;
        }
        None => {}
    }
    if let Some(signature) = signature {
        writeln!(out, "{}{}", row("signature"), signature.display())?;
    }
    if digests_only > 0 {
        let only = counted(digests_only, "episode");
        writeln!(
            out,
            "{}{only} as digests alone: your system prompt is private; --include-private packs it",
            row("private")
        )?;
    }
    Ok(Exit::Ok)
}

pub(crate) async fn verify(context: &Context, args: &VerifyArgs) -> anyhow::Result<Exit> {
    let machine = MachineArgs { on_demand: args.on_demand, ..MachineArgs::default() };
    let request = VerifyRequest {
        sample: args.sample,
        seed: args.seed,
        concurrency: args.concurrency.unwrap_or(VERIFY_CONCURRENCY),
        host: context.host_settings(&machine)?,
        trust: Trust::read(&context.folder()?).map_err(AppError::from)?,
        data: Some(context.folder()?),
        models: args.model.clone(),
        model_settings: context.model_settings(&machine)?,
        ..VerifyRequest::new(&args.bundle)
    };
    let progress = Progress::new(context, args.quiet, "verified");
    let signals = cancel_on_signal(Stopping::Replay);
    let verified = clawhost_app::verify(&request, signals.cancel(), &progress).await;
    drop(signals);
    progress.finish();
    let verified = verified?;
    match context.json() {
        true => crate::terminal::json(&serde_json::json!({ "format": 1, "verified": verified }))?,
        false => text(&mut crate::terminal::stdout(), &verified)?,
    }
    Ok(match verified.proof {
        Proof::Reproduced => Exit::Ok,
        Proof::Partly => Exit::Differs,
        Proof::Changed => Exit::Changed,
    })
}

fn row(label: &str) -> String {
    format!("\x1b[2m{label:<15}\x1b[0m")
}

fn text(out: &mut impl Write, verified: &Verified) -> std::io::Result<()> {
    writeln!(out, "{}{} ({})", row("bundle"), verified.bundle, escaped(&verified.program, 80))?;
    writeln!(out, "{}{} ({})", row("run"), escaped(&verified.run.0, 200), verified.kind.name())?;
    writeln!(out, "{}{}", row("signature"), verified.signature.words())?;
    statements(out, "recomputed", &verified.recomputed)?;
    statements(out, "replayed", &verified.replayed)?;
    statements(out, "recorded only", &verified.recorded_only)?;
    statements(out, "not provable", &verified.not_provable)?;
    statements(out, "not replayed", &verified.not_replayed)?;
    for found in verified.differences.iter().take(SHOWN) {
        writeln!(out, "\x1b[31mchanged\x1b[0m        {}", escaped(&found.to_string(), TEXT))?;
    }
    if let Some(more) = verified.differences.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        writeln!(out, "{}and {more} more; --json lists all", row(""))?;
    }
    writeln!(out, "\n{}", escaped(&verified.conclusion, TEXT))
}

fn statements(out: &mut impl Write, label: &str, all: &[Statement]) -> std::io::Result<()> {
    for (place, Statement { what, count }) in all.iter().enumerate() {
        let label = row(if place == 0 { label } else { "" });
        let what = escaped(what, TEXT);
        match count {
            Some(count) => writeln!(out, "{label}{} {what}", thousands(*count))?,
            None => writeln!(out, "{label}{what}")?,
        }
    }
    Ok(())
}
