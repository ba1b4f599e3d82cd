//! The example learns, and stays short.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[test]
fn the_example_learns_the_lights_in_under_sixty_lines() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_native-loop")).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.starts_with("improved"), "{said}");
    for lesson in ["red: answer stop", "green: answer go", "amber: answer wait"] {
        assert!(said.contains(lesson), "{said}");
    }
    assert_eq!(said.lines().count(), 4, "and nothing else: {said}");
    assert!(include_str!("../src/main.rs").lines().count() < 60);
}
