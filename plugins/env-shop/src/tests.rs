//! The shop, played natively.

use super::*;
use clawhost_sdk::Message;
use clawhost_sdk::testing::{Transcript, play_messages};
use house::Record;

fn params(house: u64, position: u64, seed: u64, options: &[(&str, &str)]) -> Params {
    let options: Vec<(String, String)> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let tasks = Shop::tasks(&Context::new(house, options.clone()), "train", position, 1).unwrap();
    Params { task: tasks[0].clone(), context: Context::new(seed, options), max_turns: 100 }
}

fn case(params: &Params) -> Case {
    Shop::begin(params).unwrap().case
}

fn close(case: &Case, tool: &str) -> Message {
    let arguments =
        serde_json::json!({"order_id": case.order, "message": format!("{}, {}", case.order, case.amount())});
    Message::calling("call-1", tool, arguments.to_string())
}

fn look(case: &Case, tool: &str) -> Message {
    let arguments = serde_json::json!({"order_id": case.order, "customer_id": case.customer});
    let field = if tool == desk::LOOK_UP_ORDER { "order_id" } else { "customer_id" };
    Message::calling("call-1", tool, serde_json::json!({field: arguments[field]}).to_string())
}

fn state(transcript: &Transcript) -> serde_json::Value {
    serde_json::from_slice(&transcript.artefacts["state.json"]).unwrap()
}

#[test]
fn the_expected_tool_produces_the_records_of_the_reference() {
    for position in 0..50 {
        let params = params(3, position, 1, &[("noise", "0")]);
        let case = case(&params);
        let reference: serde_json::Value = serde_json::from_str(&case.reference(Talk::Full)).unwrap();
        let expected = RESOLUTIONS[case.house.expected(&case.facts)];
        for tool in RESOLUTIONS {
            let transcript = play_messages::<Shop>(params.clone(), &[close(&case, tool)]);
            assert!(transcript.over);
            assert_eq!(state(&transcript) == reference["state"], tool == expected, "{tool}");
            assert_eq!(transcript.last().contains("as the house wants it"), tool == expected, "{}", transcript.last());
        }
    }
}

#[test]
fn two_facts_are_shown_only_after_a_look_up() {
    for position in 0..20 {
        let params = params(5, position, 1, &[]);
        let case = case(&params);
        let actions = [look(&case, desk::LOOK_UP_CUSTOMER), look(&case, desk::LOOK_UP_ORDER)];
        let transcript = play_messages::<Shop>(params, &actions);
        assert_eq!(transcript.observations[0].matches("not looked up").count(), 2, "{}", transcript.observations[0]);
        assert_eq!(transcript.observations[1], case.lines(Record::Customer, Talk::Full).trim_end());
        assert_eq!(transcript.observations[2], case.lines(Record::Order, Talk::Full).trim_end());
        let [customer, order] =
            case.house.hidden.map(|fact| format!("{}: {}", FACTS[fact].name, case.value(fact, Talk::Full)));
        let shows =
            |observation: usize, fact: &String| transcript.observations[observation].lines().any(|line| line == fact);
        assert!(shows(1, &customer) && !shows(0, &customer));
        assert!(shows(2, &order) && !shows(0, &order));
        assert!(!transcript.over);
    }
}

#[test]
fn a_review_names_what_was_expected_and_what_was_not_looked_up() {
    let mut hints = 0;
    for position in 0..200 {
        let params = params(4, position, position, &[("noise", "0")]);
        let case = case(&params);
        let expected = RESOLUTIONS[case.house.expected(&case.facts)];
        let wrong = RESOLUTIONS.into_iter().find(|tool| *tool != expected).unwrap();
        let transcript = play_messages::<Shop>(params, &[close(&case, wrong)]);
        let text = transcript.last();
        assert!(text.contains(&format!("expected: call {expected} {{")), "{text}");
        let because = text.lines().find_map(|line| line.strip_prefix("because: ")).unwrap();
        assert!((1..=2).contains(&because.split(" and ").count()), "{because}");
        hints += usize::from(text.contains("not looked up: ") && text.contains("call look_up_"));
    }
    assert!(hints > 20, "{hints}");
}

