//! The proof of the harness layer: a playbook is learned from nothing in a shop whose rules nobody tells, and the same loop is
//! run with placebos in place of what it claims to be made of.

use super::plant::{Plant, SCOUTED, plant};
use crate::args::{Common, DemoHarness};
use crate::data::{self, SystemClock};
use crate::exit::{Exit, UsageError};
use crate::learn_progress::LearnProgress;
use crate::run::watch_signals;
use crate::{hosting, learn_summary, plot};
use clawhost_core::{Attributes, RunId, Sampling, Usage};
use clawhost_engine::{Host, ModelGrants};
use clawhost_follower::Follower;
use clawhost_learn::Lesson;
use clawhost_learn::harness::{Admission, EntryRow, HarnessSettings, Showing};
use clawhost_learn::playbook::Playbook;
use clawhost_runtime::learn::{
    Evaluation, GatePlan, LearnPlan, LearnPorts, LearnReport, Mean, MemoryStore, Reflecting, Verdict, evaluate,
    learn_run, play_and_keep,
};
use clawhost_runtime::{Cancel, ChatPolicy, Plan, Ports, ScoringRule};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pairs of test episodes.
const TEST_PAIRS: u64 = 200;
/// What the policy is, in the demo's own words.
const POLICY: &str = "this policy is a rule follower, not a language model: what is shown is that the loop finds, measures \
and keeps rules from experience";

/// Where the plugins are.
fn folder(options: &DemoHarness) -> Result<PathBuf, UsageError> {
    let given = options.plugins.clone().or_else(|| std::env::var_os("CLAWHOST_GUESTS").map(PathBuf::from));
    let folder = given.unwrap_or_else(|| PathBuf::from("target/guests"));
    if folder.join("env_shop.wasm").exists() {
        return Ok(folder);
    }
    Err(UsageError(format!(
        "{}: no env_shop.wasm there; build the plugins with `cargo xtask guests`, or name their folder with --plugins",
        folder.display()
    )))
}

/// Everything that the arms share.
struct Stage<'a> {
    ports: Ports,
    reflector: Arc<clawhost_engine::ReflectorPlugin>,
    play: Plan,
    iterations: u64,
    cancel: Cancel,
    progress: &'a LearnProgress,
}

/// One way to run the loop.
struct Arm {
    name: &'static str,
    /// Options of the reflector.
    mode: &'static str,
    admission: Admission,
    planted: Vec<Lesson>,
}

fn meter() -> Arc<dyn clawhost_core::Meter> {
    struct Nothing;
    impl clawhost_core::Meter for Nothing {
        fn spent(&self) -> Usage {
            Usage::default()
        }
    }
    Arc::new(Nothing)
}

async fn stage<'a>(common: &Common, options: &DemoHarness, progress: &'a LearnProgress) -> anyhow::Result<Stage<'a>> {
    let folder = folder(options)?;
    let data = data::folder(common)?;
    let host = hosting::host(Some(data::cache(&data)?), false, false)?;
    let read = |host: &Host, name: &str| -> anyhow::Result<(String, Vec<u8>)> {
        let path: &Path = &folder.join(name);
        Ok((path.display().to_string(), host.read(path)?))
    };
    let grants = ModelGrants::default();
    let (name, bytes) = read(&host, "env_shop.wasm")?;
    let environment = Arc::new(host.environment(&name, &bytes, grants.clone()).await?);
    let (name, bytes) = read(&host, "reward_state.wasm")?;
    let reward = Arc::new(host.reward(&name, &bytes, grants.clone()).await?);
    let (name, bytes) = read(&host, "reflector_rules.wasm")?;
    let reflector = Arc::new(host.reflector(&name, &bytes, grants).await?);
    let ports = Ports {
        environment,
        rewards: vec![ScoringRule::new(reward, Attributes::new())],
        policy: ChatPolicy::new(Arc::new(Follower), None, Sampling::default()),
        store: Arc::new(MemoryStore::default()),
        clock: Arc::new(SystemClock::new()),
        meter: meter(),
    };
    let play = Plan {
        episodes: 64,
        group: 4,
        concurrency: usize::from(options.concurrency),
        seed: options.seed,
        split: None,
        options: Attributes::new(),
        max_turns: 16,
        branch_at: None,
        first_group: 0,
        positions: None,
        paired: false,
        episode_bytes: host.limits().episode_bytes,
        failure_budget: 0.0,
    };
    Ok(Stage { ports, reflector, play, iterations: options.iterations, cancel: Cancel::default(), progress })
}

