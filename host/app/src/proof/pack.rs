//! Packs a run.

use super::ProofError;
use super::adapter::{AfterLearning, ProvedAdapter, learned_adapter, parts};
use super::claim::{Claim, ClaimedAdapter, ClaimedRun, LearnedClaim};
use super::episodes::{Packed, canonical};
use crate::events::{Event, EventSink};
use crate::models::weights_of;
use crate::runs::find_run;
use crate::stored::StoredEpisodes;
use crate::{AppError, Workspace};
use clawhost_bundle::{Builder, BundledRun, EntryName, Head};
use clawhost_core::{
    Digest, LearningStore as _, RunId, RunKind, RunRow, RunState, SpecDocument, StoreReader, canonical_json,
    content_digest, content_root, recorded_root,
};
use clawhost_engine::ENGINE_MAJOR;
use clawhost_learning::ServedPlaybooks;
use clawhost_play::{Cancel, EpisodeSource as _, PlayError};
use clawhost_registry::PrivateKey;
use clawhost_run_config::RunSpec;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Episodes of a part, at whole groups: few enough that parts keep all processors busy, and enough that they compress well together.
const PART_EPISODES: u64 = 64;
/// Bytes of a part before compression, behind which the next one begins: a sixteenth of what an entry may have.
const PART_BYTES: usize = 4 << 20;
/// What the manifest calls this program.
const PROGRAM: &str = concat!("clawhost ", env!("CARGO_PKG_VERSION"));

/// The settings of a proof.
#[derive(Debug)]
pub struct ProveRequest {
    /// The run, by its id, its name, a beginning of its id, or `last`.
    pub run: String,
    /// The file of the bundle. It must not exist.
    pub out: PathBuf,
    /// Whether references and prompts are packed.
    pub include_private: bool,
    /// The key that signs the digest of the bundle, and what its owner is called.
    pub signer: Option<(PrivateKey, String)>,
}

/// A run that was packed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proved {
    /// The run.
    pub run: RunId,
    /// Its id in the bundle.
    pub bundled_as: RunId,
    /// The file.
    pub file: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// The digest of its manifest.
    pub digest: Digest,
    /// Episodes in it.
    pub episodes: u64,
    /// How many of them are digests alone, because the operator's prompt is private.
    pub digests_only: u64,
    /// Components in it.
    pub components: u64,
    /// The adapter that its weights learned. `None`: the run learned none.
    pub adapter: Option<ProvedAdapter>,
    /// The file of the signature. `None`: it is not signed.
    pub signature: Option<PathBuf>,
}

/// Packs a finished run. Equal runs give equal files.
///
/// # Errors
/// The run has not finished, was captured, or is not complete any more; a record cannot be read; or the file exists or cannot be written.
pub async fn prove(
    workspace: &Workspace,
    request: &ProveRequest,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<Proved, AppError> {
    let reader = workspace.reader()?;
    let row = provable(find_run(&*reader, &request.run)?)?;
    if request.out.exists() {
        return Err(ProofError::Exists { path: request.out.display().to_string() }.into());
    }
    let spec = RunSpec::from_document(row.config.0.clone())
        .map_err(|error| AppError::Document { run: row.id.to_string(), error })?;
    let mut packing =
        Packing { workspace, reader: &*reader, cancel, events, builder: Builder::default(), run: row.id.clone() };
    let (claim, counts) = packing.runs(&row, &spec, request.include_private).await?;
    let components = packing.components(&claim)?;
    let PackedEpisodes { episodes, digests_only, tested } = packing.episodes(&row, &claim, request.include_private)?;
    let adapter = match row.kind {
        RunKind::Learn => packing.learned((&row.id, &spec), &tested).await?,
        _ => None,
    };
    let runs = claim.rows().zip(counts);
    let runs = runs.map(|(row, episodes)| BundledRun { id: row.id.clone(), kind: row.kind, episodes }).collect();
    let head = Head { program: PROGRAM.to_owned(), engine: ENGINE_MAJOR, private: request.include_private, runs };
    let written = write(packing.builder, head, &request.out)?;
    let signer = request.signer.as_ref().map(|(key, publisher)| (key, publisher.as_str()));
    let about = (claim.run.id.0.as_str(), &written.digest);
    let signature = signer.map(|signer| super::signature::sign(&request.out, about, signer)).transpose()?;
    Ok(Proved {
        signature,
        run: row.id,
        bundled_as: claim.run.id,
        file: request.out.clone(),
        bytes: written.bytes,
        digest: written.digest,
        episodes,
        digests_only,
        components,
        adapter,
    })
}

/// What was packed of the episodes of a run.
struct PackedEpisodes {
    episodes: u64,
    /// How many of them are digests alone.
    digests_only: u64,
    /// The weights of local models that answered the test after learning.
    tested: BTreeSet<Digest>,
}

/// Writes a file completely or not at all.
fn write(builder: Builder, head: Head, out: &Path) -> Result<clawhost_bundle::Written, AppError> {
    let failed = |error: std::io::Error| AppError::Io { path: out.display().to_string(), error };
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let written = builder.write(head, std::io::BufWriter::new(file.as_file_mut())).map_err(ProofError::from)?;
    match file.persist_noclobber(out) {
        Ok(_) => Ok(written),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(ProofError::Exists { path: out.display().to_string() }.into())
        }
        Err(error) => Err(failed(error.error)),
    }
}

