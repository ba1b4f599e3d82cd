//! Properties of all patches, runs and texts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

use clawhost_run_config::{Key, Kind, Layer, RunSpec, RunSpecPatch, Scope, Source, Value, Verb, sample};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const HERE: Source = Source::File { line: None };

/// Any text, including control characters and line ends.
fn text() -> impl Strategy<Value = String> {
    "(?s).{0,20}"
}

/// Any value of a key's shape, in its range or not.
fn raw(key: Key) -> BoxedStrategy<Value> {
    match key.kind() {
        Kind::Whole { .. } => any::<u64>().prop_map(Value::Whole).boxed(),
        // NaN is not equal to itself.
        Kind::Number { .. } => any::<f64>().prop_filter("no NaN", |n| !n.is_nan()).prop_map(Value::Number).boxed(),
        Kind::Text => text().prop_map(Value::Text).boxed(),
        Kind::Flag => any::<bool>().prop_map(Value::Flag).boxed(),
        Kind::Texts => vec(text(), 0..4).prop_map(Value::Texts).boxed(),
    }
}

fn file_keys() -> Vec<Key> {
    Key::ALL.iter().copied().filter(|key| key.scope() != Scope::Evaluate).collect()
}

/// A patch of some keys, with their layers.
fn patch(
    value: fn(Key) -> BoxedStrategy<Value>,
    keys: Vec<Key>,
    source: Source,
) -> impl Strategy<Value = RunSpecPatch> {
    let most = keys.len();
    subsequence(keys, 0..=most).prop_flat_map(move |keys| {
        let values: Vec<_> = keys.iter().map(|key| value(*key)).collect();
        (Just(keys), values, option::of(subsequence(Layer::ALL.to_vec(), 0..=2))).prop_map(
            move |(keys, values, layers)| {
                let mut patch = RunSpecPatch::new();
                let mut layers = layers.map(|layers| layers.into_iter().collect::<Vec<_>>());
                for (key, value) in keys.into_iter().zip(values) {
                    if let Scope::Layer(layer) = key.scope()
                        && !layers.get_or_insert_default().contains(&layer)
                    {
                        layers.get_or_insert_default().push(layer);
                    }
                    patch.set(key, value, source);
                }
                if let Some(layers) = layers {
                    patch.set_layers(layers.iter().map(|layer| layer.name().to_owned()).collect(), source);
                }
                patch
            },
        )
    })
}

/// The content of a patch without its sources.
fn said(patch: &RunSpecPatch) -> (Vec<(Key, Value)>, Option<Vec<String>>) {
    let values = patch.keys().map(|key| (key, patch.get(key).unwrap().0.clone()));
    (values.collect(), patch.layers().map(|(layers, _)| layers.clone()))
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_-]{1,20}"
}

fn plugin() -> impl Strategy<Value = String> {
    let options = proptest::collection::btree_map(name(), "[a-z=?/]{0,5}", 0..3);
    ("[a-z/.]{1,10}", options).prop_map(|(path, options)| {
        let options: Vec<String> = options.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        if options.is_empty() { path } else { format!("{path}?{}", options.join("&")) }
    })
}

