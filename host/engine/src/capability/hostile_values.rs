//! Calls every host function with arbitrary guest arguments: none panics, quotas hold, and invalid arguments are rejected as
//! the contract says.

use super::clock::VirtualClock;
use crate::convert;
use crate::failure::classify;
use crate::grants::ModelGrants;
use crate::state::{HostMemory, Memory, State};
use clawhost_bindings::environment::clawhost::kv::kv::{self, Host as _};
use clawhost_bindings::environment::clawhost::llm::llm::{self, Host as _};
use clawhost_bindings::environment::clawhost::log::log::{self, Host as _};
use clawhost_bindings::environment::clawhost::types::types as wit;
use clawhost_bindings::observer::clawhost::episode::view::{HostEpisodeView as _, HostGroup as _};
use clawhost_bindings::{EpisodeView, Group};
use clawhost_core::{
    Episode, FailureKind, Limits, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role,
    ToolCall, Usage, code,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::Host as _;
use wasmtime_wasi::p2::bindings::clocks::wall_clock;

/// A model that counts its calls and gives a fixed answer.
struct Model {
    asked: AtomicUsize,
    answer: Result<ModelResponse, ModelError>,
}

#[async_trait::async_trait]
impl Llm for Model {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "test".into(), model: "judge".into(), version: "1".into() }
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answer.clone()
    }
}

fn saying(message: Message) -> Arc<Model> {
    let answer = Ok(ModelResponse::new(message, Usage::default(), "stop"));
    Arc::new(Model { asked: AtomicUsize::new(0), answer })
}

fn four() -> Arc<Model> {
    saying(Message::text(Role::Assistant, Origin::Policy, "four"))
}

fn state(limits: Limits, grants: ModelGrants) -> State {
    let limits = Arc::new(limits);
    let memory = Memory::new(Arc::new(HostMemory::new(0)), 0, &limits);
    State::new(limits, memory, Arc::new(crate::lane::SlowLane::new(2)), 7, Arc::new(grants))
}

fn asking(limits: Limits, model: &Arc<Model>) -> State {
    let mut grants = ModelGrants::default();
    grants.models.insert("judge".into(), model.clone());
    state(limits, grants)
}

fn noting(limits: Limits, granted: bool) -> State {
    state(limits, ModelGrants { kv: granted, ..ModelGrants::default() })
}

/// Two recorded episodes in the state of a reader.
fn reading() -> State {
    let episode: Episode = serde_json::from_str(include_str!("../../../../tests/golden/episode-2.json")).unwrap();
    let episode = Arc::new(episode);
    let mut state = state(Limits::default(), ModelGrants::default());
    state.group = vec![episode; 2];
    state
}

/// Runs a future to its end.
fn done<T>(call: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(call)
}

/// Kind and code of an engine error.
fn named(error: &wasmtime::Error) -> (FailureKind, &'static str) {
    let (kind, code, _) = classify(error);
    (kind, code)
}

/// Arbitrary text: short, long, empty, any Unicode.
fn text(longest: usize) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter),
        2 => "[a-c]{0,4}",
        1 => prop::sample::select(vec!["\u{1b}[2J", "\u{202e}", "\0", "../..", "\n", "<|im_end|>"]).prop_map(str::to_owned),
        1 => (0..longest).prop_map(|length| "x".repeat(length)),
    ]
}

fn level() -> impl Strategy<Value = log::Level> {
    prop::sample::select(vec![
        log::Level::Trace,
        log::Level::Debug,
        log::Level::Info,
        log::Level::Warn,
        log::Level::Error,
    ])
}

