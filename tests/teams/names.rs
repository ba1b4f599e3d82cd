//! Modules by name, wherever a path of a plugin can stand.

use super::{Team, guests};
use serde_json::Value;

fn shared(team: &Team) -> String {
    format!("file:{}", team.path("registry").display())
}

#[test]
fn a_module_is_named_wherever_a_path_is_taken() {
    if guests::folder_or_skip("a_module_is_named_wherever_a_path_is_taken").is_none() {
        return;
    }
    let team = Team::new();
    let registry = shared(&team);
    team.publishes(&registry, "1.2.0", &[]);
    let environment = team.plugin("env_math", "environment", "sums", "1.0.0");
    team.json(&["publish", &registry, &environment, "--as", "shop/sums", "--despite-checks"]);
    team.json(&["add", "shop/exact@1", "--from", &registry, "--no-check"]);
    team.json(&["add", "shop/sums", "--from", &registry, "--no-check"]);
    // Offline from now on.
    std::fs::remove_dir_all(team.path("registry")).unwrap();
    let run = team.json(&["run", "shop/sums@1.0", "--reward", "shop/exact", "--episodes", "4"]);
    assert_eq!(run["scored"], 4, "{run:#}");
    let inspected = team.json(&["inspect", "shop/exact@1"]);
    assert_eq!((&inspected["plugin"]["world"], &inspected["readme"]), (&"reward".into(), &"# exact\n".into()));
    let text = team.run(&["inspect", "shop/exact@1", "--readme"]).stdout;
    assert!(String::from_utf8_lossy(&text).ends_with("\n\n# exact\n"), "the readme follows");
    assert_eq!(team.json(&["inspect", "exact"])["readme"], "# exact\n", "of a folder");
    team.json(&["tasks", "shop/sums"]);
    team.json(&["score", "--reward", "shop/exact", "--again"]);
    // A run file and options behind the name.
    std::fs::write(team.path("run.toml"), "plugin = \"shop/sums@1\"\nrewards = [\"shop/exact\"]\nepisodes = 2\n")
        .unwrap();
    team.json(&["run", "run.toml"]);
    let error = team.refused(&["run", "shop/sums?no-such=1", "--reward", "shop/exact"], 2);
    assert!(error.contains("no-such"), "{error}");
    let error = team.refused(&["run", "shop/exact", "--reward", "shop/exact"], 3);
    assert!(error.contains("shop/exact"), "{error}");
}

#[test]
fn a_name_that_is_a_path_too_is_an_error() {
    if guests::folder_or_skip("a_name_that_is_a_path_too_is_an_error").is_none() {
        return;
    }
    let team = Team::new();
    let registry = shared(&team);
    team.publishes(&registry, "1.0.0", &[]);
    team.json(&["pull", "shop/exact", "--from", &registry]);
    std::fs::create_dir_all(team.path("shop")).unwrap();
    std::fs::copy(guests::folder().unwrap().join("reward_exact.wasm"), team.path("shop/exact")).unwrap();
    let error = team.refused(&["inspect", "shop/exact"], 2);
    assert!(error.contains("`shop/exact` is a path and the name of a module; write ./ in front of a path"), "{error}");
    assert_eq!(team.json(&["inspect", "./shop/exact"])["plugin"]["world"], "reward");
    assert_eq!(team.json(&["inspect", "shop/exact@1.0.0"])["plugin"]["world"], "reward");
}

#[test]
fn a_module_that_was_not_pulled_comes_from_the_registry_that_is_set() {
    if guests::folder_or_skip("a_module_that_was_not_pulled_comes_from_the_registry_that_is_set").is_none() {
        return;
    }
    let (publisher, user) = (Team::new(), Team::new());
    let registry = shared(&publisher);
    publisher.publishes(&registry, "1.0.0", &[]);
    let error = user.refused(&["inspect", "shop/exact"], 2);
    assert!(error.contains("shop/exact was not pulled yet") && error.contains("clawhost add shop/exact"), "{error}");
    let mut command = user.command(&["inspect", "shop/exact", "--json"]);
    let output = command.env("CLAWHOST_REGISTRY", &registry).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", super::said(&output));
    // It is kept.
    user.json(&["inspect", "shop/exact"]);
    let error = user.refused(&["inspect", "shop/exact", "--registry", "https://example.com"], 2);
    assert!(error.contains("is no registry: write oci://HOST/PATH or file:FOLDER"), "{error}");
}

#[test]
fn two_versions_of_one_module_do_not_fit_into_one_run() {
    if guests::folder_or_skip("two_versions_of_one_module_do_not_fit_into_one_run").is_none() {
        return;
    }
    let team = Team::new();
    let registry = shared(&team);
    team.publishes(&registry, "1.0.0", &[]);
    team.publishes(&registry, "2.0.0", &[]);
    for version in ["1.0.0", "2.0.0"] {
        team.json(&["pull", &format!("shop/exact@{version}"), "--from", &registry]);
    }
    let environment = guests::folder().unwrap().join("env_math.wasm");
    let run = ["run", environment.to_str().unwrap(), "--reward", "shop/exact@1", "--reward", "shop/exact@2"];
    let error = team.refused(&run, 2);
    assert!(error.contains("two versions of shop/exact in one run: 1.0.0 and 2.0.0"), "{error}");
}

