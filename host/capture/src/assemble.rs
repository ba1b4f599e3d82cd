//! Makes an episode of the exchanges of a session.

use crate::CaptureError;
use crate::exchange::{Answer, Exchange};
use crate::guided::Guided;
use crate::places::Relation;
use clawhost_core::{
    Closing, Digest, Ending, Episode, EpisodeHeader, EpisodeId, EpisodeOrigin, EpisodeRecorder, Failure, FailureKind,
    Live, Message, Observed, Origin, PolicyRecord, Role, RunId, StateConfig, StateId, Task, Withheld, code,
};

/// Most messages of an episode's record: of a history that was taken over whole, too.
pub const EPISODE_MESSAGES: usize = 100_000;

/// Longest text of a live episode's task in characters: it is shown in lists.
const TASK_CHARACTERS: usize = 2_000;

/// What is known of a session at a glance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenSession {
    /// Answered turns.
    pub turns: u64,
    /// Whether the last exchange was answered whole.
    pub is_complete: bool,
}

/// The turns of a session, and whether its last exchange was answered.
pub fn summary<'a>(exchanges: impl IntoIterator<Item = &'a Exchange>) -> OpenSession {
    let mut seen = OpenSession::default();
    for exchange in exchanges {
        seen.is_complete = exchange.answer.complete().is_some();
        seen.turns += u64::from(seen.is_complete);
    }
    seen
}

/// The messages of an exchange behind the answers before it: the results of the last answer's calls, in the order of the calls, and the
/// others. A result that is missing is empty and of the host, as a simulated episode records it.
fn split(messages: &[Message], calls: &[clawhost_core::ToolCall]) -> (Vec<Message>, Vec<Message>) {
    let mut rest: Vec<&Message> = messages.iter().collect();
    let results = calls.iter().map(|call| {
        let is_result = |message: &&Message| {
            message.role == Role::Tool && message.tool_call_id.as_deref() == Some(call.id.as_str())
        };
        match rest.iter().position(is_result) {
            Some(at) => rest.remove(at).clone(),
            None => Message {
                tool_call_id: Some(call.id.clone()),
                parts: Vec::new(),
                ..Message::text(Role::Tool, Origin::Host, "")
            },
        }
    });
    let results = results.collect();
    (results, rest.into_iter().cloned().collect())
}

/// The text of the first message of the user.
fn task_text(exchange: &Exchange) -> String {
    let first = exchange.messages.iter().find(|message| message.role == Role::User);
    let text = first.map(Message::plain_text).unwrap_or_default();
    text.chars().take(TASK_CHARACTERS).collect()
}