proptest! {
    #[test]
    fn every_line_is_kept_escaped_or_counted(lines in prop::collection::vec((level(), text(5000)), 0..40)) {
        let limits = Limits { log_lines: 20, log_bytes: 2000, log_line_bytes: 100, ..Limits::default() };
        let mut state = state(limits, ModelGrants::default());
        let count = lines.len();
        for (level, line) in lines {
            done(state.write(level, line)).unwrap();
        }
        prop_assert_eq!(state.call.host_calls, 0, "log lines do not count as host calls");
        let last_error = state.log().last_error().map(str::to_owned);
        let kept = state.log().take();
        let counted = kept.last().and_then(|line| line.strip_prefix("host: suppressed ")).map(str::to_owned);
        let suppressed: usize = counted.map_or(0, |rest| rest.split(' ').next().unwrap().parse().unwrap());
        let lines = &kept[..kept.len() - usize::from(suppressed > 0)];
        prop_assert_eq!(lines.len() + suppressed, count, "every dropped line is counted");
        prop_assert!(lines.len() <= 20);
        // A line may end with one escaped character and an ellipsis more.
        prop_assert!(lines.iter().all(|line| line.len() <= 100 + "trace: ".len() + 16));
        prop_assert!(lines.iter().map(String::len).sum::<usize>() <= 2000 + "trace: ".len() + 16);
        prop_assert!(!lines.iter().chain(&last_error).any(|line| line.chars().any(clawhost_core::is_hidden)));
    }

    #[test]
    fn every_note_is_kept_within_the_quota_or_rejected_as_documented(
        granted in prop::bool::weighted(0.9),
        steps in prop::collection::vec((0..4u8, prop_oneof![3 => "[a-p]", 1 => text(400)], 0..200usize, any::<u32>()), 0..120),
    ) {
        let limits = Limits { kv_keys: 8, kv_bytes: 1000, kv_key_bytes: 32, ..Limits::default() };
        let mut state = noting(limits, granted);
        for (function, key, length, limit) in steps {
            let sound = !key.is_empty() && key.len() <= 32 && !key.chars().any(char::is_control);
            let error = match function {
                0 => done(state.get(key)).unwrap().err(),
                1 => done(state.set(key, vec![1; length])).unwrap().err(),
                2 => done(state.delete(key)).unwrap().err(),
                _ => match done(state.keys(key.clone(), limit)).unwrap() {
                    Ok(found) => {
                        prop_assert!(found.len() <= 8 && found.len() <= limit as usize);
                        prop_assert!(found.is_sorted() && found.iter().all(|name| name.starts_with(&key)));
                        None
                    }
                    Err(error) => Some(error),
                },
            };
            match error {
                Some(kv::KvError::Denied(_)) => prop_assert!(!granted),
                Some(kv::KvError::InvalidKey(_)) => prop_assert!(granted && !sound && function != 3),
                Some(kv::KvError::Quota(_)) => prop_assert!(granted && sound && function == 1),
                Some(kv::KvError::Other(said)) => prop_assert!(false, "{said}"),
                None => prop_assert!(granted && (sound || function == 3)),
            }
        }
        for key in done(state.keys(String::new(), u32::MAX)).unwrap().unwrap_or_default() {
            let value = done(state.get(key.clone())).unwrap().unwrap().unwrap();
            prop_assert!(done(state.set(key, value)).unwrap().is_ok(), "a stored value may be written again");
        }
        let kept = state.notes.take_writes();
        prop_assert!(kept.len() <= 8, "deletions are kept too, and count");
        let values = kept.iter().filter_map(|(key, value)| Some(key.len() + value.as_ref()?.len()));
        prop_assert!(values.clone().count() <= 8 && values.sum::<usize>() <= 1000);
    }

    #[test]
    fn every_request_is_sent_once_or_rejected_as_documented(requests in prop::collection::vec(request(), 1..12)) {
        let model = four();
        let mut state = asking(Limits { llm_calls: 4, llm_tokens: u64::MAX, ..Limits::default() }, &model);
        let mut answered = 0;
        for request in requests {
            let (sound, alias) = (is_sound(&request), request.alias.clone());
            match done(state.complete(request)).unwrap() {
                Ok(response) => {
                    answered += 1;
                    prop_assert!(sound && alias == "judge");
                    prop_assert_eq!(response.finish, "stop");
                }
                Err(llm::LlmError::Denied(_)) => prop_assert!(alias != "judge"),
                Err(llm::LlmError::InvalidRequest(_)) => prop_assert!(alias == "judge" && !sound),
                Err(llm::LlmError::BudgetExhausted(_)) => prop_assert!(sound && answered == 4),
                Err(llm::LlmError::Unavailable(said) | llm::LlmError::Other(said)) => prop_assert!(false, "{said}"),
            }
        }
        prop_assert!(answered <= 4);
        let sent = model.asked.load(Ordering::Relaxed);
        prop_assert_eq!((sent, state.llm_calls as usize, state.journal.len()), (answered, answered, answered));
    }

    #[test]
    fn an_instance_spends_its_tokens_and_no_more(length in 1_usize..400, limit in 1_u64..200) {
        let model = four();
        let mut state = asking(Limits { llm_tokens: limit, ..Limits::default() }, &model);
        let message = |text: String| {
            let message = Message::text(Role::User, Origin::Environment, text);
            llm::Request {
                alias: "judge".into(),
                messages: vec![convert::message_to(&message)],
                tools: vec![],
                max_tokens: 9,
                temperature: None,
                seed: None,
                stop: vec![],
                extra: vec![],
            }
        };
        let mut spent = 0;
        loop {
            match done(state.complete(message("x".repeat(length)))).unwrap() {
                Ok(response) => {
                    prop_assert!(spent < limit, "it was spent before");
                    let used = (response.usage.prompt_tokens + response.usage.completion_tokens).max(1);
                    prop_assert!(state.llm_tokens >= spent + used, "what the endpoint says, and what is recorded");
                    spent = state.llm_tokens;
                }
                Err(llm::LlmError::BudgetExhausted(said)) => {
                    prop_assert!(spent >= limit && said.contains(" tokens of models by one instance"), "{said}");
                    break;
                }
                Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }
        let mut again = asking(Limits { llm_tokens: limit, ..Limits::default() }, &model);
        let grants = again.grants.clone();
        again.resume(1, state.held(), grants);
        prop_assert_eq!(again.llm_tokens, spent, "a restored instance has spent the same");
    }

    #[test]
    fn every_batch_is_answered_per_request_or_rejected_as_a_whole(requests in prop::collection::vec(request(), 0..20)) {
        let model = four();
        let mut state = asking(Limits { llm_batch: 12, llm_calls: 6, llm_tokens: u64::MAX, ..Limits::default() }, &model);
        let sound = requests.iter().filter(|request| is_sound(request) && request.alias == "judge").count();
        let count = requests.len();
        let answered = match done(state.complete_batch(requests)).unwrap() {
            Ok(answers) => {
                prop_assert_eq!(answers.len(), count, "every request has its answer");
                let answered = answers.iter().filter(|answer| answer.is_ok()).count();
                prop_assert_eq!(answered, sound.min(6));
                answered
            }
            Err(llm::LlmError::InvalidRequest(_)) => {
                prop_assert!(count > 12);
                0
            }
            Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        let sent = model.asked.load(Ordering::Relaxed);
        prop_assert_eq!((sent, state.llm_calls as usize, state.journal.len()), (answered, answered, answered));
    }

    #[test]
    fn time_is_monotonic_and_never_overflows(steps in prop::collection::vec((0..5u8, moment()), 0..60)) {
        let mut state = state(Limits::default(), ModelGrants::default());
        let mut before = (0, (0, 0));
        for (function, moment) in steps {
            match function {
                0 => drop(state.subscribe_duration(moment).unwrap()),
                1 => drop(state.subscribe_instant(moment).unwrap()),
                2 => state.clock.next_turn(),
                _ => {
                    let now = state.now().unwrap();
                    let wall = wall_clock::Host::now(&mut state).unwrap();
                    prop_assert!(now >= before.0 && (wall.seconds, wall.nanoseconds) >= before.1);
                    prop_assert!(wall.nanoseconds < 1_000_000_000);
                    before = (now, (wall.seconds, wall.nanoseconds));
                }
            }
        }
    }

    #[test]
    fn every_handle_and_index_is_answered_or_rejected(
        handle in prop_oneof![0..4u32, any::<u32>()],
        index in prop_oneof![0..4u32, any::<u32>()],
        count in prop_oneof![0..4u32, any::<u32>()],
        name in text(200),
    ) {
        let mut state = reading();
        state.table.push(Group).unwrap();
        let group = || Resource::<Group>::new_own(0);
        match state.episode(group(), index) {
            Ok(_) => prop_assert!(index < 2),
            Err(error) => {
                prop_assert!(index >= 2);
                prop_assert_eq!(named(&error), (FailureKind::Trap, code::TRAP));
                state.episode(group(), 0).unwrap();
            }
        }
        // The group has the first index in the table, the episode the second.
        let known = handle == 1;
        let episode = || Resource::<EpisodeView>::new_own(handle);
        let turns = state.turns(episode(), index, count);
        if let Ok(turns) = &turns {
            prop_assert!(turns.len() <= (count as usize).min(1) && (index == 0 || turns.is_empty()));
        }
        let answers = [
            turns.map(drop),
            state.id(episode()).map(drop),
            state.task(episode()).map(drop),
            state.tools(episode()).map(drop),
            state.environment(episode()).map(drop),
            state.turn_count(episode()).map(drop),
            state.closing(episode()).map(drop),
            state.ending(episode()).map(drop),
            state.signals(episode()).map(drop),
            state.artefact(episode(), name).map(drop),
            state.reward(episode()).map(drop),
            clawhost_bindings::observer::clawhost::episode::view::HostEpisodeView::drop(&mut state, episode()),
        ];
        for answer in answers {
            prop_assert_eq!(answer.is_ok(), known);
            if let Err(error) = answer {
                prop_assert_eq!(named(&error), (FailureKind::Trap, code::TRAP));
            }
        }
        prop_assert!(state.id(episode()).is_err(), "its handle was dropped");
    }
}

/// Edge cases of times, and arbitrary ones.
fn moment() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..10u64, prop::sample::select(vec![u64::MAX, u64::MAX - 1, 1 << 63, 3_600_000_000_000])]
}

