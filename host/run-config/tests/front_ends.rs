//! How a command line uses this crate: it fills a patch from flags, lays it over a file, and renders problems with its
//! own names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

use clawhost_run_config::{Amount, Key, Kind, PluginSpec, RunSpec, RunSpecPatch, Source, Value, Verb, Work, sample};

fn flags(options: &[(Key, &str)], layers: &[&str]) -> RunSpecPatch {
    let mut patch = RunSpecPatch::new();
    for (key, text) in options {
        patch.set(*key, key.read(text).unwrap(), Source::Flag);
    }
    if !layers.is_empty() {
        patch.set_layers(layers.iter().map(|layer| (*layer).to_owned()).collect(), Source::Flag);
    }
    patch
}

fn file() -> RunSpecPatch {
    RunSpecPatch::from_toml(sample(), "runs").unwrap()
}

fn flag_name(key: Key) -> String {
    format!("--{}", key.name().replace('_', "-"))
}

#[test]
fn flags_win_over_the_file_and_defaults_fill_the_rest() {
    let patch = flags(&[(Key::Seed, "9"), (Key::GateEvery, "5"), (Key::Alpha, "0.01")], &[]).over(file());
    let spec = patch.resolve(Verb::Learn).unwrap();
    let harness = spec.harness().unwrap();
    assert_eq!((spec.play.seed, harness.gate_every, harness.alpha, harness.gate_pairs), (9, 5, 0.01, 512));
    assert_eq!(spec.environment.path, "runs/env_shop.wasm");
    assert_eq!(spec.weights(), None);
}

#[test]
fn a_file_and_flags_that_describe_one_run_resolve_to_one_spec() {
    let typed = [
        (Key::Plugin, "runs/env_shop.wasm?house=3"),
        (Key::Rewards, "runs/reward_state.wasm"),
        (Key::Reflectors, "runs/reflector_rules.wasm?facts=2"),
        (Key::Seed, "7"),
    ];
    let typed = flags(&typed, &["harness"]).resolve(Verb::Learn);
    assert_eq!(typed, file().resolve(Verb::Learn));
}

#[test]
fn lessons_have_a_budget_unless_their_episodes_are_chosen() {
    let budget = |options: &[(Key, &str)], layers: &[&str]| {
        let spec =
            flags(options, layers).over(file()).resolve(Verb::Learn).unwrap_or_else(|problems| panic!("{problems}"));
        spec.harness().unwrap().budget
    };
    assert_eq!(budget(&[], &["harness"]), Some(300));
    assert_eq!(budget(&[(Key::Budget, "150"), (Key::TrialSlots, "4")], &["harness"]), Some(150));
    let chosen = [(Key::Iterations, "20"), (Key::Episodes, "32"), (Key::Group, "4"), (Key::GateEvery, "5")];
    let others = [
        (Key::GatePairs, "64"),
        (Key::ReflectEvery, "2"),
        (Key::TrialSlots, "4"),
        (Key::Evolve, "500"),
        (Key::From, "run-1"),
    ];
    for option in chosen.into_iter().chain(others) {
        assert_eq!(budget(&[option], &["harness"]), None, "{option:?}");
    }
    // Where layers learn in turns, these are the episodes of the others.
    let both = |more: &[(Key, &str)]| budget(&[&[(Key::Model, "tiny")], more].concat(), &["harness", "weights"]);
    assert_eq!(both(&[]), Some(300));
    assert_eq!(both(&chosen[..3]), Some(300));
    for option in [chosen[3], others[0], others[1], others[2], others[3], (Key::Schedule, "joint")] {
        assert_eq!(both(&[option]), None, "{option:?}");
    }
}

#[test]
fn a_budget_in_tokens_or_money_is_the_only_budget() {
    let resolved = |options: &[(Key, &str)]| flags(options, &["harness"]).over(file()).resolve(Verb::Learn);
    let tokens = resolved(&[(Key::BudgetTokens, "200000")]).unwrap();
    let harness = tokens.harness().unwrap();
    assert_eq!(harness.allowance.as_ref().map(|allowance| allowance.amount), Some(Amount::Tokens(200_000)));
    assert_eq!((harness.budget, harness.divides()), (None, true), "the number of episodes is not known yet");
    let again = tokens.to_patch().resolve(Verb::Learn).unwrap();
    assert_eq!(again.harness().unwrap().allowance, harness.allowance);
    let money = resolved(&[(Key::BudgetMoney, "2.5"), (Key::Price, "0.15,0.60")]).unwrap();
    assert_eq!(money.harness().unwrap().allowance.as_ref().unwrap().amount, Amount::Money(2.5));
    let refused = |options: &[(Key, &str)], expect: &str| {
        let problems = resolved(options).unwrap_err().to_string();
        assert!(problems.contains(expect), "{problems}");
    };
    refused(&[(Key::BudgetTokens, "200000"), (Key::Budget, "300")], "budget_tokens: cannot stand beside budget");
    refused(&[(Key::BudgetMoney, "1")], "budget_money: needs price");
    refused(&[(Key::BudgetTokens, "200000"), (Key::Iterations, "3")], "iterations: cannot stand beside budget_tokens");
    refused(&[(Key::BudgetTokens, "999")], "budget_tokens");
}

#[test]
fn a_layer_of_the_command_line_replaces_that_of_the_file() {
    let patch = flags(&[(Key::Model, "tiny")], &["weights"]).over(file());
    let spec = patch.resolve(Verb::Learn).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(spec.harness().is_none() && spec.weights().is_some());
    assert_eq!(spec.policy.local_folder(), Some("tiny"));
}

