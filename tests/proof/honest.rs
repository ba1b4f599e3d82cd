//! What an honest bundle shows, and that it is the same wherever it was made.

use super::*;

#[test]
fn a_learning_run_is_reproduced_from_its_file_alone() {
    let Some(bench) = Bench::new("a_learning_run_is_reproduced") else { return };
    bench.learned();
    let file = bench.proved("proof", &[]);
    // Another machine: there is no data folder, and none is made.
    let elsewhere = bench.data.path().join("nowhere");
    let output = bench
        .command(&["verify", &file.display().to_string(), "--json", "-q"])
        .env("CLAWHOST_HOME", &elsewhere)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(!elsewhere.exists());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = &document["verified"];
    let episodes = report["episodes"].as_u64().unwrap();
    assert!(episodes > 100, "{report}");
    let signature = &report["signature"]["by"];
    assert_eq!((report["proof"].as_str(), signature.as_str()), (Some("reproduced"), Some("nobody")));
    assert_eq!(report["replay"]["exact"], episodes, "{report}");
    assert_eq!(count(report, "recomputed", "verdicts"), Some(episodes));
    assert_eq!(count(report, "recomputed", "tasks"), Some(episodes));
    // All answers come from the follower, which answers again, and both sides of 30 pairs showed their playbook.
    assert!(count(report, "recomputed", "answers of the policy") > Some(episodes));
    assert_eq!(count(report, "recomputed", "prompts of test episodes"), Some(60));
    assert_eq!(count(report, "recomputed", "decisions of the gate"), Some(1), "{report}");
    assert_eq!(count(report, "recorded_only", "answers"), None, "{report}");
    let lift = &report["evaluation"]["lift"];
    assert!(lift["low"].as_f64() > Some(0.0), "{lift}");
    let conclusion = report["conclusion"].as_str().unwrap();
    assert!(conclusion.contains("nobody has signed it") && conclusion.contains("the lift is +"), "{conclusion}");
    let discarded = "whether other runs were discarded";
    let says = |report: &Value| report["not_provable"].to_string().contains(discarded);
    assert!(says(report), "{report}");

    // The same for people.
    let text = bench.out(&["verify", &file.display().to_string(), "-q"]);
    for label in ["recomputed", "replayed", "recorded only", "not provable", "signature"] {
        assert!(text.contains(label), "{label}: {text}");
    }
}

#[test]
fn equal_runs_give_equal_bundles_and_a_sample_is_drawn_again_by_its_seed() {
    let Some(bench) = Bench::new("equal_runs_give_equal_bundles") else { return };
    bench.learned();
    let other = bench.warm();
    other.learned();
    let (one, two) = (bench.proved("proof", &[]), other.proved("proof", &[]));
    assert!(std::fs::read(&one).unwrap() == std::fs::read(&two).unwrap(), "two equal runs, two files");
    let (exit, sampled) = other.verified(&one, &["--sample", "20"]);
    assert_eq!((exit, sampled["proof"].as_str()), (0, Some("reproduced")), "{sampled}");
    let replayed = sampled["replay"]["exact"].as_u64().unwrap();
    assert!(
        (20..30).contains(&replayed) && count(&sampled, "recorded_only", "episodes outside") > Some(0),
        "{sampled}"
    );
    let seed = sampled["sample"]["seed"].to_string();
    let again = other.verified(&one, &["--sample", "20", "--seed", &seed, "--concurrency", "1"]).1;
    assert_eq!(again, sampled, "whatever is checked at the same time");
}

#[test]
fn other_kinds_of_runs_are_reproduced() {
    let Some(bench) = Bench::new("other_kinds_of_runs_are_reproduced") else { return };
    let (guess, math, shop) = (bench.guest("env_guess"), bench.guest("env_math"), bench.guest("env_shop"));
    let (ranking, exact, judge) =
        (bench.guest("odd_ranking"), bench.guest("reward_exact"), bench.guest("reward_judge"));
    let runs: [&[&str]; 4] = [
        // A reward that judges groups, whose digests name the run.
        &["run", &guess, "--episodes", "12", "--group", "4", "--reward", &ranking],
        &["run", &math, "--episodes", "8", "--policy", "random", "--reward", &exact],
        // A judge that asks a model: its answers are recorded.
        &[
            "run",
            &shop,
            "--episodes",
            "4",
            "--reward",
            &judge,
            "--grant",
            "llm:judge=follower",
            "--failure-budget",
            "1",
        ],
        &["run", &math, "--mix", &guess, "--episodes", "8"],
    ];
    for (place, words) in runs.iter().enumerate() {
        bench.json(&[words, &["-q"][..]].concat());
        let file = bench.proved(&format!("proof-{place}"), &[]);
        let (exit, report) = bench.verified(&file, &[]);
        assert_eq!((exit, report["proof"].as_str()), (0, Some("reproduced")), "{words:?}: {report}");
    }
}
