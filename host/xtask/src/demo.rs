//! `cargo xtask demo`: plays, scores and records episodes from a fresh clone with one command.

use crate::spent::Spent;
use crate::{cargo, guests, run, say, target};
use anyhow::Result;
use std::process::Command;

pub(crate) fn main() -> Result<()> {
    let build = Spent::begin();
    let guests = guests::build(guests::Which::Plugins)?;
    say("building clawhost in release (the first time takes minutes)");
    run(cargo().args(["build", "--release", "--package", "clawhost-cli"]))?;
    let build = build.shown();
    say(&format!("built in {build}"));
    let demos = Spent::begin();
    let target = target()?;
    let program = target.join("release/clawhost");
    let data = target.join("demo");
    let guest = |name: &str| guests.join(name).display().to_string();

    let play = |title: &str, arguments: &[&str]| -> Result<()> {
        say(&format!("\n{title}\n$ clawhost {}", arguments.join(" ")));
        run(Command::new(&program).args(arguments).arg("--data").arg(&data))
    };
    play("What is this plugin, and what does it ask for?", &["inspect", &guest("env_math.wasm")])?;
    play(
        "200 word and number problems, scored by a reward in a sandbox of its own.",
        &["run", &guest("env_math.wasm"), "--reward", &guest("reward_exact.wasm"), "--episodes", "200", "--seed", "7"],
    )?;
    play(
        "A game of several turns, four episodes from the same start.",
        &["run", &guest("env_guess.wasm"), "--episodes", "40", "--group", "4", "--seed", "7"],
    )?;
    play(
        "A shop with tools and house rules that nobody tells. The outcome decides; the form is recorded beside it.",
        &[
            "run",
            &guest("env_shop.wasm"),
            "--reward",
            &guest("reward_state.wasm"),
            "--reward",
            &guest("reward_format.wasm"),
            "--episodes",
            "200",
            "--seed",
            "3",
        ],
    )?;
    play("The same episodes under another reward.", &["score", "--reward", &guest("reward_execution.wasm")])?;
    play("What was recorded.", &["episodes", "list", "--limit", "5"])?;
    let curve = target.join("demo-harness.svg").display().to_string();
    play(
        "Learning, proved: a playbook from nothing, beside placebos of everything it is made of.",
        &["demo", "harness", "--plugins", &guests.display().to_string(), "--svg", &curve],
    )?;
    let curve = target.join("demo-weights.svg").display().to_string();
    play(
        "Weights that learn, proved: a tiny model gets better than its teacher by rewards alone, beside placebos. This takes minutes.",
        &["demo", "weights", "--plugins", &guests.display().to_string(), "--svg", &curve],
    )?;
    say(&format!("\nThe build took {build}, the demos {}.", demos.shown()));
    say(&format!(
        "\nBut for the last, the policy was the follower: it does what its prompt says and nothing else, so it solves what it is told to
calculate and no word problem. Give it a model instead:

  {} run {} --reward {} --policy openai:MODEL@http://127.0.0.1:8000/v1

Write an environment of your own: examples/hello-guess has 24 lines, sdk/GUIDE.md shows the way.",
        program.display(),
        guest("env_math.wasm"),
        guest("reward_exact.wasm"),
    ));
    Ok(())
}
