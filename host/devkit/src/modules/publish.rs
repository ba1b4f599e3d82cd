//! Publishes a plugin, a playbook or an adapter, with its check report, its provenance and its readme.

use super::provenance::provenance;
use super::{CHECK_STATEMENT, PROVENANCE_STATEMENT};
use crate::{CheckReport, CheckRequest, Checked, DevkitError, TestReport, TestRequest, check, test};
use clawhost_app::{Bench, PluginFolder, Trial, adapter_files};
use clawhost_core::{Clock as _, Digest};
use clawhost_package::{ModuleKind, ModuleName, PluginName};
use clawhost_registry::{
    Attachment, Content, DEFAULT_TEAM, Facts, OciOptions, PrivateKey, Publication, PublishTarget, Published, Statement,
    media, push,
};
use semver::Version;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Largest document of a plugin's folder that is published, in bytes.
const TEXT_BYTES: u64 = 1 << 20;
/// Largest playbook that is published, in bytes.
const PLAYBOOK_BYTES: u64 = 64 << 20;
/// Names of the readme in a plugin's folder.
const READMES: [&str; 1] = ["README.md"];
/// Names of licences in a plugin's folder.
const LICENSES: [&str; 6] = ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENSE-MIT", "LICENSE-APACHE", "COPYING"];