#[test]
fn problems_of_flags_show_flag_names_and_problems_of_files_show_lines() {
    let patch = flags(&[(Key::AdapterAlpha, "8"), (Key::Group, "5")], &[]).over(file());
    let problems = patch.resolve(Verb::Learn).unwrap_err();
    let shown: Vec<String> = problems
        .iter()
        .map(|problem| match (problem.key, problem.source) {
            (Some(key), Some(Source::Flag)) => format!("{}: {}", flag_name(key), problem.render(flag_name)),
            _ => problem.to_string(),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "--adapter-alpha: belongs to layer weights, which this run does not name",
            "--group: found 5; expected an even number from 2 to 64: half of a group sees a lesson, half does not",
        ]
    );
    let problems = flags(&[(Key::AdapterRank, "0"), (Key::MaxCost, "1")], &["weights", "weight"]);
    let problems = problems.over(RunSpecPatch::from_toml("seed = 3\nmodel = \"m\"\ngroup = 1", "").unwrap());
    let problems = problems.resolve(Verb::Learn).unwrap_err();
    let shown: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.label, problem.render(flag_name))).collect();
    let expected = [
        "[[learn]]: found the text \"weight\"; expected a layer: harness, weights, router; did you mean `weights`?",
        "[[learn]] weights, adapter_rank: found 0; expected a whole number from 1 to 1024",
        "plugin: missing; name the environment, as in \"env_shop.wasm\"",
        "max_cost: needs --price; without one no cost is known",
        "group: found 1; expected at least 2: members of a group are compared with each other",
    ];
    let mut shown = shown;
    let mut expected = expected.map(str::to_owned).to_vec();
    shown.sort();
    expected.sort();
    assert_eq!(shown, expected);
}

#[test]
fn the_text_of_a_flag_is_parsed_by_the_type_of_its_option() {
    assert_eq!(Key::Seed.read("7"), Ok(Value::Whole(7)));
    assert_eq!(Key::Alpha.read("1e-3"), Ok(Value::Number(1e-3)));
    assert_eq!(Key::Policy.read(""), Ok(Value::Text(String::new())));
    assert_eq!(Key::Forbid.read("a, b"), Ok(Value::Texts(vec!["a, b".into()])));
    assert_eq!(Key::DifficultyFilter.read("true"), Ok(Value::Flag(true)));
    let check = |key: Key, text: &str, expected: &str| assert_eq!(key.read(text), Err(expected.to_owned()));
    check(Key::Group, "-1", "found -1; expected a whole number from 1 to 1024");
    check(Key::Group, "1.5", "found 1.5; expected a whole number from 1 to 1024");
    check(Key::Rate, "fast", "found the text \"fast\"; expected a number above 0 and at most 1");
    check(Key::DifficultyFilter, "", "found an empty text; expected true or false");
    check(Key::Against, "\u{1b}", "found the text \"\\u{1b}\"; expected a whole number of at least 1");
}

#[test]
fn existing_files_with_question_marks_and_hashes_in_their_names_are_found() {
    let patch = flags(&[(Key::Plugin, "why?/env.wasm?size=3"), (Key::Rewards, "c#/r.wasm#weight=2")], &[]);
    let files = ["why?/env.wasm", "c#/r.wasm"];
    let spec = patch.clone().resolve_with(Verb::Play, &|name| files.contains(&name)).unwrap();
    assert_eq!(spec.environment, PluginSpec::parse("why?/env.wasm?size=3", |name| files.contains(&name)).unwrap());
    assert_eq!((spec.environment.path.as_str(), spec.rewards[0].weight), ("why?/env.wasm", 2.0));
    assert!(patch.resolve(Verb::Play).is_err());
}

#[test]
fn an_evaluation_plays_each_pair_as_a_group() {
    let options = [
        (Key::Plugin, "env.wasm"),
        (Key::Rewards, "r.wasm"),
        (Key::Pairs, "30"),
        (Key::Tries, "4"),
        (Key::PlaybookVersion, "4"),
        (Key::Against, "2"),
    ];
    let spec: RunSpec = flags(&options, &[]).resolve(Verb::Evaluate).unwrap();
    assert_eq!((spec.play.episodes, spec.play.group), (240, 8));
    let Work::Evaluate(evaluate) = &spec.work else { panic!("{spec:?}") };
    assert_eq!((evaluate.pairs, evaluate.tries, evaluate.version, evaluate.against), (30, 4, Some(4), Some(2)));
}

#[test]
fn every_option_is_refused_by_runs_of_other_verbs() {
    for key in Key::ALL {
        let value = match key.kind() {
            Kind::Whole { range } => Value::Whole(*range.start()),
            Kind::Number { range } => Value::Number(*range.start()),
            Kind::Flag => Value::Flag(true),
            Kind::Text => Value::Text("a".into()),
            Kind::Texts => Value::Texts(Vec::new()),
        };
        for verb in Verb::ALL {
            let mut patch = flags(&[(Key::Plugin, "env.wasm")], &[]);
            patch.set(*key, value.clone(), Source::Flag);
            let problems = patch.resolve(verb).err();
            let all: Vec<_> = problems.iter().flatten().collect();
            let is_refused =
                all.iter().any(|one| one.key == Some(*key) && one.to_string().contains("; this run is for"));
            assert_eq!(is_refused, !key.applies_to(verb), "{key:?} {verb:?}: {problems:?}");
        }
    }
}