/// A valid value of a key.
fn sound(key: Key) -> BoxedStrategy<Value> {
    let distinct = |some: &'static [&'static str]| {
        subsequence(some.to_vec(), 0..=some.len()).prop_map(|all| all.into_iter().map(str::to_owned).collect())
    };
    match (key, key.kind()) {
        (Key::Temperature, _) => (0.05_f32..=2.0).prop_map(|n| Value::Number(f64::from(n))).boxed(),
        (Key::TopP, _) => (0.05_f32..=1.0).prop_map(|n| Value::Number(f64::from(n))).boxed(),
        (_, Kind::Whole { range }) => range.prop_map(Value::Whole).boxed(),
        (Key::DemonstrationsUntil, _) => (-1e300..1e300).prop_map(Value::Number).boxed(),
        (_, Kind::Number { range }) => range.prop_map(Value::Number).boxed(),
        (_, Kind::Flag) => any::<bool>().prop_map(Value::Flag).boxed(),
        (Key::Plugin | Key::EvolveReflector, _) => plugin().prop_map(Value::Text).boxed(),
        (Key::Reflectors, _) => vec(plugin(), 1..3).prop_map(Value::Texts).boxed(),
        (Key::Rewards, _) => {
            let reward = (plugin(), 0.0..=1e6, select(&["", "&source=judge", "&source=user"][..]));
            let reward = reward.prop_map(|(plugin, weight, source)| format!("{plugin}#weight={weight}{source}"));
            vec(reward, 1..3).prop_map(Value::Texts).boxed()
        }
        (Key::Grants, _) => distinct(&["kv", "llm:a=follower", "llm:b=local:x"]).prop_map(Value::Texts).boxed(),
        (Key::Expect, _) => distinct(&["user=1d", "judge=90s", "outcome=3h"]).prop_map(Value::Texts).boxed(),
        (Key::Demonstrations, _) => distinct(&["z=1", "b=", "a=x=y"]).prop_map(Value::Texts).boxed(),
        (Key::Price, _) => (0.0..=1e9, 0.0..=1e9).prop_map(|(a, b)| Value::Text(format!("{a},{b}"))).boxed(),
        (Key::Truncated, _) => prop_oneof![
            Just("keep".to_owned()),
            Just("mask".to_owned()),
            (0.0..=2.0).prop_map(|penalty| format!("penalty={penalty}")),
        ]
        .prop_map(Value::Text)
        .boxed(),
        (Key::Name, _) => "[A-Z][A-Za-z0-9_.-]{0,20}".prop_map(Value::Text).boxed(),
        (Key::Tags, _) => distinct(&["a=1", "b", "c:2"]).prop_map(Value::Texts).boxed(),
        (Key::Playbook | Key::EvolveSection, _) => name().prop_map(Value::Text).boxed(),
        (Key::Forbid, _) => vec("(?s).{8,20}", 0..3).prop_map(Value::Texts).boxed(),
        (Key::Policy, _) => Just(Value::Text("local:dir".to_owned())).boxed(),
        (_, Kind::Texts) => distinct(key.choices()).prop_map(Value::Texts).boxed(),
        (_, Kind::Text) if !key.choices().is_empty() => {
            select(key.choices()).prop_map(|choice| Value::Text(choice.to_owned())).boxed()
        }
        (_, Kind::Text) => "(?s).{1,20}".prop_map(Value::Text).boxed(),
    }
}

/// A patch that resolves: valid values, without those that contradict others.
fn resolvable(verb: Verb) -> impl Strategy<Value = (Verb, RunSpecPatch)> {
    let keys: Vec<Key> = Key::ALL.iter().copied().filter(|key| key.applies_to(verb) && *key != Key::Model).collect();
    let must = (sound(Key::Plugin), sound(Key::Rewards), sound(Key::Reflectors), 1..=32_u64, 1..=1000_u64);
    (patch(sound, keys, HERE), must).prop_map(move |(mut patch, (plugin, rewards, reflectors, half, groups))| {
        let layers = patch.layers().map(|(layers, _)| layers.clone()).unwrap_or_default();
        let layers = if verb == Verb::Learn && layers.is_empty() { vec!["harness".to_owned()] } else { layers };
        let learns = |layer: &str| layers.iter().any(|one| one == layer);
        // Weights learn in a local model, a router between models.
        let layers: Vec<String> = match learns("weights") {
            true => layers.iter().filter(|layer| *layer != "router").cloned().collect(),
            false => layers.clone(),
        };
        let routes = layers.iter().any(|layer| layer == "router");
        let (group, episodes) = (2 * half, 2 * half * groups);
        let mut set = |key, value| patch.set(key, value, HERE);
        set(Key::Plugin, plugin);
        set(Key::Rewards, rewards);
        set(Key::Policy, Value::Text(if routes { "router:r" } else { "local:dir" }.to_owned()));
        if verb != Verb::Evaluate {
            set(Key::Group, Value::Whole(group));
            set(Key::Episodes, Value::Whole(episodes));
        }
        if verb == Verb::Learn && layers.iter().any(|layer| layer == "harness") {
            set(Key::Reflectors, reflectors);
        }
        let given = |patch: &RunSpecPatch, key| patch.get(key).is_some();
        let has_some = matches!(patch.get(Key::Demonstrations), Some((Value::Texts(texts), _)) if !texts.is_empty());
        let turns = match patch.get(Key::MaxTurns) {
            Some((Value::Whole(turns), _)) => *turns,
            _ => 64,
        };
        let is = |key, word: &str| matches!(patch.get(key), Some((Value::Text(text), _)) if text == word);
        // A teacher and its objective need each other; and then nothing is refilled.
        let is_distilled = is(Key::Objective, "opd") && given(&patch, Key::Teacher);
        let branch = matches!(patch.get(Key::BranchAt), Some((Value::Whole(at), _)) if *at >= turns);
        let out = [
            (Key::SystemPromptFile, given(&patch, Key::SystemPrompt)),
            (Key::MaxCost, !given(&patch, Key::Price)),
            // It stands beside none of the options that it divides.
            (Key::Budget, true),
            (Key::BudgetTokens, true),
            (Key::BudgetMoney, true),
            (Key::EvolveReflector, !given(&patch, Key::Evolve)),
            (Key::AdapterAlpha, !given(&patch, Key::AdapterRank)),
            (Key::AdapterTargets, !given(&patch, Key::AdapterRank)),
            (Key::DemonstrationsUntil, !has_some),
            (Key::DemonstrationsSteps, !has_some),
            (Key::Kl, has_some),
            (Key::Objective, is(Key::Objective, "opd") && !is_distilled),
            (Key::Teacher, !is_distilled),
            (Key::TeacherTop, !is_distilled),
            (Key::Refills, is_distilled),
            (Key::Credit, is_distilled),
            (Key::CreditWeight, is_distilled || !(is(Key::Credit, "turn") || is(Key::Credit, "judge"))),
            (Key::Schedule, layers.len() < 2),
            (Key::BranchAt, branch),
            (Key::TopP, layers.iter().any(|layer| layer == "weights")),
            (Key::From, routes || layers.iter().any(|layer| layer == "weights")),
        ];
        for (key, _) in out.into_iter().filter(|(_, is_out)| *is_out) {
            patch.remove(key);
        }
        if verb == Verb::Learn {
            patch.set_layers(layers, HERE);
        } else {
            patch = keys_only(&patch);
        }
        (verb, patch)
    })
}