fn message() -> impl Strategy<Value = wit::Message> {
    let role = prop::sample::select(vec![wit::Role::System, wit::Role::User, wit::Role::Assistant, wit::Role::Tool]);
    (role, text(2000), any::<bool>()).prop_map(|(role, text, json)| wit::Message {
        role,
        parts: vec![if json { wit::Part::Json(text.clone()) } else { wit::Part::Text(text.clone()) }],
        tool_calls: vec![],
        tool_call_id: json.then_some(text),
        origin: wit::Origin::Host,
        extra: vec![],
    })
}

fn request() -> impl Strategy<Value = llm::Request> {
    let alias = prop_oneof![8 => Just("judge".to_owned()), 1 => text(100)];
    let tool = |name| wit::ToolSpec { name, description: String::new(), input_schema: "{not".into(), extra: vec![] };
    let tools = prop_oneof![6 => Just(0), 1 => Just(128), 1 => Just(129)];
    let messages = prop_oneof![
        8 => prop::collection::vec(message(), 0..3),
        1 => message().prop_map(|message| vec![wit::Message { parts: vec![wit::Part::Other("x".repeat(1 << 20))], ..message.clone() }, message]),
    ];
    let temperature = prop::option::weighted(0.3, prop_oneof![any::<f32>(), 0.0..2.0f32]);
    let tokens = prop_oneof![8 => 1..u32::MAX, 1 => Just(0)];
    (alias, messages, tools, tokens, temperature, any::<Option<u64>>(), 0..18usize).prop_map(
        move |(alias, messages, tools, max_tokens, temperature, seed, stops)| llm::Request {
            alias,
            messages,
            tools: (0..tools).map(|number: u32| tool(number.to_string())).collect(),
            max_tokens,
            temperature,
            seed,
            stop: vec![String::new(); stops],
            extra: vec![],
        },
    )
}

