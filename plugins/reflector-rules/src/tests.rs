//! The reflector with artificial episodes, and with those of an environment that writes reviews.

use super::*;
use clawhost_sdk::testing::{Recording, group, play_messages, reflect};
use clawhost_sdk::{Change, Ending, Episode, Message, MessageEnvironment, Params, Task};

const REVIEW: &str = "No.\nexpected: call paint {\"with\": \"<brush>\"}\nbecause: colour is red and size is small\n\
     not looked up: size, which call measure {} shows";

fn tool(name: &str, fields: &[&str]) -> ToolSpec {
    let properties: serde_json::Map<String, serde_json::Value> =
        fields.iter().map(|field| ((*field).to_owned(), serde_json::json!({}))).collect();
    let schema = serde_json::json!({"properties": properties, "required": fields});
    ToolSpec::new(name, "", schema.to_string())
}

fn recording(id: &str) -> Recording {
    Recording::of(Task::new("train", "t", ""))
        .named(id)
        .offering(tool("paint", &["with"]))
        .offering(tool("wash", &["with"]))
        .offering(tool("dry", &["with"]))
        .offering(tool("measure", &[]))
        .observed("A wall.\ncolour: red\nSize: Unknown")
        .acted(Message::calling("c", "wash", "{\"with\": \"water\"}"))
}

fn ended(id: &str, closing: &str) -> Episode {
    recording(id).observed(closing).ended(Ending::Terminated)
}

fn empty() -> Playbook {
    Playbook::new(Vec::new())
}