#[test]
fn mistakes_are_answered_and_only_use_up_patience() {
    let params = params(1, 0, 1, &[("patience", "6")]);
    let case = case(&params);
    let call = |name: &str, arguments: serde_json::Value| Message::calling("c", name, arguments.to_string());
    let transcript = play_messages::<Shop>(
        params,
        &[
            Message::assistant("I think about it"),
            call("refund", serde_json::json!({"order_id": case.order})),
            call("refund", serde_json::json!({"order_id": "A1", "message": ""})),
            call("look_up_order", serde_json::json!({"order_id": case.others[0]})),
            call("look_up_customer", serde_json::json!({"customer": "x"})),
            Message::assistant(""),
        ],
    );
    for (position, says) in [
        (1, "cases are closed with tools"),
        (2, "missing field `message`"),
        (3, "there is no order A1"),
        (4, "this case is about order"),
        (5, "unknown field `customer`"),
        (6, "The customer has left. Review: not what the house wants."),
    ] {
        let text = &transcript.observations[position];
        assert!(text.contains(says), "{position}: {text}");
    }
    assert!(transcript.over);
    assert_eq!(state(&transcript), case.records(), "the records are unchanged");
}

#[test]
fn several_calls_in_one_message_are_answered_in_order_up_to_the_close() {
    let params = params(2, 0, 1, &[("noise", "0")]);
    let case = case(&params);
    let mut all = look(&case, desk::LOOK_UP_ORDER);
    all.tool_calls.extend(close(&case, "deny").tool_calls);
    all.tool_calls.extend(close(&case, "refund").tool_calls);
    let transcript = play_messages::<Shop>(params, &[all]);
    let text = transcript.last();
    let places = ["paid by: ", "booked: deny", "error: the case is closed"].map(|part| text.find(part).unwrap());
    assert!(places.is_sorted(), "{text}");
    assert_eq!(state(&transcript)["orders"][&case.order]["status"], "denied");
}

#[test]
fn closing_another_order_cannot_be_corrected() {
    let params = params(2, 0, 1, &[("noise", "0")]);
    let case = case(&params);
    let other = serde_json::json!({"order_id": case.others[0], "message": ""}).to_string();
    let expected = RESOLUTIONS[case.house.expected(&case.facts)];
    let transcript = play_messages::<Shop>(params, &[Message::calling("c", "deny", other), close(&case, expected)]);
    assert!(transcript.over && transcript.last().contains("not what the house wants"), "{}", transcript.last());
}

#[test]
fn a_customer_without_a_message_is_not_satisfied() {
    let params = params(2, 0, 1, &[("noise", "0")]);
    let case = case(&params);
    let expected = RESOLUTIONS[case.house.expected(&case.facts)];
    let silent = serde_json::json!({"order_id": case.order, "message": "done"}).to_string();
    let transcript = play_messages::<Shop>(params, &[Message::calling("c", expected, silent)]);
    assert!(transcript.last().contains("not what the house wants"), "{}", transcript.last());
}

#[test]
fn the_till_slips_in_about_five_of_a_hundred_independently_of_the_policy() {
    let slips: Vec<u64> = (0..2000)
        .filter(|seed| {
            let params = params(2, 0, *seed, &[]);
            let case = case(&params);
            let transcript = play_messages::<Shop>(params, &[close(&case, "deny")]);
            state(&transcript)["orders"][&case.order]["status"] != "denied"
        })
        .collect();
    assert!((70..=130).contains(&slips.len()), "{}", slips.len());
    for seed in slips.iter().take(10) {
        let params = params(2, 0, *seed, &[]);
        let case = case(&params);
        let transcript = play_messages::<Shop>(params, &[close(&case, "refund")]);
        assert_ne!(state(&transcript)["orders"][&case.order]["status"], "refunded", "by the seed alone");
    }
}

#[test]
fn a_restored_episode_continues_like_the_original() {
    let params = params(7, 3, 11, &[]);
    let case = case(&params);
    let mut signals = Signals::default();
    let (mut original, _) = Shop::start(&params).unwrap();
    original.step(&look(&case, desk::LOOK_UP_ORDER).into(), &mut signals).unwrap();
    let mut restored = Shop::restore(&params, &original.snapshot().unwrap()).unwrap();
    let show =
        |shop: &mut Shop| format!("{:?}", shop.step(&close(&case, "replace").into(), &mut Signals::default()).unwrap());
    assert_eq!(show(&mut original), show(&mut restored));
    assert!(Shop::restore(&params, b"nonsense").is_err());
}

