//! The cave, played natively.

use super::*;
use clawhost_sdk::Message;
use clawhost_sdk::testing::{Transcript, play_task};

fn params(world: u64, position: u64, seed: u64, options: &[(&str, &str)]) -> Params {
    let options: Vec<(String, String)> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let tasks = Cave::tasks(&Context::new(world, options.clone()), "train", position, 1).unwrap();
    Params { task: tasks[0].clone(), context: Context::new(seed, options), max_turns: 100 }
}

fn last(transcript: &Transcript, signal: &str) -> Option<f64> {
    transcript.signals.last()?.iter().find(|(name, _)| name == signal).map(|(_, value)| *value)
}

fn right(params: &Params) -> Vec<String> {
    serde_json::from_str(params.task.reference.as_deref().unwrap()).unwrap()
}

#[test]
fn the_actions_of_the_reference_open_every_chamber() {
    for position in 0..50 {
        let params = params(3, position, 1, &[]);
        let opens = right(&params);
        let actions: Vec<&str> = [ENTER].into_iter().chain(opens.iter().map(String::as_str)).collect();
        let transcript = play_task::<Cave>(params.clone(), &actions);
        assert!(transcript.over && transcript.last().ends_with("The way opens.\nYou are through."));
        assert_eq!(last(&transcript, "score"), Some(1.0));
    }
}

#[test]
fn a_wrong_action_costs_its_chamber_alone() {
    let params = params(3, 0, 1, &[]);
    let mut opens = right(&params);
    let wrong = ACTIONS.into_iter().find(|action| *action != opens[1]).unwrap();
    let hinted = format!("Marks on the wall say: {}.", opens[1]);
    opens[1] = wrong.to_owned();
    let actions: Vec<&str> = [ENTER].into_iter().chain(opens.iter().map(String::as_str)).collect();
    let transcript = play_task::<Cave>(params, &actions);
    assert_eq!(last(&transcript, "score"), Some(0.75));
    assert!(!transcript.observations[3].contains("Marks"), "no hints by default");
    let params = self::params(3, 0, 1, &[("hints", "on")]);
    let transcript = play_task::<Cave>(params, &actions);
    assert!(transcript.observations[3].contains(&hinted), "{}", transcript.observations[3]);
}

#[test]
fn two_facts_are_seen_only_after_an_action() {
    for position in 0..20 {
        let transcript = play_task::<Cave>(params(5, position, 1, &[]), &["Enter.", "light the torch", "wet a finger"]);
        let unseen: Vec<usize> = transcript.observations.iter().map(|text| text.matches("not seen").count()).collect();
        assert_eq!(unseen, [6, 2, 1, 0]);
        assert!(!transcript.over);
    }
    let entered = play_task::<Cave>(params(5, 0, 1, &[]), &["enter", "light the torch", "push"]);
    assert_eq!(entered.last().matches("not seen").count(), 2, "the next chamber is not seen yet");
}

#[test]
fn the_score_can_wait_until_the_end() {
    let params = params(3, 0, 1, &[("score", "end"), ("chambers", "1")]);
    let opens = right(&params);
    let transcript = play_task::<Cave>(params, &["enter", &opens[0]]);
    let set: Vec<bool> = transcript.signals.iter().map(|turn| turn.iter().any(|(name, _)| name == "score")).collect();
    assert_eq!(set, [false, true]);
}

#[test]
fn what_is_no_action_only_costs_moves() {
    let params = params(1, 0, 1, &[("chambers", "1")]);
    let transcript = play_task::<Cave>(params, &["push", "sing", "enter", "dance", "", "enter", "push"]);
    assert!(transcript.over && transcript.observations.len() == 7, "six moves for one chamber");
    assert!(transcript.observations[1].contains("Nothing happens") && transcript.observations[4].contains("Nothing"));
    assert_eq!(last(&transcript, "score"), Some(0.0));
}

