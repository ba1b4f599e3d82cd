//! Generated worlds, played natively.

use super::*;
use clawhost_sdk::Message;
use clawhost_sdk::testing::{Transcript, play_messages};

fn params(world: u64, position: u64, options: &[(&str, &str)]) -> Params {
    let options: Vec<(String, String)> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let tasks = Worlds::tasks(&Context::new(world, options.clone()), "train", position, 1).unwrap();
    Params { task: tasks[0].clone(), context: Context::new(position, options), max_turns: 100 }
}

fn call(episode: &Worlds, tool: &str) -> Message {
    let (key, case) = (episode.world.key.as_str(), episode.case.as_str());
    Message::calling("c", tool, serde_json::json!({ key: case }).to_string())
}

fn score(transcript: &Transcript) -> Option<f64> {
    transcript.signals.last()?.iter().find(|(name, _)| name == "score").map(|(_, value)| *value)
}

#[test]
fn the_tool_of_the_reference_is_right_and_others_are_hinted_at() {
    for position in 0..50 {
        let params = params(3, position, &[]);
        let episode = Worlds::begin(&params).unwrap();
        let right: String = serde_json::from_str(params.task.reference.as_deref().unwrap()).unwrap();
        for tool in episode.world.closing.clone() {
            let transcript = play_messages::<Worlds>(params.clone(), &[call(&episode, &tool)]);
            assert!(transcript.over);
            assert_eq!(score(&transcript), Some(f64::from(u8::from(tool == right))));
            assert_eq!(transcript.last().contains(&right), tool != right, "{}", transcript.last());
        }
    }
}

#[test]
fn without_hints_the_score_is_all_there_is() {
    let params = params(3, 0, &[("hints", "off")]);
    let episode = Worlds::begin(&params).unwrap();
    let right = episode.world.right(&episode.values).to_owned();
    for tool in episode.world.closing.iter().filter(|tool| **tool != right) {
        let transcript = play_messages::<Worlds>(params.clone(), &[call(&episode, tool)]);
        assert!(!transcript.last().contains(&right) && score(&transcript) == Some(0.0), "{}", transcript.last());
    }
}

#[test]
fn two_facts_are_shown_only_by_their_look_ups() {
    for position in 0..20 {
        let params = params(5, position, &[]);
        let episode = Worlds::begin(&params).unwrap();
        let hidden: Vec<&world::Fact> = episode.world.facts.iter().filter(|fact| fact.look.is_some()).collect();
        let actions: Vec<Message> = hidden.iter().map(|fact| call(&episode, fact.look.as_deref().unwrap())).collect();
        let transcript = play_messages::<Worlds>(params.clone(), &actions);
        let open = format!(": {}", episode.world.wording.open);
        assert_eq!(transcript.observations[0].lines().filter(|line| line.ends_with(&open)).count(), 2);
        for (fact, shown) in hidden.iter().zip(&transcript.observations[1..]) {
            assert!(shown.starts_with(&format!("{}: ", fact.name)), "{shown}");
        }
        assert!(!transcript.over && transcript.signals.iter().flatten().next().is_none());
    }
}

#[test]
fn mistakes_are_answered_and_only_use_up_patience() {
    let params = params(1, 0, &[("patience", "3")]);
    let episode = Worlds::begin(&params).unwrap();
    let tool = episode.world.tool(0);
    let wrong = Message::calling("c", tool, serde_json::json!({ episode.world.key.as_str(): "0" }).to_string());
    let transcript = play_messages::<Worlds>(params, &[Message::assistant("Hm."), wrong, Message::assistant("")]);
    assert!(transcript.observations[1].contains("Nothing happened"));
    assert!(transcript.observations[2].contains("error: ") && transcript.observations[2].contains(&episode.case));
    assert!(transcript.over && score(&transcript) == Some(0.0));
}

