use super::*;
use crate::{LiveSession, LlmIdentity, Origin, Role, Sampling, StateConfig, Usage};
use proptest::prelude::*;

const LIMIT: usize = 4096;

fn header() -> EpisodeHeader {
    let model = LlmIdentity { provider: "test".into(), model: "m".into(), version: "1".into() };
    let config =
        StateConfig { model: model.clone(), system_prompt: None, sampling: Sampling::default(), rendering: Vec::new() };
    let task = Task::new("live", "session-1");
    EpisodeHeader {
        run: RunId("run-live".into()),
        id: EpisodeId("ep-1".into()),
        index: 0,
        task_hash: task.digest(),
        task,
        origin: EpisodeOrigin::live(LiveSession::new("session-1", "a", "fast")),
        expects: Vec::new(),
        state_id: StateId::of(&config),
        policy: PolicyRecord { model, seed: 0, system_prompt: None, sampling: Sampling::default(), playbook: None },
    }
}

fn user(text: &str) -> Message {
    Message::text(Role::User, Origin::User, text)
}

fn says(text: &str, calls: usize) -> ModelResponse {
    let call = |number| ToolCall { id: format!("c{number}"), name: "f".into(), arguments: "{}".into(), extra: vec![] };
    let message =
        Message { tool_calls: (0..calls).map(call).collect(), ..Message::text(Role::Assistant, Origin::Policy, text) };
    ModelResponse::new(message, Usage { prompt_tokens: 1, ..Usage::default() }, "stop")
}

fn results(count: usize) -> Vec<Message> {
    let result = |number| Message {
        tool_call_id: Some(format!("c{number}")),
        ..Message::text(Role::Tool, Origin::Tool, "done")
    };
    (0..count).map(result).collect()
}

fn request(number: u64) -> Digest {
    Digest::of(&number.to_be_bytes())
}

#[test]
fn a_session_is_recorded_as_turns() {
    let mut recorder = EpisodeRecorder::open(vec![user("2+2?")], LIMIT);
    recorder.request(request(1)).unwrap();
    recorder.answer(says("let me see", 1), 10).unwrap();
    assert_eq!(recorder.open_calls().len(), 1);
    recorder.observe(Observed::messages(results(1), vec![user("hurry")])).unwrap();
    recorder.request(request(2)).unwrap();
    recorder.answer(says("4", 0), 20).unwrap();
    let episode = recorder.close(header(), Ending::Terminated, Closing { at: 99, ..Closing::default() });
    assert_eq!(episode.turns.len(), 2);
    assert_eq!(
        (&episode.turns[0].observation, &episode.turns[1].observation),
        (&vec![user("2+2?")], &vec![user("hurry")])
    );
    assert_eq!((episode.turns[0].tool_results.len(), episode.turns[1].action.plain_text()), (1, "4".to_owned()));
    assert_eq!((episode.turns[1].request, episode.turns[1].timing.policy_us), (request(2), 20));
    assert_eq!((episode.closing.len(), episode.created_at, episode.untaken.is_none()), (0, 99, true));
    let text = serde_json::to_string(&episode).unwrap();
    assert_eq!(serde_json::from_str::<Episode>(&text).unwrap(), episode, "it round-trips");
}

#[test]
fn events_out_of_order_are_errors_and_change_nothing() {
    let mut recorder = EpisodeRecorder::open(vec![user("hi")], LIMIT);
    let nothing = || Observed::messages(vec![], vec![]);
    assert_eq!(recorder.answer(says("x", 0), 0), Err(RecorderError::NotAsked));
    assert_eq!(recorder.withdraw(), Err(RecorderError::NotAsked));
    assert_eq!(recorder.observe(nothing()), Err(RecorderError::NotAnswered));
    recorder.request(request(1)).unwrap();
    assert_eq!(recorder.request(request(2)), Err(RecorderError::AskedTwice));
    assert_eq!(recorder.observe(nothing()), Err(RecorderError::NotAnswered));
    recorder.withdraw().unwrap();
    recorder.request(request(3)).unwrap();
    recorder.answer(says("x", 2), 0).unwrap();
    assert_eq!(recorder.request(request(4)), Err(RecorderError::NotObserved));
    assert_eq!(recorder.answer(says("y", 0), 0), Err(RecorderError::NotAsked));
    assert_eq!(recorder.observe(nothing()), Err(RecorderError::Results { calls: 2, results: 0 }));
    let long = Observed::messages(results(2), vec![user(&"x".repeat(LIMIT))]);
    assert_eq!(recorder.observe(long), Err(RecorderError::TooLong { limit: LIMIT }));
    recorder.observe(Observed::messages(results(2), vec![])).unwrap();
    assert_eq!((recorder.turns().len(), recorder.turns()[0].request), (1, request(3)));
}

#[test]
fn an_answer_without_results_is_recorded() {
    let answered = || {
        let mut recorder = EpisodeRecorder::open(vec![user("hi")], LIMIT);
        recorder.request(request(1)).unwrap();
        recorder.answer(says("bye", 1), 0).unwrap();
        recorder
    };
    let ended = answered().close(header(), Ending::Truncated("idle".into()), Closing::default());
    assert_eq!((ended.turns.len(), ended.untaken.is_none()), (1, true), "the last action of a session");
    let failure = crate::Failure::new(crate::FailureKind::Llm, crate::code::UNAVAILABLE, "gone");
    let failed = answered().close(header(), Ending::Failed(failure), Closing::default());
    assert_eq!((failed.turns.len(), failed.untaken.unwrap().action.plain_text()), (0, "bye".to_owned()));
    let mut asked = EpisodeRecorder::open(vec![user("hi")], LIMIT);
    asked.request(request(1)).unwrap();
    let dropped = asked.close(header(), Ending::Terminated, Closing::default());
    assert_eq!((dropped.turns.len(), dropped.closing.len()), (0, 1), "an unanswered request makes no turn");
}