impl Stage<'_> {
    /// Runs one arm to its end.
    async fn learn(&self, arm: &Arm) -> anyhow::Result<(LearnReport, Playbook)> {
        self.progress.mention(&format!("arm: {}", arm.name));
        let learning = Arc::new(MemoryStore::default());
        let options = vec![("mode".to_owned(), arm.mode.to_owned())];
        let plan = LearnPlan {
            iterations: self.iterations,
            play: self.play.clone(),
            harness: HarnessSettings { admission: arm.admission, ..HarnessSettings::default() },
            reflect_every: 1,
            gate: GatePlan { every: 10, pairs: 512, alpha: 0.05 },
            evolve: None,
            test_pairs: TEST_PAIRS,
            planted: arm.planted.clone(),
        };
        let ports = LearnPorts {
            play: Ports { store: learning.clone(), ..self.ports.clone() },
            reflectors: vec![Reflecting { reflector: self.reflector.clone(), options }],
            evolver: None,
            embedder: None,
            learning: learning.clone(),
            playbook: "demo".to_owned(),
            beginning: Playbook::default(),
        };
        let run = RunId(format!("demo-{}", arm.mode));
        let report = learn_run(run, plan, ports, serde_json::Value::Null, &self.cancel, self.progress).await?;
        let newest = learning.versions("demo").into_iter().next_back();
        let playbook = newest.map(|version| serde_json::from_value(version.document)).transpose()?;
        Ok((report, playbook.unwrap_or_default()))
    }

    /// What the usual policy makes of training tasks.
    async fn scout(&self) -> anyhow::Result<Option<Plant>> {
        let plan = Plan { episodes: SCOUTED, group: 1, ..self.play.clone() };
        let (_, episodes) = play_and_keep(
            RunId("demo-scout".into()),
            plan,
            self.ports.clone(),
            None,
            serde_json::Value::Null,
            (&self.cancel, self.progress),
        )
        .await?;
        Ok(plant(&episodes))
    }

    /// What is reached by whoever is told everything.
    async fn oracle(&self) -> anyhow::Result<Evaluation> {
        let play = Plan { options: vec![("handbook".to_owned(), "all".to_owned())], ..self.play.clone() };
        let nothing = || Showing::serving(Playbook::default(), &Default::default(), 0);
        let (evaluation, _) = evaluate(
            RunId("demo-oracle".into()),
            &play,
            TEST_PAIRS,
            self.ports.clone(),
            [nothing(), nothing()],
            serde_json::Value::Null,
            (&self.cancel, self.progress),
        )
        .await?;
        Ok(evaluation)
    }
}

/// Everything that the demo found.
struct Found {
    full: LearnReport,
    playbook: Playbook,
    silent: LearnReport,
    shuffled: LearnReport,
    everything: LearnReport,
    oracle: Option<Mean>,
    plant: Option<Plant>,
}

impl Found {
    fn planted(&self) -> Option<&EntryRow> {
        self.full.entries.iter().find(|row| row.created_by == "planted")
    }

    /// Retired as harmful, with an interval below 0.
    fn retired(&self) -> bool {
        self.planted().is_some_and(|row| row.status == "harmful" && row.interval.is_some_and(|(_, high)| high < 0.0))
    }
}

fn before(report: &LearnReport) -> Option<Mean> {
    report.evaluation.as_ref().and_then(|evaluation| evaluation.before)
}

fn after(report: &LearnReport) -> Option<Mean> {
    report.evaluation.as_ref().and_then(|evaluation| evaluation.after)
}