/// A patch without layers.
fn keys_only(patch: &RunSpecPatch) -> RunSpecPatch {
    let mut out = RunSpecPatch::new();
    for key in patch.keys() {
        let (value, source) = patch.get(key).unwrap().clone();
        out.set(key, value, source);
    }
    out
}

fn run() -> impl Strategy<Value = (Verb, RunSpecPatch)> {
    prop_oneof![resolvable(Verb::Play), resolvable(Verb::Learn), resolvable(Verb::Evaluate)]
}

/// Pieces of files: some fit together, most do not.
const PIECES: [&str; 36] = [
    "plugin", "rewards", "tasks", "group", "episodes", "seed", "price", "grants", "learn", "harness", "layer",
    "forbid", "version", "=", "=", "=", ".", ",", "[", "]", "[[", "]]", "{", "}", "\n", "\n", "\r\n", "\"a\"", "\"",
    "\"\"\"", "'", "7", "-1.5e9", "0xff", "true", "# c",
];

/// Lines of files: mostly valid TOML.
const LINES: [&str; 16] = [
    "plugin = \"e\"",
    "[[learn]]",
    "[[learn]]",
    "[learn]",
    "layer = \"harness\"",
    "layer = \"weights\"",
    "reflectors = [\"r\"]",
    "rewards = [\"r\"]",
    "group = 4",
    "episodes = 8",
    "gate_every = 3",
    "seed = 1",
    "tasks = \"test\"",
    "model = \"m\"",
    "learn.group = 3",
    "learn = [{ layer = \"weights\", x.y = 1 }]",
];

