//! Invariants of a database, wherever the process that wrote it died.

use crate::bench::Bench;
use clawhost_core::{EpisodeFilter, EpisodeReader as _};
use clawhost_store::Reader;
use std::collections::{BTreeMap, BTreeSet};

/// Checks that the database opens, no episode is incomplete or duplicated, and groups are complete. Returns the number
/// of its episodes.
pub(crate) fn check(bench: &Bench, verdicts: usize) -> usize {
    let reader = Reader::open(bench.data.path()).unwrap();
    assert_eq!(reader.check().unwrap(), None, "the database file is intact");
    let rows = reader.episodes(&EpisodeFilter::default()).unwrap();
    let mut places = BTreeSet::new();
    let mut groups: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
    for row in &rows {
        let episode = reader.episode(&format!("{}/{}", row.run, row.id)).unwrap().unwrap();
        assert!(places.insert((row.run.clone(), episode.index)), "{} is recorded twice", episode.id);
        assert_eq!(episode.verdicts.len(), verdicts, "an episode has all its verdicts");
        *groups.entry(row.run.clone()).or_default().entry(episode.group()).or_default() += 1;
    }
    for (run, groups) in groups {
        let sizes: BTreeSet<u64> = groups.into_values().collect();
        assert_eq!(sizes.len(), 1, "a group of {run} is recorded whole or not at all: {sizes:?}");
    }
    rows.len()
}
