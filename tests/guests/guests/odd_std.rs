//! Uses the standard library like any program: prints, reads the time, sleeps, iterates over a hash map, and opens files.
//!
//! Built for `wasm32-wasip2` it works, in virtual time; `wasm32-unknown-unknown` has no clock, and it panics.
#![allow(clippy::disallowed_methods, reason = "telling the time is what this guest is for")]

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

/// Paths of files that many machines have, paths out of a folder, and names of devices.
const PATHS: [&str; 7] = ["/etc/passwd", "etc/passwd", "../../etc/passwd", "/", ".", "NUL", "C:\\CON"];

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "odd-std";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, action: &str, _signals: &mut Signals) -> Result<Next> {
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs(3600));
        println!("the policy says {action}");
        let order: Vec<u32> = (0..20).map(|number| (number, ())).collect::<HashMap<_, _>>().into_keys().collect();
        let opened = PATHS.iter().filter(|path| std::fs::File::open(path).is_ok() || std::fs::read_dir(path).is_ok());
        let (opened, made) = (opened.count(), std::fs::write("made", "x").is_ok());
        let (seconds, now) = (began.elapsed().as_secs(), SystemTime::now());
        Ok(Next::Continue(format!("{seconds} s, {now:?}, {order:?}, {opened} files opened, made one: {made}")))
    }
}

export_environment!(Guest);