/// The share of cases that the built-in follower closes correctly with this text in its prompt.
fn follower(house: u64, prompt: &dyn Fn(&Case) -> String) -> f64 {
    use clawhost_core as core;
    const CASES: u64 = 300;
    let plain = |message: &Message| {
        let role = match message.role {
            clawhost_sdk::Role::Tool => core::Role::Tool,
            _ => core::Role::User,
        };
        core::Message::text(role, core::Origin::Environment, message.plain_text())
    };
    let good = (0..CASES).filter(|position| {
        let params = params(house, *position, *position, &[("noise", "0")]);
        let case = case(&params);
        let (mut shop, opening) = Shop::start(&params).unwrap();
        let system = format!("{}\n{}", opening.system_hint.unwrap(), prompt(&case));
        let mut messages = vec![core::Message::text(core::Role::System, core::Origin::Host, system)];
        messages.extend(opening.observation.iter().map(plain));
        loop {
            let request = core::ModelRequest {
                messages: messages.clone(),
                tools: vec![],
                max_tokens: 100,
                temperature: None,
                seed: Some(1),
                stop: vec![],
                ..clawhost_core::ModelRequest::default()
            };
            let mut answer = core::Llm::complete(&clawhost_follower::Follower, &request);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let std::task::Poll::Ready(answer) = answer.as_mut().poll(&mut context) else { panic!("it waited") };
            let message = answer.unwrap().message;
            let mut action = Message::assistant(message.plain_text());
            action.tool_calls = message
                .tool_calls
                .iter()
                .map(|call| ToolCall::new(call.id.clone(), call.name.clone(), call.arguments.clone()))
                .collect();
            messages.push(message);
            let step = shop.step(&action.into(), &mut Signals::default()).unwrap();
            messages.extend(step.observation.iter().map(plain));
            if step.status != Status::Running {
                break step.observation.iter().any(|message| message.plain_text().contains("as the house wants it"));
            }
        }
    });
    good.count() as f64 / CASES as f64
}

/// The house's rules in the follower's grammar.
fn rules(case: &Case) -> String {
    handbook_lines(&case.house, true)
}

/// The rules about looking.
fn looking(case: &Case) -> String {
    handbook_lines(&case.house, false)
}

#[test]
fn knowing_the_rules_closes_every_case_and_otherwise_few() {
    for house in [3, 11] {
        let nothing = follower(house, &|_| String::new());
        assert!((0.22..0.38).contains(&nothing), "house {house}: {nothing}");
        let blind = follower(house, &rules);
        assert!((0.55..0.85).contains(&blind), "house {house}: rules without looking: {blind}");
        let looks = follower(house, &looking);
        assert!((looks - nothing).abs() < 1e-9, "house {house}: looking alone changes nothing: {looks}");
        let all = follower(house, &|case| rules(case) + &looking(case));
        assert!(all > 0.999, "house {house}: {all}");
        let others = follower(house, &|_| rules(&Case::new(house + 1, "train", 0)));
        assert!(others < 0.5, "house {house}: another house's rules: {others}");
    }
}

#[test]
fn options_are_checked_and_a_house_can_be_chosen() {
    let context = |options: &[(&str, &str)]| {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Context::new(1, options)
    };
    for bad in
        [("noise", "101"), ("patience", "0"), ("house", "mine"), ("house", "9007199254740993"), ("handbook", "most")]
    {
        assert!(Shop::tasks(&context(&[bad]), "train", 0, 1).is_err(), "{bad:?}");
    }
    let by_option = Shop::tasks(&context(&[("house", "9")]), "test", 0, 3).unwrap();
    let by_seed = Shop::tasks(&Context::new(9, vec![]), "test", 0, 3).unwrap();
    assert_eq!(format!("{by_option:?}"), format!("{by_seed:?}"));
    assert!(Shop::tasks(&context(&[]), "test", 1000, 5).unwrap().is_empty());
    let stranger = Params { task: Task::new("train", "train-x", ""), context: context(&[]), max_turns: 1 };
    assert!(Shop::start(&stranger).unwrap_err().message().contains("no task of this shop"));
}

/// The lines of the full handbook: its rules, or where to look.
fn handbook_lines(house: &house::House, rules: bool) -> String {
    let text = |line: &Line| format!("{}\n", line.text(Talk::Full));
    Line::all(house).iter().map(text).filter(|line| line.contains("is not looked up") != rules).collect()
}

const TERSE: (&str, &str) = ("talk", "terse");

