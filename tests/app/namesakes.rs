//! Components with the same name and version, and rewards that find nothing to read.

use crate::bench::Bench;
use clawhost_app::{Event, ScoreRequest, Start, Warning, Workspace, learn, plugin_spec, run, score};
use clawhost_play::Cancel;
use clawhost_run_config::Verb;
use std::sync::Mutex;

/// Plays a run, and returns its warnings.
async fn warnings(bench: &Bench, workspace: &Workspace, text: &str) -> Vec<Warning> {
    warnings_of(Verb::Play, bench, workspace, text).await
}

/// Plays a run or learns, and returns the warnings.
async fn warnings_of(verb: Verb, bench: &Bench, workspace: &Workspace, text: &str) -> Vec<Warning> {
    let warnings = Mutex::new(Vec::new());
    let watch = |event: Event| {
        if let Event::Warning(warning) = event {
            warnings.lock().unwrap().push(warning);
        }
    };
    let (spec, cancel) = (bench.spec(verb, text), Cancel::default());
    if verb == Verb::Learn {
        learn(workspace, spec, Start::New, &cancel, &watch).await.unwrap();
    } else {
        run(workspace, spec, Start::New, &cancel, &watch).await.unwrap();
    }
    warnings.into_inner().unwrap()
}

/// The same component with one more custom section, which changes only its digest.
fn rebuilt(bench: &Bench, name: &str) -> String {
    let mut bytes = crate::guests::bytes(&bench.guests, name);
    // A custom section: its id, its length, the length of its name, its name.
    bytes.extend([0, 5, 4, b'm', b'a', b'd', b'e']);
    let path = bench.data.path().join(format!("{name}.wasm"));
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_component_with_the_same_name_and_version_causes_a_warning() {
    let Some(bench) = Bench::new("another_component_of_the_same_name") else { return };
    let workspace = bench.open();
    let first = "plugin = \"env_guess.wasm\"\nepisodes = 2\n";
    let second = format!("plugin = \"{}\"\nepisodes = 2\n", rebuilt(&bench, "env_guess"));
    assert_eq!(warnings(&bench, &workspace, first).await, []);
    assert_eq!(warnings(&bench, &workspace, first).await, [], "the same component causes no warning");
    let told = warnings(&bench, &workspace, &second).await;
    let [Warning::SameNameAndVersion { plugin, others }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((plugin.name.as_str(), others.len()), ("env-guess", 1));
    assert_ne!(plugin.digest, others[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_score_and_learn_warn_of_a_reward_for_another_environment() {
    let Some(bench) = Bench::new("run_score_and_learn_warn") else { return };
    let workspace = bench.open();
    let text = "plugin = \"env_guess.wasm\"\nrewards = [\"reward_state.wasm\"]\nepisodes = 4\n";
    let expect = |warnings: &[Warning]| {
        let [Warning::NothingToRead(unread)] = warnings else { panic!("{warnings:?}") };
        let told = (unread.reward.name.as_str(), unread.reads.as_str(), unread.episodes);
        assert_eq!(told, ("reward-state", "a reference with `state` and artefact `state.json`", 4));
    };
    expect(&warnings(&bench, &workspace, text).await);
    let told = Mutex::new(Vec::new());
    let watch = |event: Event| {
        if let Event::Warning(warning) = event {
            told.lock().unwrap().push(warning);
        }
    };
    let reward = plugin_spec(&bench.guests.join("reward_state.wasm").display().to_string()).unwrap();
    score(&workspace, ScoreRequest::new(vec![reward]), &Cancel::default(), &watch).await.unwrap();
    expect(&told.into_inner().unwrap());
    // Once, after the first of two iterations.
    let learned = "group = 2\niterations = 2\ntest_pairs = 0\n[[learn]]\nlayer = \"harness\"\nreflectors = [\"reflector_rules.wasm\"]\n";
    let warned = warnings_of(Verb::Learn, &bench, &workspace, &format!("{text}{learned}")).await;
    expect(&warned);
    let text = "plugin = \"env_shop.wasm\"\nrewards = [\"reward_state.wasm\"]\nepisodes = 4\n";
    assert_eq!(warnings(&bench, &workspace, text).await, []);
}
