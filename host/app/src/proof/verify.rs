//! Verifies a bundle.

use super::adapter::TestedWeights;
use super::components::{Components, bases};
use super::local::local_models;
use super::part::{Against, Checked};
use super::playbook::ShownPlaybooks;
use super::report::{Proof, Verified};
use super::sample::Sample;
use super::signature::{self, Signature};
use super::words::{self, statement};
use super::{ProofError, archive, statistics};
use crate::events::{Event, EventSink};
use crate::workspace::existing_cache;
use crate::{AppError, HostSettings, ModelSettings, SystemClock, host};
use clawhost_bundle::{Bundle, EntryName};
use clawhost_core::{Discrepancy, Llm, RunKind};
use clawhost_engine::ENGINE_MAJOR;
use clawhost_follower::{Follower, RandomPlayer};
use clawhost_play::{Cancel, PlayError, ReplayOutcome};
use clawhost_registry::Trust;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Default number of parts of the episodes that are checked at the same time.
pub const VERIFY_CONCURRENCY: u16 = 16;

/// The settings of a verification.
#[derive(Debug, Clone)]
pub struct VerifyRequest {
    /// The file.
    pub bundle: PathBuf,
    /// Episodes that are played again. `None`: all.
    pub sample: Option<u64>,
    /// The seed of the sample. `None`: it is drawn.
    pub seed: Option<u64>,
    /// Parts of the episodes that are checked at the same time; never changes a result.
    pub concurrency: u16,
    /// How components are run.
    pub host: HostSettings,
    /// Whose signatures count.
    pub trust: Trust,
    /// A data folder whose compiled code is used, if it exists: it is authenticated and named by the component's digest. `None`: everything is
    /// compiled.
    pub data: Option<PathBuf>,
    /// Folders of local models whose answers are generated again.
    pub models: Vec<String>,
    /// How these are opened. They compute on the processor.
    pub model_settings: ModelSettings,
}

impl VerifyRequest {
    /// This bundle with default settings.
    pub fn new(bundle: impl Into<PathBuf>) -> Self {
        Self {
            bundle: bundle.into(),
            sample: None,
            seed: None,
            concurrency: VERIFY_CONCURRENCY,
            host: HostSettings::default(),
            trust: Trust::default(),
            data: None,
            models: Vec::new(),
            model_settings: ModelSettings::default(),
        }
    }
}

/// Largest seed of a sample: every reader of JSON reads it exactly.
const SEEDS: u64 = 1 << 53;

fn drawn_sample(request: &VerifyRequest) -> Result<Option<Sample>, AppError> {
    let Some(episodes) = request.sample else { return Ok(None) };
    let seed = match request.seed {
        Some(seed) => seed,
        None => {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes)
                .map_err(|error| AppError::Host(format!("no randomness for a sample: {error}")))?;
            u64::from_be_bytes(bytes) % SEEDS
        }
    };
    Ok(Some(Sample { episodes, seed }))
}

/// Verifies a bundle from the file alone: nothing but compiled code is written, and no model is asked but those of the request.
///
/// # Errors
/// The file is no bundle of this format and engine, exceeds a limit, or has an entry that is not what its name says. What was changed is no
/// error but a part of the report. A cancelled verification reports nothing.
pub async fn verify(request: &VerifyRequest, cancel: &Cancel, events: &dyn EventSink) -> Result<Verified, AppError> {
    let bundle = Arc::new(Bundle::open(&request.bundle, ENGINE_MAJOR).map_err(ProofError::from)?);
    let sample = drawn_sample(request)?;
    let signature = signature::read(&request.bundle, &bundle.digest(), &request.trust);
    let mut changed = archive::changed(&bundle)?;
    if !changed.is_empty() {
        changed.extend(signature.differences());
        return Ok(refused(&bundle, changed, signature));
    }
    let opened = archive::open(&bundle)?;
    let local = local_models(request, &opened, events)?;
    let mut about_adapter: Vec<Discrepancy> = archive::adapter_unlike(&opened).into_iter().collect();
    about_adapter.extend(local.found);
    let archive::Opened { claim, learned, .. } = opened;
    // Components of any kind may be in it.
    let cache = request.data.as_deref().map(existing_cache).transpose()?.flatten();
    let host = host::host(&HostSettings { allow_interpreters: true, ..request.host.clone() }, Path::new(""), cache)?;
    let components = Components::load(&bundle, &host, &claim, events).await?;
    let runs: BTreeMap<_, _> = bases(&claim);
    let places = bundle.manifest().runs.iter().enumerate().map(|(place, run)| (run.id.clone(), place));
    let places: BTreeMap<_, _> = places.collect();
    let runs: BTreeMap<_, _> = runs
        .into_iter()
        .map(|(run, basis)| (run.clone(), (places.get(&run).copied().unwrap_or(usize::MAX), basis)))
        .collect();
    let drawn = sample.map(|sample| {
        let size = |id| runs.get(id).map_or(1, |(_, basis)| basis.conditions.group);
        let sizes = bundle.manifest().runs.iter().map(|run| (run.id.clone(), run.episodes, size(&run.id)));
        sample.draw(&sizes.collect::<Vec<_>>())
    });
    let against = Arc::new(Against {
        components,
        runs,
        answering: [Arc::new(Follower) as Arc<dyn Llm>, Arc::new(RandomPlayer)]
            .into_iter()
            .chain(local.answering)
            .collect(),
        playbooks: ShownPlaybooks::of(&claim, &learned),
        weights: TestedWeights::of(&claim, &learned),
        drawn,
        episode_bytes: host.limits().episode_bytes,
        clock: Arc::new(SystemClock::default()),
    });
    let mut checked = parts(&bundle, &against, request.concurrency, (cancel, events)).await?;
    let mut differences = archive::rows_unlike(&bundle, &claim, &checked);
    let numbers = statistics::recompute(&claim, &learned, &against.components, &mut checked);
    differences.extend(std::mem::take(&mut checked.found));
    differences.extend(numbers.found.iter().cloned());
    differences.extend(differing(&mut checked));
    differences.extend(about_adapter);
    differences.extend(signature.differences());
    differences.sort();
    differences.dedup();
    let packed = learned.adapter.as_ref().filter(|_| !local.has_adapter);
    let replay = &checked.replay;
    let is_whole = replay.episodes.not_replayed + replay.verdicts.not_replayed == 0;
    let proof = match (differences.is_empty(), is_whole) {
        (false, _) => Proof::Changed,
        (true, true) => Proof::Reproduced,
        (true, false) => Proof::Partly,
    };
    let mut verified = Verified {
        bundle: bundle.digest(),
        program: bundle.manifest().program.clone(),
        run: claim.run.id.clone(),
        kind: claim.run.kind,
        private: bundle.manifest().private,
        signature,
        proof,
        sample,
        episodes: replay.episodes.all() + checked.not_drawn,
        replay: replay.episodes,
        verdicts: replay.verdicts,
        recomputed: words::recomputed(&checked, &numbers, local.has_adapter),
        replayed: words::replayed(&checked),
        recorded_only: words::recorded_only(&checked, &numbers, (claim.run.kind, &local.given), packed),
        not_provable: words::not_provable(&checked),
        differences,
        not_replayed: checked.not_replayed.iter().map(|(why, count)| statement(why.clone(), *count)).collect(),
        evaluation: numbers.evaluation,
        conclusion: String::new(),
    };
    verified.conclusion = words::conclusion(&verified, &checked);
    Ok(verified)
}