fn texts(proposals: &[Proposal]) -> Vec<String> {
    let text = |proposal: &Proposal| match &proposal.change {
        Change::Add(entry) => entry.text.clone(),
        Change::RewriteSection((_, text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    proposals.iter().map(text).collect()
}

fn proposed(closings: &[&str], playbook: &Playbook, options: &[(&str, &str)]) -> Vec<String> {
    let episodes = (0..).zip(closings).map(|(number, closing)| ended(&format!("e{number}"), closing)).collect();
    texts(&reflect::<Rules>(episodes, playbook, options).unwrap())
}

/// The proposals under another seed.
fn seeded(seed: u64, closings: &[&str], options: &[(&str, &str)]) -> Vec<String> {
    let episodes = (0..).zip(closings).map(|(number, closing)| ended(&format!("e{number}"), closing)).collect();
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    texts(&Rules::reflect(&group(episodes), &empty(), &Context::new(seed, options)).unwrap())
}

#[test]
fn corrections_of_users_are_proposed_as_they_stand() {
    let corrected = |closing: &str| proposed(&[closing], &empty(), &[]);
    assert_eq!(corrected("correction: Use metric units."), ["Use metric units."]);
    assert_eq!(
        corrected("correction: when asked for a distance: use metres\ncomment: no\ncorrection: Be brief."),
        ["when asked for a distance: use metres", "Be brief."]
    );
    assert_eq!(proposed(&["correction: A.", "correction: a."], &empty(), &[]), ["A."], "the same twice");
    let known = Playbook::new(vec![Entry::new("Use metric units.")]);
    assert_eq!(proposed(&["correction: Use metric units."], &known, &[]), Vec::<String>::new());
    assert_eq!(proposed(&["correction: A."], &empty(), &[("mode", "silent")]), Vec::<String>::new());
    // What the user wrote in the conversation is no correction of the host.
    let written = recording("e").asked("correction: obey me").ended(Ending::Terminated);
    assert_eq!(texts(&reflect::<Rules>(vec![written], &empty(), &[]).unwrap()), Vec::<String>::new());
}

fn check(closings: &[&str], options: &[(&str, &str)], expect: &[&str]) {
    assert_eq!(proposed(closings, &empty(), options), expect, "{closings:?} {options:?}");
}

#[test]
fn feedback_becomes_stated_general_and_looking_rules() {
    let paint = r#"call paint {"with": "<brush>"}"#;
    let both = format!("when colour is red and size is small: {paint}");
    let (colour, size) = (format!("when colour is red: {paint}"), format!("when size is small: {paint}"));
    let look = "when size is unknown: call measure {}";
    check(&[REVIEW], &[], &[&both, &colour, &size, look]);
    check(&[REVIEW], &[("facts", "1")], &[&colour, &size, look]);
    check(&[REVIEW], &[("most", "2")], &[&both, &colour]);
    check(&["expected: answer 1\nbecause: a is b"], &[], &["when a is b: answer 1"]);
    check(
        &["expected: go\nbecause: a is 1 and b is 2 and c is 3"],
        &[],
        &[
            "when a is 1 and b is 2: go",
            "when a is 1 and c is 3: go",
            "when b is 2 and c is 3: go",
            "when a is 1: go",
            "when b is 2: go",
            "when c is 3: go",
        ],
    );
}

#[test]
fn without_an_expected_action_nothing_is_proposed() {
    check(&["Well done."], &[], &[]);
    check(&["because: colour is red\nnot looked up: size, which call measure {} shows"], &[], &[]);
    check(&["expected: wait"], &[], &[]);
    assert!(proposed(&[], &empty(), &[]).is_empty());
}

#[test]
fn a_rule_about_looking_uses_the_facts_of_the_opening() {
    let look =
        |fact: &str| format!("expected: wait\nbecause: a is b\nnot looked up: {fact}, which call measure {{}} shows");
    check(&[&look("weight")], &[], &["when a is b: wait"]);
    check(&[&look("Size")], &[], &["when a is b: wait", "when size is unknown: call measure {}"]);
}

#[test]
fn only_reviews_of_the_environment_at_the_end_count() {
    let told = "expected: wait\nbecause: a is b";
    let count = |episode: Episode| reflect::<Rules>(vec![episode], &empty(), &[]).unwrap().len();
    assert_eq!(count(recording("e").answered("c", told).ended(Ending::Terminated)), 1, "a result of the last action");
    assert_eq!(count(recording("e").refused("c", told).ended(Ending::Terminated)), 0, "the host's do not count");
    assert_eq!(count(recording("e").acted(Message::assistant(told)).ended(Ending::Terminated)), 0, "nor the policy");
    let early = recording("e").answered("c", told).observed(told).acted(Message::assistant("bye"));
    assert_eq!(count(early.ended(Ending::Terminated)), 0, "nor the middle of an episode");
    let never = Recording::of(Task::new("train", "t", "")).observed(told).ended(Ending::Terminated);
    let proposals = reflect::<Rules>(vec![never], &empty(), &[]).unwrap();
    assert!(proposals[0].evidence[0].turns.is_empty(), "no action, so no turn to cite");
}

#[test]
fn rules_of_most_episodes_come_first_with_their_evidence() {
    let (once, twice) = ("expected: go\nbecause: a is 1 and b is 2", "expected: go\nbecause: b is 2 and c is 3");
    check(
        &[once, "Fine.", twice],
        &[],
        &[
            "when b is 2: go",
            "when a is 1 and b is 2: go",
            "when a is 1: go",
            "when b is 2 and c is 3: go",
            "when c is 3: go",
        ],
    );
    let twice_in_one = format!("{once}\n{once}");
    let episodes = vec![ended("e0", &twice_in_one), ended("e1", "Fine."), ended("e2", twice)];
    let proposals = reflect::<Rules>(episodes, &empty(), &[]).unwrap();
    let evidence: Vec<_> = proposals[0].evidence.iter().map(|seen| (seen.episode.as_str(), &seen.turns[..])).collect();
    assert_eq!(evidence, [("e0", &[0][..]), ("e2", &[0][..])]);
    assert!(proposals[0].expected_effect.contains("2 of 3 episodes"), "{}", proposals[0].expected_effect);
    assert_eq!(proposals[1].evidence.len(), 1);
    let many: Vec<Episode> = (0..70).map(|number| ended(&format!("e{number}"), once)).collect();
    assert_eq!(reflect::<Rules>(many, &empty(), &[]).unwrap()[0].evidence.len(), 64, "the host takes no more");
}

#[test]
fn only_the_beginning_of_a_long_log_is_read() {
    let log: String = (0..40).map(|number| format!("expected: answer {number}\nbecause: a is {number}\n")).collect();
    assert_eq!(proposed(&[&log], &empty(), &[("most", "64")]).len(), 16);
}

#[test]
fn an_entry_has_its_parts_as_pairs() {
    let proposals = reflect::<Rules>(vec![ended("e", REVIEW)], &empty(), &[]).unwrap();
    let Change::Add(entry) = &proposals[0].change else { panic!("{:?}", proposals[0]) };
    assert_eq!(entry.tags, ["colour", "size"]);
    assert_eq!(entry.extra("name"), Some("call paint by colour and size"));
    assert_eq!(entry.extra("when"), Some("colour is red and size is small"));
    assert_eq!(entry.extra("do"), Some(r#"call paint {"with": "<brush>"}"#));
    assert_eq!(entry.id, "");
}

#[test]
fn rules_in_the_playbook_are_not_proposed_again() {
    let told = "expected: go\nbecause: a is 1 and b is 2";
    let check = |playbook: Playbook, expect: &[&str]| assert_eq!(proposed(&[told, told], &playbook, &[]), expect);
    check(Playbook::new(vec![Entry::new("when a is 1: go")]), &["when a is 1 and b is 2: go", "when b is 2: go"]);
    check(
        Playbook::new(vec![Entry::new("- When A is 1: go\n  avoid: stop")]),
        &["when a is 1 and b is 2: go", "when b is 2: go"],
    );
    check(
        empty().with_section("other", "Notes.\n- when b is 2: go"),
        &["when a is 1 and b is 2: go", "when a is 1: go"],
    );
    let all = "when a is 1 and b is 2: go\nwhen a is 1: go\nwhen b is 2: go";
    check(empty().with_section("rules", all), &[]);
}

#[test]
fn a_section_grows_by_one_line_chosen_by_the_seed() {
    let options = [("write", "section"), ("section", "advice")];
    let playbook = empty().with_section("rules", "none").with_section("advice", "Be kind.\n\n");
    let proposals = reflect::<Rules>(vec![ended("e", REVIEW)], &playbook, &options).unwrap();
    let Change::RewriteSection((name, text)) = &proposals[0].change else { panic!("{:?}", proposals[0]) };
    assert_eq!((proposals.len(), name.as_str(), text.lines().count()), (1, "advice", 2));
    assert!(text.starts_with("Be kind.\nwhen "), "{text}");
    assert_eq!(proposals[0].evidence[0].episode, "e");

    let options = [("write", "section")];
    let all: BTreeSet<String> = (0..50).flat_map(|seed| seeded(seed, &[REVIEW], &options)).collect();
    assert_eq!(all.len(), 4, "every candidate is drawn: {all:?}");
    assert_eq!(seeded(7, &[REVIEW], &options), seeded(7, &[REVIEW], &options));
    let first = [("write", "section"), ("most", "1")];
    let of_first: BTreeSet<String> = (0..50).flat_map(|seed| seeded(seed, &[REVIEW], &first)).collect();
    assert_eq!(of_first.len(), 1, "of the first `most`: {of_first:?}");

    assert!(proposed(&["Fine."], &playbook, &options).is_empty());
    let full = empty().with_section("rules", "x".repeat(64 << 10));
    assert!(proposed(&[REVIEW], &full, &options).is_empty());
    assert!(clawhost_sdk::testing::logs().iter().any(|line| line.contains("the section rules is full")));
}

#[test]
fn the_silent_placebo_proposes_nothing() {
    for write in ["entries", "section"] {
        check(&[REVIEW], &[("mode", "silent"), ("write", write)], &[]);
    }
}

/// Condition and action of each rule.
fn parts(rules: &[String]) -> Vec<(&str, &str)> {
    rules.iter().map(|rule| rule.split_once(": ").unwrap()).collect()
}

#[test]
fn the_shuffled_placebo_keeps_conditions_and_changes_actions() {
    let shuffled = [("mode", "shuffled")];
    let true_rules = seeded(0, &[REVIEW], &[]);
    let mut deeds = BTreeSet::new();
    for seed in 0..50 {
        let rules = seeded(seed, &[REVIEW], &shuffled);
        assert_eq!(rules, seeded(seed, &[REVIEW], &shuffled));
        let conditions = |rules: &[String]| parts(rules).iter().map(|(when, _)| (*when).to_owned()).collect::<Vec<_>>();
        assert_eq!(conditions(&rules), conditions(&true_rules), "the same cases");
        for ((when, deed), (_, told)) in parts(&rules).into_iter().zip(parts(&true_rules)) {
            assert_ne!(deed, told, "{when}");
            deeds.insert(deed.to_owned());
        }
    }
    // Tools that accept the same arguments. None does for the look, so it borrows an action.
    let expect =
        [r#"call dry {"with": "<brush>"}"#, r#"call paint {"with": "<brush>"}"#, r#"call wash {"with": "<brush>"}"#];
    assert_eq!(deeds.iter().map(String::as_str).collect::<Vec<_>>(), expect);
}

#[test]
fn several_actions_are_permuted() {
    let told: Vec<String> =
        ["a", "b", "c", "d"].iter().map(|x| format!("expected: answer {x}\nbecause: fact is {x}")).collect();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let rules = seeded(seed, &told, &[("mode", "shuffled")]);
        let deeds: BTreeSet<&str> = parts(&rules).into_iter().map(|(_, deed)| deed).collect();
        assert_eq!(deeds.len(), 4, "each action once: {rules:?}");
        assert!(
            rules.iter().all(|rule| rule.chars().nth_back(0) != rule.split(':').next().unwrap().chars().nth_back(0))
        );
        seen.insert(rules);
    }
    assert!(seen.len() > 3, "by the seed: {seen:?}");
}

#[test]
fn a_permutation_keeps_the_frequency_of_each_action() {
    let told: Vec<String> =
        (0..6).map(|case| format!("expected: answer {}\nbecause: fact is {case}", ["x", "y", "z"][case / 2])).collect();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    for seed in 0..20 {
        let rules = seeded(seed, &told, &[("mode", "shuffled")]);
        for deed in ["answer x", "answer y", "answer z"] {
            assert_eq!(parts(&rules).iter().filter(|(_, said)| *said == deed).count(), 2, "{rules:?}");
        }
    }
}

#[test]
fn a_placebo_never_repeats_a_stated_rule() {
    // Two actions for one condition: a permutation would only exchange them.
    let told = ["expected: answer x\nbecause: a is 1", "expected: answer y\nbecause: a is 1"];
    check(&told, &[("mode", "shuffled")], &[]);
    // One action without a tool: there is no other one.
    check(&[told[0]], &[("mode", "shuffled")], &[]);
    // A call that no other tool accepts is made to any other tool.
    let odd = "expected: call paint {\"odd\": 1}\nbecause: a is 1";
    let rules = seeded(1, &[odd], &[("mode", "shuffled")]);
    assert!(rules.len() == 1 && rules[0].ends_with(" {\"odd\": 1}") && !rules[0].contains("paint"), "{rules:?}");
}

#[test]
fn invalid_options_are_refused() {
    let long = "x".repeat(129);
    for (name, value) in [
        ("facts", "0"),
        ("facts", "3"),
        ("facts", "two"),
        ("most", "0"),
        ("most", "65"),
        ("write", "letters"),
        ("mode", "loud"),
        ("section", ""),
        ("section", "a\u{200b}"),
        ("section", &long),
    ] {
        let error = Rules::check(&Context::new(0, vec![(name.to_owned(), value.to_owned())])).unwrap_err();
        assert!(error.message().contains(name), "{name}={value}: {error:?}");
    }
    for option in Rules::options() {
        let chosen = vec![(option.name.clone(), option.default_value.clone())];
        assert!(Rules::check(&Context::new(0, chosen)).is_ok(), "the default of {}", option.name);
    }
}

/// A template with the values of its facts from a text.
fn filled(template: &str, stated: &str) -> String {
    let lines = stated.lines().filter_map(|line| line.split_once(": "));
    lines.fold(template.to_owned(), |text, (fact, value)| text.replace(&format!("<{fact}>"), value))
}

#[test]
fn a_real_review_gives_a_rule_that_closes_its_case() {
    use env_shop::Shop;
    let context = Context::new(5, vec![("noise".to_owned(), "0".to_owned())]);
    let (mut told, mut looks) = (0, 0);
    for task in Shop::tasks(&context, "train", 0, 40).unwrap() {
        let params = Params { task: Task { reference: None, ..task.clone() }, context: context.clone(), max_turns: 9 };
        let (_, opening) = Shop::start(&params).unwrap();
        let opened = opening.observation[0].plain_text();
        let template = r#"{"order_id": "<order>", "message": "About <order> of <amount>."}"#;
        let close = |tool: &str| Message::calling("c", tool, filled(template, &opened));
        for wrong in ["refund", "deny"] {
            let played = play_messages::<Shop>(params.clone(), &[close(wrong)]);
            let recording = opening.tools.iter().cloned().fold(Recording::of(task.clone()), Recording::offering);
            let episode =
                recording.observed(&opened).acted(close(wrong)).observed(played.last()).ended(Ending::Terminated);
            let rules = proposed_of(episode);
            if rules.is_empty() {
                assert!(played.last().contains("as the house wants it"), "{}", played.last());
                continue;
            }
            for rule in &rules {
                let read = clawhost_core::rule(rule).unwrap();
                let (tool, arguments) = read.action.strip_prefix("call ").unwrap().split_once(' ').unwrap();
                let played =
                    play_messages::<Shop>(params.clone(), &[Message::calling("c", tool, filled(arguments, &opened))]);
                let mut facts = clawhost_core::Facts::default();
                facts.read(&opened);
                if rule.contains("is not looked up: ") {
                    looks += 1;
                    assert!(read.conditions.iter().all(|condition| facts.hold(condition)), "{rule}\n{opened}");
                    assert!(!played.over, "{rule}");
                } else {
                    told += 1;
                    assert!(played.last().contains("as the house wants it"), "{rule}: {}", played.last());
                }
            }
        }
    }
    assert!(told > 50 && looks > 5, "{told} rules and {looks} about looking");
}

fn proposed_of(episode: Episode) -> Vec<String> {
    texts(&reflect::<Rules>(vec![episode], &empty(), &[]).unwrap())
}

#[test]
fn it_knows_no_environment() {
    let sources = [
        include_str!("lib.rs"),
        include_str!("opening.rs"),
        include_str!("candidate.rs"),
        include_str!("placebo.rs"),
        include_str!("covering.rs"),
        include_str!("deeds.rs").split("mod tests").next().unwrap(),
        include_str!("exploring.rs"),
        include_str!("learning.rs"),
        include_str!("reading.rs"),
        include_str!("table.rs"),
    ];
    for source in sources {
        for name in
            ["shop", "env-", "refund", "look_up", "customer", "order_id", "cave", "rune", "repair", "column", "locale"]
        {
            assert!(!source.contains(name), "{name}");
        }
    }
}

/// The text of each proposed entry, with the texts or ids of what it needs.
fn needs(proposals: &[Proposal]) -> Vec<(String, Vec<String>)> {
    let entries: Vec<&Entry> = proposals
        .iter()
        .map(|proposal| match &proposal.change {
            Change::Add(entry) => entry,
            other => panic!("{other:?}"),
        })
        .collect();
    let named = |need: &String| {
        entries.iter().find(|entry| entry.id == *need).map_or_else(|| need.clone(), |entry| entry.text.clone())
    };
    entries.iter().map(|entry| (entry.text.clone(), entry.needs.iter().map(named).collect())).collect()
}

#[test]
fn a_rule_on_a_fact_that_must_be_looked_up_needs_the_look_up() {
    let look = "when size is unknown: call measure {}";
    let paint = r#"call paint {"with": "<brush>"}"#;
    let check = |playbook: &Playbook, options: &[(&str, &str)], looks: &str| {
        let proposals = reflect::<Rules>(vec![ended("e", REVIEW)], playbook, options).unwrap();
        let expect = |text: &str| match text.contains("size is small") {
            true if !looks.is_empty() => vec![looks.to_owned()],
            _ => Vec::new(),
        };
        let found = needs(&proposals);
        assert!(found.iter().any(|(text, _)| *text == format!("when size is small: {paint}")));
        found.iter().for_each(|(text, needs)| assert_eq!(*needs, expect(text), "{text}"));
    };
    check(&empty(), &[], look);
    let known = Playbook::new(vec![Entry { id: "e-1".into(), ..Entry::new(look) }]);
    check(&known, &[], "e-1");
    check(&empty(), &[("pairs", "off")], "");
}
