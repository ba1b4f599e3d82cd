use super::*;
use crate::places::Evidence;
use clawhost_core::{Origin, Role, ToolCall, ToolSpec};

fn text(role: Role, text: &str) -> Message {
    Message::text(role, Origin::User, text)
}

fn user(said: &str) -> Message {
    text(Role::User, said)
}

fn assistant(said: &str) -> Message {
    text(Role::Assistant, said)
}

fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| ToolCall { id: (*id).into(), name: "look".into(), arguments: "{}".into(), extra: vec![] };
    Message { tool_calls: ids.iter().map(call).collect(), ..assistant("") }
}

fn result(id: &str, said: &str) -> Message {
    Message { tool_call_id: Some(id.into()), ..text(Role::Tool, said) }
}

struct Gateway {
    sessions: Sessions<u32>,
    key: CaptureKey,
    opened: u32,
    now: u64,
}

/// How a client asks, beside its messages.
#[derive(Clone, Default)]
struct With {
    named: Option<&'static str>,
    conversation: Option<&'static str>,
    previous: Option<&'static str>,
    owner: &'static str,
    tools: Vec<&'static str>,
}

const PLAIN: With = With { named: None, conversation: None, previous: None, owner: "", tools: Vec::new() };

fn named(name: &'static str) -> With {
    With { named: Some(name), ..PLAIN }
}

impl Gateway {
    fn new() -> Self {
        Self::with(SessionsLimits::default())
    }

    fn with(limits: SessionsLimits) -> Self {
        let key = CaptureKey::new([1; 32]);
        Self { sessions: Sessions::new(key, limits), key, opened: 0, now: 0 }
    }

    fn place(&mut self, messages: &[Message], with: &With) -> (Placed<u32>, Claim) {
        self.now += 1;
        let spec = |name: &&str| ToolSpec {
            name: (*name).into(),
            description: String::new(),
            input_schema: "{}".into(),
            extra: vec![],
        };
        let tools: Vec<ToolSpec> = with.tools.iter().map(spec).collect();
        let issued = messages.iter().rev().flat_map(|message| &message.tool_calls).map(|call| call.id.clone());
        let asked = Asked {
            client: ClientSession {
                user: None,
                owner: with.owner.to_owned(),
                named: with.named.map(str::to_owned),
                conversation: with.conversation.map(str::to_owned),
                group: None,
            },
            previous: with.previous.map(str::to_owned),
            issued: issued.collect(),
            side: None,
            marks: Marks::of(&self.key, messages, &tools),
            now: self.now,
        };
        let opened = &mut self.opened;
        let (placed, claim, _) = self.sessions.place(asked, |_, _| {
            *opened += 1;
            *opened
        });
        (placed, claim)
    }

    /// A request and its answer.
    fn ask(&mut self, messages: &[Message], with: &With, answer: &Message) -> Placed<u32> {
        let (placed, claim) = self.place(messages, with);
        self.sessions.answered(claim, answer, None, self.now);
        placed
    }
}

/// Session, turn, relation.
fn at(placed: &Placed<u32>) -> (u32, u32, Relation) {
    (placed.label, placed.turn, placed.relation)
}

use Relation::{Branches, Continues, Opens, Repeats, Side};

#[test]
fn a_stock_client_gives_whole_conversations() {
    let mut gateway = Gateway::new();
    let mut history = vec![text(Role::System, "be brief"), user("one")];
    let first = gateway.ask(&history, &PLAIN, &assistant("a1"));
    assert_eq!((at(&first), first.new_messages), ((1, 0, Opens), vec![0, 1]));
    history.extend([assistant("a1"), user("two")]);
    let second = gateway.ask(&history, &PLAIN, &assistant("a2"));
    assert_eq!((at(&second), &second.new_messages), ((1, 1, Continues), &vec![3]));
    assert_eq!((second.evidence, second.context_changed), (Evidence::History, false));
    history.extend([assistant("a2"), user("three")]);
    assert_eq!(at(&gateway.ask(&history, &PLAIN, &assistant("a3"))), (1, 2, Continues));
}