/// The report of a bundle with entries that are not those of its manifest.
fn refused(bundle: &Bundle, differences: Vec<Discrepancy>, signature: Signature) -> Verified {
    let run = bundle.manifest().runs.first();
    let mut verified = Verified {
        bundle: bundle.digest(),
        program: bundle.manifest().program.clone(),
        run: run.map(|run| run.id.clone()).unwrap_or_else(|| clawhost_core::RunId(String::new())),
        kind: run.map_or(RunKind::Play, |run| run.kind),
        private: bundle.manifest().private,
        signature,
        proof: Proof::Changed,
        sample: None,
        episodes: bundle.manifest().runs.iter().map(|run| run.episodes).sum(),
        replay: crate::Tally::default(),
        verdicts: crate::Tally::default(),
        recomputed: Vec::new(),
        replayed: Vec::new(),
        recorded_only: Vec::new(),
        not_provable: words::not_provable(&Checked::default()),
        differences,
        not_replayed: Vec::new(),
        evaluation: None,
        conclusion: String::new(),
    };
    verified.conclusion = words::conclusion(&verified, &Checked::default());
    verified
}

/// Checks all parts of the episodes, several at a time.
async fn parts(
    bundle: &Arc<Bundle>,
    against: &Arc<Against>,
    concurrency: u16,
    (cancel, events): (&Cancel, &dyn EventSink),
) -> Result<Checked, AppError> {
    let numbers = bundle.manifest().entries.iter().filter_map(|entry| match entry.name {
        EntryName::Episodes(part) => Some(part),
        _ => None,
    });
    let mut numbers = numbers.collect::<BTreeSet<u32>>().into_iter();
    let total = bundle.manifest().runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.episodes));
    let mut checking: JoinSet<Result<(u32, Checked), ProofError>> = JoinSet::new();
    // Parts finish in any order; their results are added in the order of the bundle.
    let mut waiting: BTreeMap<u32, Checked> = BTreeMap::new();
    let (mut all, mut next, mut done) = (Checked::default(), 0, 0);
    loop {
        while checking.len() < usize::from(concurrency).max(1) {
            let Some(part) = numbers.next() else { break };
            let (bundle, against) = (bundle.clone(), against.clone());
            checking.spawn(async move {
                let bytes = bundle.read(EntryName::Episodes(part))?;
                Ok((part, against.check(part, &bytes).await?))
            });
        }
        let checked = tokio::select! {
            biased;
            () = cancel.requested() => return Err(PlayError::Cancelled.into()),
            checked = checking.join_next() => checked,
        };
        let Some(checked) = checked else { break };
        let (part, checked) = checked.map_err(|error| AppError::Host(error.to_string()))??;
        done += checked.replay.episodes.all() + checked.not_drawn;
        events.event(Event::Progress { done, total: total.max(done) });
        waiting.insert(part, checked);
        while let Some(checked) = waiting.remove(&next) {
            all.add(checked);
            next += 1;
        }
    }
    // Numbers with a gap: the episodes between are missing, which their runs show.
    waiting.into_values().for_each(|checked| all.add(checked));
    Ok(all)
}

/// Outcomes that differ as differences, and failures to load as reasons.
fn differing(checked: &mut Checked) -> Vec<Discrepancy> {
    let findings = checked.replay.findings.iter();
    findings
        .filter_map(|found| match &found.outcome {
            ReplayOutcome::Differs(difference) => {
                let plugin = clawhost_core::escaped(&found.plugin, 80);
                let what = match difference.turn {
                    Some(turn) => format!("{plugin} in turn {turn}: {}", difference.what),
                    None => format!("{plugin}: {}", difference.what),
                };
                let (recorded, replayed) = (difference.recorded.clone(), difference.replayed.clone());
                Some(Discrepancy {
                    record: found.episode.clone(),
                    what,
                    recorded: Some(recorded),
                    expected: Some(replayed),
                })
            }
            _ => None,
        })
        .collect()
}
