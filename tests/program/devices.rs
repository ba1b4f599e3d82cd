//! `--device`, and the process that tries devices.

use super::*;

#[test]
fn a_device_of_another_build_is_refused_with_the_needed_feature() {
    let Some(bench) = Bench::new("a_device_that_was_not_built_for") else { return };
    let check = |device: &str, expect: &str| {
        let guests = bench.guests.display().to_string();
        let output = bench.run(&["demo", "weights", "--quick", "--plugins", &guests, "--device", device]);
        assert_eq!(output.status.code(), Some(2), "{device}");
        assert!(stderr(&output).contains(expect), "{device}: {}", stderr(&output));
    };
    check("quantum", "`quantum` is not a device; write auto, cpu, cuda, vulkan");
    check("cuda:x", "`cuda:x` is not a device");
    if !cfg!(feature = "cuda") {
        check(
            "cuda",
            "this program has no code for cuda; clawhost-gpu has: cargo install --locked --path host/cli --bin clawhost-gpu --features cuda",
        );
    }
    if !cfg!(any(feature = "gpu", feature = "wgsl-test", target_os = "macos")) {
        check(
            "vulkan:0",
            "this program has no code for vulkan; clawhost-gpu has: cargo install --locked --path host/cli --bin clawhost-gpu --features gpu",
        );
    }
}

#[test]
fn devices_are_tried_in_a_separate_process_and_listed_by_the_doctor() {
    let Some(bench) = Bench::new("a_device_is_tried_by_a_process") else { return };
    let said = |about: &str| -> Value {
        let output = bench.run(&["probe-device", about]);
        assert_eq!(output.status.code(), Some(0));
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    assert_eq!(said("cpu")["works"]["name"], "cpu");
    assert!(said("nothing")["failed"].as_str().unwrap().contains("is not a device"));
    let help = stdout(&bench.run(&["--help"]));
    assert!(!help.contains("probe-device"), "it is for the program itself");
    if !cfg!(any(feature = "gpu", feature = "cuda", feature = "wgsl-test")) {
        let output = bench.run(&["doctor", "--json"]);
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        let devices = seen["findings"].as_array().unwrap().iter().find(|one| one["topic"] == "devices").unwrap();
        assert!(devices["remedy"].as_str().unwrap().contains("--features gpu"), "{devices}");
    }
}
