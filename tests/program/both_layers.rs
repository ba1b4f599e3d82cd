//! Both layers learn in one run, with one local model.

use super::*;

#[test]
fn both_layers_learn_in_one_run_and_are_reported_separately() {
    let Some(bench) = Bench::new("lessons_and_weights_learn_in_one_run") else { return };
    let folder = bench.data.path().join("models");
    std::fs::create_dir(&folder).unwrap();
    let [hears, without_system] = ["hears", "without_system"].map(|name| folder.join(name).display().to_string());
    let small = ["--width", "16", "--layers", "1", "--heads", "2", "--context", "512", "--seed", "3"];
    bench.out(&[&["model", "init", &hears, "--system"], &small[..]].concat());
    bench.out(&[&["model", "init", &without_system], &small[..]].concat());
    let plugin = format!("{}?size=10&guesses=2&talk=terse", bench.guest("env_guess"));
    let reward = format!("{}?name=distance&equals=0&absent=0", bench.guest("reward_signal"));
    let reflector = bench.guest("odd_reflector");
    let words = |model: &str| -> Vec<String> {
        let layers = [
            "learn",
            &plugin,
            "--layer",
            "harness",
            "--layer",
            "weights",
            "--schedule",
            "joint",
            "--model",
            model,
            "-q",
        ];
        let others = ["--reward", &reward, "--reflector", &reflector, "--seed", "7", "--max-tokens", "2"];
        let few = ["--iterations", "2", "--episodes", "16", "--group", "4", "--gate-every", "2", "--gate-pairs", "8"];
        let test = ["--test-pairs", "8", "--evaluate-every", "0"];
        layers.iter().chain(&others).chain(&few).chain(&test).map(|word| (*word).to_owned()).collect()
    };
    let hearing = words(&hears);
    let hearing: Vec<&str> = hearing.iter().map(String::as_str).collect();
    let document = bench.outside_timing(&hearing);
    let learn = &document["learn"];
    let named = |layers: &Value| -> Vec<String> {
        let mut names: Vec<String> =
            layers.as_array().unwrap().iter().map(|name| name.as_str().unwrap().into()).collect();
        names.sort();
        names
    };
    assert_eq!(named(&learn["layers"]), ["harness", "weights"]);
    assert_eq!((&learn["learned"], &learn["stopped"]), (&2.into(), &Value::Null), "{learn}");
    assert_ne!(document["weights"]["before"], document["weights"]["after"], "the weights changed");
    assert!(learn["proposals"].is_object() && !learn["entries"].as_array().unwrap().is_empty(), "{learn}");
    let metrics = learn["iterations"][0]["metrics"].as_object().unwrap();
    for layer in ["harness.", "weights."] {
        assert!(metrics.keys().any(|name| name.starts_with(layer)), "{layer}: {metrics:?}");
    }
    // Each layer alone, and both together.
    let arms = learn["evaluation"]["arms"].as_array().unwrap();
    let mut tested: Vec<_> = arms.iter().map(|arm| named(&arm["layers"])).collect();
    tested.sort();
    assert_eq!(tested, [vec!["harness"], vec!["harness", "weights"], vec!["weights"]]);
    assert!(arms.iter().all(|arm| arm["mean"]["mean"].is_f64() && arm["lift"]["mean"].is_f64()), "{arms:?}");
    let together = arms.iter().find(|arm| named(&arm["layers"]).len() == 2).unwrap();
    assert_eq!(together["mean"], learn["evaluation"]["after"], "the arm with all layers is the final result");
    assert_eq!(bench.fresh().outside_timing(&hearing), document, "equal runs give equal reports");

    bench.is_compared_as_reported(&learn["evaluation"]);

    let text = bench.fresh().out(&hearing);
    for part in ["playbook    env-guess", "verdict", "play it     "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let plan = bench.json(&[&hearing[..], &["--dry-run"]].concat());
    assert_eq!(plan["at_most"]["test_episodes"], 4 * 8, "four arms on the same tasks: {plan}");
    let refused = words(&without_system);
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    bench.refused(&refused, &["a playbook would have no effect: the chat template of this model", "model init"]);
}

#[test]
fn layers_that_take_turns_learn_one_after_the_other() {
    let Some(bench) = Bench::new("layers_that_take_turns") else { return };
    let folder = bench.data.path().join("model").display().to_string();
    let small = ["--width", "16", "--layers", "1", "--heads", "2", "--context", "512", "--seed", "3"];
    bench.out(&[&["model", "init", &folder, "--system"], &small[..]].concat());
    let plugin = format!("{}?size=10&guesses=2&talk=terse", bench.guest("env_guess"));
    let reward = format!("{}?name=distance&equals=0&absent=0", bench.guest("reward_signal"));
    let reflector = bench.guest("odd_reflector");
    let layers = ["learn", &plugin, "--layer", "harness", "--layer", "weights", "--schedule", "turns", "-q"];
    let others = ["--model", &folder, "--reward", &reward, "--reflector", &reflector, "--seed", "7"];
    let few = ["--iterations", "6", "--episodes", "16", "--group", "4", "--gate-every", "2", "--gate-pairs", "8"];
    let rest = ["--test-pairs", "8", "--evaluate-every", "0", "--max-tokens", "2"];
    let command = [&layers[..], &others[..], &few[..], &rest[..]].concat();
    let document = bench.outside_timing(&command);
    let learn = &document["learn"];
    let learned = |number: usize, layer: &str| {
        let metrics = learn["iterations"][number]["metrics"].as_object().unwrap();
        metrics.keys().any(|name| name.starts_with(layer))
    };
    let harness: Vec<bool> = (0..6).map(|number| learned(number, "harness.")).collect();
    let weights: Vec<bool> = (0..6).map(|number| learned(number, "weights.")).collect();
    assert_eq!(harness, [true, false, false, false, false, true], "{learn}");
    assert_eq!(weights, [false, true, true, true, true, false], "{learn}");
    let effects = learn["evaluation"]["effects"].as_array().unwrap();
    assert_eq!(effects.len(), 2);
    assert!(
        effects.iter().all(|effect| effect["mean"]["mean"].is_f64() && effect["outcome"].is_string()),
        "{effects:?}"
    );
    let text = bench.fresh().out(&command);
    assert!(text.contains("over all sets of the others"), "{text}");
}
