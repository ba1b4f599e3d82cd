//! Compares the entries of a bundle with its manifest, and the manifest with the rows.

use super::ProofError;
use super::adapter::packed_adapter;
use super::claim::{Claim, LearnedClaim, document};
use super::part::Checked;
use clawhost_bundle::{Bundle, BundleError, BundledRun, EntryName};
use clawhost_core::{Digest, Discrepancy, RunKind};
use clawhost_model::AdapterFolder;

/// What was read of a bundle before its episodes.
pub(super) struct Opened {
    pub(super) claim: Claim,
    pub(super) learned: LearnedClaim,
    /// The adapter that it learned.
    pub(super) adapter: Option<AdapterFolder>,
}

/// Checks every entry against the manifest. Returns those that were changed: nothing is read from such a bundle.
pub(super) fn changed(bundle: &Bundle) -> Result<Vec<Discrepancy>, ProofError> {
    let mut found = Vec::new();
    for entry in &bundle.manifest().entries {
        match bundle.check(entry.name) {
            Ok(()) => {}
            Err(BundleError::Changed { name, recorded, found: digest }) => {
                found.push(entry_is(name, &recorded, &digest))
            }
            Err(error) => return Err(error.into()),
        }
        // An author who changes a component can change the manifest as well; its name is its own digest.
        if let EntryName::Plugin(digest) = entry.name
            && found.is_empty()
        {
            let own = Digest::of(&bundle.read(entry.name)?);
            if own != digest {
                found.push(entry_is(entry.name, &digest, &own));
            }
        }
    }
    Ok(found)
}

fn entry_is(name: EntryName, recorded: &Digest, found: &Digest) -> Discrepancy {
    let (recorded, expected) = (Some(found.to_string()), Some(recorded.to_string()));
    Discrepancy { record: name.to_string(), what: "its digest".to_owned(), recorded, expected }
}

/// Reads the rows and what was learned.
pub(super) fn open(bundle: &Bundle) -> Result<Opened, ProofError> {
    let claim: Claim = document(EntryName::Runs, &bundle.read(EntryName::Runs)?)?;
    let learned = match claim.run.kind {
        RunKind::Learn => document(EntryName::Learning, &bundle.read(EntryName::Learning)?)?,
        _ => LearnedClaim::default(),
    };
    Ok(Opened { claim, learned, adapter: packed_adapter(bundle)? })
}

/// An adapter belongs to a claim about it, and the other way round.
pub(super) fn adapter_unlike(Opened { learned, adapter, .. }: &Opened) -> Option<Discrepancy> {
    let words = |is_there: bool| if is_there { "there" } else { "missing" }.to_owned();
    let record = EntryName::AdapterSettings.to_string();
    Discrepancy::between(&record, "the adapter", words(adapter.is_some()), words(learned.adapter.is_some()))
}

/// The differences between the manifest's list of runs and the rows with their episodes. A sample is drawn from that list.
pub(super) fn rows_unlike(bundle: &Bundle, claim: &Claim, checked: &Checked) -> Vec<Discrepancy> {
    let words = |runs: &mut dyn Iterator<Item = (String, RunKind)>| {
        runs.map(|(id, kind)| format!("{id} ({})", kind.name())).collect::<Vec<_>>().join(", ")
    };
    let listed = words(&mut bundle.manifest().runs.iter().map(|BundledRun { id, kind, .. }| (id.to_string(), *kind)));
    let rows = words(&mut claim.rows().map(|row| (row.id.to_string(), row.kind)));
    let mut found: Vec<Discrepancy> =
        Discrepancy::between("manifest.json", "its list of runs", listed, rows).into_iter().collect();
    for BundledRun { id, episodes, .. } in &bundle.manifest().runs {
        let there = checked.runs.get(id).map_or(0, |of_run| of_run.contents.len());
        let what = format!("the number of episodes of {}", clawhost_core::escaped(&id.0, 200));
        found.extend(Discrepancy::between("manifest.json", what, episodes.to_string(), there.to_string()));
    }
    found
}
