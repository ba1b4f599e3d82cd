//! Records, cleaned natively.

use super::*;
use clawhost_sdk::Message;
use clawhost_sdk::testing::{Transcript, play_messages};

fn params(house: u64, position: u64, options: &[(&str, &str)]) -> Params {
    let options: Vec<(String, String)> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let tasks = Clean::tasks(&Context::new(house, options.clone()), "train", position, 1).unwrap();
    Params { task: tasks[0].clone(), context: Context::new(position, options), max_turns: 100 }
}

fn open() -> Message {
    Message::calling("c", OPEN, "{}")
}

fn repair(column: &str, how: &str) -> Message {
    Message::calling("c", REPAIR, serde_json::json!({"column": column, "how": how}).to_string())
}

/// The right repairs, in the order of the cells.
fn right(params: &Params) -> Vec<(&'static str, String)> {
    let reference: serde_json::Value = serde_json::from_str(params.task.reference.as_deref().unwrap()).unwrap();
    let columns = Clean::begin(params).unwrap().record.cells.into_iter().map(|cell| written(&cell).0);
    columns.map(|column| (column, reference[column].as_str().unwrap().to_owned())).collect()
}

fn share(transcript: &Transcript) -> Option<f64> {
    transcript.signals.last()?.iter().find(|(name, _)| name == "share").map(|(_, value)| *value)
}

/// The actions that repair all cells rightly, but for the first `wrong` ones.
fn actions(params: &Params, wrong: usize) -> Vec<Message> {
    let repairs = right(params).into_iter().enumerate().map(|(at, (column, how))| {
        let other = REPAIRS.into_iter().find(|other| *other != how).unwrap();
        repair(column, if at < wrong { other } else { &how })
    });
    [open()].into_iter().chain(repairs).collect()
}

#[test]
fn the_reward_is_the_share_of_cells_repaired_as_in_the_reference() {
    for position in 0..20 {
        let params = params(3, position, &[]);
        for wrong in 0..=4 {
            let transcript = play_messages::<Clean>(params.clone(), &actions(&params, wrong));
            assert!(transcript.over && transcript.last().contains("The record is stored."));
            assert_eq!(share(&transcript), Some(1.0 - wrong as f64 / 4.0));
        }
    }
}

#[test]
fn hints_name_the_right_repair_if_they_are_wanted() {
    let plain = params(3, 0, &[]);
    let hinted = params(3, 0, &[("hints", "on")]);
    let (_, how) = right(&plain)[0].clone();
    let hint = format!("The house wants {how} here.");
    let play = |params: &Params| play_messages::<Clean>(params.clone(), &actions(params, 1)).observations[2].clone();
    assert!(!play(&plain).contains("wants") && play(&hinted).contains(&hint), "{}", play(&hinted));
}

#[test]
fn a_look_shows_the_locale_and_opening_shows_the_first_cell() {
    let look = Message::calling("c", LOOK, "{}");
    let transcript = play_messages::<Clean>(params(4, 2, &[]), &[look, open(), open()]);
    assert!(transcript.observations[0].contains("locale: not looked at"));
    assert!(LOCALES.contains(&transcript.observations[1].strip_prefix("locale: ").unwrap()));
    assert!(
        transcript.observations[2].starts_with("column: ") && transcript.observations[2] == transcript.observations[3]
    );
}

#[test]
fn the_share_can_wait_until_the_end() {
    let params = params(3, 0, &[("score", "end")]);
    let transcript = play_messages::<Clean>(params.clone(), &actions(&params, 0));
    let set: Vec<bool> = transcript.signals.iter().map(|turn| turn.iter().any(|(name, _)| name == "share")).collect();
    assert_eq!(set, [false, false, false, false, true]);
}