#[test]
fn of_equal_histories_the_one_with_the_same_instructions_and_tools_goes_on() {
    let system = |name: &str| text(Role::System, name);
    let mut gateway = Gateway::new();
    let look = With { tools: vec!["look"], ..PLAIN };
    let agents = [("a", &PLAIN), ("b", &PLAIN), ("b", &look)];
    let labels: Vec<u32> = agents
        .iter()
        .map(|(name, with)| gateway.ask(&[system(name), user("say ok")], with, &assistant("ok")).label)
        .collect();
    for at in [2, 1, 0] {
        let (name, with) = agents[at];
        let later = [system(name), user("say ok"), assistant("ok"), user("more")];
        let placed = gateway.ask(&later, with, &assistant("done"));
        assert_eq!((placed.label, placed.relation, placed.candidates), (labels[at], Continues, 1), "{name}");
    }
}

#[test]
fn sixteen_equal_conversations_at_once_are_sixteen_sessions() {
    let mut gateway = Gateway::new();
    let mut history = vec![user("hi")];
    for turn in 0..4 {
        let open: Vec<_> = (0..16).map(|_| gateway.place(&history, &PLAIN)).collect();
        let mut labels: Vec<u32> = open.iter().map(|(placed, _)| placed.label).collect();
        labels.sort_unstable();
        assert_eq!(labels, (1..=16).collect::<Vec<_>>(), "turn {turn}");
        assert!(open.iter().all(|(placed, _)| placed.turn == turn));
        assert_eq!(open[0].0.is_ambiguous(), turn > 0, "equal sessions cannot be told apart");
        for (_, claim) in open {
            gateway.sessions.answered(claim, &assistant("yes"), None, 1);
        }
        history.extend([assistant("yes"), user("go on")]);
    }
}

#[test]
fn ids_of_calls_tell_equal_conversations_apart() {
    let mut gateway = Gateway::new();
    for id in ["x", "y"] {
        gateway.ask(&[user("hi")], &PLAIN, &calls(&[id]));
    }
    let placed = gateway.ask(&[user("hi"), calls(&["y"]), result("y", "ok")], &PLAIN, &assistant("done"));
    assert_eq!((at(&placed), placed.candidates), ((2, 1, Continues), 1));
}

#[test]
fn a_changing_system_text_and_results_in_another_order_change_nothing() {
    let mut gateway = Gateway::new();
    let system = |time: &str| text(Role::System, &format!("It is {time}."));
    gateway.ask(&[system("12:00"), user("look")], &PLAIN, &calls(&["a", "b"]));
    let first = [system("12:01"), user("look"), calls(&["a", "b"]), result("b", "2"), result("a", "1")];
    let placed = gateway.ask(&first, &PLAIN, &assistant("12"));
    assert_eq!((at(&placed), placed.system_changed, placed.context_changed), ((1, 1, Continues), true, false));
    let swapped =
        [user("look"), calls(&["a", "b"]), result("a", "1"), result("b", "2"), assistant("12"), user("thanks")];
    assert_eq!(at(&gateway.ask(&swapped, &PLAIN, &assistant("bye"))), (1, 2, Continues));
}

/// A conversation of three turns.
fn three(gateway: &mut Gateway, with: &With) -> Vec<Message> {
    let mut history = vec![user("first question of the user")];
    for turn in 1..=3 {
        let answer = assistant(&format!("answer {turn}, which is long enough to be known again by its text alone"));
        gateway.ask(&history, with, &answer);
        history.extend([answer, user(&format!("question {}", turn + 1))]);
    }
    history
}

#[test]
fn a_cut_history_finds_its_session() {
    let mut gateway = Gateway::new();
    let history = three(&mut gateway, &PLAIN);
    let placed = gateway.ask(&history[2..], &PLAIN, &assistant("a4"));
    assert_eq!((at(&placed), placed.evidence), ((1, 3, Continues), Evidence::Answers));
    assert!(placed.context_changed);
    assert_eq!(placed.new_messages, vec![4], "what was recorded is not recorded again");
}