#[test]
fn in_terse_talk_an_answer_is_the_name_of_a_tool_and_every_value_one_word() {
    for position in 0..50 {
        let params = params(3, position, 1, &[TERSE, ("noise", "0")]);
        let case = case(&params);
        let expected = RESOLUTIONS[case.house.expected(&case.facts)];
        for tool in RESOLUTIONS {
            let answers = ["what?", desk::LOOK_UP_CUSTOMER, desk::LOOK_UP_ORDER, tool].map(Message::assistant);
            let transcript = play_messages::<Shop>(params.clone(), &answers);
            assert!(transcript.over);
            assert_eq!(transcript.last().contains("as the house wants it"), tool == expected, "{}", transcript.last());
            let shown = transcript.observations[2..4].join("");
            for line in shown.lines().filter(|line| !line.starts_with("Review")) {
                let (_, value) = line.split_once(": ").unwrap();
                assert!(!value.contains(' ') && !["yes", "no"].contains(&value), "{line}");
            }
        }
    }
}

#[test]
fn practice_shows_a_handbook_of_another_house_and_demonstrates_what_follows_from_it() {
    let options = [TERSE, ("practice", "yes"), ("noise", "0")];
    let (mut right, mut looked, mut handbooks) = (0, 0, std::collections::BTreeSet::new());
    for position in 0..200 {
        let params = params(3, position, position, &options);
        let (_, opening) = Shop::start(&params).unwrap();
        handbooks.insert(opening.system_hint.clone());
        let mut answers = Vec::new();
        let transcript = loop {
            let (mut shop, opening) = Shop::start(&params).unwrap();
            let mut observation = opening.observation;
            for answer in &answers {
                let action = Action { message: Message::assistant(*answer), refused: Vec::new() };
                observation = shop.step(&action, &mut Signals::default()).unwrap().observation;
            }
            match observation.last().and_then(Message::demonstration) {
                Some(answer) => answers.push(
                    RESOLUTIONS
                        .into_iter()
                        .chain([desk::LOOK_UP_CUSTOMER, desk::LOOK_UP_ORDER])
                        .find(|tool| *tool == answer)
                        .unwrap(),
                ),
                None => {
                    break play_messages::<Shop>(
                        params.clone(),
                        &answers.iter().copied().map(Message::assistant).collect::<Vec<_>>(),
                    );
                }
            }
        };
        looked += answers.len() - 1;
        right += usize::from(transcript.last().contains("as the house wants it"));
    }
    assert!((120..190).contains(&right), "a handbook that lacks lines is right in most cases: {right} of 200");
    assert!(looked > 100 && handbooks.len() > 190, "{looked} {}", handbooks.len());
}

#[test]
fn the_follower_of_a_handbook_obeys_the_most_specific_line_and_of_equal_ones_the_last() {
    let params = params(3, 0, 1, &[TERSE]);
    let case = case(&params);
    let all = Line::all(&case.house);
    let seen = [true, true];
    for position in 0..200 {
        let facts = case.house.draw(&mut Random::new(position));
        let drawn = Case { facts, ..case.clone() };
        assert_eq!(handbook::followed(&all, &drawn, seen), RESOLUTIONS[drawn.house.expected(&facts)], "{facts:?}");
    }
    let twice = [all[0].clone(), all[1].clone()];
    let mut facts = case.facts;
    for (fact, value) in case.house.rules[..2].iter().flat_map(|rule| &rule.conditions) {
        facts[*fact] = *value;
    }
    let drawn = Case { facts, ..case.clone() };
    assert_eq!(handbook::followed(&twice, &drawn, seen), RESOLUTIONS[case.house.rules[1].resolution]);
    assert_eq!(handbook::followed(&[], &case, seen), RESOLUTIONS[case.house.default]);
    assert!(handbook::followed(&all, &case, [false, false]).starts_with("look_up"), "hidden facts are looked up first");
}

#[test]
fn practice_needs_terse_talk() {
    let context = Context::new(1, vec![("practice".to_owned(), "yes".to_owned())]);
    assert!(Shop::check(&context).unwrap_err().message().contains("talk=terse"));
}

#[test]
fn the_handbook_of_practice_has_no_line_that_a_visible_fact_contradicts() {
    let options = [TERSE, ("practice", "yes")];
    let mut left_out = 0;
    for position in 0..100 {
        let params = params(3, position, position, &options);
        let case = case(&params);
        let hint = Shop::start(&params).unwrap().1.system_hint.unwrap();
        for line in Line::all(&case.house) {
            let shown = hint.contains(&line.text(Talk::Terse));
            assert!(!shown || line.may_apply(&case), "{hint}");
            left_out += usize::from(!line.may_apply(&case));
        }
    }
    assert!(left_out > 100, "most rules are about other cases: {left_out}");
}
