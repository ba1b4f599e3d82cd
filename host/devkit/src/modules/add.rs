//! Adds a module to a project: pulls it, checks it again, says what it may do and what changes, and pins it.

use super::difference::asked;
use super::rescored::{Version, recorded_scores};
use super::{CHECK_STATEMENT, Difference};
use crate::{CheckReport, CheckRequest, Checked, DevkitError, check};
use clawhost_app::{Bench, Trial, pin_of};
use clawhost_core::Digest;
use clawhost_engine::ComponentOutline;
use clawhost_package::{LockedModule, ModuleKind, ModuleName, ModuleRequest};
use clawhost_registry::{
    Facts, Location, OciOptions, PublicKey, Published, Pulled, Reference, Registry, Signer, State, statement_of,
    statuses, versions,
};
use serde::Serialize;

/// What is added.
#[derive(Debug, Clone)]
pub struct AddRequest {
    /// The module.
    pub module: ModuleRequest,
    /// The registry.
    pub registry: Location,
    /// Whether it is pinned. Otherwise the report says what would change.
    pub accept: bool,
    /// Whether components are checked again.
    pub with_check: bool,
    /// The seed of the check.
    pub seed: u64,
}

/// What a publisher claims about a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Whether its checks passed, as it says.
    pub passed: bool,
    /// Whether a trusted key signed the report.
    pub is_signed: bool,
}

/// What was added.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AddReport {
    /// Its name, version and kind.
    #[serde(flatten)]
    pub facts: Facts,
    /// The registry.
    pub registry: String,
    /// Digest of the manifest.
    pub manifest: Digest,
    /// Digest of the content.
    pub content: Digest,
    /// Length of the content in bytes.
    pub bytes: u64,
    /// Who signed it. `None`: nobody who is trusted.
    pub signer: Option<Signer>,
    /// What its publisher says of the version.
    pub state: Option<State>,
    /// Interfaces that the component imports.
    pub imports: Vec<String>,
    /// What it asks an operator to grant.
    pub asks: Vec<String>,
    /// What its publisher claims. `None`: nothing.
    pub claim: Option<Claim>,
    /// The check on this machine. `None`: it is no component, or was not asked for.
    pub check: Option<CheckReport>,
    /// What was pinned before. `None`: nothing.
    pub before: Option<LockedModule>,
    /// What changes. `None`: nothing was pinned before, or the same.
    pub difference: Option<Difference>,
    /// The newest version that was not withdrawn, if the wanted range excludes it.
    pub newer: Option<semver::Version>,
    /// Whether it is pinned now.
    pub pinned: bool,
}

/// A component that was looked at.
struct Looked {
    outline: ComponentOutline,
    check: CheckReport,
}

/// Walks a component before anything compiles it, then checks it.
async fn look(
    bench: &Bench<'_>,
    published: &Published,
    seed: u64,
    told: &(dyn Fn(&Checked) + Sync),
) -> Result<Option<Looked>, DevkitError> {
    let (Some(kind), Some(bytes)) = (published.facts.kind.plugin(), published.only()) else { return Ok(None) };
    let name = published.facts.name.to_string();
    let outline = bench.host().outline(&name, bytes).map_err(clawhost_app::AppError::from)?;
    let path = bench.host().modules().shelf().blob_path(&published.facts.name, &published.content());
    let plugin = Trial::of(&path.display().to_string(), &[])?;
    let check = check(bench, &CheckRequest { plugin, seed }, told).await?;
    if check.plugin.kind != kind {
        let why = format!("it was published as {kind}, and is of the kind {}", check.plugin.kind);
        return Err(DevkitError::Unfit { what: name, why });
    }
    Ok(Some(Looked { outline, check }))
}

/// What a publisher claims about a component.
fn claim(pulled: &Pulled, keys: &[PublicKey]) -> Option<Claim> {
    let content = pulled.published.content();
    let statements = pulled.attachments.iter().filter_map(|one| statement_of(&one.bytes, keys).ok());
    let (statement, by) = statements
        .into_iter()
        .find(|(statement, _)| statement.predicate_type == CHECK_STATEMENT && statement.is_about(&content))?;
    Some(Claim { passed: statement.predicate.get("passed")?.as_bool()?, is_signed: by.is_some() })
}