#[test]
fn a_compacted_history_finds_its_session_and_its_summary_is_new() {
    let mut gateway = Gateway::new();
    let history = three(&mut gateway, &PLAIN);
    let compacted = [user("Summary: they talked."), history[5].clone(), history[6].clone()];
    let placed = gateway.ask(&compacted, &PLAIN, &assistant("a4"));
    assert_eq!((at(&placed), placed.evidence, placed.context_changed), ((1, 3, Continues), Evidence::Answers, true));
    assert_eq!(placed.new_messages, vec![0, 2]);
    let later = [&compacted[..], &[assistant("a4"), user("and?")]].concat();
    let next = gateway.ask(&later, &PLAIN, &assistant("a5"));
    assert_eq!((at(&next), next.evidence, next.context_changed), ((1, 4, Continues), Evidence::History, false));
}

#[test]
fn an_edited_turn_is_a_branch_that_names_its_parent() {
    let mut gateway = Gateway::new();
    let mut edited = three(&mut gateway, &PLAIN)[..4].to_vec();
    edited.push(user("another third question"));
    let branch = gateway.ask(&edited, &PLAIN, &assistant("b3"));
    assert_eq!((at(&branch), branch.parent), ((2, 0, Branches), Some((1, 2))));
    assert_eq!(branch.new_messages.len(), 5, "its first observation is everything before it");
    edited.extend([assistant("b3"), user("go on")]);
    assert_eq!(at(&gateway.ask(&edited, &PLAIN, &assistant("b4"))), (2, 1, Continues));
}

#[test]
fn a_repeated_request_is_told_from_a_branch_and_from_a_failed_opening() {
    let mut gateway = Gateway::new();
    let history = three(&mut gateway, &PLAIN);
    let repeated = gateway.ask(&history[..5], &PLAIN, &assistant("again"));
    assert_eq!((at(&repeated), repeated.parent), ((2, 0, Repeats), Some((1, 2))));
    // Twice at once: one continues, the other repeats it.
    let (first, claim) = gateway.place(&history, &PLAIN);
    let (second, other) = gateway.place(&history, &PLAIN);
    assert_eq!((at(&first), second.relation), ((1, 3, Continues), Repeats));
    gateway.sessions.unanswered(claim, 9);
    gateway.sessions.unanswered(other, 9);
    let (third, claim) = gateway.place(&history, &PLAIN);
    assert_eq!((at(&third), third.position), ((1, 3, Continues), 4), "after a failure it continues");
    drop(claim);
    // An opening that failed is not a second session.
    let (opening, claim) = gateway.place(&[user("new")], &PLAIN);
    gateway.sessions.unanswered(claim, 9);
    let again = gateway.ask(&[user("new")], &PLAIN, &assistant("ok"));
    assert_eq!((again.label, again.position, again.evidence), (opening.label, 1, Evidence::Opening));
    assert_eq!(gateway.ask(&[user("new")], &PLAIN, &assistant("ok")).relation, Opens, "it is answered by now");
}

#[test]
fn two_conversations_that_fit_equally_well_are_marked() {
    let mut gateway = Gateway::new();
    let answer = assistant("an answer that two agents were given, long enough to tell a conversation");
    gateway.ask(&[user("one")], &PLAIN, &answer);
    gateway.ask(&[user("two")], &PLAIN, &answer);
    let placed = gateway.ask(&[user("(cut)"), answer, user("more")], &PLAIN, &assistant("ok"));
    assert_eq!((at(&placed), placed.candidates, placed.evidence), ((3, 0, Opens), 2, Evidence::Answers));
    assert!(placed.parent.is_some() && placed.is_ambiguous());
}

#[test]
fn a_short_answer_alone_is_no_evidence() {
    let mut gateway = Gateway::new();
    gateway.ask(&[user("one")], &PLAIN, &assistant("yes"));
    let placed = gateway.ask(&[user("other"), assistant("yes"), user("more")], &PLAIN, &assistant("ok"));
    assert_eq!((at(&placed), placed.evidence), ((2, 0, Opens), Evidence::Nothing));
}

