//! The proof of the harness layer: a playbook is learned from nothing in a shop whose rules nobody tells, and the same loop is
//! run with placebos in place of what it claims to be made of.

use super::ITERATIONS;
use super::commands::Commands;
use super::plant::Plant;
use super::stage::{Arm, Stage, Stopped};
use super::{proof, summary};
use crate::args::{Common, DemoHarness};
use crate::exit::Exit;
use crate::learn_progress::LearnProgress;
use crate::plot;
use crate::run::{Stopping, watch_signals};
use clawhost_learn::Lesson;
use clawhost_learn::harness::{Admission, EntryRow};
use clawhost_learn::playbook::Playbook;
use clawhost_runtime::learn::{LearnReport, Mean};

/// Everything that the demo found.
pub(super) struct Found {
    pub(super) full: LearnReport,
    pub(super) playbook: Playbook,
    pub(super) silent: LearnReport,
    pub(super) shuffled: LearnReport,
    pub(super) everything: LearnReport,
    pub(super) oracle: Option<Mean>,
    pub(super) plant: Option<Plant>,
}

impl Found {
    pub(super) fn planted(&self) -> Option<&EntryRow> {
        self.full.entries.iter().find(|row| row.created_by == "planted")
    }

    pub(super) fn retired(&self) -> bool {
        self.planted().is_some_and(proof::retired)
    }

    /// What is known of every lesson of the playbook, in its order.
    pub(super) fn kept(&self) -> Vec<&EntryRow> {
        let rows = &self.full.entries;
        self.playbook.entries.iter().filter_map(|entry| rows.iter().find(|row| row.id == entry.id)).collect()
    }
}

/// Plays all arms, one after the other; what is stopped or fails ends them all.
async fn play(stage: &Stage<'_>) -> anyhow::Result<Found> {
    let plant = stage.scout().await?;
    let planted: Vec<Lesson> = plant.iter().map(|plant| plant.lesson.clone()).collect();
    let arm = |name, purpose, mode, admission, planted| Arm { name, purpose, mode, admission, planted };
    let arms = [
        arm("reflector, credit and gate", "what is to be proved", "rules", Admission::Measured, &planted[..]),
        arm("a silent reflector", "so that nothing is learned", "silent", Admission::Measured, &[]),
        arm("shuffled proposals", "whose lessons say the wrong thing", "shuffled", Admission::Measured, &[]),
        arm("everything admitted", "so that nothing is measured", "rules", Admission::Everything, &planted[..]),
    ];
    let [full, silent, shuffled, everything] = &arms;
    let of = arms.len();
    let (full, playbook) = stage.learn((1, of), full).await?;
    let (silent, _) = stage.learn((2, of), silent).await?;
    let (shuffled, _) = stage.learn((3, of), shuffled).await?;
    let (everything, _) = stage.learn((4, of), everything).await?;
    let oracle = stage.oracle().await?;
    Ok(Found { full, playbook, silent, shuffled, everything, oracle, plant })
}

pub(crate) async fn run(common: &Common, options: &DemoHarness) -> anyhow::Result<Exit> {
    let began = std::time::Instant::now();
    plot::check(&options.svg)?;
    let progress = LearnProgress::new(options.quiet);
    let stage = Stage::new(common, options, &progress).await?;
    let started = stage.ports.clock.now_ms();
    let stop_on_signal = tokio::spawn(watch_signals(stage.cancel.clone(), Stopping::Demo));
    let played = play(&stage).await;
    stop_on_signal.abort();
    progress.finish();
    if stage.cancel.is_requested() {
        progress.say("interrupted: start it again");
        return Ok(Exit::Interrupted);
    }
    let found = match played.map_err(|error| error.downcast::<Stopped>()) {
        Ok(found) => found,
        Err(Ok(stopped)) => {
            progress.say(&stopped.to_string());
            return Ok(Exit::of_stop(Some(&stopped.0)));
        }
        Err(Err(error)) => return Err(error),
    };
    if common.json {
        summary::json(options, &found, started, began.elapsed())?;
    } else {
        // Where nothing was learned, so few iterations are no example.
        let iterations = if found.playbook.entries.is_empty() { ITERATIONS } else { 1 }.max(options.iterations);
        let numbers = (iterations, options.seed);
        let commands = Commands::new(&stage.plugins, common.data.as_deref(), numbers);
        summary::text(options, &found, &commands, began.elapsed())?;
    }
    summary::draw(&options.svg, &found)?;
    // A proof that fails says so to whoever does not read.
    proof::check(found.full.outcome, found.planted(), options)?;
    Ok(Exit::Ok)
}
