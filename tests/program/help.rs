//! Help texts, and features that a release does not contain.

use super::*;

fn bench() -> Bench {
    Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() }
}

#[test]
fn help_of_a_run_is_short_and_each_command_has_its_own_options() {
    let bench = bench();
    let help = |command: &str| bench.out(&[command, "--help"]);
    let run = help("run");
    assert!(run.lines().count() <= 120, "{} lines", run.lines().count());
    let check = |text: &str, has: &[&str], has_not: &[&str]| {
        has.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
        has_not.iter().for_each(|part| assert!(!text.contains(part), "{part}: {text}"));
    };
    check(
        &run,
        &["--reward", "--branch-at", "--resume", "Exit codes"],
        &["--iterations", "--layer", "--rate", "--pairs"],
    );
    let learn = help("learn");
    check(&learn, &["--layer", "--iterations", "--reflector", "--rate", "--dry-run", "--sample"], &["--branch-at"]);
    check(&help("eval"), &["--pairs", "--playbook-version", "--against"], &["--iterations", "--resume"]);
    check(&bench.out(&["data", "prune", "--help"]), &["--older-than", "--run", "--keep-size", "--dry-run"], &[]);
}