#[test]
fn a_named_session_holds_what_its_client_says() {
    let mut gateway = Gateway::new();
    let with = named("n");
    assert_eq!(at(&gateway.ask(&[user("a")], &with, &assistant("1"))), (1, 0, Opens));
    // A client that sends no history.
    let next = gateway.ask(&[user("b")], &with, &assistant("2"));
    assert_eq!((at(&next), next.evidence, next.new_messages), ((1, 1, Continues), Evidence::Named, vec![0]));
    // Another owner's session of this name is another session.
    assert_eq!(at(&gateway.ask(&[user("c")], &With { owner: "o", ..with.clone() }, &assistant("3"))), (2, 0, Opens));
    assert_eq!(at(&gateway.ask(&[user("d")], &named("m"), &assistant("4"))), (3, 0, Opens));
    let ended: Vec<u32> = gateway.sessions.end(("", None), "n").into_iter().map(|ended| ended.label).collect();
    assert_eq!(ended, vec![1]);
    assert_eq!(at(&gateway.ask(&[user("b")], &with, &assistant("5"))), (4, 0, Opens));
    assert_eq!(gateway.sessions.end(("", None), "unknown"), vec![]);
}

#[test]
fn a_title_beside_a_conversation_is_a_side_turn() {
    let mut gateway = Gateway::new();
    let with = |tools: &[&'static str]| With { tools: tools.to_vec(), ..named("n") };
    let agent = [text(Role::System, "You are an agent."), user("mend it")];
    gateway.ask(&agent, &with(&["edit", "run"]), &assistant("I look."));
    let title = [text(Role::System, "Write a title."), user("mend it")];
    let side = gateway.ask(&title, &with(&[]), &assistant("Mending"));
    assert_eq!((at(&side), side.parent), ((2, 0, Side), Some((1, 1))));
    let more = [&agent[..], &[assistant("I look."), user("go on")]].concat();
    assert_eq!(at(&gateway.ask(&more, &with(&["edit", "run"]), &assistant("Done."))), (1, 1, Continues));
}

#[test]
fn conversations_under_one_id_of_a_client_are_told_apart_by_their_history() {
    let mut gateway = Gateway::new();
    let with = With { conversation: Some("c"), ..PLAIN };
    gateway.ask(&[user("main")], &with, &assistant("m1"));
    gateway.ask(&[user("sub-agent")], &with, &assistant("s1"));
    let main = gateway.ask(&[user("main"), assistant("m1"), user("x")], &with, &assistant("m2"));
    let sub = gateway.ask(&[user("sub-agent"), assistant("s1"), user("x")], &with, &assistant("s2"));
    assert_eq!((at(&main), at(&sub)), ((1, 1, Continues), (2, 1, Continues)));
}

#[test]
fn a_response_that_is_named_is_continued() {
    let mut gateway = Gateway::new();
    let (_, claim) = gateway.place(&[user("a")], &PLAIN);
    gateway.sessions.answered(claim, &assistant("1"), Some("resp_1"), 1);
    let with = With { previous: Some("resp_1"), ..PLAIN };
    let next = gateway.ask(&[user("b")], &with, &assistant("2"));
    assert_eq!((at(&next), next.evidence), ((1, 1, Continues), Evidence::Response));
    let other = gateway.ask(&[user("c")], &with, &assistant("3"));
    assert_eq!((at(&other), other.parent), ((2, 0, Branches), Some((1, 1))));
}

#[test]
fn sessions_end_when_idle_and_the_oldest_makes_room() {
    let limits = SessionsLimits { sessions: 2, turns: 2, idle_ms: 100 };
    let mut gateway = Gateway::with(limits);
    let (_, claim) = gateway.place(&[user("waits for its answer")], &PLAIN);
    gateway.ask(&[user("b")], &PLAIN, &assistant("1"));
    gateway.ask(&[user("c")], &PLAIN, &assistant("2"));
    assert_eq!(gateway.sessions.len(), 2);
    let ended: Vec<u32> = gateway.sessions.expire(500).into_iter().map(|ended| ended.label).collect();
    assert_eq!(ended, vec![3], "2 made room, and 1 waits for its answer");
    gateway.sessions.unanswered(claim, 501);
    assert_eq!(gateway.sessions.expire(501 + 99).len(), 0);
    assert_eq!(gateway.sessions.expire(501 + 100).len(), 1);
    assert!(gateway.sessions.is_empty());
}

#[test]
fn nothing_is_left_of_sessions_that_ended() {
    let mut gateway = Gateway::new();
    let history = three(&mut gateway, &With { conversation: Some("c"), ..named("n") });
    gateway.ask(&[user("x"), calls(&["i"]), result("i", "")], &PLAIN, &calls(&["j"]));
    gateway.sessions.end_all();
    assert!(gateway.sessions.is_empty() && gateway.sessions.index.is_empty() && gateway.sessions.order.is_empty());
    assert_eq!(gateway.ask(&history, &PLAIN, &assistant("a")).relation, Opens);
}

/// Two conversations with equal last answers, of which the first has ended: by idle time, or by a word of its client.
fn one_of_two_ended(first: &[Message], answers: [&Message; 2], by_client: bool) -> Gateway {
    let mut gateway = Gateway::new();
    gateway.ask(first, &named("n"), answers[0]);
    let idle = SessionsLimits::default().idle_ms;
    gateway.now += idle / 2;
    gateway.ask(&[user("two")], &PLAIN, answers[1]);
    match by_client {
        true => assert_eq!(gateway.sessions.end(("", None), "n").len(), 1),
        false => {
            gateway.now += idle / 2 + 1;
            assert_eq!(gateway.sessions.expire(gateway.now).len(), 1);
        }
    }
    gateway
}

#[test]
fn a_conversation_that_may_continue_one_that_ended_lately_is_marked() {
    let answer = assistant("an answer that two agents were given, long enough to tell a conversation");
    let cut = [user("(cut)"), answer.clone(), user("more")];
    let check = |by_client: bool, later: u64, expect: ((u32, u32, Relation), u32)| {
        let mut gateway = one_of_two_ended(&[user("one")], [&answer, &answer], by_client);
        gateway.now += later;
        let placed = gateway.ask(&cut, &PLAIN, &assistant("ok"));
        assert_eq!((at(&placed), placed.candidates), expect);
    };
    check(false, 0, ((3, 0, Opens), 2));
    // Its client ended it, so it does not go on.
    check(true, 0, ((2, 1, Continues), 1));
    let whole = [user("two"), answer.clone(), user("more")];
    let ask = |gateway: &mut Gateway| gateway.ask(&whole, &PLAIN, &assistant("ok"));
    let placed = ask(&mut one_of_two_ended(&[user("two")], [&answer, &answer], false));
    assert_eq!((at(&placed), placed.candidates), ((2, 1, Continues), 2), "equal histories");
    let placed = ask(&mut one_of_two_ended(&[user("one")], [&answer, &answer], false));
    assert_eq!((at(&placed), placed.candidates), ((2, 1, Continues), 1), "its history is another one");
}

#[test]
fn an_id_that_a_session_issued_that_ended_lately_is_no_evidence() {
    let asked = [user("other"), calls(&["call-0"]), result("call-0", "ok")];
    let ask = |gateway: &mut Gateway| {
        let placed = gateway.ask(&asked, &PLAIN, &assistant("done"));
        (at(&placed), placed.evidence)
    };
    let same = calls(&["call-0"]);
    let mut gateway = one_of_two_ended(&[user("one")], [&same, &same], false);
    assert_eq!(ask(&mut gateway), ((3, 0, Opens), Evidence::Nothing));
    let mut gateway = one_of_two_ended(&[user("one")], [&calls(&["call-7"]), &same], false);
    assert_eq!(ask(&mut gateway), ((2, 1, Continues), Evidence::IssuedId));
}

#[test]
fn sessions_that_ended_are_remembered_for_the_idle_time() {
    let answer = assistant("an answer that two agents were given, long enough to tell a conversation");
    let mut gateway = one_of_two_ended(&[user("one")], [&answer, &answer], false);
    assert!(!gateway.sessions.ended.is_empty());
    gateway.now += SessionsLimits::default().idle_ms;
    gateway.sessions.expire(gateway.now);
    gateway.now += SessionsLimits::default().idle_ms;
    gateway.sessions.expire(gateway.now);
    assert!(gateway.sessions.ended.is_empty() && gateway.sessions.is_empty());
    let mut full = Gateway::with(SessionsLimits { sessions: 2, ..SessionsLimits::default() });
    (0..10).for_each(|number| drop(full.ask(&[user(&format!("q{number}"))], &PLAIN, &answer)));
    assert_eq!(full.sessions.len(), 2);
    let placed = full.ask(&[user("(cut)"), answer, user("more")], &PLAIN, &assistant("ok"));
    assert_eq!(placed.candidates, 4, "two are open, and two that ended are remembered");
}

#[test]
fn a_session_with_too_many_turns_goes_on_in_another_one() {
    let mut gateway = Gateway::with(SessionsLimits { turns: 2, ..SessionsLimits::default() });
    let mut history = vec![user("q")];
    let mut places = Vec::new();
    for turn in 0..5 {
        let answer = assistant(&format!("a{turn}"));
        places.push(at(&gateway.ask(&history, &PLAIN, &answer)));
        history.extend([answer, user("next")]);
    }
    assert_eq!(places, [(1, 0, Opens), (1, 1, Continues), (2, 0, Branches), (2, 1, Continues), (3, 0, Branches)]);
}

/// A gateway that was started again after three turns of the session `n`, and the history that follows them.
fn started_again() -> (Gateway, Vec<Message>) {
    let mut before = Gateway::new();
    let history = three(&mut before, &named("n"));
    let turns: Vec<TurnMarks> = before.sessions.sessions[&1].turns.to_vec();
    let mut after = Gateway::new();
    let known = Marks::of(&after.key, &history, &[]).messages;
    let client =
        ClientSession { owner: String::new(), user: None, named: Some("n".into()), conversation: None, group: None };
    let restored = Restored { client, label: 7, name: Some("n".into()), exchanges: 3, turns, issued: vec![], known };
    after.sessions.restore(restored, 0);
    (after, history)
}

#[test]
fn restored_sessions_continue() {
    let (mut after, history) = started_again();
    let placed = after.ask(&history, &PLAIN, &assistant("a4"));
    assert_eq!((at(&placed), placed.position, placed.evidence), ((7, 3, Continues), 3, Evidence::History));
    assert_eq!(after.ask(&[user("x")], &named("n"), &assistant("a5")).label, 7);
}

#[test]
fn a_restored_session_that_is_named_goes_on_with_another_history() {
    let (mut after, _) = started_again();
    let placed = after.ask(&[user("(a summary)"), user("x")], &named("n"), &assistant("a4"));
    assert_eq!((at(&placed), placed.position), ((7, 3, Continues), 3));
}

#[test]
fn a_session_that_ended_with_other_tools_is_not_meant() {
    let answer = assistant("an answer that two agents were given, long enough to tell a conversation");
    let idle = SessionsLimits::default().idle_ms;
    let check = |tools: &[&'static str], expect: u32| {
        let mut gateway = Gateway::new();
        gateway.ask(&[user("two")], &With { tools: tools.to_vec(), ..named("n") }, &answer);
        gateway.now += idle / 2;
        gateway.ask(&[user("two")], &PLAIN, &answer);
        gateway.now += idle / 2 + 1;
        assert_eq!(gateway.sessions.expire(gateway.now).len(), 1);
        let placed = gateway.ask(&[user("two"), answer.clone(), user("more")], &PLAIN, &assistant("ok"));
        assert_eq!((at(&placed), placed.candidates), ((2, 1, Continues), expect), "{tools:?}");
    };
    check(&[], 2);
    check(&["search"], 1);
}