/// The episode of a session: its answered exchanges are the turns, in order. Requests without a whole answer are named in the log. Each
/// answer is in one episode only: what a session took over from its parent is part of its first observation.
///
/// `limit`: most bytes of the record. What is longer ends the episode there. `now`: Unix time in milliseconds.
///
/// # Errors
/// There is no exchange, or they are of several sessions.
pub fn assemble(exchanges: &[Exchange], limit: usize, now: u64) -> Result<Episode, CaptureError> {
    let first = exchanges.first().ok_or(CaptureError::Empty)?;
    if let Some(other) = exchanges.iter().find(|other| other.episode != first.episode || other.run != first.run) {
        return Err(CaptureError::Mixed(first.episode.0.clone(), other.episode.0.clone()));
    }
    let mut log = origin_log(first);
    let mut recorder: Option<EpisodeRecorder> = None;
    let mut is_cut = None;
    let mut guided: Option<Digest> = None;
    let no_system = String::new();
    let mut known_system = first.system.as_ref().unwrap_or(&no_system);
    for exchange in exchanges {
        let changed = (exchange.position > first.position).then(|| other_guidance(guided, exchange)).flatten();
        log.extend(changed);
        guided = exchange.guided.as_ref().map(|guided| guided.digest);
        let Some(response) = exchange.answer.complete() else {
            log.push(unanswered(exchange));
            continue;
        };
        // The first one is the episode's own; another one later is a part of what the model saw. A restart records it once more.
        let system = exchange.system.as_ref().filter(|text| *text != known_system);
        known_system = exchange.system.as_ref().unwrap_or(known_system);
        let system = system.map(|text| Message::text(Role::System, Origin::User, text.clone()));
        let messages: Vec<Message> = system.into_iter().chain(exchange.messages.iter().cloned()).collect();
        let recorded = match &mut recorder {
            None => {
                let tools = first.tools.clone().unwrap_or_default();
                let opened = EpisodeRecorder::open(messages, limit).with_tools(tools);
                let checked = opened.check();
                recorder = Some(opened);
                checked
            }
            Some(recorder) => {
                let (results, others) = split(&messages, recorder.open_calls());
                recorder.observe(Observed::messages(results, others))
            }
        };
        if exchange.context_changed {
            log.push(format!("exchange {}: the client cut or rewrote the history before it", exchange.position));
        }
        if exchange.cut > 0 {
            let cut = exchange.cut;
            log.push(format!(
                "exchange {}: the model did not see {cut} messages: its context is shorter",
                exchange.position
            ));
        }
        let Some(recorder) = &mut recorder else { continue };
        let answered = recorded
            .and_then(|()| recorder.request(exchange.request))
            .and_then(|()| recorder.answer((*response).clone(), exchange.answered_us));
        if let Err(error) = answered {
            is_cut = Some(format!("{error}; {} more exchanges", exchanges.len() as u64 - u64::from(exchange.position)));
            break;
        }
    }
    let last = exchanges.last().unwrap_or(first);
    let ending = ending(recorder.is_some(), last, is_cut);
    let recorder = recorder.unwrap_or_else(|| EpisodeRecorder::open(first.messages.clone(), usize::MAX));
    Ok(recorder.close(header(exchanges, first), ending, Closing { log, journal: Vec::new(), at: now }))
}

/// What is said of guidance that is another than at the exchange before.
fn other_guidance(before: Option<Digest>, exchange: &Exchange) -> Option<String> {
    let position = exchange.position;
    match &exchange.guided {
        None => before.map(|_| format!("exchange {position}: no guidance")),
        Some(guided) if before == Some(guided.digest) => None,
        Some(Guided { text: Some(text), .. }) => {
            Some(format!("exchange {position}: other guidance from here on: {text}"))
        }
        Some(Guided { digest, .. }) => Some(format!("exchange {position}: the guidance of before, {}", digest.short())),
    }
}

fn ending(has_turns: bool, last: &Exchange, is_cut: Option<String>) -> Ending {
    if let Some(why) = is_cut {
        return Ending::Truncated(why);
    }
    match &last.answer {
        Answer::Complete(_) => Ending::Terminated,
        Answer::Incomplete { why, .. } if has_turns => Ending::Truncated(format!("the last answer broke off: {why}")),
        Answer::Failed { why, .. } if has_turns => Ending::Truncated(format!("the last request failed: {why}")),
        Answer::Incomplete { why, .. } => failed(format!("the answer broke off: {why}")),
        Answer::Failed { why, .. } => failed(why.clone()),
    }
}

fn failed(why: String) -> Ending {
    Ending::Failed(Failure::new(FailureKind::Llm, code::UNAVAILABLE, why))
}

/// Words of a session that is beside another one.
const BESIDE: [&str; 3] = ["a branch", "a repetition", "a side turn"];
/// What stands between the name of that one and its turn.
const BEHIND: &str = " behind turn ";
/// What stands around the name of a session that fits among others.
const SEVERAL: &str = "several conversations fit, ";
const ONE_OF_THEM: &str = " is one of them";

