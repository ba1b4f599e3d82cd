//! One rule for every command on recorded runs: by default the newest run, shown with its id; `--all` selects all runs
//! of the data folder. And one for episodes: an ambiguous id is refused with its runs.

use super::*;

/// Commands on runs.
fn commands(exact: &str) -> [Vec<&str>; 4] {
    [
        vec!["replay"],
        vec!["score", "--reward", exact],
        vec!["episodes", "list", "--limit", "100"],
        vec!["episodes", "export"],
    ]
}

/// The runs that a command used, from its output on both streams.
fn said(bench: &Bench, arguments: &[&str], runs: &[String]) -> Vec<String> {
    let output = bench.run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    let text = stdout(&output) + &stderr(&output);
    runs.iter().filter(|run| text.contains(run.as_str())).cloned().collect()
}

#[test]
fn every_command_accepts_the_newest_run_a_named_one_or_all() {
    let Some(bench) = Bench::new("every_command_takes_the_newest_run") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let play = |seed: &str| bench.play(&[&math, "--reward", &exact, "--episodes", "3", "--seed", seed]);
    let runs = [play("1"), play("2"), play("3")];
    for command in commands(&exact) {
        let check = |more: &[&str], expect: &[String]| {
            let arguments = [&command[..], more].concat();
            assert_eq!(said(&bench, &arguments, &runs), expect, "{arguments:?}");
        };
        check(&[], &runs[2..]);
        check(&["--run", &runs[0]], &runs[..1]);
        check(&["--all"], &runs);
        bench.refused(&[&command[..], &["--all", "--run", &runs[0]]].concat(), &["cannot be used with"]);
        bench.refused(&[&command[..], &["--run", "nowhere"]].concat(), &["no run `nowhere` here"]);
        let help = bench
            .out(&[&command[..1], if command[0] == "episodes" { &command[1..2] } else { &[] }, &["--help"]].concat());
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["[default: the newest run]", "Use all runs of the data folder"] {
            assert!(help.contains(part), "{command:?}: {part}: {help}");
        }
    }
    assert!(said(&bench, &["runs", "show"], &runs) == runs[2..], "one run is shown: the newest");
    // For machines: one run alone, or every run with its report.
    for command in &commands(&exact)[..2] {
        assert_eq!(bench.json(command)["run"], runs[2].as_str());
        let all = bench.json(&[&command[..], &["--all"]].concat());
        let named: Vec<&str> = all["runs"].as_array().unwrap().iter().map(|one| one["run"].as_str().unwrap()).collect();
        assert_eq!(named, [&runs[2], &runs[1], &runs[0]], "newest first");
        assert!(all["runs"][0]["report"].is_object(), "{all}");
    }
    let exported = bench.out(&["episodes", "export", "--all"]);
    assert_eq!(exported.lines().count(), 9);
}

#[test]
fn every_command_refuses_an_ambiguous_id_with_its_runs() {
    let Some(bench) = Bench::new("an_id_that_several_runs_have") else { return };
    let math = bench.guest("env_math");
    let runs = [(); 2].map(|()| bench.play(&[&math, "--episodes", "2"]));
    let id = bench.json(&["episodes", "list"])[0]["id"].as_str().unwrap().to_owned();
    for command in [&["episodes", "show"][..], &["replay"], &["feedback", "--score", "1"]] {
        let says = ["several runs have an episode", &runs[0], &runs[1], "write RUN/"];
        bench.refused(&[command, &[&id]].concat(), &says);
        bench.refused(&[command, &["ep-none"]].concat(), &["no episode `ep-none` here"]);
        bench.out(&[command, &[&format!("{}/{id}", runs[0])]].concat());
    }
}

#[test]
fn episodes_are_filtered_by_their_results() {
    let Some(bench) = Bench::new("episodes_are_filtered") else { return };
    let (failing, reader) = (bench.guest("odd_failing"), bench.guest("odd_reader"));
    let words =
        ["--reward", &reader, "--failure-budget", "1", "--episodes", "40", "--seed", "4", "--expect", "user=24h"];
    bench.play(&[&[failing.as_str()], &words[..]].concat());
    let list = |filters: &[&str]| {
        let rows = bench.json(&[&["episodes", "list", "--limit", "100"], filters].concat());
        rows.as_array().unwrap().clone()
    };
    let (all, failed) = (list(&[]), list(&["--failure"]));
    let (trapped, unreachable) = (list(&["--failure=trap"]), list(&["--failure=unreachable"]));
    assert!(!failed.is_empty() && failed.len() < all.len() && all.len() == 40);
    assert!(failed.iter().all(|row| row["ending"] == "failed: trap(unreachable)"), "{failed:?}");
    assert_eq!((&trapped, &unreachable), (&failed, &failed));
    assert_eq!(list(&["--failure=trap(unreachable)"]), failed);
    assert!(list(&["--failure=limit"]).is_empty());
    assert_eq!(list(&["--unscored"]), failed, "failed episodes are never judged");
    let scored = list(&["--min-reward", "-1", "--max-reward", "1"]);
    assert_eq!(scored.len() + failed.len(), all.len());
    assert!(list(&["--min-reward", "1.5"]).is_empty());
    let task = all[0]["task"].as_str().unwrap();
    assert!(list(&["--task", task]).iter().all(|row| row["task"] == task));
    assert!(!list(&["--task", task]).is_empty() && list(&["--task", "none"]).is_empty());
    assert_eq!(list(&["--pending", "--min-reward", "-1"]), scored, "each waits for a person's verdict");
    assert!(list(&["--pending", "--failure"]).is_empty(), "failed episodes wait for no verdict");
    let exported = bench.out(&["episodes", "export", "--failure"]);
    assert_eq!(exported.lines().count(), failed.len());
    assert!(bench.out(&["episodes", "list", "--task", "none"]).starts_with("no such episodes of run-"));
    let help = bench.out(&["episodes", "list", "--help"]);
    for flag in ["--failure", "--min-reward", "--max-reward", "--unscored", "--task", "--pending"] {
        assert!(help.contains(flag), "{flag}: {help}");
    }
}
