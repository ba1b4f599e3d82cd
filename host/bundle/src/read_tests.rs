//! What is read is what was written; everything else is refused by name.

use super::*;
use crate::limits::UNPACKED_BYTES;
use crate::{Builder, BundledRun, FORMAT, Head};
use clawhost_core::{RunId, RunKind};
use proptest::prelude::*;

const ENGINE: u32 = 48;

fn head() -> Head {
    let runs = vec![BundledRun { id: RunId("run-1".into()), kind: RunKind::Play, episodes: 2 }];
    Head { program: "clawhost 0.1.0".to_owned(), engine: ENGINE, private: false, runs }
}

fn written(parts: &[(EntryName, &[u8])]) -> Vec<u8> {
    let (mut builder, mut bytes) = (Builder::default(), Vec::new());
    parts.iter().for_each(|(name, content)| builder.add(*name, content).unwrap());
    let written = builder.write(head(), &mut bytes).unwrap();
    assert_eq!(written.bytes, bytes.len() as u64);
    bytes
}

fn small() -> Vec<u8> {
    written(&[(EntryName::Runs, b"runs"), (EntryName::Episodes(0), &[b'e'; 3_000])])
}

fn opened(bytes: &[u8], read: impl FnOnce(&Bundle) -> Result<(), BundleError>) -> Result<(), BundleError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle");
    std::fs::write(&path, bytes).unwrap();
    read(&Bundle::open(&path, ENGINE)?)
}

fn whole(bundle: &Bundle) -> Result<(), BundleError> {
    bundle.manifest().entries.iter().try_for_each(|entry| bundle.read(entry.name).map(drop))
}

fn refused(bytes: &[u8]) -> String {
    opened(bytes, whole).unwrap_err().to_string()
}

/// An archive with this manifest, and with these contents behind it.
fn forged(manifest: &[u8], contents: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in std::iter::once((MANIFEST, manifest)).chain(contents.iter().copied()) {
        bytes.extend(header(name, content.len() as u64).unwrap());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn manifest(entries: &[(EntryName, &[u8], u64)]) -> Manifest {
    let entry = |(name, packed, unpacked): &(EntryName, &[u8], u64)| Entry {
        name: *name,
        length: packed.len() as u64,
        digest: Digest::of(packed),
        unpacked: *unpacked,
    };
    let Head { program, engine, private, runs } = head();
    Manifest { format: FORMAT, program, engine, private, runs, entries: entries.iter().map(entry).collect() }
}

#[test]
fn what_was_written_is_read_and_equal_contents_give_equal_bytes() {
    let read = |bundle: &Bundle| {
        assert_eq!(bundle.read(EntryName::Runs)?, b"runs");
        assert_eq!(bundle.read(EntryName::Episodes(0))?, [b'e'; 3_000]);
        assert!(matches!(bundle.read(EntryName::Learning), Err(BundleError::Missing { .. })));
        assert_eq!(bundle.digest(), Digest::of(&bundle.manifest().bytes()));
        Ok(())
    };
    opened(&small(), read).unwrap();
    let other = written(&[(EntryName::Episodes(0), &[b'e'; 3_000]), (EntryName::Runs, b"runs")]);
    assert_eq!(small(), other, "the order in which parts are added has no meaning");
}

#[test]
fn a_bundle_is_an_archive_that_other_tools_read() {
    let bytes = small();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let names = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["manifest.json", "runs.json.zst", "episodes/000000.jsonl.zst"]);
}

#[test]
fn every_changed_byte_of_a_bundle_is_found() {
    let bytes = small();
    let mut digest = None;
    opened(&bytes, |bundle| {
        digest = Some(bundle.digest());
        whole(bundle)
    })
    .unwrap();
    let signed = digest.unwrap();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 0x55;
        // The manifest names the rest, and its own digest is what a signature names.
        let is_other = |bundle: &Bundle| {
            whole(bundle)?;
            assert_ne!(bundle.digest(), signed, "byte {place} of {}", bytes.len());
            Ok(())
        };
        let _ = opened(&changed, is_other);
    }
}