fn provable(row: RunRow) -> Result<RunRow, ProofError> {
    let run = row.id.0.clone();
    match row {
        RunRow { kind: RunKind::Live, .. } => Err(ProofError::Captured { run }),
        RunRow { state: RunState::Open | RunState::Stopped, .. } => Err(ProofError::NotFinished { run }),
        RunRow { pruned: true, .. } => Err(ProofError::Removed { run }),
        row => Ok(row),
    }
}

/// A run that is being packed.
struct Packing<'a> {
    workspace: &'a Workspace,
    reader: &'a dyn StoreReader,
    cancel: &'a Cancel,
    events: &'a dyn EventSink,
    builder: Builder,
    run: RunId,
}

impl Packing<'_> {
    /// Adds a document that no key of this program may be in.
    fn add_text(&mut self, name: EntryName, text: &str, record: impl Fn() -> String) -> Result<(), ProofError> {
        if self.workspace.secrets().secrets().are_in(text) {
            return Err(ProofError::Key { record: record() });
        }
        Ok(self.builder.add(name, text.as_bytes())?)
    }

    /// The rows of the run and its phases, with the number of episodes of each.
    async fn runs(
        &mut self,
        row: &RunRow,
        spec: &RunSpec,
        include_private: bool,
    ) -> Result<(Claim, Vec<u64>), AppError> {
        let run = bundled_id(row);
        let mut public =
            spec.without_places().map_err(|error| AppError::Document { run: row.id.to_string(), error })?;
        let prompt = public.policy.system_prompt.as_ref().filter(|_| !include_private);
        let prompt_left_out = prompt.map(|text| Digest::of(text.as_bytes()));
        if prompt_left_out.is_some() {
            public.policy.system_prompt = None;
        }
        let mut claim = Claim {
            run: claimed(row, run.clone(), SpecDocument(public.to_document())),
            phases: Vec::new(),
            prompt_left_out,
            local: super::local::answers_of(spec),
        };
        let mut counts = vec![0];
        for phase in self.reader.phases(&row.id)? {
            let name = phase.id.phase_of(&row.id).unwrap_or_default().to_owned();
            let missing = || ProofError::Damaged {
                run: row.id.0.clone(),
                record: phase.id.0.clone(),
                why: "its row is missing".to_owned(),
            };
            let of_phase = self.reader.run(&phase.id)?.ok_or_else(missing)?;
            if of_phase.pruned {
                return Err(ProofError::Removed { run: row.id.0.clone() }.into());
            }
            // What was not finished belongs to no claim: it was played again.
            if of_phase.state == RunState::Finished {
                claim.phases.push(claimed(&of_phase, RunId(format!("{run}.{name}")), SpecDocument::none()));
                counts.push(phase.episodes);
            }
        }
        if row.kind != RunKind::Learn {
            counts = vec![self.reader.tally(&row.id, 0)?.episodes];
        }
        self.add_text(EntryName::Runs, &canonical_json(&serde_json::json!(claim)), || row.id.to_string())?;
        Ok((claim, counts))
    }

    /// What the run learned. `tested`: the weights that answered the test after learning.
    async fn learned(
        &mut self,
        (run, spec): (&RunId, &RunSpec),
        tested: &BTreeSet<Digest>,
    ) -> Result<Option<ProvedAdapter>, AppError> {
        let adapter = learned_adapter(self.workspace, (run, spec), tested);
        let mut learned = self.reports(run).await?;
        if let Some((ProvedAdapter::Packed { weights, .. }, Some([settings, of_weights]))) = &adapter {
            learned.adapter = Some(ClaimedAdapter { weights: *weights });
            self.builder.add(EntryName::AdapterSettings, settings).map_err(ProofError::from)?;
            for (name, part) in parts(of_weights) {
                self.builder.add(name, part).map_err(ProofError::from)?;
            }
        }
        let text = canonical_json(&serde_json::json!(learned));
        self.add_text(EntryName::Learning, &text, || format!("what {run} learned"))?;
        Ok(adapter.map(|(adapter, _)| adapter))
    }

    async fn reports(&self, run: &RunId) -> Result<LearnedClaim, AppError> {
        let store = self.workspace.store();
        let mut iterations = store.iterations(run).await?;
        for iteration in &mut iterations {
            if let Some(fields) = iteration.as_object_mut() {
                // It differs after an interruption.
                fields.remove("usage");
            }
        }
        let checkpoint = store.last_checkpoint(run).await?;
        let playbooks = checkpoint.and_then(|(_, state)| ServedPlaybooks::of_checkpoint(&state));
        Ok(LearnedClaim { iterations, playbooks, adapter: None })
    }

    /// The components that play and judge the episodes, and the reflectors of the specification as far as they are kept. Returns their number.
    fn components(&mut self, claim: &Claim) -> Result<u64, AppError> {
        let needed = needed(claim);
        let mut components = 0;
        for digest in needed.iter().copied().chain(reflectors(claim).difference(&needed).copied()) {
            match self.reader.plugin(&digest)? {
                Some(kept) => {
                    self.builder.add(EntryName::Plugin(digest), &kept.bytes).map_err(ProofError::from)?;
                    components += 1;
                }
                // The only reward that is part of the program is not stored, and neither is a reflector of an earlier version.
                None if !needed.contains(&digest) || is_built_in(&digest) => {}
                None => {
                    let (run, digest) = (self.run.0.clone(), digest.short());
                    return Err(ProofError::NoComponent { run, digest }.into());
                }
            }
        }
        Ok(components)
    }

    /// The episodes of all rows.
    fn episodes(&mut self, row: &RunRow, claim: &Claim, include_private: bool) -> Result<PackedEpisodes, AppError> {
        let packed = match (include_private, claim.prompt_left_out) {
            (true, _) => Packed::Whole,
            (false, None) => Packed::WithoutReferences,
            (false, Some(_)) => Packed::Digests,
        };
        let total = self.reader.tally(&row.id, 0)?.episodes;
        let (after, mut tested) = (AfterLearning::of(claim), BTreeSet::new());
        let (mut part, mut text, mut in_part, mut done) = (0, String::new(), 0, 0);
        let played: Vec<&ClaimedRun> = match row.kind {
            RunKind::Learn => claim.phases.iter().collect(),
            _ => vec![&claim.run],
        };
        for of in played {
            let own = match claim.phase_name(&of.id) {
                Some(name) => RunId(format!("{}.{name}", row.id)),
                None => row.id.clone(),
            };
            let mut stored = StoredEpisodes::of_run(self.reader, &own)?;
            let (mut found, mut contents) = (0, Vec::new());
            while let Some(group) = stored.next_group()? {
                if self.cancel.is_requested() {
                    return Err(PlayError::Cancelled.into());
                }
                let group = canonical(group, &of.id);
                found += group.len() as u64;
                let answered = group.iter().filter(|one| after.has(one)).map(|one| &one.policy.model.version);
                tested.extend(answered.filter_map(|version| weights_of(version).parse::<Digest>().ok()));
                contents.extend(group.iter().map(|one| (one.group(), one.index, content_digest(one))));
                for line in packed.lines(group) {
                    text.push_str(&line.text());
                    text.push('\n');
                    in_part += 1;
                }
                if in_part >= PART_EPISODES || text.len() >= PART_BYTES {
                    self.part(part, &std::mem::take(&mut text))?;
                    (part, in_part) = (part + 1, 0);
                }
                self.events.event(Event::Progress { done: done + found, total });
            }
            self.check_read(&own, of, &mut stored, found, contents)?;
            done += found;
        }
        if in_part > 0 {
            self.part(part, &text)?;
        }
        let digests_only = if packed == Packed::Digests { done } else { 0 };
        Ok(PackedEpisodes { episodes: done, digests_only, tested })
    }

    fn part(&mut self, part: u32, text: &str) -> Result<(), ProofError> {
        self.add_text(EntryName::Episodes(part), text, || format!("an episode in part {part}"))
    }

    /// Whether all episodes of a row were read, and are those that it was finished with.
    fn check_read(
        &self,
        own: &RunId,
        row: &ClaimedRun,
        stored: &mut StoredEpisodes<'_>,
        found: u64,
        contents: Vec<(u64, u64, Digest)>,
    ) -> Result<(), ProofError> {
        let run = own.0.clone();
        if let Some(damaged) = stored.take_damaged().into_iter().next() {
            return Err(ProofError::Damaged { run, record: damaged.record, why: damaged.why });
        }
        let stopped = row.summary.get("stopped").is_some_and(|why| !why.is_null());
        if found < row.planned && !stopped {
            return Err(ProofError::Incomplete { run, found, planned: row.planned });
        }
        let (recorded, root) = (recorded_root(&row.summary), content_root(contents));
        match recorded {
            Some(recorded) if recorded != root => {
                let why = "its content root is not that of its episodes".to_owned();
                Err(ProofError::Damaged { run: run.clone(), record: run, why })
            }
            _ => Ok(()),
        }
    }
}

