//! The example plays, scores and learns with the guests that were built.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test that cannot go on has failed")]

#[path = "../../../tests/common/guests.rs"]
mod guests;

#[test]
fn a_program_plays_scores_and_learns_through_the_library() {
    let Some(guests) = guests::folder_or_skip("a_program_plays_scores_and_learns") else { return };
    let data = tempfile::tempdir().unwrap();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_embed"));
    let output = program.arg(&guests).arg(data.path()).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.first().is_some_and(|line| line.contains("mean reward Some(")), "{text}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("iteration ")).count(), 3, "{text}");
    assert!(lines.last().is_some_and(|line| line.ends_with("improved")), "{text}");
}
