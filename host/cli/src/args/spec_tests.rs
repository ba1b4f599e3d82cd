//! Flags and files describe the same runs.

use super::*;
use crate::args::{Arguments, Command as Subcommand};
use clap::Parser as _;
use clawhost_run_config::Scope;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const HERE: Source = Source::File { line: None };

/// The run of a command line.
fn typed(words: &[String], file: Option<(&Path, &str)>) -> Result<RunSpec, UsageError> {
    let words = std::iter::once("clawhost".to_owned()).chain(words.iter().cloned());
    let parsed = Arguments::try_parse_from(words).map_err(|error| UsageError(error.to_string()))?;
    let described = match parsed.command {
        Subcommand::Run(arguments) => arguments.spec.resolved(file),
        Subcommand::Learn(arguments) => arguments.spec.resolved(file),
        Subcommand::Eval(arguments) => arguments.spec.resolved(file),
        other => panic!("{other:?}"),
    };
    described.map(|described| described.spec)
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

fn command(verb: Verb) -> &'static str {
    match verb {
        Verb::Play => "run",
        Verb::Learn => "learn",
        Verb::Evaluate => "eval",
    }
}

/// A value as it is typed.
fn shown(value: &Value) -> Vec<String> {
    match value {
        Value::Whole(number) => vec![number.to_string()],
        Value::Number(number) => vec![format!("{number:?}")],
        Value::Text(text) => vec![text.clone()],
        Value::Flag(flag) => vec![flag.to_string()],
        Value::Texts(texts) => texts.clone(),
    }
}

/// The flags of a patch, without the environment.
fn flagged(patch: &RunSpecPatch, is_chosen: impl Fn(Key) -> bool) -> Vec<String> {
    let mut words = Vec::new();
    for key in patch.keys().filter(|key| *key != Key::Plugin && is_chosen(*key)) {
        let (value, _) = patch.get(key).unwrap();
        words.extend(shown(value).into_iter().map(|text| format!("--{}={text}", long_name(key))));
    }
    if let Some((layers, _)) = patch.layers() {
        words.extend(layers.iter().map(|layer| format!("--layer={layer}")));
    }
    words
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_]{1,20}"
}

fn plugin() -> impl Strategy<Value = String> {
    (name(), name(), "[a-z=?/]{0,5}").prop_map(|(path, option, value)| format!("{path}.wasm?{option}={value}"))
}

/// A valid value of a key.
fn sound(key: Key) -> BoxedStrategy<Value> {
    let some = |all: &'static [&'static str]| {
        subsequence(all.to_vec(), 0..=all.len()).prop_map(|all| all.into_iter().map(str::to_owned).collect())
    };
    match (key, key.kind()) {
        (Key::Temperature, _) => (0.05_f32..=2.0).prop_map(|n| Value::Number(f64::from(n))).boxed(),
        (_, Kind::Whole { range }) => range.prop_map(Value::Whole).boxed(),
        (Key::DemonstrationsUntil, _) => (-1e300..1e300).prop_map(Value::Number).boxed(),
        (_, Kind::Number { range }) => range.prop_map(Value::Number).boxed(),
        (_, Kind::Flag) => any::<bool>().prop_map(Value::Flag).boxed(),
        (Key::Plugin | Key::EvolveReflector, _) => plugin().prop_map(Value::Text).boxed(),
        (Key::Reflectors | Key::Rewards, _) => vec(plugin(), 1..3).prop_map(Value::Texts).boxed(),
        (Key::Grants, _) => some(&["kv", "llm:a=follower", "llm:b=local:x"]).prop_map(Value::Texts).boxed(),
        (Key::Demonstrations, _) => some(&["z=1", "b=", "a=x=y"]).prop_map(Value::Texts).boxed(),
        (Key::Price, _) => (0.0..=1e9, 0.0..=1e9).prop_map(|(a, b)| Value::Text(format!("{a},{b}"))).boxed(),
        (Key::Truncated, _) => select(vec!["keep", "mask", "penalty=0.5"]).prop_map(|t| Value::Text(t.into())).boxed(),
        (Key::Playbook | Key::EvolveSection, _) => name().prop_map(Value::Text).boxed(),
        (Key::Forbid, _) => vec("(?s).{8,20}", 0..3).prop_map(Value::Texts).boxed(),
        (_, Kind::Texts) => some(key.choices()).prop_map(Value::Texts).boxed(),
        (_, Kind::Text) if !key.choices().is_empty() => {
            select(key.choices()).prop_map(|choice| Value::Text(choice.to_owned())).boxed()
        }
        // A path: inside of the file's folder, without the byte that no path has.
        (Key::Out | Key::Teacher | Key::SystemPromptFile, _) => {
            r"(?s)[^/.\x00][^/\x00]{0,19}".prop_map(Value::Text).boxed()
        }
        (_, Kind::Text) => "(?s).{1,20}".prop_map(Value::Text).boxed(),
    }
}