#[test]
fn a_restored_episode_continues_like_the_original() {
    let params = params(7, 3, &[]);
    let (mut original, _) = Worlds::start(&params).unwrap();
    let look = original.world.facts.iter().find_map(|fact| fact.look.clone()).unwrap();
    original.step(&call(&original, &look).into(), &mut Signals::default()).unwrap();
    let mut restored = Worlds::restore(&params, &original.snapshot().unwrap()).unwrap();
    let close = call(&original, original.world.tool(1));
    let show = |one: &mut Worlds| format!("{:?}", one.step(&close.clone().into(), &mut Signals::default()).unwrap());
    assert_eq!(show(&mut original), show(&mut restored));
    assert!(Worlds::restore(&params, b"nonsense").is_err());
}

/// The share of cases that the built-in follower closes correctly with this text in its prompt.
fn follower(world: u64, options: &[(&str, &str)], prompt: &str) -> f64 {
    use clawhost_core as core;
    const CASES: u64 = 200;
    let message = |role, text: String| core::Message::text(role, core::Origin::Environment, text);
    let is_right = |position: &u64| -> bool {
        let params = params(world, *position, options);
        let (mut episode, opening) = Worlds::start(&params).unwrap();
        let mut messages = vec![message(core::Role::System, format!("{}\n{prompt}", opening.system_hint.unwrap()))];
        messages.push(message(core::Role::User, opening.observation[0].plain_text()));
        loop {
            let request = core::ModelRequest { messages: messages.clone(), seed: Some(1), ..Default::default() };
            let mut answer = core::Llm::complete(&clawhost_follower::Follower, &request);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let std::task::Poll::Ready(answer) = answer.as_mut().poll(&mut context) else { panic!("it waited") };
            let answer = answer.unwrap().message;
            let called = &answer.tool_calls[0];
            let action = Message::calling("c", called.name.clone(), called.arguments.clone());
            messages.push(answer);
            let step = episode.step(&action.into(), &mut Signals::default()).unwrap();
            let told = step.observation.iter().map(|told| message(core::Role::User, told.plain_text()));
            messages.extend(told);
            if step.status != Status::Running {
                return episode.state.closed.as_deref() == Some(episode.world.right(&episode.values));
            }
        }
    };
    (0..CASES).filter(is_right).count() as f64 / CASES as f64
}

#[test]
fn knowing_the_rules_closes_every_case_and_otherwise_few() {
    for number in [3, 11] {
        let world = World::new(number);
        let nothing = follower(number, &[], "");
        assert!((0.08..0.26).contains(&nothing), "world {number}: {nothing}");
        let all = follower(number, &[("handbook", "all")], "");
        assert!(all > 0.999, "world {number}: {all}");
        let rules = world.rules.len();
        let blind: String = world.all().lines().take(rules).map(|line| format!("{line}\n")).collect();
        let blind = follower(number, &[], &blind);
        assert!((0.5..0.8).contains(&blind), "world {number}: rules without looking: {blind}");
        let looks: String = world.all().lines().skip(rules).map(|line| format!("{line}\n")).collect();
        let looks = follower(number, &[], &looks);
        assert!((looks - nothing).abs() < 1e-9, "world {number}: looking alone changes nothing: {looks}");
    }
}

#[test]
fn options_are_checked_and_a_world_can_be_chosen() {
    let context = |options: &[(&str, &str)]| {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Context::new(1, options)
    };
    for bad in
        [("patience", "0"), ("world", "mine"), ("world", "9007199254740993"), ("hints", "some"), ("handbook", "most")]
    {
        assert!(Worlds::check(&context(&[bad])).is_err(), "{bad:?}");
    }
    let by_option = Worlds::tasks(&context(&[("world", "9")]), "test", 0, 3).unwrap();
    let by_seed = Worlds::tasks(&Context::new(9, vec![]), "test", 0, 3).unwrap();
    assert_eq!(format!("{by_option:?}"), format!("{by_seed:?}"));
    assert!(Worlds::tasks(&context(&[]), "test", 1000, 5).unwrap().is_empty());
    let stranger = Params { task: Task::new("train", "train-x", ""), context: context(&[]), max_turns: 1 };
    assert!(Worlds::start(&stranger).unwrap_err().message().contains("no task of these worlds"));
}
