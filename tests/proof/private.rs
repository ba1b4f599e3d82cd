//! What is private travels only on request, and what cannot be played again without it is no success.

use super::forging::Opened;
use super::*;

#[test]
fn references_travel_only_on_request_and_come_from_the_environment_otherwise() {
    let Some(bench) = Bench::new("references_travel_only_on_request") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    bench.json(&["run", &math, "--episodes", "6", "--reward", &exact, "-q"]);
    let (public, private) = (bench.proved("public", &[]), bench.proved("private", &["--include-private"]));
    let has = |file: &std::path::Path| Opened::read(file).text().contains("\"reference\":");
    assert_eq!((has(&public), has(&private)), (false, true));
    for file in [public, private] {
        let (exit, report) = bench.verified(&file, &[]);
        assert_eq!((exit, report["verdicts"]["exact"].as_u64()), (0, Some(6)), "{report}");
    }
}

#[test]
fn a_private_prompt_leaves_digests_which_count_as_not_replayed() {
    let Some(bench) = Bench::new("a_private_prompt_leaves_digests") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let secret = "Think of the orchard.";
    bench.json(&["run", &math, "--episodes", "6", "--reward", &exact, "--system-prompt", secret, "-q"]);
    let (public, private) = (bench.proved("public", &[]), bench.proved("private", &["--include-private"]));
    let has = |file: &std::path::Path| Opened::read(file).text().contains(secret);
    assert_eq!((has(&public), has(&private)), (false, true));
    let (exit, report) = bench.verified(&public, &[]);
    // The exit code of a replay that could not be made.
    assert_eq!((exit, report["proof"].as_str()), (7, Some("partly")), "{report}");
    assert_eq!(report["replay"]["not_replayed"], 6);
    assert_eq!(count(&report, "not_replayed", "only its digest"), Some(6));
    let conclusion = report["conclusion"].as_str().unwrap();
    assert!(conclusion.contains("only 0 episodes were played again"), "{conclusion}");
    let (exit, report) = bench.verified(&private, &[]);
    assert_eq!((exit, report["proof"].as_str()), (0, Some("reproduced")), "{report}");
}

#[test]
fn a_bundle_names_no_path_of_the_machine_that_made_it() {
    let Some(bench) = Bench::new("a_bundle_names_no_path") else { return };
    bench.learned();
    let text = Opened::read(&bench.proved("proof", &["--include-private"])).text();
    let folder = bench.guests.display().to_string();
    assert!(!text.contains(&folder), "{folder}");
    assert!(!text.contains(&bench.data.path().display().to_string()));
}