#[test]
fn mistakes_are_answered_and_only_use_up_messages() {
    let params = params(1, 0, &[]);
    let (column, how) = right(&params)[0].clone();
    let other = COLUMNS.iter().map(|known| known.name).find(|known| *known != column).unwrap();
    let mut messages = vec![
        repair(column, &how),
        open(),
        Message::assistant("Let me see."),
        repair(other, &how),
        repair(column, "burn"),
        Message::calling("c", REPAIR, "{}"),
    ];
    messages.extend((0..9).map(|_| Message::assistant("")));
    let transcript = play_messages::<Clean>(params, &messages);
    for (position, says) in [
        (1, "no cell is open"),
        (3, "cleaned with tools"),
        (4, "the open cell is one of"),
        (5, "no repair burn"),
        (6, "missing field"),
    ] {
        assert!(transcript.observations[position].contains(says), "{position}: {}", transcript.observations[position]);
    }
    assert!(transcript.over && transcript.observations.len() == 13 && share(&transcript) == Some(0.0));
}

#[test]
fn a_restored_episode_continues_like_the_original() {
    let params = params(7, 3, &[]);
    let (mut original, _) = Clean::start(&params).unwrap();
    original.step(&open().into(), &mut Signals::default()).unwrap();
    let mut restored = Clean::restore(&params, &original.snapshot().unwrap()).unwrap();
    let next = actions(&params, 0)[1].clone();
    let show = |one: &mut Clean| format!("{:?}", one.step(&next.clone().into(), &mut Signals::default()).unwrap());
    assert_eq!(show(&mut original), show(&mut restored));
    assert!(Clean::restore(&params, b"nonsense").is_err());
}

/// The mean share of the built-in follower with this text in its prompt.
fn follower(house: u64, options: &[(&str, &str)], prompt: &str) -> f64 {
    use clawhost_core as core;
    const RECORDS: u64 = 100;
    let message = |role, text: String| core::Message::text(role, core::Origin::Environment, text);
    let play = |position: u64| -> f64 {
        let params = params(house, position, options);
        let (mut episode, opening) = Clean::start(&params).unwrap();
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
            messages.extend(step.observation.iter().map(|told| message(core::Role::User, told.plain_text())));
            if step.status != Status::Running {
                return f64::from(episode.state.right) / episode.record.cells.len() as f64;
            }
        }
    };
    (0..RECORDS).map(play).sum::<f64>() / RECORDS as f64
}

#[test]
fn knowing_the_style_repairs_every_cell_and_otherwise_few() {
    for number in [3, 11] {
        let nothing = follower(number, &[], "");
        assert!((0.12..0.28).contains(&nothing), "house {number}: {nothing}");
        let all = follower(number, &[("handbook", "all")], "");
        assert!(all > 0.999, "house {number}: {all}");
        let others = follower(number, &[], &House::new(number + 1).all());
        assert!(others < 0.5, "house {number}: another house's style: {others}");
        let blind = House::new(number).all();
        let blind: String =
            blind.lines().filter(|line| !line.contains("locale")).map(|line| format!("{line}\n")).collect();
        let blind = follower(number, &[], &blind);
        assert!((0.9..0.99).contains(&blind), "house {number}: without a look at the origin: {blind}");
    }
}

#[test]
fn options_are_checked_and_a_house_can_be_chosen() {
    let context = |options: &[(&str, &str)]| {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Context::new(1, options)
    };
    for bad in
        [("house", "mine"), ("house", "9007199254740993"), ("hints", "some"), ("score", "never"), ("handbook", "most")]
    {
        assert!(Clean::check(&context(&[bad])).is_err(), "{bad:?}");
    }
    let by_option = Clean::tasks(&context(&[("house", "9")]), "test", 0, 3).unwrap();
    let by_seed = Clean::tasks(&Context::new(9, vec![]), "test", 0, 3).unwrap();
    assert_eq!(format!("{by_option:?}"), format!("{by_seed:?}"));
    assert!(Clean::tasks(&context(&[]), "test", 1000, 5).unwrap().is_empty());
    let stranger = Params { task: Task::new("train", "train-x", ""), context: context(&[]), max_turns: 1 };
    assert!(Clean::start(&stranger).unwrap_err().message().contains("no task of this house"));
}