/// The id in the bundle: it follows from the content, so that equal runs have equal ones.
fn bundled_id(row: &RunRow) -> RunId {
    let root = row.summary.as_ref().and_then(recorded_root).unwrap_or(row.digest);
    RunId(format!("run-{}", root.short()))
}

fn claimed(row: &RunRow, id: RunId, config: SpecDocument) -> ClaimedRun {
    ClaimedRun {
        id,
        kind: row.kind,
        environment: row.environment.clone(),
        state_id: row.state_id.clone(),
        config,
        digest: row.digest,
        basis: row.basis.clone(),
        summary: row.summary.clone().unwrap_or(Value::Null),
        planned: row.planned,
    }
}

/// Whether a digest is that of the reward that is part of the program.
pub(super) fn is_built_in(digest: &Digest) -> bool {
    *digest == clawhost_play::finished_reward().identity().digest
}

/// The components that play and judge the episodes of a claim.
fn needed(claim: &Claim) -> BTreeSet<Digest> {
    let mut digests = BTreeSet::new();
    for conditions in claim.rows().filter_map(ClaimedRun::conditions) {
        match conditions.parts.is_empty() {
            true => digests.extend([conditions.environment]),
            false => digests.extend(conditions.parts.iter().map(|part| part.environment)),
        }
        digests.extend(conditions.rewards.iter().map(|reward| reward.0));
    }
    digests
}

/// The reflectors that its specification names.
fn reflectors(claim: &Claim) -> BTreeSet<Digest> {
    let spec = claim.spec();
    let harness = spec.as_ref().and_then(RunSpec::harness);
    let reflectors = harness.into_iter().flat_map(|harness| &harness.reflectors);
    reflectors.filter_map(|reflector| Some(reflector.plugin.as_ref()?.digest)).collect()
}
