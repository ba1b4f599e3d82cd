//! What holds for every text and for every run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use clawhost_package::{
    Evaluation, Evolve, Gate, Grant, Harness, Learn, Play, Price, RunFile, SystemPrompt, Work, limits, sample,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// Any text that is not empty, control characters and line ends too.
fn text() -> impl Strategy<Value = String> {
    "(?s).{1,20}"
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_-]{1,128}"
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    (any::<bool>(), btree_map(name(), text(), 0..3)).prop_map(|(kv, models)| {
        let models = models.into_iter().map(|(alias, spec)| Grant::Model { alias, spec });
        kv.then_some(Grant::Kv).into_iter().chain(models).collect()
    })
}

fn harness() -> impl Strategy<Value = Harness> {
    let numbers = (limits::TOKEN_BUDGET, limits::TRIAL_SLOTS, limits::ITERATIONS);
    (text(), option::of(name()), numbers, vec(text(), 0..3)).prop_map(|(reflector, playbook, numbers, forbid)| {
        let (token_budget, trial_slots, reflect_every) = numbers;
        Harness { reflector, playbook, token_budget, trial_slots, reflect_every, forbid }
    })
}

fn learn() -> impl Strategy<Value = Work> {
    let groups = (1..=32_u32, 1..=1000_u64).prop_map(|(half, groups)| (2 * half, 2 * u64::from(half) * groups));
    let gate = (limits::ITERATIONS, limits::PAIRS, limits::ALPHA);
    let gate = gate.prop_map(|(every, pairs, alpha)| Gate { every, pairs, alpha });
    let evolve = (limits::EVOLVE_BUDGET, limits::MINIBATCH, name(), text());
    let evolve =
        evolve.prop_map(|(budget, minibatch, section, reflector)| Evolve { budget, minibatch, section, reflector });
    let eval = limits::EVALUATION_PAIRS.prop_map(|pairs| Evaluation { pairs });
    (limits::ITERATIONS, groups, harness(), gate, evolve, eval).prop_map(
        |(iterations, (group, episodes), harness, gate, evolve, eval)| {
            Work::Learn(Learn { iterations, episodes, group, harness, gate, evolve, eval })
        },
    )
}

fn work() -> impl Strategy<Value = Work> {
    let play = (limits::EPISODES, limits::GROUP).prop_map(|(episodes, group)| Work::Play(Play { episodes, group }));
    prop_oneof![play, learn()]
}

fn run_file() -> impl Strategy<Value = RunFile> {
    let prompt =
        option::of(prop_oneof!["(?s).{0,20}".prop_map(SystemPrompt::Text), text().prop_map(SystemPrompt::File)]);
    let plugins = (text(), vec(text(), 0..3), text(), option::of(text()));
    let play = (limits::SEED, limits::MAX_TURNS, limits::CONCURRENCY, limits::FAILURE_BUDGET);
    let model = (prompt, option::of(limits::TEMPERATURE), limits::MAX_TOKENS, grants());
    let price = (limits::MONEY, limits::MONEY).prop_map(|(input, output)| Price { input, output });
    let money = option::of((price, option::of(limits::MONEY)));
    (plugins, play, model, option::of(limits::MAX_TOKENS_TOTAL), money, work()).prop_map(
        |(plugins, play, model, max_tokens_total, money, work)| {
            let (plugin, rewards, policy, tasks) = plugins;
            let (seed, max_turns, concurrency, failure_budget) = play;
            let (system_prompt, temperature, max_tokens, grants) = model;
            let (price, max_cost) = money.map_or((None, None), |(price, most)| (Some(price), most));
            RunFile {
                plugin,
                rewards,
                policy,
                tasks,
                seed,
                max_turns,
                concurrency,
                failure_budget,
                system_prompt,
                temperature,
                max_tokens,
                grants,
                max_tokens_total,
                max_cost,
                price,
                work,
            }
        },
    )
}

/// Pieces of which files are made: some fit together, most do not.
const PIECES: [&str; 40] = [
    "plugin",
    "rewards",
    "tasks",
    "group",
    "episodes",
    "seed",
    "price",
    "grants",
    "learn",
    "harness",
    "gate",
    "evolve",
    "eval",
    "layers",
    "reflector",
    "playbook",
    "=",
    "=",
    "=",
    ".",
    ",",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "\n",
    "\n",
    "\r\n",
    "\"a\"",
    "\"",
    "\"\"\"",
    "'",
    "7",
    "-1.5e9",
    "0xff",
    "true",
    "1979-05-27T07:32:00Z",
    "# c",
];

/// Lines of which files are made that are TOML more often than not.
const LINES: [&str; 16] = [
    "plugin = \"e\"",
    "[learn]",
    "[harness]",
    "[gate]",
    "[eval]",
    "reflector = \"r\"",
    "group = 4",
    "episodes = 8",
    "every = 3",
    "seed = 1",
    "tasks = \"test\"",
    "layers = [\"harness\", 1]",
    "learn.group = 3",
    "[learn.gate]",
    "[[evolve]]",
    "harness = { reflector = \"r\", x.y = 1 }",
];

/// It does not panic, and every diagnostic lies inside the text, in order.
fn check(text: &str) {
    match RunFile::parse(text) {
        Ok(file) => assert_eq!(RunFile::parse(&file.to_toml()), Ok(file)),
        Err(all) => {
            let lines: Vec<usize> = all.iter().filter_map(|found| found.line).collect();
            assert!(lines.is_sorted(), "{all}");
            assert!(lines.iter().all(|line| (1..=text.split('\n').count()).contains(line)), "{all}");
            assert_eq!(all.to_string().lines().count(), all.iter().count(), "one line each: {all}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_run_reads_back_as_it_was_written(file in run_file()) {
        let written = file.to_toml();
        prop_assert_eq!(RunFile::parse(&written), Ok(file), "{}", written);
    }

    #[test]
    fn no_text_is_too_odd(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn no_heap_of_pieces_is_too_odd(pieces in vec(prop::sample::select(&PIECES[..]), 0..40)) {
        check(&pieces.concat());
        check(&pieces.join(" "));
    }

    #[test]
    fn no_heap_of_lines_is_too_odd(lines in vec(prop::sample::select(&LINES[..]), 0..12)) {
        check(&lines.join("\n"));
    }

    #[test]
    fn no_damage_to_a_file_is_too_odd(from in 0..1200_usize, length in 0..30_usize, patch in ".{0,5}") {
        let characters: Vec<char> = sample().chars().collect();
        let kept = characters.iter().take(from).copied().chain(patch.chars());
        check(&kept.chain(characters.iter().skip(from + length).copied()).collect::<String>());
    }
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    for (open, close) in [("[", "]"), ("{ a = ", "}")] {
        check(&format!("seed = {}{}", open.repeat(100_000), close.repeat(100_000)));
        check(&format!("seed = {}", open.repeat(100_000)));
    }
    for deep in ["a.".repeat(70), "a.".repeat(500_000)] {
        check(&format!("[{deep}a]\n{deep}a = 1"));
    }
}
