//! What a run file leaves unsaid is what the command line leaves unsaid, and what it may say is what flags may say.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use clawhost_package::{Play, RunFile, limits};
use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

/// The attribute above a flag of `clawhost run`, as the source of the command line has it.
fn attribute(flag: &str) -> String {
    let source = include_str!("../../cli/src/args.rs");
    let run = source.split_once("struct Run {").unwrap().1;
    let before = run.split_once(&format!("pub(crate) {flag}:")).unwrap_or_else(|| unreachable!("no flag {flag}")).0;
    let line = before.lines().rev().find(|line| line.trim_start().starts_with("#[arg")).unwrap();
    line.replace('_', "").replace("defaultvaluet = ", "default ").replace("defaultvalue = ", "default ")
}

fn default_is(flag: &str, value: impl Debug) {
    let attribute = attribute(flag);
    assert!(attribute.contains(&format!("default {value:?},")), "{flag}: {value:?} in {attribute}");
}

fn has_no_default(flag: &str) {
    assert!(!attribute(flag).contains("default "), "{flag}");
}

fn range_is<N: Display>(flag: &str, range: &RangeInclusive<N>) {
    let attribute = attribute(flag);
    let written = format!(".range({}..={})", range.start(), range.end());
    assert!(attribute.contains(&written), "{flag}: {written} in {attribute}");
}

#[test]
fn defaults_are_those_of_the_command_line() {
    let file = RunFile::new("env.wasm");
    let play = Play::default();
    assert_eq!(attribute("policy").matches("default \"follower\"").count(), 1);
    assert_eq!(file.policy, "follower");
    // With two defaults, for playing and for learning, these stand in words and in the code.
    let args = include_str!("../../cli/src/args.rs");
    assert!(args.contains(&format!("[default: {}; learning: 64 an iteration]", play.episodes)));
    assert!(args.contains(&format!("[default: {}; learning: 4; weights: 8]", play.group)));
    default_is("concurrency", file.concurrency);
    default_is("seed", file.seed);
    default_is("max_turns", file.max_turns);
    default_is("failure_budget", file.failure_budget);
    default_is("max_tokens", file.max_tokens);
    for flag in ["tasks", "system_prompt", "system_prompt_file", "temperature", "max_tokens_total", "max_cost", "price"]
    {
        has_no_default(flag);
    }
    let unsaid = [file.tasks.is_none(), file.system_prompt.is_none(), file.temperature.is_none()];
    assert!(unsaid.into_iter().all(|unsaid| unsaid));
    assert!(file.max_tokens_total.is_none() && file.max_cost.is_none() && file.price.is_none());
}

#[test]
fn ranges_are_those_of_the_command_line() {
    range_is("episodes", &limits::EPISODES);
    range_is("group", &limits::GROUP);
    range_is("concurrency", &limits::CONCURRENCY);
    range_is("max_turns", &limits::MAX_TURNS);
    assert!(attribute("seed").contains(".range(..1 << 53)"));
    assert_eq!(*limits::SEED.end(), (1 << 53) - 1);
    assert!(attribute("max_tokens").contains(".range(1..)"));
    assert_eq!(limits::MAX_TOKENS, 1..=u32::MAX);
    // Numbers with a point have functions of their own there.
    let source = include_str!("../../cli/src/args.rs");
    let function = |name: &str| source.split_once(&format!("fn {name}(")).unwrap().1.split_once("\n}").unwrap().0;
    let within = |name, range: &str| assert!(function(name).contains(&format!("in_range(text, {range})")), "{name}");
    within("share", &format!("{:?}, {:?}", limits::FAILURE_BUDGET.start(), limits::FAILURE_BUDGET.end()));
    within("temperature", &format!("{:?}, {:?}", limits::TEMPERATURE.start(), limits::TEMPERATURE.end()));
    within("money", "0.0, 1e9");
    assert_eq!(limits::MONEY, 0.0..=1e9);
}
