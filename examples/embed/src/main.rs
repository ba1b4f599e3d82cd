//! clawhost inside a Rust program: `embed GUESTS DATA` plays and scores episodes, then learns a playbook from others.
#![allow(clippy::print_stdout, reason = "a program of its own")]

use clawhost_app::{Event, Start, Workspace, WorkspaceSettings, learn, run};
use clawhost_play::Cancel;
use clawhost_run_config::{RunSpecPatch, Verb};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(guests), Some(data)) = (arguments.next(), arguments.next()) else {
        return Err("usage: embed GUESTS DATA".into());
    };
    let workspace = Workspace::open(WorkspaceSettings::new(data))?;
    let cancel = Cancel::default();
    let shop = "plugin = \"env_shop.wasm\"\nrewards = [\"reward_state.wasm\"]\nseed = 1\n";
    let spec = |text: &str, verb| -> Result<_, Box<dyn Error>> {
        Ok(RunSpecPatch::from_toml(&format!("{shop}{text}"), &guests)?.resolve(verb)?)
    };

    let played = run(&workspace, spec("episodes = 50", Verb::Play)?, Start::New, &cancel, &|_: Event| {}).await?;
    println!("{}: mean reward {:?}", played.run, played.report.reward_mean);

    let lessons = "[[learn]]\nlayer = \"harness\"\nreflectors = [\"reflector_rules.wasm\"]\nbudget = 150";
    let watch = |event: Event| {
        if let Event::Iteration { report, of } = event {
            println!("iteration {} of {of}: {:?}", report.iteration, report.reward);
        }
    };
    let learned = learn(&workspace, spec(lessons, Verb::Learn)?, Start::New, &cancel, &watch).await?;
    println!("{}: {}", learned.run, learned.report.outcome.words());
    Ok(())
}
