//! `clawhost keys new|trust|revoke|policy`: keys that sign modules, and whose signatures count.

use crate::context::Context;
use crate::exit::Exit;
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use clawhost_app::{AppError, SystemClock, time};
use clawhost_core::{Clock as _, counted, escaped};
use clawhost_package::PluginName;
use clawhost_registry::{
    KeyKind, Policy, PublicKey, RevocationReport, Trust, key_names, new_key, public_file, read_key, read_public_key,
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
    /// The name of a trusted key or of a key of yours, or the beginning of its fingerprint
    #[arg(value_name = "KEY", required_unless_present_any = ["from", "list"])]
    key: Option<String>,
    /// Revoke the keys of a list that a trusted key has signed: itself, keys of its teams, and any if it is trusted for all teams
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "list"])]
    from: Option<PathBuf>,
    /// Also write the list of all keys that are revoked here, signed, for others
    #[arg(long, value_name = "FILE", requires = "sign_with")]
    list: Option<PathBuf>,
    /// The key that signs the list: its name, or a file
    #[arg(long, value_name = "KEY", requires = "list")]
    sign_with: Option<String>,
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

/// Revokes one key: a trusted one, or one of this data folder.
fn revoke_one(data: &Path, trust: &mut Trust, key: &str) -> anyhow::Result<PluginName> {
    let is_known = trust.keys().iter().any(|one| one.name.as_str() == key);
    if let Some(own) = key_names(data).map_err(wrong)?.into_iter().find(|own| !is_known && own.as_str() == key) {
        let public = read_key(data, key).map_err(wrong)?.public();
        if trust.keys().iter().all(|one| one.key != public.pem()) {
            trust.trust(own, Vec::new(), &public).map_err(wrong)?;
        }
        let fingerprint = public.fingerprint().to_string();
        return Ok(trust.revoke(&fingerprint, &time(SystemClock::default().now_ms())).map_err(wrong)?.name);
    }
    Ok(trust.revoke(key, &time(SystemClock::default().now_ms())).map_err(wrong)?.name)
}

pub(crate) fn revoke(context: &Context, args: &RevokeArgs) -> anyhow::Result<Exit> {
    let data = context.folder()?;
    let mut trust = Trust::read(&data).map_err(wrong)?;
    if let Some(file) = &args.from {
        return revoke_from(context, &data, trust, file);
    }
    let revoked = args.key.as_deref().map(|key| revoke_one(&data, &mut trust, key)).transpose()?;
    let list = match (&args.list, &args.sign_with) {
        (Some(file), Some(key)) => {
            let (bytes, count) = trust.revocations(&read_key(&data, key).map_err(wrong)?).map_err(wrong)?;
            Some((file, bytes, count))
        }
        _ => None,
    };
    trust.write(&data).map_err(wrong)?;
    if let Some((file, bytes, _)) = &list {
        std::fs::write(file, bytes).with_context(|| format!("{}: cannot be written", file.display()))?;
    }
    if context.json() {
        let file = list.map(|(file, _, count)| json!({ "file": file, "keys": count }));
        crate::terminal::json(&json!({ "format": 1, "revoked": revoked, "list": file }))?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    if let Some(name) = &revoked {
        writeln!(out, "{name} is revoked here: what it signed is refused from now on, and it is never trusted again")?;
    }
    match list {
        Some((file, _, count)) => writeln!(
            out,
            "{} lists {}, signed: give it to others, who take it over with `clawhost keys revoke --from FILE`",
            file.display(),
            counted(count, "revoked key")
        )?,
        None => writeln!(out, "nobody else learns of it: --list FILE writes a signed list for others")?,
    }
    Ok(Exit::Ok)
}

/// Takes over a list of revoked keys.
fn revoke_from(context: &Context, data: &Path, mut trust: Trust, file: &Path) -> anyhow::Result<Exit> {
    let report = trust.take_revocations(file).map_err(wrong)?;
    trust.write(data).map_err(wrong)?;
    if context.json() {
        crate::terminal::json(&json!({ "format": 1, "revocations": report }))?;
        return Ok(Exit::Ok);
    }
    let RevocationReport { by, revoked, known, passed_over } = report;
    let mut out = crate::terminal::stdout();
    let count = |names: &[PluginName]| counted(names.len() as u64, "key");
    writeln!(out, "the list is signed by {by}: {} revoked now, {} before", count(&revoked), known.len())?;
    for name in &revoked {
        writeln!(out, "  {name}")?;
    }
    if !passed_over.is_empty() {
        let names: Vec<&str> = passed_over.iter().map(PluginName::as_str).collect();
        writeln!(out, "passed over, because {by} is not trusted for all their teams: {}", names.join(", "))?;
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
