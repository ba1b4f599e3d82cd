//! The proof of the weights layer: a tiny model is made from a seed, taught by a demonstrator, and gets better than its teacher by
//! rewards alone, in a game that is a sandboxed component.

mod part;
mod shuffled;
mod stage;
mod summary;

use crate::args::{Common, DemoWeights};
use crate::demo::stage::{Stopped, folder};
use crate::exit::Exit;
use crate::learn_progress::LearnProgress;
use crate::run::{Stopping, watch_signals};
use crate::{data, device, hosting, plot};
use clawhost_core::Clock as _;
use clawhost_engine::Host;
use clawhost_model::TinyModel;
use clawhost_model::device::ComputeDevice;
use clawhost_runtime::Cancel;
use clawhost_runtime::learn::LearnReport;
use part::Part;
use stage::{Measured, Stage};
use std::path::Path;

/// What one part found.
struct Found {
    part: Part,
    imitation: LearnReport,
    rewards: LearnReport,
    before: Measured,
    after: Measured,
    control_sft: Option<Measured>,
    control_shuffled: Option<Measured>,
    seconds: f64,
}

/// Plays one part to its end.
async fn play(
    host: &Host,
    plugins: &Path,
    part: Part,
    (options, device): (&DemoWeights, &ComputeDevice),
    watched: (&Cancel, &LearnProgress),
) -> anyhow::Result<Found> {
    let began = std::time::Instant::now();
    let part = if options.quick { part.quick() } else { part };
    let stage = Stage::new(host, plugins, part.clone(), (options.seed, device), watched).await?;
    let imitation = stage.imitate().await?;
    let taught = stage.snapshot()?;
    let before = stage.measure("before").await?;
    let rewards = stage.reinforce(false).await?;
    let after = stage.measure("after").await?;
    let seconds = began.elapsed().as_secs_f64();
    let (mut control_sft, mut control_shuffled) = (None, None);
    if !options.quick {
        stage.restore(&taught)?;
        stage.imitate_on().await?;
        control_sft = Some(stage.measure("more demonstrations").await?);
        stage.restore(&taught)?;
        stage.reinforce(true).await?;
        control_shuffled = Some(stage.measure("shuffled").await?);
    }
    Ok(Found { part, imitation, rewards, before, after, control_sft, control_shuffled, seconds })
}

pub(crate) async fn run(common: &Common, options: &DemoWeights) -> anyhow::Result<Exit> {
    plot::check(&options.svg)?;
    let progress = LearnProgress::new(options.quiet);
    let plugins = folder(options.plugins.as_ref(), "env_guess.wasm")?;
    let (opened, chosen) = options.device.open(TinyModel::default().make()?.config.parameters())?;
    device::described(&chosen).iter().for_each(|line| progress.say(line));
    let host = hosting::host(Some(data::cache(&data::folder(common)?)?), false, false)?;
    let cancel = Cancel::default();
    let (began, started) = (std::time::Instant::now(), data::SystemClock::new().now_ms());
    let stop_on_signal = tokio::spawn(watch_signals(cancel.clone(), Stopping::Demo));
    let mut found = Vec::new();
    for part in [Part::guess(), Part::addition()] {
        match play(&host, &plugins, part, (options, &opened), (&cancel, &progress)).await {
            Ok(part) => found.push(part),
            Err(_) if cancel.is_requested() => {
                progress.finish();
                progress.say("interrupted: start it again");
                return Ok(Exit::Interrupted);
            }
            Err(error) => {
                progress.finish();
                let stopped = error.downcast::<Stopped>()?;
                progress.say(&stopped.to_string());
                return Ok(Exit::of_stop(Some(&stopped.0)));
            }
        }
    }
    stop_on_signal.abort();
    progress.finish();
    if common.json {
        summary::json((options, &chosen), &found, started, began.elapsed())?;
    } else {
        summary::text((options, &chosen), &found, began.elapsed())?;
    }
    summary::draw(&options.svg, &found)?;
    summary::check(&found)?;
    Ok(Exit::Ok)
}