#[test]
fn a_restored_episode_continues_like_the_original() {
    let params = params(7, 3, 11, &[]);
    let (mut original, _) = Cave::start(&params).unwrap();
    for action in ["enter", "wet a finger"] {
        original.step(&Message::assistant(action).into(), &mut Signals::default()).unwrap();
    }
    let mut restored = Cave::restore(&params, &original.snapshot().unwrap()).unwrap();
    let show = |cave: &mut Cave| {
        format!("{:?}", cave.step(&Message::assistant("light the torch").into(), &mut Signals::default()).unwrap())
    };
    assert_eq!(show(&mut original), show(&mut restored));
    assert!(Cave::restore(&params, b"nonsense").is_err());
}

/// The mean score of the built-in follower with this text in its prompt.
fn follower(world: u64, options: &[(&str, &str)], prompt: &str) -> f64 {
    use clawhost_core as core;
    const CAVES: u64 = 100;
    let message = |role, text: String| core::Message::text(role, core::Origin::Environment, text);
    let play = |position: u64| -> f64 {
        let params = params(world, position, position, options);
        let (mut cave, opening) = Cave::start(&params).unwrap();
        let mut messages = vec![message(core::Role::System, format!("{}\n{prompt}", opening.system_hint.unwrap()))];
        messages.push(message(core::Role::User, opening.observation[0].plain_text()));
        loop {
            let request = core::ModelRequest { messages: messages.clone(), seed: Some(position), ..Default::default() };
            let mut answer = core::Llm::complete(&clawhost_follower::Follower, &request);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let std::task::Poll::Ready(answer) = answer.as_mut().poll(&mut context) else { panic!("it waited") };
            let answer = answer.unwrap().message;
            let action = Message::assistant(answer.plain_text());
            messages.push(answer);
            let step = cave.step(&action.into(), &mut Signals::default()).unwrap();
            messages.push(message(core::Role::User, step.observation[0].plain_text()));
            if step.status != Status::Running {
                return f64::from(cave.state.opened) / cave.chambers.len() as f64;
            }
        }
    };
    (0..CAVES).map(play).sum::<f64>() / CAVES as f64
}

#[test]
fn knowing_the_rules_opens_every_chamber_and_otherwise_few() {
    for world in [3, 11] {
        let nothing = follower(world, &[], "");
        assert!((0.1..0.25).contains(&nothing), "world {world}: {nothing}");
        let all = follower(world, &[("handbook", "all")], "");
        assert!(all > 0.999, "world {world}: {all}");
        let others = follower(world, &[], &World::new(world + 1).all());
        assert!(others < 0.5, "world {world}: another world's rules: {others}");
        let looks = "when rune is not seen: answer light the torch\nwhen draught is not seen: answer wet a finger";
        let looks = follower(world, &[], looks);
        assert!((looks - nothing).abs() < 0.1, "world {world}: looking alone opens nothing: {looks}");
    }
}

#[test]
fn options_are_checked_and_a_world_can_be_chosen() {
    let context = |options: &[(&str, &str)]| {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Context::new(1, options)
    };
    for bad in [
        ("chambers", "0"),
        ("chambers", "17"),
        ("world", "mine"),
        ("world", "9007199254740993"),
        ("hints", "some"),
        ("score", "never"),
        ("handbook", "most"),
    ] {
        assert!(Cave::check(&context(&[bad])).is_err(), "{bad:?}");
    }
    let by_option = Cave::tasks(&context(&[("world", "9")]), "test", 0, 3).unwrap();
    let by_seed = Cave::tasks(&Context::new(9, vec![]), "test", 0, 3).unwrap();
    assert_eq!(format!("{by_option:?}"), format!("{by_seed:?}"));
    assert!(Cave::tasks(&context(&[]), "test", 1000, 5).unwrap().is_empty());
    let stranger = Params { task: Task::new("train", "train-x", ""), context: context(&[]), max_turns: 1 };
    assert!(Cave::start(&stranger).unwrap_err().message().contains("no task of this cave"));
}