/// A patch of some options. Most patches have contradictions: then file and flags must be refused equally.
fn patch(verb: Verb) -> impl Strategy<Value = (Verb, RunSpecPatch)> {
    let keys: Vec<Key> = Key::ALL.iter().copied().filter(|key| key.applies_to(verb)).collect();
    let most = keys.len();
    let layers = subsequence(Layer::ALL.to_vec(), 1..=2);
    (subsequence(keys, 0..=most), layers, 1..=32_u64, 1..=100_u64).prop_flat_map(move |(keys, layers, half, groups)| {
        let must = [Key::Plugin, Key::Rewards, Key::Reflectors];
        let keys: Vec<Key> = keys
            .into_iter()
            .chain(must)
            .filter(|key| match key.scope() {
                Scope::Layer(layer) => verb == Verb::Learn && layers.contains(&layer),
                Scope::Run | Scope::Evaluate => true,
            })
            .collect();
        let values: Vec<_> = keys.iter().map(|key| sound(*key)).collect();
        let layers = layers.clone();
        values.prop_map(move |values| {
            let mut patch = RunSpecPatch::new();
            keys.iter().zip(values).for_each(|(key, value)| patch.set(*key, value, HERE));
            // Values that would contradict other options in most cases.
            for key in [Key::Model, Key::SystemPromptFile, Key::MaxCost, Key::BranchAt, Key::EvolveReflector, Key::Kl] {
                patch.remove(key);
            }
            if verb != Verb::Evaluate {
                patch.set(Key::Group, Value::Whole(2 * half), HERE);
                patch.set(Key::Episodes, Value::Whole(2 * half * groups), HERE);
            }
            patch.set(Key::Policy, Value::Text("local:dir".to_owned()), HERE);
            if verb == Verb::Learn {
                patch.set_layers(layers.iter().map(|layer| layer.name().to_owned()).collect(), HERE);
            }
            (verb, patch)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn equal_flags_and_files_describe_equal_runs(
        (verb, patch) in prop_oneof![patch(Verb::Play), patch(Verb::Learn), patch(Verb::Evaluate)]
    ) {
        let plugin = shown(&patch.get(Key::Plugin).unwrap().0).concat();
        let begin = |target: &str| vec![command(verb).to_owned(), target.to_owned()];
        let by_flags = typed(&[begin(&plugin), flagged(&patch, |_| true)].concat(), None);
        // Files do not have options of an evaluation.
        let mut beside = RunSpecPatch::new();
        for key in patch.keys().filter(|key| key.scope() == Scope::Evaluate) {
            let (value, source) = patch.get(key).unwrap().clone();
            beside.set(key, value, source);
        }
        let file = patch.to_toml();
        let by_file = typed(&[begin("run.toml"), flagged(&beside, |_| true)].concat(), Some((Path::new("run.toml"), &file)));
        match (by_flags, by_file) {
            (Ok(flags), Ok(file)) => prop_assert_eq!(flags, file),
            (Err(_), Err(_)) => {}
            (flags, other) => prop_assert!(false, "{:?} {:?}\n{}", flags, other, file),
        }
    }
}

#[test]
fn flags_win_over_a_file() {
    let file = "plugin = \"env.wasm\"\nrewards = [\"r.wasm\"]\nseed = 3\npolicy = \"follower\"\n";
    let spec = typed(
        &words(&["run", "runs/a.toml", "--seed", "9", "--model", "tiny", "--trust-run-file"]),
        Some((Path::new("runs/a.toml"), file)),
    );
    let spec = spec.unwrap();
    assert_eq!((spec.play.seed, spec.policy.model.as_str()), (9, "local:tiny"));
    assert_eq!(
        (spec.environment.path.as_str(), spec.rewards[0].plugin.path.as_str()),
        ("runs/env.wasm", "runs/r.wasm")
    );
}

#[test]
fn all_problems_are_reported_at_once_by_flag_and_by_line() {
    let why = |words_typed: &[&str], file: Option<&str>| {
        typed(&words(words_typed), file.map(|text| (Path::new("a.toml"), text))).unwrap_err().0
    };
    let text = why(&["learn", "env.wasm", "--layer", "harness", "--group", "3", "--alpha", "much"], None);
    for part in ["--reward: missing", "--reflector: missing", "--group: found 3", "--alpha: found the text \"much\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.starts_with("4 problems:"), "{text}");
    let text = why(&["run", "a.toml", "--episodes", "0"], Some("plugin = \"e.wasm\"\n\nmax_turns = 0\n"));
    assert!(text.contains("--episodes: found 0") && text.contains("a.toml, line 3: max_turns: found 0"), "{text}");
    let text = why(&["run", "a.toml"], Some("plugin = \"e.wasm\"\nsed = 3\n"));
    assert!(text.starts_with("a.toml, line 2: sed") && text.contains("did you mean `seed`?"), "{text}");
    let text = why(&["learn", "env.wasm"], None);
    assert!(text.contains("--layer: names no layer; known: harness, weights, router"), "{text}");
    let text = why(&["run", "env.wasm", "--iterations", "3"], None);
    assert_eq!(text, "--iterations: belongs to learning; this run is for playing");
    let text = why(&["run", "env.wasm", "--episodes", "-1"], None);
    assert_eq!(text, "--episodes: found -1; expected a whole number from 1 to 10000000");
}

#[test]
fn learning_options_of_run_refer_to_learn() {
    let file = "plugin = \"e.wasm\"\n[[learn]]\nlayer = \"harness\"\n";
    let why = typed(&words(&["run", "a b.toml"]), Some((Path::new("a b.toml"), file))).unwrap_err().0;
    assert!(why.contains("learn with `clawhost learn 'a b.toml'`"), "{why}");
    let why = typed(&words(&["run", "e.wasm", "--layer", "harness"]), None).unwrap_err().0;
    assert!(why.contains("learn with `clawhost learn`"), "{why}");
}

#[test]
fn the_sample_needs_no_environment_and_a_run_does() {
    let parse = |text: &[&str]| Arguments::try_parse_from([&["clawhost"], text].concat()).is_ok();
    assert!(parse(&["learn", "--sample"]));
    assert!(!parse(&["learn"]) && !parse(&["run"]) && !parse(&["learn", "e.wasm", "--sample"]));
    assert!(parse(&["learn", "e.wasm", "--dry-run"]) && !parse(&["learn", "e.wasm", "--dry-run", "--resume"]));
}

#[test]
fn a_run_to_resume_needs_an_equals_sign() {
    let check = |text: &[&str], part: &str| {
        let error = Arguments::try_parse_from([&["clawhost"], text].concat()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(part), "{error}");
    };
    let tip = "unexpected argument 'run-7': the run to resume needs an equals sign, as in --resume=run-7";
    check(&["run", "e.wasm", "--resume", "run-7"], tip);
    check(&["run", "--resume", "run-7", "e.wasm"], tip);
    check(&["learn", "--resume", "run-7"], tip);
    check(&["run", "e.wasm", "run-7"], "unexpected argument 'run-7' found");
    check(&["eval", "e.wasm", "other"], "unexpected argument 'other' found");
    assert!(Arguments::try_parse_from(["clawhost", "run", "e.wasm", "--resume=run-7"]).is_ok());
}
