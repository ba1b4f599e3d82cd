//! Bytes of a stored episode, and the time to write and to read one: `cargo bench -p clawhost-store --bench size`.
//!
//! 100,000 episodes of `env-guess` (`CLAWHOST_BENCH_EPISODES` sets another number) are written in batches of 256, one
//! transaction each, and read back one by one; then the same as plain JSON text. The writer waits for each batch, so
//! one thread is busy at any time. The time to create the episodes is not counted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a measurement, which prints what it finds"
)]

#[path = "size/episodes.rs"]
mod episodes;
#[path = "size/plain.rs"]
mod plain;

use clawhost_core::{Episode, EpisodeReader as _, EpisodeStore as _, Recorded, RunRecord, Usage, derive_seed};
use clawhost_store::{FILE, Reader, Store, StoreOptions};
use plain::Plain;
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

/// Episodes per transaction.
const BATCH: u64 = 256;
/// Episodes per run.
const RUN: u64 = 25_000;
/// Episodes that are read back.
const READ: u64 = 20_000;

/// Wall-clock and processor time.
#[derive(Default, Clone, Copy)]
struct Spent {
    wall: Duration,
    processor: Duration,
}

impl Spent {
    fn of<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (wall, processor) = (Instant::now(), processor());
        let done = work();
        self.wall += wall.elapsed();
        self.processor += self::processor().saturating_sub(processor);
        done
    }

    fn rates(self, count: u64) -> String {
        let rate = |time: Duration| count as f64 / time.as_secs_f64();
        format!("{:.0} /s by the clock, {:.0} /s of processor time", rate(self.wall), rate(self.processor))
    }
}

/// Processor time of all threads. Zero if the system does not report it.
fn processor() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let time = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    threads.flatten().filter_map(time).sum()
}

/// Runs with the numbers of their episodes.
fn runs(count: u64) -> impl Iterator<Item = (RunRecord, u64)> {
    (0..count.div_ceil(RUN)).map(move |number| (episodes::run(number), RUN.min(count - number * RUN)))
}

fn batches(run: &RunRecord, count: u64) -> impl Iterator<Item = Vec<Recorded>> {
    let batch =
        move |first: u64| (first..count.min(first + BATCH)).map(|index| episodes::recorded(run, index)).collect();
    (0..count).step_by(BATCH as usize).map(batch)
}

/// Episodes to read, in random order, in batches.
fn chosen(count: u64) -> impl Iterator<Item = Vec<Episode>> {
    let one = move |number: u64| {
        let place = derive_seed(7, "read", number) % count;
        episodes::episode(&episodes::run(place / RUN), place % RUN)
    };
    let read = READ.min(count);
    (0..read).step_by(BATCH as usize).map(move |first| (first..read.min(first + BATCH)).map(one).collect())
}

/// Prints the bytes of every table and index. Returns the total.
fn sizes(path: &Path, count: u64) -> f64 {
    let database = Connection::open(path).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let sql = "SELECT name, sum(pgsize), sum(unused) FROM dbstat GROUP BY name ORDER BY 2 DESC";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    println!("| table or index | bytes an episode | of these unused |\n|---|---|---|");
    for row in rows {
        let (name, bytes, unused): (String, f64, f64) = row.unwrap();
        if bytes > count as f64 {
            println!("| {name} | {:.1} | {:.1} |", bytes / count as f64, unused / count as f64);
        }
    }
    let bytes = std::fs::metadata(path).unwrap().len() as f64 / count as f64;
    println!("| the file | {bytes:.1} | |\n");
    bytes
}

fn compressed(count: u64) -> (f64, Spent, Spent) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut writing, mut reading) = (Spent::default(), Spent::default());
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (run, count) in runs(count) {
        runtime.block_on(store.begin_run(&run)).unwrap();
        for batch in batches(&run, count) {
            writing.of(|| runtime.block_on(store.append(&run.id, batch, Usage::default()))).unwrap();
        }
    }
    drop(store);
    let bytes = sizes(&folder.path().join(FILE), count);
    let reader = Reader::open(folder.path()).unwrap();
    for expected in chosen(count) {
        let names: Vec<String> = expected.iter().map(|one| format!("{}/{}", one.run, one.id)).collect();
        let read = |name: &String| reader.episode(name).unwrap().unwrap();
        let found: Vec<Episode> = reading.of(|| names.iter().map(read).collect());
        assert!(found == expected, "{names:?}");
    }
    (bytes, writing, reading)
}

fn plain(count: u64) -> (f64, Spent, Spent) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join(FILE);
    let (mut writing, mut reading) = (Spent::default(), Spent::default());
    let mut plain = Plain::create(&path);
    for (run, count) in runs(count) {
        for batch in batches(&run, count) {
            writing.of(|| plain.append(&batch));
        }
    }
    let bytes = sizes(&path, count);
    for expected in chosen(count) {
        let read = |one: &Episode| plain.episode(&one.run.0, &one.id.0);
        let found: Vec<Episode> = reading.of(|| expected.iter().map(read).collect());
        assert!(found == expected);
    }
    (bytes, writing, reading)
}

fn main() {
    let count = std::env::var("CLAWHOST_BENCH_EPISODES").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    println!("{count} episodes\n\ncompressed\n");
    let (bytes, writing, reading) = compressed(count);
    println!("plain\n");
    let (plain_bytes, plain_writing, plain_reading) = plain(count);
    println!("| what | compressed | plain | times |\n|---|---|---|---|");
    println!("| bytes an episode | {bytes:.0} | {plain_bytes:.0} | {:.1} |", plain_bytes / bytes);
    let line = |what: &str, count: u64, one: Spent, other: Spent| {
        let times = other.processor.as_secs_f64() / one.processor.as_secs_f64();
        println!("| {what} | {} | {} | {times:.2} |", one.rates(count), other.rates(count));
    };
    line("written", count, writing, plain_writing);
    line("read one by one", READ.min(count), reading, plain_reading);
}
