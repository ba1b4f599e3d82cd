//! `clawhost publish`: a plugin, a playbook or an adapter goes to a registry.

use super::{SHOWN, name_and_version, row};
use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::terminal::Progress;
use clap::Args;
use clawhost_app::Bench;
use clawhost_core::{counted, escaped};
use clawhost_devkit::{CHECK_SEED, Checked, Outcome, PublishReport, PublishRequest};
use clawhost_registry::{PrivateKey, PublishTarget, key_names, read_key};
use std::io::Write as _;
use std::path::{Path, PathBuf};

const HELP: &str = "TARGET is oci://HOST/PATH/TEAM/NAME:VERSION, or file:FOLDER; version and name are those of claw.toml where none is written. \
A folder and a registry server hold the same artefacts. Credentials are those of `docker login`.

The component is checked first, as by `clawhost check`, and the report travels with it: as a claim, since who adds the module checks it again. \
Readme, licence and the commit of the sources travel too. A version never changes: raise it in claw.toml.

  clawhost publish file:/shared/modules --as shop/reward-x
  clawhost publish oci://ghcr.io/shop/reward-x:1.2.0 --key shop
  clawhost publish oci://127.0.0.1:5000/shop/lessons:1.0.0 lessons.json";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PublishArgs {
    /// Where it goes
    #[arg(value_name = "TARGET")]
    target: String,
    /// A plugin's folder, a component, a playbook as .json, or the folder of an adapter [default: the working folder]
    #[arg(value_name = "WHAT")]
    what: Option<PathBuf>,
    /// Its name in the registry: TEAM/NAME, with @VERSION behind it for a playbook or an adapter
    #[arg(long = "as", value_name = "TEAM/NAME")]
    named: Option<String>,
    /// The key that signs: its name, or a file [default: the only key of the data folder, if there is one]
    #[arg(long, value_name = "KEY", conflicts_with = "unsigned")]
    key: Option<String>,
    /// What the signature calls the publisher [default: the team]
    #[arg(long, value_name = "NAME")]
    publisher: Option<String>,
    /// Do not sign
    #[arg(long)]
    unsigned: bool,
    /// Say what would be published, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Publish although checks or test cases fail; the report of the checks travels with it
    #[arg(long)]
    despite_checks: bool,
    /// Seed of the check [default: as of `clawhost check`]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Load components that contain an interpreter (Python, JavaScript)
    #[arg(long)]
    allow_interpreters: bool,
}

impl PublishArgs {
    fn target(&self) -> anyhow::Result<PublishTarget> {
        let mut target: PublishTarget = self.target.parse().map_err(clawhost_app::AppError::from)?;
        if let Some(text) = &self.named {
            if target.name.is_some() {
                return Err(UsageError("--as: the target names the module already".to_owned()).into());
            }
            let (name, version) = name_and_version(text)?;
            target.team = Some(name.team().clone());
            target.name = Some(name.name().clone());
            target.version = version;
        }
        Ok(target)
    }

    fn key(&self, context: &Context) -> anyhow::Result<Option<PrivateKey>> {
        let data = context.folder()?;
        let wrong = clawhost_app::AppError::from;
        if self.unsigned {
            return Ok(None);
        }
        if let Some(named) = &self.key {
            return Ok(Some(read_key(&data, named).map_err(wrong)?));
        }
        match &key_names(&data).map_err(wrong)?[..] {
            [] => Ok(None),
            [only] => Ok(Some(read_key(&data, only.as_str()).map_err(wrong)?)),
            several => {
                let names: Vec<String> = several.iter().map(ToString::to_string).collect();
                let names = names.join(", ");
                Err(UsageError(format!(
                    "there are several keys ({names}); name one with --key, or none with --unsigned"
                ))
                .into())
            }
        }
    }
}

pub(crate) async fn publish(context: &Context, args: &PublishArgs) -> anyhow::Result<Exit> {
    let what = args.what.as_deref().unwrap_or(Path::new(clawhost_app::HERE));
    let machine = MachineArgs::trying(&what.to_string_lossy(), args.allow_interpreters);
    let (folder, host) = (context.folder()?, context.host_settings(&machine)?);
    let target = args.target()?;
    let team = target.team.as_ref().map_or(clawhost_registry::DEFAULT_TEAM, |team| team.as_str());
    let publisher = args.publisher.clone().unwrap_or_else(|| team.to_owned());
    let request = PublishRequest {
        what: what.to_owned(),
        signer: args.key(context)?.map(|key| (key, publisher)),
        target,
        dry: args.dry_run,
        despite_checks: args.despite_checks,
        seed: args.seed.unwrap_or(CHECK_SEED),
    };
    let progress = Progress::new(context, false, "checked");
    let bench = Bench::open(&folder, &host, &progress)?;
    let failures = |one: &Checked| {
        if one.outcome == Outcome::Failed {
            progress.say(&format!("failed: {}: {}", one.check, escaped(&one.says, SHOWN)));
        }
    };
    let published = clawhost_devkit::publish(&bench, &request, &failures).await;
    progress.finish();
    let report = published?;
    match context.json() {
        true => crate::terminal::json(&serde_json::json!({ "format": 1, "published": report }))?,
        false => text(&report)?,
    }
    Ok(Exit::Ok)
}

fn text(report: &PublishReport) -> std::io::Result<()> {
    let mut out = crate::terminal::stdout();
    let PublishReport { facts, registry, manifest, content, bytes, signed_by, was_there, dry, check, attached } =
        report;
    let verb = match (dry, was_there) {
        (true, _) => "would be",
        (false, true) => "was there",
        (false, false) => "published",
    };
    writeln!(out, "{}{} {} ({}) in {registry}", row(verb), facts.name, facts.version, facts.kind)?;
    writeln!(out, "{}{content}, {} KiB", row("content"), bytes.div_ceil(1024))?;
    writeln!(out, "{}{manifest}", row("manifest"))?;
    match signed_by {
        Some(key) => writeln!(out, "{}{key}", row("signed by"))?,
        None => writeln!(out, "{}nobody; `clawhost keys new NAME` makes a key", row("signed by"))?,
    }
    if let Some(check) = check {
        let passed = check.checks.iter().filter(|one| one.outcome == Outcome::Passed).count();
        writeln!(out, "{}{} passed, of {}", row("check"), passed, counted(check.checks.len() as u64, "check"))?;
    }
    if !attached.is_empty() {
        writeln!(out, "{}{}", row("attached"), attached.join(", "))?;
    }
    if !dry {
        writeln!(out, "others use it with `clawhost add {} --from {registry}`", facts.name)?;
    }
    Ok(())
}
