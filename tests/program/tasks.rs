//! `clawhost tasks`: lists the tasks of an environment, without references.

use super::*;

#[test]
fn tasks_are_listed_by_split_with_references_only_on_request() {
    let Some(bench) = Bench::new("tasks_are_listed_split_by_split") else { return };
    let math = bench.guest("env_math");
    let listing = bench.json(&["tasks", &math, "--limit", "3"])["tasks"].clone();
    assert_eq!(listing["environment"]["name"], "env-math");
    let splits = listing["splits"].as_array().unwrap();
    let names: Vec<&str> = splits.iter().map(|split| split["split"].as_str().unwrap()).collect();
    assert!(names.contains(&"train") && names.contains(&"test"), "{names:?}");
    for split in splits {
        let listed = split["listed"].as_array().unwrap();
        assert!(listed.len() == 3 && split["tasks"].as_u64().unwrap() > 3, "{split}");
        for task in listed {
            assert!(!task["id"].as_str().unwrap().is_empty() && !task["input"].as_str().unwrap().is_empty(), "{task}");
            assert_eq!((&task["has_reference"], &task["reference"]), (&true.into(), &Value::Null), "{task}");
        }
    }
    let told = bench.json(&["tasks", &math, "--split", "train", "--limit", "3", "--reference"])["tasks"].clone();
    let [train] = &told["splits"].as_array().unwrap()[..] else { panic!("{told}") };
    let gold = train["listed"][0]["reference"].as_str().unwrap();
    assert!(!gold.is_empty(), "{told}");

    // A run with the same seed plays these tasks.
    let played = bench.json(&["run", &math, "--episodes", "3"]);
    for (episode, task) in played["episodes"].as_array().unwrap().iter().zip(train["listed"].as_array().unwrap()) {
        assert_eq!(episode["task"], task["id"]);
    }
    assert_ne!(
        bench.json(&["tasks", &math, "--limit", "3", "--seed", "7"])["tasks"]["splits"],
        listing["splits"],
        "another seed, other tasks"
    );

    let text = bench.out(&["tasks", &math, "--limit", "2"]);
    for part in ["environment env-math", "split       train: ", " more; --limit shows more", "--reference shows them"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("reference {"), "{text}");
    assert!(bench.out(&["tasks", &math, "--reference"]).contains("    reference "));
    bench.refused(&["tasks", &math, "--split", "nowhere"], &["env-math has no split `nowhere`"]);
    assert_eq!(bench.out(&["tasks", &math, "--tasks", "test"]), bench.out(&["tasks", &math, "--split", "test"]));
    let untold = "these tasks have no text of their own: an episode's first observation tells what to do";
    assert!(bench.out(&["tasks", &bench.guest("env_shop"), "--limit", "2"]).contains(untold));
    assert!(!text.contains(untold), "{text}");
    let reward = bench.run(&["tasks", &bench.guest("reward_exact")]);
    assert_eq!(reward.status.code(), Some(3), "{}", stderr(&reward));
}

#[test]
fn listing_tasks_creates_no_data_folder() {
    let Some(bench) = Bench::empty("listing_tasks_creates_no_data_folder") else { return };
    bench.out(&["tasks", &bench.guest("env_shop"), "--split", "test", "--limit", "1"]);
    assert_eq!(std::fs::read_dir(bench.data.path()).unwrap().count(), 0);
}
