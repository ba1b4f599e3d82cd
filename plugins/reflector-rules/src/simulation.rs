//! Learning by the built-in follower on real environments, natively: batches of episodes of different tasks, a call after each, and the
//! bundle as it is then in the next batch.

use super::*;
use clawhost_core as core;
use clawhost_sdk::testing::{Recording, play_messages};
use clawhost_sdk::{Change, Ending, Message, MessageEnvironment, Params, Signals, Status, Task};

/// Episodes of a batch, as in a run with a budget of 300.
const BATCH: u64 = 33;
/// Tasks on which a bundle is compared with none.
const TESTS: u64 = 60;

/// An environment with its options.
pub(crate) struct Place<'a> {
    pub(crate) options: &'a [(&'a str, &'a str)],
    pub(crate) number: u64,
    pub(crate) signal: &'a str,
}

fn owned(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The follower's next action.
fn act(messages: &[core::Message], seed: u64) -> core::Message {
    let request = core::ModelRequest { messages: messages.to_vec(), seed: Some(seed), ..Default::default() };
    let mut answer = core::Llm::complete(&clawhost_follower::Follower, &request);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(answer) = answer.as_mut().poll(&mut context) else { panic!("it waited") };
    answer.unwrap().message
}

/// An episode with these rules in the prompt, and its last score.
fn play<E: MessageEnvironment>(place: &Place<'_>, split: &str, position: u64, rules: &str) -> (Recording, f64) {
    let options = owned(place.options);
    let task = E::tasks(&Context::new(place.number, options.clone()), split, position, 1).unwrap().remove(0);
    let params = Params { task, context: Context::new(position, options), max_turns: 100 };
    let (mut episode, opening) = E::start(&params).unwrap();
    let message = |role, text: String| core::Message::text(role, core::Origin::Environment, text);
    let mut said = vec![message(core::Role::System, format!("{}\n{rules}", opening.system_hint.unwrap_or_default()))];
    let shown = opening.observation.iter().map(Message::plain_text);
    said.extend(shown.map(|text| message(core::Role::User, text)));
    let (mut actions, mut steps) = (Vec::new(), Vec::new());
    let mut over = false;
    while !over {
        let answer = act(&said, position);
        let mut action = Message::assistant(answer.plain_text());
        let calls = answer.tool_calls.iter();
        let calls =
            calls.map(|call| clawhost_sdk::ToolCall::new(call.id.clone(), call.name.clone(), call.arguments.clone()));
        action.tool_calls = calls.collect();
        said.push(answer);
        let is_offered = |call: &clawhost_sdk::ToolCall| opening.tools.iter().any(|tool| tool.name == call.name);
        let step = match action.tool_calls.iter().all(is_offered) {
            true => episode.step(&action.clone().into(), &mut Signals::default()).unwrap(),
            false => panic!("{action:?}"),
        };
        said.extend(step.observation.iter().map(|told| message(core::Role::User, told.plain_text())));
        over = step.status != Status::Running || actions.len() > 50;
        actions.push(action);
        steps.push(step);
    }
    let signals = play_messages::<E>(params.clone(), &actions).signals;
    let score = signals.iter().flatten().filter(|(name, _)| name == place.signal).map(|(_, value)| *value).next_back();
    let task = Task { reference: None, extra: Vec::new(), ..params.task };
    let recording = Recording::of(task).named(format!("{split}-{position}"));
    let recording = opening.tools.iter().cloned().fold(recording, Recording::offering);
    let recording = opening.observation.iter().fold(recording, |recording, one| recording.observed(one.plain_text()));
    let turns = actions.into_iter().zip(steps).zip(signals);
    let recording = turns.fold(recording, |recording, ((action, step), signals)| {
        let recording = recording.acted(action);
        let recording = signals.iter().fold(recording, |recording, (name, value)| recording.signal(name, *value));
        step.observation.into_iter().fold(recording, |recording, told| match &told.tool_call_id {
            Some(call) => recording.answered(call, told.plain_text()),
            None => recording.observed(told.plain_text()),
        })
    });
    (recording, score.unwrap_or(0.0))
}

/// What a run learned.
pub(crate) struct Outcome {
    pub(crate) before: f64,
    pub(crate) after: f64,
    pub(crate) rules: Vec<String>,
}

impl Outcome {
    /// The share of what could be won that was won.
    pub(crate) fn share(&self) -> f64 {
        (self.after - self.before) / (1.0 - self.before)
    }
}

/// Plays `batches`, reflects after each, and compares the last bundle with none on `tests` tasks.
pub(crate) fn run<E: MessageEnvironment>(
    place: &Place<'_>,
    batches: u64,
    tests: u64,
    options: &[(&str, &str)],
) -> Outcome {
    let signal = options.iter().all(|(name, _)| *name != "signal").then_some(("signal", place.signal));
    let options: Vec<(&str, &str)> = options.iter().copied().chain(signal).collect();
    let context = Context::new(place.number, owned(&options));
    let mut played: Vec<Recording> = Vec::new();
    let mut bundle: Vec<String> = Vec::new();
    for batch in 0..batches {
        let rules = bundle.join("\n");
        played
            .extend((batch * BATCH..(batch + 1) * BATCH).map(|position| play::<E>(place, "train", position, &rules).0));
        let episodes = played.iter().map(|one| one.clone().ended(Ending::Terminated)).collect();
        let entry = |text: &String| Entry { id: text.clone(), ..Entry::new(text) }.with_extra("status", "bundled");
        let playbook = Playbook::new(bundle.iter().map(entry).collect());
        let group = clawhost_sdk::testing::group(episodes);
        let proposals = Rules::reflect(&group, &playbook, &context).unwrap();
        for proposal in proposals {
            match proposal.change {
                Change::Retire(id) => bundle.retain(|known| *known != id),
                Change::Add(entry) => {
                    bundle.retain(|known| *known != entry.text);
                    bundle.push(entry.text);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let mean = |rules: &str| {
        (0..tests).map(|position| play::<E>(place, "test", position, rules).1).sum::<f64>() / tests as f64
    };
    Outcome { before: mean(""), after: mean(&bundle.join("\n")), rules: bundle }
}

/// The mean share of what could be won over some numbers, none of which a constant was chosen on.
fn mean<E: MessageEnvironment>(
    numbers: std::ops::Range<u64>,
    (signal, options): (&str, &[(&str, &str)]),
    batches: u64,
    more: &[(&str, &str)],
) -> f64 {
    let all: Vec<Outcome> =
        numbers.map(|number| run::<E>(&Place { options, number, signal }, batches, TESTS, more)).collect();
    all.iter().map(Outcome::share).sum::<f64>() / all.len() as f64
}

#[test]
fn a_generated_world_is_learned_from_hints_and_without_its_signal() {
    let share = |more: &[(&str, &str)]| mean::<env_worlds::Worlds>(201..205, ("score", &[]), 6, more);
    let with = share(&[]);
    assert!(with > 0.75, "{with}");
    let texts = share(&[("signal", "")]);
    assert!(texts > 0.6, "the texts alone: {texts}");
}

#[test]
fn a_generated_world_is_learned_from_rewards_alone() {
    let share = mean::<env_worlds::Worlds>(201..204, ("score", &[("hints", "off")]), 14, &[]);
    assert!(share > 0.5, "{share}");
}

#[test]
fn a_text_game_is_learned_from_what_its_score_gains_in_each_turn() {
    let share = mean::<env_cave::Cave>(201..204, ("score", &[]), 6, &[]);
    assert!(share > 0.5, "{share}");
}

#[test]
fn cleaning_is_learned_from_partial_credit_with_and_without_hints() {
    let share = mean::<env_clean::Clean>(201..204, ("share", &[]), 6, &[]);
    assert!(share > 0.6, "{share}");
    let hinted = mean::<env_clean::Clean>(201..204, ("share", &[("hints", "on")]), 3, &[]);
    assert!(hinted > 0.8, "{hinted}");
    let at_the_end = mean::<env_clean::Clean>(201..203, ("share", &[("score", "end")]), 6, &[]);
    assert!(at_the_end > 0.15, "a reward for the whole record alone: {at_the_end}");
}

#[test]
fn placebos_and_a_signal_that_says_nothing_win_nothing() {
    let share = |more: &[(&str, &str)]| mean::<env_cave::Cave>(201..203, ("score", &[]), 3, more);
    for more in [[("mode", "silent")], [("mode", "shuffled")], [("signal", "colour")]] {
        let share = share(&more);
        assert!(share < 0.1, "{more:?}: {share}");
    }
}

#[test]
fn a_look_up_is_proposed_beside_the_rule_that_needs_it() {
    let place = Place { options: &[], number: 201, signal: "score" };
    let learned = run::<env_worlds::Worlds>(&place, 6, TESTS, &[]);
    let context = Context::new(201, vec![("handbook".to_owned(), "all".to_owned())]);
    let task = env_worlds::Worlds::tasks(&context, "train", 0, 1).unwrap().remove(0);
    let params = Params { task, context, max_turns: 9 };
    let hint = env_worlds::Worlds::start(&params).unwrap().1.system_hint.unwrap();
    for look in hint.lines().rev().take(2) {
        assert!(learned.rules.iter().any(|rule| rule == look), "{look}: {:#?}", learned.rules);
    }
}
