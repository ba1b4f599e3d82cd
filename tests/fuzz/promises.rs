//! The fuzzer's targets with seeds and damaged seeds.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use fuzz::TARGETS;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

/// Seeds of a target.
fn seeds() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> = vec![root.join("golden"), root.join("golden/wire"), root.join("fuzz/seeds")];
    folders.extend(std::env::var_os("CLAWHOST_GUESTS").map(PathBuf::from));
    let mut seeds = vec![Vec::new(), b"\0asm\x0d\0\x01\0".to_vec()];
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let mut files: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        files.sort();
        // Only small files: large ones are no better seeds.
        let small = |path: &PathBuf| path.metadata().is_ok_and(|file| file.len() < 70_000);
        seeds.extend(files.into_iter().filter(small).map(|path| std::fs::read(path).unwrap()));
    }
    seeds
}

#[test]
fn every_seed_fulfils_every_promise() {
    let seeds = seeds();
    assert!(seeds.len() > 10, "{} seeds", seeds.len());
    for (_, promise) in TARGETS {
        seeds.iter().for_each(|seed| promise(seed));
    }
}

/// Changes a seed: flips bytes, truncates it, repeats a part, or inserts texts that often break parsers.
fn damage(mut bytes: Vec<u8>, changes: &[(u32, u8, u8)]) -> Vec<u8> {
    const TRIPWIRES: [&[u8]; 8] = [
        b"null",
        b"-1",
        b"1e999",
        b"\xff\xff\xff\xff\x0f",
        b"\"\\ud800\"",
        b"[[[[[[[[",
        b"{}",
        b"18446744073709551616",
    ];
    for (place, kind, value) in changes {
        let place = *place as usize % (bytes.len() + 1);
        match kind % 5 {
            0 => bytes.truncate(place),
            1 => {
                let piece = bytes[place..].iter().copied().take(usize::from(*value)).collect::<Vec<_>>();
                bytes.splice(place..place, piece);
            }
            2 => drop(bytes.splice(place..place, TRIPWIRES[usize::from(*value) % TRIPWIRES.len()].iter().copied())),
            3 => drop(bytes.splice(place..(place + usize::from(*value)).min(bytes.len()), [])),
            _ => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = *value;
                }
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_seeds_fulfil_every_promise(
        seed in prop::sample::select(seeds()),
        changes in prop::collection::vec(any::<(u32, u8, u8)>(), 1..6),
    ) {
        let bytes = damage(seed, &changes);
        for (_, promise) in TARGETS {
            promise(&bytes);
        }
    }
}