/// What its first exchange tells of where a session comes from.
fn origin_log(first: &Exchange) -> Vec<String> {
    let mut log = Vec::new();
    let word = match first.relation {
        Relation::Opens | Relation::Continues => None,
        Relation::Branches => Some(BESIDE[0]),
        Relation::Repeats => Some(BESIDE[1]),
        Relation::Side => Some(BESIDE[2]),
    };
    match (&first.parent, word) {
        (Some(parent), Some(word)) => {
            log.push(format!("{word} of {}/{}{BEHIND}{}", parent.run, parent.episode, parent.turns))
        }
        (Some(parent), None) => {
            log.push(format!("{SEVERAL}{}/{}{ONE_OF_THEM}", parent.run, parent.episode));
        }
        (None, Some(word)) => log.push(word.to_owned()),
        (None, None) => {}
    }
    log
}

/// The session from which the session of an episode comes, by what its log tells: the one that it branches from or repeats, or one of several
/// whose conversation it continues.
pub fn parent_of(log: &[String]) -> Option<(RunId, EpisodeId)> {
    let first = log.first()?;
    let named = match first.strip_prefix(SEVERAL) {
        Some(rest) => rest.strip_suffix(ONE_OF_THEM)?,
        None => BESIDE.iter().find_map(|word| first.strip_prefix(word)?.strip_prefix(" of "))?.split_once(BEHIND)?.0,
    };
    let (run, episode) = named.split_once('/')?;
    Some((RunId(run.to_owned()), EpisodeId(episode.to_owned())))
}

fn unanswered(exchange: &Exchange) -> String {
    let position = exchange.position;
    match &exchange.answer {
        Answer::Complete(_) => String::new(),
        Answer::Incomplete { message, why } => {
            let came = message.as_ref().map_or(0, |message| message.len());
            format!("exchange {position}: the answer broke off after {came} bytes: {why}")
        }
        Answer::Failed { status, why } => format!("exchange {position}: HTTP {status}: {why}"),
    }
}

fn header(exchanges: &[Exchange], first: &Exchange) -> EpisodeHeader {
    let task = Task { input: task_text(first), ..Task::new("live", first.session.session.clone()) };
    let system_prompt = first.system.clone().filter(|text| !text.is_empty());
    let config = StateConfig {
        model: first.model.clone(),
        system_prompt: system_prompt.clone(),
        sampling: first.sampling,
        rendering: Vec::new(),
    };
    EpisodeHeader {
        run: first.run.clone(),
        id: first.episode.clone(),
        index: first.index,
        task_hash: task.digest(),
        task,
        origin: EpisodeOrigin::Live(Live { live: first.session.clone(), withheld: withheld(exchanges, first) }),
        expects: Vec::new(),
        state_id: StateId::of(&config),
        policy: PolicyRecord {
            model: first.model.clone(),
            seed: Digest::of(first.session.session.as_bytes()).prefix_u64() >> 11,
            system_prompt,
            sampling: first.sampling,
            playbook: exchanges.iter().find_map(|exchange| exchange.guided.as_ref()).map(Guided::record),
        },
    }
}