/// The reader does not panic, and every problem has a line inside the text, in order.
fn check(text: &str) {
    let problems = match RunSpecPatch::from_toml(text, "runs") {
        Ok(patch) => {
            let resolved = Verb::ALL.map(|verb| patch.clone().resolve(verb));
            resolved.into_iter().filter_map(Result::err).collect()
        }
        Err(problems) => vec![problems],
    };
    for all in problems {
        let lines: Vec<usize> = all.iter().filter_map(|problem| problem.line()).collect();
        assert!(lines.is_sorted(), "{all}");
        assert!(lines.iter().all(|line| (1..=text.split('\n').count()).contains(line)), "{all}");
        assert_eq!(all.to_string().lines().count(), all.iter().count(), "one line each: {all}");
        assert!(!all.to_string().contains("--"), "{all}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_patch_round_trips(patch in patch(raw, file_keys(), HERE)) {
        let written = patch.to_toml();
        let read = RunSpecPatch::from_toml(&written, "");
        prop_assert_eq!(read.map(|read| said(&read)), Ok(said(&patch)), "{}", written);
    }

    #[test]
    fn a_run_round_trips_through_its_document((verb, patch) in run()) {
        let spec = patch.resolve(verb).unwrap_or_else(|problems| panic!("{problems}"));
        let document = spec.to_document();
        prop_assert_eq!(RunSpec::from_document(document.clone()), Ok(spec.clone()));
        let stored = serde_json::from_str(&document.to_string()).unwrap();
        prop_assert_eq!(RunSpec::from_document(stored), Ok(spec));
    }

    #[test]
    fn the_full_patch_of_a_run_resolves_to_the_run((verb, patch) in run()) {
        let spec = patch.resolve(verb).unwrap_or_else(|problems| panic!("{problems}"));
        prop_assert_eq!(spec.work.verb(), verb);
        prop_assert_eq!(spec.to_patch().resolve(verb), Ok(spec.clone()));
        prop_assert_eq!(spec.diff(&spec), []);
    }

    #[test]
    fn the_short_patch_of_a_run_resolves_to_the_run_without_labels((verb, patch) in run()) {
        let spec = patch.resolve(verb).unwrap_or_else(|problems| panic!("{problems}"));
        let (short, whole) = (spec.to_short_patch(), spec.to_patch());
        prop_assert!(short.keys().count() <= whole.keys().count());
        prop_assert_eq!(short.resolve(verb), Ok(RunSpec { name: None, tags: Default::default(), ..spec }));
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_defaults(
        flags in patch(raw, Key::ALL.to_vec(), Source::Flag), file in patch(raw, Key::ALL.to_vec(), HERE),
    ) {
        // Layers, and options that exclude each other, count as one. Their tests are beside the code.
        let flags = keys_only(&flags);
        let rivals = [Key::Policy, Key::Model, Key::SystemPrompt, Key::SystemPromptFile];
        let merged = flags.clone().over(file.clone());
        for key in Key::ALL.iter().filter(|key| !rivals.contains(key)) {
            prop_assert_eq!(merged.get(*key), flags.get(*key).or(file.get(*key)), "{:?}", key);
        }
        prop_assert_eq!(merged.layers(), file.layers());
        prop_assert_eq!(RunSpecPatch::new().over(file.clone()), file);
        prop_assert_eq!(flags.clone().over(RunSpecPatch::new()), flags);
    }

    #[test]
    fn any_patch_resolves_or_gives_problems(patch in patch(raw, Key::ALL.to_vec(), Source::Flag)) {
        for verb in Verb::ALL {
            if let Err(problems) = patch.clone().resolve(verb) {
                prop_assert_eq!(problems.to_string().lines().count(), problems.iter().count());
            }
        }
    }

    #[test]
    fn any_text_parses_or_gives_problems(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_pieces_parse_or_give_problems(pieces in vec(select(&PIECES[..]), 0..40)) {
        check(&pieces.concat());
        check(&pieces.join(" "));
    }

    #[test]
    fn any_lines_parse_or_give_problems(lines in vec(select(&LINES[..]), 0..12)) {
        check(&lines.join("\n"));
    }

    #[test]
    fn any_damaged_file_parses_or_gives_problems(from in 0..2500_usize, length in 0..30_usize, patch in "[^-]{0,5}") {
        let characters: Vec<char> = sample().chars().collect();
        let kept = characters.iter().take(from).copied().chain(patch.chars());
        check(&kept.chain(characters.iter().skip(from + length).copied()).collect::<String>());
    }
}

#[test]
fn deep_nesting_is_refused_without_recursion() {
    for (open, close) in [("[", "]"), ("{ a = ", "}")] {
        check(&format!("seed = {}{}", open.repeat(100_000), close.repeat(100_000)));
        check(&format!("seed = {}", open.repeat(100_000)));
    }
    for deep in ["a.".repeat(70), "a.".repeat(500_000)] {
        check(&format!("[{deep}a]\n{deep}a = 1"));
    }
}