pub(crate) async fn run(common: &Common, options: &DemoHarness) -> anyhow::Result<Exit> {
    let began = std::time::Instant::now();
    plot::check(&options.svg)?;
    let progress = LearnProgress::new(options.quiet);
    let stage = stage(common, options, &progress).await?;
    let started = stage.ports.clock.now_ms();
    let stop_on_signal = tokio::spawn(watch_signals(stage.cancel.clone()));
    let plant = stage.scout().await?;
    let planted: Vec<Lesson> = plant.iter().map(|plant| plant.lesson.clone()).collect();
    let arm = |name, mode, admission, planted: &[Lesson]| Arm { name, mode, admission, planted: planted.to_vec() };
    let (full, playbook) =
        stage.learn(&arm("reflector, credit and gate", "rules", Admission::Measured, &planted)).await?;
    let (silent, _) = stage.learn(&arm("a silent reflector", "silent", Admission::Measured, &[])).await?;
    let (shuffled, _) = stage.learn(&arm("shuffled proposals", "shuffled", Admission::Measured, &[])).await?;
    let (everything, _) =
        stage.learn(&arm("everything admitted, nothing measured", "rules", Admission::Everything, &planted)).await?;
    let oracle = stage.oracle().await?.after;
    stop_on_signal.abort();
    progress.finish();
    let found = Found { full, playbook, silent, shuffled, everything, oracle, plant };
    let stopped = [&found.full, &found.silent, &found.shuffled, &found.everything];
    if let Some(reason) = stopped.iter().find_map(|report| report.stopped.as_ref()) {
        return Ok(Exit::of_stop(Some(reason)));
    }
    if common.json {
        json(options, &found, started, began.elapsed())?;
    } else {
        text(options, &found, began.elapsed())?;
    }
    draw(&options.svg, &found)?;
    // A proof that fails says so to whoever does not read.
    Ok(if found.full.outcome == Verdict::Improved && found.retired() { Exit::Ok } else { Exit::Other })
}

fn draw(path: &Path, found: &Found) -> anyhow::Result<()> {
    let curve = |name: &str, report| plot::Curve { name: name.to_owned(), points: learn_summary::curve(report) };
    let curves = [
        curve("learning", &found.full),
        curve("silent reflector", &found.silent),
        curve("shuffled proposals", &found.shuffled),
        curve("everything admitted", &found.everything),
    ];
    let levels: Vec<(String, f64)> =
        found.oracle.iter().map(|oracle| ("told everything".to_owned(), oracle.mean)).collect();
    plot::svg(path, "Training reward, env-shop", ("iteration (64 episodes)", "mean reward"), &curves, &levels)
}

/// Largest resident memory of this process so far, where the system tells.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn json(options: &DemoHarness, found: &Found, started: u64, wall: std::time::Duration) -> anyhow::Result<()> {
    let document = serde_json::json!({
        "format": 1,
        "harness": {
            "heldout_before": before(&found.full),
            "heldout_after": after(&found.full),
            "lift": found.full.evaluation.as_ref().and_then(|evaluation| evaluation.lift),
            "silent_after": after(&found.silent),
            "shuffled_after": after(&found.shuffled),
            "admit_all_after": after(&found.everything),
            "oracle": found.oracle,
            "outcome": found.full.outcome,
            "planted_entry_retired": found.retired(),
            "planted_entry": found.planted(),
            "planted_made_of": found.plant.as_ref().map(|plant| serde_json::json!({
                "usual_is_right": plant.without, "plant_is_right": plant.with, "share_of_cases": plant.common,
            })),
            "playbook": found.playbook.entries.iter().map(|entry| {
                found.full.entries.iter().find(|row| row.id == entry.id)
            }).collect::<Vec<_>>(),
            "entries": found.full.entries,
            "curve": found.full.iterations.iter().map(|iteration| iteration.reward).collect::<Vec<_>>(),
            "gate": found.full.iterations.iter().filter_map(|iteration| iteration.gate.as_ref()).collect::<Vec<_>>(),
            "learned": found.full.learned,
            "iterations": options.iterations,
            "episodes_per_iteration": 64,
            "seeds": [options.seed],
            "policy": POLICY,
        },
        "timing": {
            "started": data::time(started), "wall_seconds": wall.as_secs_f64(), "peak_memory_bytes": peak_memory_bytes(),
            "concurrency": options.concurrency,
        },
    });
    writeln!(anstream::stdout(), "{document:#}")?;
    Ok(())
}