/// What changes from the pinned version to another one. `None`: what was pinned is not here any more.
async fn difference(
    bench: &Bench<'_>,
    seed: u64,
    before: &LockedModule,
    (pin, after): (&LockedModule, &Looked),
) -> Result<Option<Difference>, DevkitError> {
    let shelf = bench.host().modules().shelf();
    // Signatures are not checked here. The key of the pinned version may have been revoked, and that can be the reason for the update.
    let reference = Reference::Digest(before.manifest);
    let Some(document) = shelf.manifest(&before.name, &reference).await? else { return Ok(None) };
    let published = Published::read(shelf, &before.name, document).await?;
    // Its checks are not shown: they were when it was added.
    let Some(old) = look(bench, &published, seed, &|_| {}).await? else { return Ok(None) };
    let mut difference = Difference::between((&old.outline, &old.check), (&after.outline, &after.check));
    if pin.kind == ModuleKind::Reward {
        let file = |one: &LockedModule| shelf.blob_path(&one.name, &one.content);
        let (old, new) = (file(before), file(pin));
        let version = |content, file| Version { content, file };
        let (old, new) = (version(before.content, old.as_path()), version(pin.content, new.as_path()));
        difference.scores = Some(recorded_scores(bench, old, new).await?);
    }
    Ok(Some(difference))
}

/// Adds a module, or says what adding it would change.
///
/// # Errors
/// It cannot be found or read, its signatures do not suffice, it is no component that this host runs, or the lock cannot be written. Nothing is
/// pinned then.
pub async fn add(
    bench: &Bench<'_>,
    request: &AddRequest,
    told: &(dyn Fn(&Checked) + Sync),
) -> Result<AddReport, DevkitError> {
    let modules = bench.host().modules();
    let registry = clawhost_registry::open(&request.registry, OciOptions::default())?;
    let mut lock = modules.project().lock()?;
    let before = lock.module(&request.module.name).cloned();
    let pulled = modules.pull(&*registry, &request.module).await?;
    let trust = modules.trust()?;
    let keys = trust.keys_of(request.module.name.team());
    let keys: Vec<PublicKey> = keys.filter_map(|key| PublicKey::read(key.name.as_str(), &key.key).ok()).collect();
    let looked = match request.with_check {
        true => look(bench, &pulled.published, request.seed, told).await?,
        false => None,
    };
    let newer = newest(&*registry, &request.module.name).await?.filter(|newest| *newest > pulled.found.facts.version);
    let pin = pin_of(&pulled, &request.module, &request.registry);
    let difference = match (&before, &looked) {
        (Some(before), Some(after)) if before.content != pin.content => {
            difference(bench, request.seed, before, (&pin, after)).await?
        }
        _ => None,
    };
    if request.accept {
        lock.pin(pin.clone());
        modules.project().write(&lock)?;
    }
    let outline = match (&looked, pulled.published.only(), pin.kind.plugin()) {
        (Some(looked), ..) => Some(looked.outline.clone()),
        (None, Some(bytes), Some(_)) => {
            Some(bench.host().outline(&pin.name.to_string(), bytes).map_err(clawhost_app::AppError::from)?)
        }
        _ => None,
    };
    Ok(AddReport {
        registry: pin.registry,
        manifest: pin.manifest,
        content: pin.content,
        bytes: pin.bytes,
        asks: outline.as_ref().map(asked).unwrap_or_default().into_iter().collect(),
        imports: outline.map(|outline| outline.imports).unwrap_or_default(),
        claim: claim(&pulled, &keys),
        signer: pulled.found.signer,
        state: pulled.found.state,
        facts: pulled.found.facts,
        check: looked.map(|looked| looked.check),
        before,
        difference,
        newer,
        pinned: request.accept,
    })
}

/// The newest version of a module that was not withdrawn.
async fn newest(registry: &dyn Registry, module: &ModuleName) -> Result<Option<semver::Version>, DevkitError> {
    let states = statuses(registry, module).await?;
    let versions = versions(registry, module).await?;
    Ok(versions.into_iter().filter(|version| !states.is_yanked(version) && version.pre.is_empty()).max())
}