/// Whether a request satisfies the contract.
fn is_sound(request: &llm::Request) -> bool {
    let bytes = |message: &wit::Message| {
        let parts = message.parts.iter().map(|part| match part {
            wit::Part::Text(text) | wit::Part::Json(text) | wit::Part::Other(text) => text.len(),
            wit::Part::Blob(_) => 0,
        });
        parts.sum::<usize>() + message.tool_call_id.as_ref().map_or(0, String::len)
    };
    request.max_tokens > 0
        && request.temperature.is_none_or(|temperature| (0.0..=2.0).contains(&temperature))
        && !request.messages.is_empty()
        && request.messages.iter().map(bytes).sum::<usize>() <= 1 << 20
        && request.tools.len() <= 128
        && request.stop.len() <= 16
}

fn plain_request() -> llm::Request {
    let message = wit::Message {
        role: wit::Role::User,
        parts: vec![wit::Part::Text("2 + 2?".into())],
        tool_calls: vec![],
        tool_call_id: None,
        origin: wit::Origin::Host,
        extra: vec![],
    };
    llm::Request {
        alias: "judge".into(),
        messages: vec![message],
        tools: vec![],
        max_tokens: 1,
        temperature: None,
        seed: None,
        stop: vec![],
        extra: vec![],
    }
}

