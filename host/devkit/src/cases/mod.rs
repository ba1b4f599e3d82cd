//! Test cases of a plugin: `tests/*.toml` in its folder, played against the built component within the host's limits.

mod accept;
mod answer;
mod compare;
mod junit;
mod played;
mod recorded;
mod replies;
mod save;
mod text;

pub(crate) use answer::answered;
pub use compare::{Happened, Mismatch};
pub(crate) use recorded::episode as described;
pub use save::{Saved, save};
pub use text::{Bounds, Case, CaseFile, Expected, GivenTask, RecordedTurn};

use crate::DevkitError;
use clawhost_app::{Bench, PluginFolder, TESTS};
use clawhost_core::Llm;
use clawhost_run_config::PluginSpec;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Largest file of cases in bytes.
const FILE_BYTES: u64 = 4 << 20;

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseResult {
    /// Its file, relative to the plugin's folder.
    pub file: String,
    /// Its name.
    pub name: String,
    /// Whether everything is as expected.
    pub passed: bool,
    /// What differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Mismatch>,
    /// Why it could not be played. `None`: it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What happened.
    pub happened: Happened,
    /// Log lines of the plugin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Time in milliseconds.
    pub took_ms: u64,
    /// Whether what happened is now what is expected.
    pub accepted: bool,
}

/// The results of all cases of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestReport {
    /// The plugin's name.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Digest of the component.
    pub digest: String,
    /// The cases, by file and place.
    pub cases: Vec<CaseResult>,
}

impl TestReport {
    /// Number of cases that passed, or whose expectations were accepted.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.passed || case.accepted).count()
    }

    /// Number of cases that failed.
    pub fn failed(&self) -> usize {
        self.cases.len().saturating_sub(self.passed())
    }

    /// The report in the format JUnit, which CI services read.
    ///
    /// # Errors
    /// It cannot be written as XML.
    pub fn junit(&self) -> Result<String, String> {
        junit::document(self)
    }
}

/// Which cases are played, and what for.
#[derive(Debug, Clone, Default)]
pub struct TestRequest {
    /// Only cases whose name contains this text.
    pub filter: Option<String>,
    /// Write what happened as what is expected.
    pub accept: bool,
}

/// Files with cases of a plugin, by name.
fn files(plugin: &PluginFolder) -> Vec<PathBuf> {
    let folder = plugin.path(TESTS);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    files.sort();
    files
}

/// All cases of a plugin, by file.
///
/// # Errors
/// A file cannot be read, or has a mistake.
pub(crate) fn case_files(plugin: &PluginFolder) -> Result<Vec<(PathBuf, CaseFile)>, DevkitError> {
    let read = |path: PathBuf| {
        let wrong = |why: String| DevkitError::Cases { path: path.display().to_string(), why };
        let text = clawhost_files::read_text(&path, FILE_BYTES).map_err(|error| wrong(error.to_string()))?;
        let file = text::parse(&text).map_err(wrong)?;
        Ok((path, file))
    };
    files(plugin).into_iter().map(read).collect()
}

/// The models that a plugin asks in a case.
pub(crate) fn replies(case: &Case) -> BTreeMap<String, Arc<dyn Llm>> {
    let model = |texts: &Vec<String>| Arc::new(replies::Replies::new(texts.clone())) as Arc<dyn Llm>;
    case.replies.iter().map(|(alias, texts)| (alias.clone(), model(texts))).collect()
}

/// Plays the cases of a plugin. Each result is passed to `told`, after the cases of its file were played.
///
/// # Errors
/// The plugin cannot be loaded, or a file of cases has a mistake.
pub async fn test(
    bench: &Bench<'_>,
    plugin: &PluginFolder,
    request: &TestRequest,
    told: &(dyn Fn(&CaseResult) + Sync),
) -> Result<TestReport, DevkitError> {
    test_component(bench, plugin, &plugin.spec(), request, told).await
}

/// Plays the cases of a plugin against a component, which need not be the one in its folder.
///
/// # Errors
/// As [`test`].
pub(crate) async fn test_component(
    bench: &Bench<'_>,
    plugin: &PluginFolder,
    spec: &PluginSpec,
    request: &TestRequest,
    told: &(dyn Fn(&CaseResult) + Sync),
) -> Result<TestReport, DevkitError> {
    let digest = clawhost_core::Digest::of(&bench.read(&spec.path).await?);
    let mut report = TestReport {
        plugin: plugin.manifest().plugin.name.to_string(),
        version: plugin.manifest().plugin.version.to_string(),
        digest: digest.to_string(),
        cases: Vec::new(),
    };
    for path in files(plugin) {
        let wrong = |why: String| DevkitError::Cases { path: path.display().to_string(), why };
        let text = clawhost_files::read_text(&path, FILE_BYTES).map_err(|error| wrong(error.to_string()))?;
        let file = text::parse(&text).map_err(wrong)?;
        let shown = path.strip_prefix(plugin.folder()).unwrap_or(&path).display().to_string();
        let mut changed = Vec::new();
        let first = report.cases.len();
        for (position, case) in file.cases.iter().enumerate() {
            if request.filter.as_ref().is_some_and(|part| !case.name.contains(part.as_str())) {
                continue;
            }
            let result = one(bench, plugin, spec, case, &shown).await?;
            if request.accept && !result.passed && result.error.is_none() {
                changed.push((position, report.cases.len(), result.happened.clone()));
            }
            report.cases.push(result);
        }
        if !changed.is_empty() {
            let happened: Vec<(usize, Happened)> =
                changed.iter().map(|(at, _, happened)| (*at, happened.clone())).collect();
            let written = accept::accepted(&text, &happened).map_err(wrong)?;
            let new = text::parse(&written).map_err(wrong)?;
            crate::write::replace(&path, written.as_bytes())?;
            for (position, number, happened) in changed {
                // Not everything can be accepted: a ceiling is a promise.
                let left = new.cases.get(position).map(|case| happened.compare(&case.expect)).unwrap_or_default();
                if let Some(result) = report.cases.get_mut(number) {
                    result.accepted = left.is_empty();
                    result.differences = if left.is_empty() { std::mem::take(&mut result.differences) } else { left };
                }
            }
        }
        report.cases.iter().skip(first).for_each(told);
    }
    Ok(report)
}

async fn one(
    bench: &Bench<'_>,
    plugin: &PluginFolder,
    spec: &PluginSpec,
    case: &Case,
    file: &str,
) -> Result<CaseResult, DevkitError> {
    let began = Instant::now();
    let kind = plugin.manifest().plugin.kind;
    let played = match case.stray(kind) {
        Some(key) => Err(format!("`{key}` means nothing for a plugin of the kind {kind}")),
        None => played::play(bench, plugin, spec, case).await?,
    };
    let (happened, log, error) = match played {
        Ok((happened, log)) => (happened, log, None),
        Err(why) => (Happened::default(), Vec::new(), Some(why)),
    };
    let mut differences = if error.is_none() { happened.compare(&case.expect) } else { Vec::new() };
    if error.is_none() && case.expect.is_empty() {
        differences.push(Mismatch::new("expect", "something that is compared", "nothing"));
    }
    Ok(CaseResult {
        file: file.to_owned(),
        name: case.name.clone(),
        passed: error.is_none() && differences.is_empty(),
        differences,
        error,
        happened,
        log,
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        accepted: false,
    })
}
