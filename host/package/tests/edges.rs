//! Every number is taken at both ends of its range and refused beyond, with the range.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use clawhost_package::RunFile;

/// A file that is right but for what is put into one section.
fn file(section: &str, lines: &str) -> String {
    if section.is_empty() {
        return format!("plugin = \"env.wasm\"\n{lines}\n");
    }
    let mut text = "plugin = \"env.wasm\"\n".to_owned();
    for name in ["learn", "harness", "gate", "evolve", "eval"] {
        text += &format!("[{name}]\n");
        if name == "harness" {
            text += "reflector = \"r.wasm\"\n";
        }
        if name == section {
            text += &format!("{lines}\n");
        }
    }
    text
}

/// A key takes some values and comes back with them, and refuses others.
fn check(section: &str, key: &str, taken: [&str; 2], refused: &[&str]) {
    for value in taken {
        // Groups divide the episodes of an iteration; costs need a price.
        let more = match (section, key) {
            ("learn", "group") => "\nepisodes = 64",
            ("learn", "episodes") => "\ngroup = 2",
            ("", "max_cost") => "\nprice = \"1,1\"",
            _ => "",
        };
        let read = RunFile::parse(&file(section, &format!("{key} = {value}{more}"))).map_err(|all| all.to_string());
        let written = read.unwrap_or_else(|all| unreachable!("{key} = {value}: {all}")).to_toml();
        let own = if section.is_empty() {
            written.as_str()
        } else {
            let rest = written.split_once(&format!("\n[{section}]\n")).unwrap().1;
            rest.split_once("\n\n").unwrap_or((rest, "")).0
        };
        assert!(own.lines().any(|line| line == format!("{key} = {value}")), "{key} = {value} in {own}");
    }
    for value in refused {
        let text = file(section, &format!("{key} = {value}"));
        let all = RunFile::parse(&text).expect_err(&text);
        let label = if section.is_empty() { key.to_owned() } else { format!("[{section}] {key}") };
        let line = text.lines().position(|line| line.starts_with(&format!("{key} = "))).unwrap() + 1;
        let found: Vec<_> = all.iter().map(|found| (found.key.as_str(), found.line)).collect();
        assert_eq!(found, [(label.as_str(), Some(line))], "{key} = {value}: {all}");
        let shown = if value.starts_with('"') { "found the text" } else { &format!("found {value}; expected ") };
        assert!(all.iter().all(|found| found.message.starts_with(shown)), "{key} = {value}: {all}");
    }
}

#[test]
fn numbers_of_a_run_are_taken_up_to_their_edges() {
    check("", "seed", ["0", "9007199254740991"], &["-1", "9007199254740992", "1.0", "\"1\""]);
    check("", "group", ["1", "1024"], &["0", "1025"]);
    check("", "episodes", ["1", "10000000"], &["0", "10000001"]);
    check("", "max_turns", ["1", "10000"], &["0", "10001", "99999999999999999999"]);
    check("", "concurrency", ["1", "4096"], &["0", "4097", "65537"]);
    check("", "failure_budget", ["0.0", "1.0"], &["-0.1", "1.1", "nan", "inf", "2"]);
    check("", "temperature", ["0.0", "2.0"], &["-0.1", "2.1", "nan", "-inf", "true"]);
    check("", "max_tokens", ["1", "4294967295"], &["0", "4294967296"]);
    check("", "max_tokens_total", ["0", "9223372036854775807"], &["-1", "9223372036854775808"]);
    check("", "price", ["\"0,0\"", "\"1000000000,1000000000\""], &["\"1\"", "\"-1,0\"", "\"0,1000000000.1\""]);
    check("", "max_cost", ["0.0", "1000000000.0"], &["-1", "1000000000.5"]);
}

#[test]
fn numbers_of_learning_are_taken_up_to_their_edges() {
    check("learn", "iterations", ["1", "100000"], &["0", "100001"]);
    check("learn", "episodes", ["2", "100000"], &["1", "100001"]);
    check("learn", "group", ["2", "64"], &["0", "1", "3", "63", "65", "66"]);
    check("harness", "token_budget", ["1", "1000000"], &["0", "1000001"]);
    check("harness", "trial_slots", ["1", "16"], &["0", "17"]);
    check("harness", "reflect_every", ["1", "100000"], &["0", "100001"]);
    check("gate", "every", ["1", "100000"], &["0", "100001"]);
    check("gate", "pairs", ["1", "1000000"], &["0", "1000001"]);
    check("gate", "alpha", ["1e-6", "0.5"], &["0", "0.51", "nan"]);
    check("evolve", "budget", ["0", "1000000"], &["-1", "1000001"]);
    check("evolve", "minibatch", ["1", "64"], &["0", "65"]);
    check("eval", "pairs", ["0", "10000000"], &["-1", "10000001"]);
}

#[test]
fn names_are_plain_and_at_most_128_long() {
    let (longest, too_long) = (format!("\"{}\"", "n".repeat(128)), format!("\"{}\"", "n".repeat(129)));
    check("harness", "playbook", ["\"a-b_C1\"", &longest], &[&too_long, "\"a b\"", "\"..\"", "\"ä\""]);
    check("evolve", "section", ["\"a-b_C1\"", &longest], &[&too_long, "\"a/b\""]);
}

#[test]
fn numbers_may_be_written_in_every_way_that_toml_has() {
    let check = |written: &str, expected: &str| {
        let file = RunFile::parse(&file("", written)).unwrap().to_toml();
        assert!(file.lines().any(|line| line == expected), "{written}: {file}");
    };
    check("seed = 1_000", "seed = 1000");
    check("seed = 0x10", "seed = 16");
    check("seed = +7", "seed = 7");
    check("temperature = 1", "temperature = 1.0");
    check("temperature = 0b1", "temperature = 1.0");
    check("temperature = 1_0.5e-1", "temperature = 1.05");
}