/// What is published, and where.
#[derive(Debug)]
pub struct PublishRequest {
    /// A plugin's folder, a component, a playbook as `playbook export` writes it, or the folder of an adapter.
    pub what: PathBuf,
    /// The registry, and with it optionally name and version.
    pub target: PublishTarget,
    /// The key that signs, and what its owner is called.
    pub signer: Option<(PrivateKey, String)>,
    /// Only say what would happen.
    pub dry: bool,
    /// Publish although checks fail. The report says so.
    pub despite_checks: bool,
    /// The seed of the check.
    pub seed: u64,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishReport {
    /// Its name, version and kind.
    #[serde(flatten)]
    pub facts: Facts,
    /// The registry.
    pub registry: String,
    /// Digest of the manifest, which is signed.
    pub manifest: Digest,
    /// Digest of the content.
    pub content: Digest,
    /// Length of the content in bytes.
    pub bytes: u64,
    /// The fingerprint of the key that signed. `None`: it is not signed.
    pub signed_by: Option<Digest>,
    /// Whether the same version with the same content was there already.
    pub was_there: bool,
    /// Whether nothing was sent.
    pub dry: bool,
    /// The check. `None`: it is no plugin.
    pub check: Option<CheckReport>,
    /// What travels with it, by media type.
    pub attached: Vec<String>,
}

/// What is published, read.
struct Subject {
    kind: ModuleKind,
    name: Option<PluginName>,
    version: Option<Version>,
    description: Option<String>,
    license: Option<String>,
    content: Content,
    check: Option<CheckReport>,
    cases: Option<TestReport>,
    folder: Option<PluginFolder>,
}

fn unfit(what: &Path, why: impl Into<String>) -> DevkitError {
    DevkitError::Unfit { what: what.display().to_string(), why: why.into() }
}

/// Publishes. Each result of the check is passed to `told` at once.
///
/// # Errors
/// It cannot be read, it has no name or version, a check fails, or the registry refuses it.
pub async fn publish(
    bench: &Bench<'_>,
    request: &PublishRequest,
    told: &(dyn Fn(&Checked) + Sync),
) -> Result<PublishReport, DevkitError> {
    let what = &request.what;
    let subject = match (what.extension().is_some_and(|extension| extension == "json"), adapter_files(what)?) {
        (true, _) => without_check(ModuleKind::Playbook, playbook(what)?),
        (_, Some(files)) => without_check(ModuleKind::Adapter, Content::Adapter(files)),
        _ => component(bench, request, told).await?,
    };
    let target = &request.target;
    let team = match &target.team {
        Some(team) => team.clone(),
        None => DEFAULT_TEAM.parse().map_err(|_| unfit(what, "the default team is no name"))?,
    };
    let name = target.name.clone().or(subject.name.clone());
    let name = name.ok_or_else(|| unfit(what, "it has no name; name it TEAM/NAME@VERSION"))?;
    let version = match (&target.version, &subject.version) {
        (Some(wanted), Some(own)) if wanted != own => {
            return Err(unfit(what, format!("it says that it is version {own}, not {wanted}")));
        }
        (wanted, own) => wanted.clone().or_else(|| own.clone()),
    };
    let version = version.ok_or_else(|| unfit(what, "it has no version; name it TEAM/NAME@VERSION"))?;
    if let Some(report) = subject.check.as_ref().filter(|report| !report.passed && !request.despite_checks) {
        let failed = report.checks.iter().filter(|one| one.outcome == crate::Outcome::Failed);
        let failed: Vec<&str> = failed.map(|one| one.check.as_str()).collect();
        return Err(unfit(what, format!("checks fail: {}", failed.join(", "))));
    }
    if let Some(cases) = subject.cases.as_ref().filter(|cases| cases.failed() > 0 && !request.despite_checks) {
        let failed = cases.cases.iter().filter(|case| !case.passed).map(|case| case.name.as_str());
        return Err(unfit(what, format!("cases fail: {}", failed.collect::<Vec<_>>().join(", "))));
    }
    let facts = Facts {
        name: ModuleName::new(team, name),
        version,
        kind: subject.kind,
        description: subject.description,
        license: subject.license,
    };
    let created = clawhost_app::time(clawhost_app::SystemClock::default().now_ms());
    let published = Published::new(facts, subject.content, &created)?;
    let key = request.signer.as_ref().map(|(key, _)| key);
    let attachments = attachments(&published, subject.check.as_ref(), subject.folder.as_ref(), key)?;
    let registry = clawhost_registry::open(&target.registry, OciOptions::default())?;
    let signer = request.signer.as_ref().map(|(key, publisher)| (key, publisher.as_str()));
    let publication = Publication { published: &published, attachments: &attachments, signer };
    let pushed = push(&*registry, &publication, request.dry).await?;
    Ok(PublishReport {
        registry: target.registry.to_string(),
        manifest: pushed.manifest,
        content: published.content(),
        bytes: published.bytes(),
        signed_by: key.map(|key| key.public().fingerprint()),
        was_there: pushed.was_there,
        dry: request.dry,
        check: subject.check,
        attached: attachments.iter().map(|one| one.artifact_type.clone()).collect(),
        facts: published.facts,
    })
}

fn playbook(what: &Path) -> Result<Content, DevkitError> {
    let bytes = clawhost_files::read(what, PLAYBOOK_BYTES).map_err(|error| unfit(what, error.to_string()))?;
    clawhost_app::playbooks::playbook_of(&what.display().to_string(), bytes.clone())
        .map_err(clawhost_app::AppError::from)?;
    Ok(Content::Playbook(bytes))
}

/// A playbook or an adapter. It has no manifest, so name and version come from the request, and no check applies to it.
fn without_check(kind: ModuleKind, content: Content) -> Subject {
    Subject {
        kind,
        name: None,
        version: None,
        description: None,
        license: None,
        content,
        check: None,
        cases: None,
        folder: None,
    }
}

async fn component(
    bench: &Bench<'_>,
    request: &PublishRequest,
    told: &(dyn Fn(&Checked) + Sync),
) -> Result<Subject, DevkitError> {
    let what = &request.what;
    let text = what.display().to_string();
    let trial = Trial::of(&text, &[])?;
    if let Some(folder) = trial.folder.as_ref().filter(|folder| crate::is_outdated(folder).is_some()) {
        return Err(unfit(folder.folder(), "its sources are newer than its component: build it first"));
    }
    let bytes = bench.read(&trial.plugin.path).await?;
    let outline = bench.host().outline(&text, &bytes).map_err(clawhost_app::AppError::from)?;
    let folder = trial.folder.clone();
    let checked = check(bench, &CheckRequest { plugin: trial, seed: request.seed }, told).await?;
    let cases = match &folder {
        Some(folder) => Some(test(bench, folder, &TestRequest::default(), &|_| {}).await?),
        None => None,
    };
    let plugin = outline.manifest.as_ref().map(|manifest| &manifest.plugin);
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Ok(Subject {
        kind: checked.plugin.kind.into(),
        name: plugin.map(|plugin| plugin.name.clone()).or_else(|| checked.plugin.name.parse().ok()),
        version: plugin.map(|plugin| plugin.version.clone()).or_else(|| checked.plugin.version.parse().ok()),
        description: plugin.and_then(|plugin| said(&plugin.summary)),
        license: plugin.and_then(|plugin| said(&plugin.license)),
        content: Content::Component { bytes, imports: outline.imports, exports: vec![outline.interface] },
        check: Some(checked),
        cases,
        folder,
    })
}

/// The documents that travel with a module.
fn attachments(
    published: &Published,
    report: Option<&CheckReport>,
    folder: Option<&PluginFolder>,
    key: Option<&PrivateKey>,
) -> Result<Vec<Attachment>, DevkitError> {
    let (name, content) = (published.facts.name.to_string(), published.content());
    let statement = |kind: &str, predicate: serde_json::Value| {
        let bytes = Statement::new(&name, &content, kind, predicate).sealed(key)?;
        let (artifact_type, media_type) = (kind.to_owned(), media::DSSE.to_owned());
        Ok::<_, DevkitError>(Attachment { artifact_type: as_artifact(&artifact_type), media_type, bytes })
    };
    let mut all = Vec::new();
    if let Some(report) = report {
        let report = serde_json::to_value(report).map_err(|error| unfit(Path::new(&name), error.to_string()))?;
        all.push(statement(CHECK_STATEMENT, report)?);
    }
    if let Some(folder) = folder {
        all.push(statement(PROVENANCE_STATEMENT, provenance(folder))?);
        for (names, artifact_type) in [(&READMES[..], media::README), (&LICENSES[..], media::LICENSE)] {
            for name in names {
                let Ok(path) = folder.inside(name) else { continue };
                if let Ok(bytes) = clawhost_files::read(&path, TEXT_BYTES) {
                    let media_type = media::MARKDOWN.to_owned();
                    all.push(Attachment { artifact_type: artifact_type.to_owned(), media_type, bytes });
                }
            }
        }
    }
    Ok(all)
}

/// How a statement is listed: registries take media types only.
fn as_artifact(predicate: &str) -> String {
    match predicate {
        CHECK_STATEMENT => "application/vnd.clawhost.check.v1".to_owned(),
        _ => "application/vnd.in-toto.provenance+dsse".to_owned(),
    }
}