/// Why learning leaves the episode out.
fn withheld(exchanges: &[Exchange], first: &Exchange) -> Option<Withheld> {
    match first.relation {
        _ if exchanges.iter().any(|exchange| exchange.no_train) => Some(Withheld::NoTrain),
        Relation::Repeats => Some(Withheld::Repetition),
        Relation::Side => Some(Withheld::SideTurn),
        _ if exchanges.iter().any(Exchange::is_answer_redacted) => Some(Withheld::Redacted),
        _ if exchanges.iter().any(|exchange| exchange.candidates > 1) => Some(Withheld::Ambiguous),
        Relation::Opens | Relation::Continues | Relation::Branches => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exchange, message, says};
    use crate::{ExchangeParent, Redacted};
    use clawhost_core::ToolSpec;

    const LIMIT: usize = 1 << 20;

    fn user(text: &str) -> Message {
        message(Role::User, text)
    }

    fn result(id: &str, text: &str) -> Message {
        Message { tool_call_id: Some(id.into()), ..Message::text(Role::Tool, Origin::Tool, text) }
    }

    fn broken() -> Answer {
        Answer::Incomplete { message: Some(Box::new(user("ha"))), why: "the client has gone".into() }
    }

    #[test]
    fn answered_exchanges_are_turns() {
        let exchanges = [
            exchange(0, vec![user("hi")], says("", &["x", "y"])),
            exchange(1, vec![result("y", "2"), result("x", "1"), user("hurry")], says("done", &[])),
        ];
        let episode = assemble(&exchanges, LIMIT, 9).unwrap();
        assert_eq!((episode.turns.len(), &episode.ending, episode.created_at), (2, &Ending::Terminated, 9));
        assert_eq!((episode.task.id.as_str(), episode.task.input.as_str()), ("s", "hi"));
        assert_eq!(episode.policy.system_prompt.as_deref(), Some("be brief"));
        let results: Vec<String> = episode.turns[0].tool_results.iter().map(Message::plain_text).collect();
        assert_eq!(results, ["1", "2"], "in the order of the calls");
        assert_eq!(episode.turns[1].observation, [user("hurry")]);
        assert_eq!(episode.index, 4);
    }

    #[test]
    fn a_missing_result_is_empty_and_of_the_host() {
        let exchanges =
            [exchange(0, vec![user("hi")], says("", &["x"])), exchange(1, vec![user("never mind")], says("ok", &[]))];
        let episode = assemble(&exchanges, LIMIT, 9).unwrap();
        let result = &episode.turns[0].tool_results[0];
        assert_eq!((result.origin, result.tool_call_id.as_deref(), result.len()), (Origin::Host, Some("x"), 1));
    }

    #[test]
    fn what_was_not_answered_is_named_and_is_no_turn() {
        let check = |exchanges: &[Exchange], turns: usize, ending: &str| {
            let episode = assemble(exchanges, LIMIT, 9).unwrap();
            assert_eq!((episode.turns.len(), episode.ending.to_string().as_str()), (turns, ending));
            let unanswered = exchanges.iter().filter(|one| one.answer.complete().is_none()).count();
            assert_eq!(episode.log.len(), unanswered, "{:?}", episode.log);
        };
        let answered = |position| exchange(position, vec![user("hi")], says("ok", &[]));
        let cut = |position| exchange(position, vec![user("hi")], broken());
        let failed =
            |position| exchange(position, vec![user("hi")], Answer::Failed { status: 502, why: "no upstream".into() });
        check(&[cut(0), answered(1)], 1, "terminated");
        check(&[answered(0), cut(1)], 1, "truncated: the last answer broke off: the client has gone");
        check(&[answered(0), failed(1)], 1, "truncated: the last request failed: no upstream");
        check(&[failed(0)], 0, "failed: llm(unavailable): no upstream");
        check(&[cut(0), cut(1)], 0, "failed: llm(unavailable): the answer broke off: the client has gone");
        let seen = |exchanges: &[Exchange]| {
            let OpenSession { turns, is_complete } = summary(exchanges);
            (turns, is_complete)
        };
        assert_eq!(seen(&[answered(0), cut(1)]), (1, false));
        assert_eq!(seen(&[cut(0), answered(1), answered(2)]), (2, true));
    }

    #[test]
    fn a_changed_system_text_is_a_part_of_what_the_model_saw() {
        let later = exchange(1, vec![user("more")], says("ok", &[]));
        let exchanges =
            [exchange(0, vec![user("hi")], says("ok", &[])), Exchange { system: Some("be kind".into()), ..later }];
        let episode = assemble(&exchanges, LIMIT, 9).unwrap();
        let said: Vec<(Role, String)> =
            episode.turns[1].observation.iter().map(|message| (message.role, message.plain_text())).collect();
        assert_eq!(said, [(Role::System, "be kind".into()), (Role::User, "more".into())]);
        let again = Exchange { system: exchanges[0].system.clone(), ..exchanges[1].clone() };
        let episode = assemble(&[exchanges[0].clone(), again], LIMIT, 9).unwrap();
        assert_eq!(episode.turns[1].observation.len(), 1, "a restart records it once more");
    }

    #[test]
    fn a_record_that_is_too_long_ends_there() {
        let long = "x".repeat(700);
        let exchanges: Vec<Exchange> =
            (0..4).map(|position| exchange(position, vec![user(&long)], says("ok", &[]))).collect();
        let episode = assemble(&exchanges, 2000, 9).unwrap();
        assert!((1..4).contains(&episode.turns.len()), "{}", episode.turns.len());
        assert!(episode.ending.to_string().contains("longer than the 2000 bytes"), "{}", episode.ending);
    }

    #[test]
    fn nothing_and_two_sessions_make_no_episode() {
        assert_eq!(assemble(&[], LIMIT, 0), Err(CaptureError::Empty));
        let first = exchange(0, vec![], says("", &[]));
        let other = Exchange { episode: EpisodeId("ep-2".into()), ..first.clone() };
        assert!(matches!(assemble(&[first, other], LIMIT, 0), Err(CaptureError::Mixed(..))));
    }

    #[test]
    fn what_learning_must_leave_out_is_withheld() {
        let check = |change: fn(&mut Exchange), expect: Option<Withheld>| {
            let mut second = exchange(1, vec![user("more")], says("ok", &[]));
            change(&mut second);
            let mut first = exchange(0, vec![user("hi")], says("ok", &[]));
            first.relation = second.relation;
            let episode = assemble(&[first, second], LIMIT, 9).unwrap();
            assert_eq!(episode.origin.withheld(), expect);
            let text = serde_json::to_string(&episode).unwrap();
            assert_eq!(serde_json::from_str::<Episode>(&text).unwrap().origin, episode.origin);
        };
        check(|_| (), None);
        check(|exchange| exchange.no_train = true, Some(Withheld::NoTrain));
        check(|exchange| exchange.candidates = 2, Some(Withheld::Ambiguous));
        check(
            |exchange| exchange.redacted = Some(Redacted { answer: true, ..Redacted::default() }),
            Some(Withheld::Redacted),
        );
        check(|exchange| exchange.redacted = Some(Redacted::default()), None);
        check(|exchange| exchange.relation = Relation::Branches, None);
        check(|exchange| exchange.relation = Relation::Repeats, Some(Withheld::Repetition));
        check(|exchange| exchange.relation = Relation::Side, Some(Withheld::SideTurn));
    }

    #[test]
    fn an_exchange_reads_back() {
        let tools =
            vec![ToolSpec { name: "f".into(), description: String::new(), input_schema: "{}".into(), extra: vec![] }];
        let first = Exchange { tools: Some(tools), no_train: true, ..exchange(0, vec![user("hi")], broken()) };
        let text = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<Exchange>(&text).unwrap(), first);
    }

    #[test]
    fn an_episode_tells_the_session_that_it_comes_from() {
        let check = |relation: Relation, parent: Option<&str>| {
            let named = parent.map(|run| ExchangeParent {
                run: RunId(run.into()),
                episode: EpisodeId("ep-1".into()),
                turns: 3,
            });
            let first = Exchange { relation, parent: named, ..exchange(0, vec![user("hi")], says("a", &[])) };
            let episode = assemble(&[first], LIMIT, 9).unwrap();
            let expect = parent.map(|run| (RunId(run.into()), EpisodeId("ep-1".into())));
            assert_eq!(parent_of(&episode.log), expect, "{relation:?}: {:?}", episode.log);
        };
        for relation in [Relation::Opens, Relation::Continues, Relation::Branches, Relation::Repeats, Relation::Side] {
            check(relation, Some("run-a"));
            check(relation, None);
        }
    }
}