#[test]
fn model_answers_are_checked_like_guest_requests() {
    // More tool calls than the limit.
    let call = ToolCall { id: "1".into(), name: "look".into(), arguments: "{".into(), extra: vec![] };
    let calling = Message { tool_calls: vec![call; 65], ..Message::text(Role::Assistant, Origin::Policy, "") };
    let mut state = asking(Limits::default(), &saying(calling));
    let answer = done(state.complete(plain_request())).unwrap();
    assert!(matches!(answer, Err(llm::LlmError::Unavailable(said)) if said.contains("65 tools")));
    assert_eq!(state.journal.len(), 1);
    // More text than the host passes in one call: the call fails, and paid answers stay in the journal.
    let mut state =
        asking(Limits::default(), &saying(Message::text(Role::Assistant, Origin::Policy, "x".repeat(17 << 20))));
    let error = done(state.complete(plain_request())).unwrap_err();
    assert_eq!(named(&error), (FailureKind::Limit, code::HOST_CALLS));
    assert_eq!(state.journal.len(), 1);
    // The operator's budget is exhausted: guest and host both get the error.
    let answer = Err(ModelError::Budget("3 of 3 tokens".into()));
    let mut state = asking(Limits::default(), &Arc::new(Model { asked: AtomicUsize::new(0), answer }));
    let answers = done(state.complete_batch(vec![plain_request(); 3])).unwrap().unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Err(llm::LlmError::BudgetExhausted(_)))));
    assert_eq!((state.budget_spent.as_deref(), state.journal.len()), (Some("3 of 3 tokens"), 3));
}

#[test]
fn every_function_except_the_log_counts_as_a_host_call() {
    type Call = fn(&mut State) -> wasmtime::Result<()>;
    let calls: [(&str, Call); 9] = [
        ("get", |state| done(state.get(String::new())).map(drop)),
        ("set", |state| done(state.set("key".into(), vec![])).map(drop)),
        ("delete", |state| done(state.delete("key".into())).map(drop)),
        ("keys", |state| done(state.keys(String::new(), u32::MAX)).map(drop)),
        ("complete", |state| done(state.complete(plain_request())).map(drop)),
        ("complete-batch", |state| done(state.complete_batch(vec![])).map(drop)),
        ("monotonic now", |state| state.now().map(drop)),
        ("wall now", |state| wall_clock::Host::now(state).map(drop)),
        ("size", |state| state.size(Resource::new_own(0)).map(drop)),
    ];
    for (name, call) in calls {
        let mut state = noting(Limits { host_calls: 5, ..Limits::default() }, true);
        for _ in 0..5 {
            call(&mut state).unwrap();
        }
        let error = call(&mut state).unwrap_err();
        assert_eq!(named(&error), (FailureKind::Limit, code::HOST_CALLS), "{name}");
        done(state.write(log::Level::Info, "still heard".into())).unwrap();
    }
}

#[test]
fn calls_to_the_host_suffice_to_read_every_episode_of_a_group() {
    let mut state = reading();
    state.limits = Arc::new(Limits { host_calls: 5, ..Limits::default() });
    state.table.push(Group).unwrap();
    let size = |state: &mut State| state.size(Resource::new_own(0)).map(drop);
    (0..64).for_each(|_| size(&mut state).unwrap());
    assert_eq!(named(&size(&mut state).unwrap_err()), (FailureKind::Limit, code::HOST_CALLS), "32 for each of two");
}

#[test]
fn bytes_are_counted_in_both_directions() {
    let mut state = noting(Limits { host_call_bytes: 1000, ..Limits::default() }, true);
    done(state.set("key".into(), vec![1; 400])).unwrap().unwrap();
    done(state.get("key".into())).unwrap().unwrap();
    let error = done(state.get("key".into())).unwrap_err();
    assert_eq!(named(&error), (FailureKind::Limit, code::HOST_CALLS));
}

#[test]
fn endless_sleeps_fill_the_table_and_saturate_the_clock() {
    let mut state = state(Limits::default(), ModelGrants::default());
    let error = (0..2000).find_map(|_| state.subscribe_duration(u64::MAX).err()).unwrap();
    assert_eq!(named(&error), (FailureKind::Limit, code::HANDLES));
    assert_eq!(state.now().unwrap(), u64::MAX);
    assert_eq!(wall_clock::Host::now(&mut state).unwrap().seconds, 1_577_836_800 + u64::MAX / 1_000_000_000);
    state.clock = VirtualClock::default();
    assert_eq!(state.now().unwrap(), 1000, "each reading advances the clock");
}

#[test]
fn a_dropped_episode_cannot_be_read() {
    let mut state = reading();
    state.table.push(Group).unwrap();
    let episode = state.episode(Resource::new_own(0), 1).unwrap();
    state.group.clear();
    assert_eq!(state.size(Resource::new_own(0)).unwrap(), 0);
    let error = state.id(Resource::new_own(episode.rep())).unwrap_err();
    assert!(error.to_string().contains("no longer at hand"), "{error}");
}
