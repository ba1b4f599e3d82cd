//! `clawhost keys new|trust|revoke|policy`: keys that sign modules, and whose signatures count.

use crate::context::Context;
use crate::exit::Exit;
use clap::{Args, ValueEnum};
use clawhost_app::{AppError, SystemClock, time};
use clawhost_core::{Clock as _, escaped};
use clawhost_package::PluginName;
use clawhost_registry::{
    KeyKind, Policy, PublicKey, Trust, key_names, new_key, public_file, read_key, read_public_key,
};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct NewKeyArgs {
    /// Its name, as that of your team
    #[arg(value_name = "NAME")]
    name: PluginName,
    /// Make an Ed25519 key instead of ECDSA over P-256, which cosign reads
    #[arg(long)]
    ed25519: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The file of the public key (PEM)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What it is called here [default: the name of the file]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<PluginName>,
    /// A team whose modules it may sign; may be repeated [default: all teams]
    #[arg(long, value_name = "TEAM")]
    team: Vec<PluginName>,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The name of a trusted key, or the beginning of its fingerprint
    #[arg(value_name = "KEY")]
    key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// Modules need no signature
    Unsigned,
    /// Modules of a team that has a trusted key are signed by one
    Known,
    /// Every module is signed by a trusted key of its team
    Required,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// What is required from now on [default: show what is required]
    #[arg(value_name = "POLICY")]
    policy: Option<PolicyArg>,
}

fn wrong(error: clawhost_registry::RegistryError) -> AppError {
    error.into()
}

pub(crate) fn new(context: &Context, args: &NewKeyArgs) -> anyhow::Result<Exit> {
    let data = context.folder()?;
    let kind = if args.ed25519 { KeyKind::Ed25519 } else { KeyKind::P256 };
    let public = new_key(&data, &args.name, kind).map_err(wrong)?;
    let file = public_file(&data, &args.name);
    if context.json() {
        let document = json!({ "format": 1, "name": args.name, "kind": kind.name(), "fingerprint": public.fingerprint(), "public": file });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    writeln!(out, "{} ({}), fingerprint {}", args.name, kind.name(), public.fingerprint())?;
    writeln!(
        out,
        "its public key is {}: give it to others, who trust it with `clawhost keys trust FILE`",
        file.display()
    )?;
    Ok(Exit::Ok)
}

/// The name of a file, if it is one for a key.
fn name_of(file: &Path) -> anyhow::Result<PluginName> {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    stem.parse().map_err(|error| crate::exit::UsageError(format!("{error}; name it with --as")).into())
}

pub(crate) fn trust(context: &Context, args: &TrustArgs) -> anyhow::Result<Exit> {
    let data = context.folder()?;
    let public = read_public_key(&args.file).map_err(wrong)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => name_of(&args.file)?,
    };
    let mut trust = Trust::read(&data).map_err(wrong)?;
    trust.trust(name.clone(), args.team.clone(), &public).map_err(wrong)?;
    trust.write(&data).map_err(wrong)?;
    if context.json() {
        let document = json!({ "format": 1, "name": name, "fingerprint": public.fingerprint(), "teams": args.team });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    let teams: Vec<&str> = args.team.iter().map(PluginName::as_str).collect();
    let of = if teams.is_empty() { "all teams".to_owned() } else { teams.join(", ") };
    writeln!(out, "{name} is trusted for modules of {of}")?;
    writeln!(
        out,
        "compare its fingerprint with the publisher, by another way than the file came: {}",
        public.fingerprint()
    )?;
    Ok(Exit::Ok)
}

pub(crate) fn revoke(context: &Context, args: &RevokeArgs) -> anyhow::Result<Exit> {
    let data = context.folder()?;
    let mut trust = Trust::read(&data).map_err(wrong)?;
    let revoked = trust.revoke(&args.key, &time(SystemClock::default().now_ms())).map_err(wrong)?;
    trust.write(&data).map_err(wrong)?;
    match context.json() {
        true => crate::terminal::json(&json!({ "format": 1, "revoked": revoked.name }))?,
        false => writeln!(
            crate::terminal::stdout(),
            "{} is revoked here: what it signed is refused from now on, and it is never trusted again. Tell the others; nobody else learns of it",
            revoked.name
        )?,
    }
    Ok(Exit::Ok)
}

pub(crate) fn policy(context: &Context, args: &PolicyArgs) -> anyhow::Result<Exit> {
    let data = context.folder()?;
    let mut trust = Trust::read(&data).map_err(wrong)?;
    if let Some(policy) = args.policy {
        trust.policy = match policy {
            PolicyArg::Unsigned => Policy::Unsigned,
            PolicyArg::Known => Policy::Known,
            PolicyArg::Required => Policy::Required,
        };
        trust.write(&data).map_err(wrong)?;
    }
    match context.json() {
        true => crate::terminal::json(&json!({ "format": 1, "policy": trust.policy }))?,
        false => writeln!(crate::terminal::stdout(), "{}", trust.policy)?,
    }
    Ok(Exit::Ok)
}

/// The keys that sign modules here and those that are trusted, for a list.
pub(crate) struct SigningKeys {
    own: Vec<(PluginName, PublicKey)>,
    trust: Trust,
}

impl SigningKeys {
    pub(crate) fn read(data: &Path) -> anyhow::Result<Self> {
        let mut own = Vec::new();
        for name in key_names(data).map_err(wrong)? {
            let key = read_key(data, name.as_str()).map_err(wrong)?.public();
            own.push((name, key));
        }
        Ok(Self { own, trust: Trust::read(data).map_err(wrong)? })
    }

    pub(crate) fn json(&self) -> Value {
        let own = self
            .own
            .iter()
            .map(|(name, key)| json!({ "name": name, "kind": key.kind().name(), "fingerprint": key.fingerprint() }));
        let trusted = self.trust.keys().iter().map(|key| {
            let fingerprint = PublicKey::read(key.name.as_str(), &key.key).ok().map(|key| key.fingerprint());
            json!({ "name": key.name, "fingerprint": fingerprint, "teams": key.teams, "revoked": key.revoked })
        });
        json!({ "own": own.collect::<Vec<_>>(), "trusted": trusted.collect::<Vec<_>>(), "policy": self.trust.policy })
    }

    /// Lists them, if there are some.
    pub(crate) fn text(&self) -> anyhow::Result<()> {
        let mut out = crate::terminal::stdout();
        if !self.own.is_empty() {
            writeln!(out, "\nkeys that sign modules")?;
            for (name, key) in &self.own {
                writeln!(out, "  {name}  {}  {}", key.kind().name(), key.fingerprint())?;
            }
        }
        if !self.trust.keys().is_empty() {
            writeln!(out, "\ntrusted keys (policy: {})", self.trust.policy)?;
            for key in self.trust.keys() {
                let fingerprint = PublicKey::read(key.name.as_str(), &key.key).map(|key| key.fingerprint().to_string());
                let teams: Vec<&str> = key.teams.iter().map(PluginName::as_str).collect();
                let teams = if teams.is_empty() { "all teams".to_owned() } else { teams.join(", ") };
                let state = key.revoked.as_ref().map(|when| format!(", revoked {}", escaped(when, 40)));
                writeln!(
                    out,
                    "  {}  {}  {teams}{}",
                    key.name,
                    fingerprint.unwrap_or_default(),
                    state.unwrap_or_default()
                )?;
            }
        }
        Ok(())
    }
}