fn shown(mean: Option<&Mean>) -> String {
    mean.map_or("not measured".to_owned(), |mean| format!("{:.3}  ({:.3} to {:.3})", mean.mean, mean.low, mean.high))
}

fn text(options: &DemoHarness, found: &Found, wall: std::time::Duration) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    writeln!(
        out,
        "A playbook learned from nothing: env-shop, seed {}, {} iterations of 64 episodes.",
        options.seed, options.iterations
    )?;
    writeln!(out, "Note: {POLICY}.\n")?;
    if let Some(plot) = plot::text(&learn_summary::curve(&found.full), 0.0, 1.0) {
        writeln!(out, "training reward by iteration (lessons on trial are shown to half of the episodes only)")?;
        writeln!(out, "{plot}")?;
    }
    writeln!(out, "Reward on {TEST_PAIRS} test tasks that taught and decided nothing (mean, 95 % interval):")?;
    let rows = [
        ("before, no playbook", before(&found.full)),
        ("after learning", after(&found.full)),
        ("  silent reflector instead", after(&found.silent)),
        ("  shuffled proposals instead", after(&found.shuffled)),
        ("  everything proposed admitted", after(&found.everything)),
        ("told every rule (ceiling)", found.oracle),
    ];
    for (name, mean) in rows {
        writeln!(out, "  {name:32}{}", shown(mean.as_ref()))?;
    }
    if let Some(lift) = found.full.evaluation.as_ref().and_then(|evaluation| evaluation.lift.as_ref()) {
        writeln!(out, "  {:32}{:+.3}  ({:+.3} to {:+.3})", "lift, pair by pair", lift.mean, lift.low, lift.high)?;
    }
    let kept: Vec<EntryRow> = found
        .playbook
        .entries
        .iter()
        .filter_map(|entry| found.full.entries.iter().find(|row| row.id == entry.id).cloned())
        .collect();
    writeln!(out, "\nThe playbook, each lesson with what it was measured to add where it applies:")?;
    crate::episodes::print(&mut out, &learn_summary::entries(&kept, learn_summary::terminal_columns()))?;
    let tried = found.full.entries.iter().filter(|row| row.groups > 0).count();
    let number = |status: &str| found.full.entries.iter().filter(|row| row.status == status).count();
    writeln!(
        out,
        "{} lessons were proposed, {tried} tried: {} harmful, {} expired without evidence, {} still on trial",
        found.full.entries.len(),
        number("harmful"),
        number("expired"),
        number("on trial")
    )?;
    if let (Some(plant), Some(row)) = (&found.plant, found.planted()) {
        writeln!(out, "\nPlanted: {}", row.lesson)?;
        writeln!(
            out,
            "  right in {:.0} % of its cases, where the usual thing is right in {:.0} %: whoever sees it help, and does not compare, keeps it",
            plant.with * 100.0,
            plant.without * 100.0
        )?;
        let interval = row.interval.map_or("?".to_owned(), |(low, high)| format!("{low:+.3} to {high:+.3}"));
        let verdict =
            if found.retired() { "retired as harmful".to_owned() } else { format!("NOT retired: {}", row.status) };
        writeln!(
            out,
            "  {verdict}: effect {:+.3} ({interval}, always valid) after {} groups",
            row.lift.unwrap_or(0.0),
            row.groups
        )?;
    }
    writeln!(out, "\nverdict     {} (by harness alone)", found.full.outcome.words())?;
    writeln!(out, "curve       {}", options.svg.display())?;
    let memory = peak_memory_bytes().map_or(String::new(), |bytes| format!(", {} MiB at most", bytes >> 20));
    writeln!(out, "took        {:.1} s{memory}", wall.as_secs_f64())?;
    writeln!(
        out,
        "learn like this, with everything recorded: clawhost run target/guests/env_shop.wasm --reward target/guests/reward_state.wasm --learn harness \
         --reflector target/guests/reflector_rules.wasm --iterations {} --seed {}",
        options.iterations, options.seed
    )?;
    Ok(())
}