#[derive(Debug, Clone)]
enum Event {
    Request,
    Withdraw,
    Answer(usize),
    Observe(usize, Vec<(String, f64)>),
}

fn event() -> impl Strategy<Value = Event> {
    let signals = proptest::collection::vec(("[ab]", -1.0f64..1.0), 0..3);
    prop_oneof![
        3 => Just(Event::Request),
        1 => Just(Event::Withdraw),
        3 => (0usize..3).prop_map(Event::Answer),
        3 => (0usize..3, signals).prop_map(|(count, signals)| Event::Observe(count, signals)),
    ]
}

proptest! {
    #[test]
    fn any_order_of_events_gives_a_valid_episode(events in proptest::collection::vec(event(), 0..40), fails in any::<bool>()) {
        let mut recorder = EpisodeRecorder::open(vec![user("open")], LIMIT);
        // The expected state, tracked independently of the recorder.
        let (mut asked, mut calls): (bool, Option<usize>) = (false, None);
        let (mut turns, mut last) = (0, std::collections::BTreeMap::new());
        for (number, event) in events.into_iter().enumerate() {
            let before = recorder.turns().to_vec();
            let done = match &event {
                Event::Request => recorder.request(request(number as u64)),
                Event::Withdraw => recorder.withdraw(),
                Event::Answer(count) => recorder.answer(says("x", *count), 1),
                Event::Observe(count, signals) => {
                    let signals = signals.iter().map(|(name, value)| Signal { name: name.clone(), value: *value });
                    let observed = Observed { signals: signals.collect(), ..Observed::messages(results(*count), vec![]) };
                    recorder.observe(observed)
                }
            };
            let legal = match &event {
                Event::Request => !asked && calls.is_none(),
                Event::Withdraw | Event::Answer(_) => asked,
                Event::Observe(count, _) => calls == Some(*count),
            };
            prop_assert_eq!(done.is_ok(), legal, "{:?}: {:?}", event, done);
            if !legal {
                prop_assert_eq!(recorder.turns(), &before[..]);
                continue;
            }
            match event {
                Event::Request => asked = true,
                Event::Withdraw => asked = false,
                Event::Answer(count) => (asked, calls) = (false, Some(count)),
                Event::Observe(_, signals) => {
                    (calls, turns) = (None, turns + 1);
                    last.extend(signals);
                }
            }
        }
        let failure = crate::Failure::new(crate::FailureKind::Llm, crate::code::UNAVAILABLE, "gone");
        let ending = if fails { Ending::Failed(failure) } else { Ending::Terminated };
        let episode = recorder.close(header(), ending, Closing::default());
        let unfollowed = usize::from(calls.is_some());
        prop_assert_eq!(episode.turns.len(), turns + if fails { 0 } else { unfollowed });
        prop_assert_eq!(episode.untaken.is_some(), fails && unfollowed == 1);
        let kept: std::collections::BTreeMap<String, f64> =
            episode.signals.iter().map(|signal| (signal.name.clone(), signal.value)).collect();
        prop_assert_eq!(kept, last, "the last value of every signal");
        for turn in &episode.turns[..turns] {
            prop_assert_eq!(turn.tool_results.len(), turn.action.tool_calls.len());
        }
        let text = serde_json::to_string(&episode).unwrap();
        prop_assert_eq!(serde_json::from_str::<Episode>(&text).unwrap(), episode);
    }
}

/// Control characters take six bytes in JSON, and artefacts a third more than their size.
#[test]
fn a_record_is_no_longer_than_its_limit_whatever_it_has() {
    const LIMIT: usize = 64 << 10;
    /// What a turn and an episode have besides messages, signals and artefacts.
    const TURN: usize = 600;
    const EPISODE: usize = 4096;
    for (text, artefact) in
        [("\u{1}".repeat(500), 0), ("\"".repeat(500), 0), ("a".repeat(500), 3000), (String::new(), 1)]
    {
        let mut recorder = EpisodeRecorder::open(vec![user(&text)], LIMIT);
        recorder.check().unwrap();
        for number in 0.. {
            recorder.request(request(number)).unwrap();
            recorder.answer(says(&text, 0), 0).unwrap();
            let artefact = Artefact {
                name: format!("artefact-{number}"),
                media_type: "text/plain".into(),
                bytes: vec![7; artefact],
                extra: vec![],
            };
            let observed = Observed {
                artefacts: vec![artefact],
                ..Observed::messages(Vec::new(), vec![user(&text), user(&text)])
            };
            if recorder.observe(observed).is_err() {
                break;
            }
        }
        let turns = recorder.turns().len();
        assert!(turns > 3, "{turns}");
        let ending = Ending::Failed(crate::Failure::new(crate::FailureKind::Limit, "length", "too long"));
        let record = serde_json::to_vec(&recorder.close(header(), ending, Closing::default())).unwrap();
        assert!(record.len() < LIMIT + EPISODE + turns * TURN, "{} bytes in {turns} turns", record.len());
    }
    let opening = vec![user(&"\u{1}".repeat(LIMIT / 5))];
    assert_eq!(EpisodeRecorder::open(opening, LIMIT).check(), Err(RecorderError::TooLong { limit: LIMIT }));
    let artefact = Artefact { name: "a".into(), media_type: "b".into(), bytes: vec![0; LIMIT * 4 / 5], extra: vec![] };
    let opened = EpisodeRecorder::open(Vec::new(), LIMIT).introduced(None, vec![artefact]);
    assert_eq!(opened.check(), Err(RecorderError::TooLong { limit: LIMIT }));
}