#[test]
fn modules_are_listed_and_searched() {
    if guests::folder_or_skip("modules_are_listed_and_searched").is_none() {
        return;
    }
    let team = Team::new();
    let registry = shared(&team);
    team.publishes(&registry, "1.0.0", &[]);
    let names = |listed: &Value| -> Vec<String> {
        listed["modules"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&team.json(&["list"])), [""; 0]);
    assert_eq!(names(&team.json(&["list", "--from", &registry])), ["shop/exact"]);
    assert_eq!(names(&team.json(&["search", "REWARD", "share", "--from", &registry])), ["shop/exact"]);
    assert_eq!(names(&team.json(&["search", "environment", "--from", &registry])), [""; 0]);
    let error = team.refused(&["model", "pull", "shop/exact", "--from", &registry], 2);
    assert!(error.contains("an adapter") && names(&team.json(&["list"])).is_empty(), "{error}");
    team.json(&["add", "shop/exact", "--from", &registry, "--no-check"]);
    let listed = team.json(&["list"]);
    assert_eq!((&listed["modules"][0]["pinned"], &listed["modules"][0]["kind"]), (&"1.0.0".into(), &"reward".into()));
}

#[test]
fn an_adapter_is_a_module_too() {
    let team = Team::new();
    let registry = shared(&team);
    let (model, tuned) = (team.path("tiny").display().to_string(), team.path("tuned").display().to_string());
    team.json(&["model", "init", &model]);
    let example = serde_json::json!({ "messages": [
        { "role": "user", "content": "a" }, { "role": "assistant", "content": "b" } ] });
    std::fs::write(team.path("chats.jsonl"), format!("{example}\n").repeat(8)).unwrap();
    let learn =
        ["--objective", "sft", "--data", "chats.jsonl", "--out", &tuned, "--epochs", "1", "--adapter-rank", "2"];
    let tuned = team.json(&[&["model", "tune", &model], &learn[..]].concat());
    let folder = format!("{}/adapter", tuned["last_folder"].as_str().unwrap());
    let published = team.json(&["publish", &registry, &folder, "--as", "shop/tone@1.0.0"]);
    assert_eq!((&published["published"]["kind"], &published["published"]["check"]), (&"adapter".into(), &Value::Null));
    team.json(&["add", "shop/tone", "--from", &registry]);
    // By its name, and from its folder: the same model, which is another one than without the adapter.
    let weights = |adapter: &[&str]| {
        let words = [&["model", "generate", &model, "x", "--max-tokens", "1"], adapter].concat();
        team.json(&words)["weights"].clone()
    };
    let (named, there) = (weights(&["--adapter", "shop/tone@1"]), weights(&["--adapter", &folder]));
    assert_eq!(named, there);
    assert_ne!(named, weights(&[]));
    let pulled = team.json(&["model", "pull", "shop/tone", "--from", &registry]);
    let of_pulled = |name: &str| pulled["pulled"][name].clone();
    assert_eq!((of_pulled("version"), of_pulled("settings")["rank"].clone()), ("1.0.0".into(), 2.into()));
    let said = team.run(&["model", "pull", "shop/tone@1", "--from", &registry]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("`clawhost model chat MODEL --adapter shop/tone@1.0.0`"), "{said}");
    let listed = team.json(&["model", "list"]);
    let [one] = listed["models"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!([&one["name"], &one["kind"], &one["version"]], ["shop/tone", "adapter", "1.0.0"]);
    assert!(std::path::Path::new(one["path"].as_str().unwrap()).is_file(), "{one}");
    let error = team.refused(&["model", "generate", &model, "x", "--adapter", "shop/exact"], 2);
    assert!(error.contains("shop/exact"), "{error}");
    // What is no adapter of PEFT is not published.
    std::fs::write(format!("{folder}/adapter_config.json"), "{}").unwrap();
    let error = team.refused(&["publish", &registry, &folder, "--as", "shop/tone@1.0.1"], 2);
    assert!(error.contains("peft_type"), "{error}");
}

#[test]
fn a_playbook_is_a_module_too() {
    if guests::folder_or_skip("a_playbook_is_a_module_too").is_none() {
        return;
    }
    let team = Team::new();
    let registry = shared(&team);
    let lessons =
        "---\nname: ask-first\ndescription: when a request is unclear\n---\nAsk one question before you act.\n";
    std::fs::write(team.path("SKILL.md"), lessons).unwrap();
    team.json(&["playbook", "import", "shop", "SKILL.md"]);
    team.json(&["playbook", "export", "shop", "lessons.json"]);
    let error = team.refused(&["publish", &registry, "lessons.json", "--as", "shop/lessons"], 2);
    assert!(error.contains("it has no version; name it TEAM/NAME@VERSION"), "{error}");
    let published = team.json(&["publish", &registry, "lessons.json", "--as", "shop/lessons@1.0.0"]);
    assert_eq!(published["published"]["kind"], "playbook");
    team.json(&["add", "shop/lessons", "--from", &registry]);
    let imported = team.json(&["playbook", "import", "mine", "shop/lessons@1"]);
    assert_eq!(imported["entries"], 1);
    let error = team.refused(&["inspect", "shop/lessons"], 2);
    assert!(error.contains("shop/lessons 1.0.0 is of the kind playbook, and a component is needed here"), "{error}");
}