#[test]
fn a_bundle_that_was_cut_or_continued_is_refused() {
    let bytes = small();
    for length in (0..bytes.len()).step_by(97) {
        assert!(opened(&bytes[..length], whole).is_err(), "{length}");
    }
    assert!(refused(&bytes[..bytes.len() - 512]).contains("it was cut, or something was added"));
    assert!(refused(&[&bytes[..], &[0; 512]].concat()).contains("it was cut, or something was added"));
    assert!(refused(b"").contains("does not begin with a manifest"));
    assert!(refused(&[0; 4096]).contains("does not begin with a manifest"));
}

#[test]
fn another_format_or_engine_is_refused_by_name() {
    let check = |change: &dyn Fn(&mut Manifest), says: &str| {
        let mut manifest = manifest(&[]);
        change(&mut manifest);
        let text = refused(&forged(&manifest.bytes(), &[]));
        assert!(text.contains(says), "{text}");
    };
    check(&|manifest| manifest.format = 2, "has format 2, and this program reads format 1");
    check(&|manifest| manifest.runs[0].episodes = u64::MAX, "at most 4194304 are read");
    check(&|manifest| manifest.engine = 49, "engine 49, and this program has engine 48");
    assert!(refused(&forged(b"{}", &[])).contains("the manifest of the bundle cannot be read"));
    let spaced = [manifest(&[]).bytes(), b" ".to_vec()].concat();
    assert!(refused(&forged(&spaced, &[])).contains("canonical JSON"));
}

#[test]
fn entries_are_named_once_in_order_and_from_a_closed_set() {
    let packed = zstd::bulk::compress(b"x", 1).unwrap();
    let (runs, part) = (EntryName::Runs, EntryName::Episodes(0));
    let check = |names: &[EntryName], says: &str| {
        let manifest = manifest(&names.iter().map(|name| (*name, packed.as_slice(), 1)).collect::<Vec<_>>());
        let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
        let contents: Vec<(&str, &[u8])> = texts.iter().map(|name| (name.as_str(), packed.as_slice())).collect();
        let text = refused(&forged(&manifest.bytes(), &contents));
        assert!(text.contains(says), "{text}");
    };
    check(&[runs, runs], "it has runs.json.zst twice");
    check(&[part, runs], "runs.json.zst is not in the order of names");
    let odd =
        String::from_utf8(manifest(&[(runs, &packed, 1)]).bytes()).unwrap().replace("runs.json.zst", "../../etc/x");
    assert!(refused(&forged(odd.as_bytes(), &[])).contains("is no name of an entry"));
    // The archive has something else than the manifest lists.
    let listed = manifest(&[(runs, &packed, 1)]).bytes();
    assert!(refused(&forged(&listed, &[("learning.json.zst", &packed)])).contains("does not have runs.json.zst"));
}

#[test]
fn a_bomb_is_refused_before_it_is_unpacked() {
    let bomb = zstd::bulk::compress(&vec![0; 8 << 20], 19).unwrap();
    let check = |unpacked: u64, says: &str| {
        let manifest = manifest(&[(EntryName::Runs, &bomb, unpacked)]);
        let text = refused(&forged(&manifest.bytes(), &[("runs.json.zst", &bomb)]));
        assert!(text.contains(says), "{text}");
    };
    check(UNPACKED_BYTES + 1, "at most 67108864 are read");
    check(8 << 20, "which no record does");
    check(1_000, "it goes on behind them");
    check(ANY_RATIO, "it goes on behind them");
}

/// Below the limit of the ratio.
const ANY_RATIO: u64 = crate::limits::ANY_RATIO_BYTES;

proptest! {
    #[test]
    fn no_file_of_any_bytes_is_more_than_refused(bytes in proptest::collection::vec(any::<u8>(), 0..4_096)) {
        prop_assert!(opened(&bytes, whole).is_err());
    }
}
