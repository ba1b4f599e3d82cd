//! Conversations become episodes, for any client.

use crate::client::{assistant, chat, post, send, user};
use crate::stub::{Received, Reply, Stub, events, says};
use crate::{Bench, served, turns};
use clawhost_core::{Clock as _, Ending, EpisodeState, Expectation, KnownSecrets, RewardSource};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::time::Duration;

/// A model that repeats the last message.
fn echo() -> Stub {
    Stub::start(|_, request| {
        let last = request.conversation().pop().map(|(_, text)| text).unwrap_or_default();
        says(request, &format!("echo {last}"), &[])
    })
}

const CHAT: &str = "/v1/chat/completions";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_any_header_gives_one_episode() {
    let stub = echo();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let mut history = vec![json!({"role": "system", "content": "be brief"}), user("one")];
    let first = post(&bench.address, CHAT, &[], &chat(&history)).await;
    assert_eq!((first.status, first.json()["choices"][0]["message"]["content"].as_str()), (200, Some("echo one")));
    history.extend([assistant("echo one"), user("two")]);
    let second = post(&bench.address, CHAT, &[], &chat(&history)).await;
    assert_eq!(second.header("x-clawhost-session"), first.header("x-clawhost-session"));
    assert_eq!(second.header("x-clawhost-episode"), first.header("x-clawhost-episode"));
    assert_eq!(second.header("x-clawhost-model"), "stub");
    bench.stop().await;
    let open = bench.open();
    assert_eq!((open.len(), open[0].turns, open[0].is_complete), (1, 2, true));
    let episodes = bench.episodes().await;
    let said = |text: &str| vec![text.to_owned()];
    assert_eq!(turns(&episodes[0]), [(said("one"), "echo one".into()), (said("two"), "echo two".into())]);
    assert_eq!((episodes.len(), &episodes[0].ending), (1, &Ending::Terminated));
    assert_eq!(episodes[0].policy.system_prompt.as_deref(), Some("be brief"));
    assert_eq!(first.header("x-clawhost-episode"), format!("{}/{}", episodes[0].run, episodes[0].id));
    assert_eq!((episodes[0].turns[0].usage.prompt_tokens, episodes[0].turns[0].usage.completion_tokens), (10, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_equal_conversations_at_once_are_sixteen_episodes() {
    let stub = echo();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let mut history = vec![user("hi")];
    for turn in 0..3 {
        let body = chat(&history);
        let asked = (0..16).map(|_| post(&bench.address, CHAT, &[], &body));
        let mut sessions = Vec::new();
        for answer in join(asked).await {
            assert_eq!(answer.status, 200);
            sessions.push(answer.header("x-clawhost-session").to_owned());
        }
        sessions.sort();
        sessions.dedup();
        assert_eq!(sessions.len(), 16, "turn {turn}");
        let last = history.last().unwrap()["content"].as_str().unwrap().to_owned();
        history.extend([assistant(&format!("echo {last}")), user(&format!("next {turn}"))]);
    }
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 16);
    assert!(episodes.iter().all(|episode| episode.turns.len() == 3 && turns(episode) == turns(&episodes[0])));
}

/// All of them at the same time.
async fn join<T: Send + 'static>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    // Each has its own thread: polling one after the other starts them all.
    let mut waiting = Vec::new();
    for mut one in pinned.drain(..) {
        match std::future::poll_fn(|context| std::task::Poll::Ready(one.as_mut().poll(context))).await {
            std::task::Poll::Ready(value) => done.push(value),
            std::task::Poll::Pending => waiting.push(one),
        }
    }
    for one in waiting {
        done.push(one.await);
    }
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_tool_calls_and_their_results_are_one_turn() {
    let stub = Stub::start(|number, request| match number {
        0 => says(request, "", &[("a", "look", "{\"x\": 1}"), ("b", "look", "{\"x\":2}")]),
        _ => says(request, "three", &[]),
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let call = |id: &str, x: u32| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": json!({"x": x}).to_string()}});
    let result = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let mut history = vec![user("add")];
    post(&bench.address, CHAT, &[], &chat(&history)).await;
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [call("a", 1), call("b", 2)]});
    history.extend([calls, result("b", "two"), result("a", "one")]);
    post(&bench.address, CHAT, &[], &chat(&history)).await;
    let episodes = bench.episodes().await;
    assert_eq!((episodes.len(), episodes[0].turns.len()), (1, 2));
    let results: Vec<String> = episodes[0].turns[0].tool_results.iter().map(|result| result.plain_text()).collect();
    assert_eq!(results, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_turn_and_a_cut_history_are_told_apart() {
    let stub = echo();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let long = |text: &str| format!("{text}: a message that is long enough to be told from others by itself");
    let mut history = vec![user(&long("one"))];
    for text in ["two", "three", "four"] {
        let answer = post(&bench.address, CHAT, &[], &chat(&history)).await.json();
        history.extend([answer["choices"][0]["message"].clone(), user(&long(text))]);
    }
    // The beginning is cut off.
    post(&bench.address, CHAT, &[], &chat(&history[2..])).await;
    // The third message of the user is another one.
    let edited = [&history[..4], &[user("something else")]].concat();
    let branch = post(&bench.address, CHAT, &[], &chat(&edited)).await;
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 2);
    assert_eq!((episodes[0].turns.len(), episodes[1].turns.len()), (4, 1));
    assert_eq!(turns(&episodes[0])[3].0, [long("four")], "what was recorded is not recorded again");
    assert!(episodes[0].log[0].contains("cut or rewrote"), "{:?}", episodes[0].log);
    assert_eq!(turns(&episodes[1])[0].0.len(), 5, "a branch observes everything before it");
    assert!(
        episodes[1].log[0].contains("a branch of") && episodes[1].log[0].contains("turn 2"),
        "{:?}",
        episodes[1].log
    );
    assert_eq!(branch.header("x-clawhost-episode"), format!("{}/{}", episodes[1].run, episodes[1].id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_named_ends_when_it_is_told_to() {
    let stub = echo();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let by_path = post(&bench.address, "/s/job-7/v1/chat/completions", &[], &chat(&[user("one")])).await;
    let by_header = post(&bench.address, CHAT, &[("x-session-id", "job-7")], &chat(&[user("two")])).await;
    for answer in [&by_path, &by_header] {
        assert_eq!(answer.header("x-clawhost-session"), "job-7");
    }
    assert_eq!(post(&bench.address, "/s/job-8/end", &[], &json!({})).await.status, 404);
    let ended = post(&bench.address, "/s/job-7/end", &[], &json!({})).await;
    assert_eq!((ended.status, ended.json()["ended"].as_u64()), (200, Some(1)));
    bench.stop().await;
    assert!(bench.open().is_empty(), "it is an episode by the end of the gateway at the latest");
    let episodes = bench.episodes().await;
    assert_eq!((episodes.len(), episodes[0].turns.len(), episodes[0].task.id.as_str()), (1, 2, "job-7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_after_its_idle_time() {
    let stub = echo();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    post(&bench.address, CHAT, &[], &chat(&[user("one")])).await;
    bench.clock.advance(Duration::from_secs(29 * 60));
    post(&bench.address, CHAT, &[], &chat(&[user("other")])).await;
    bench.clock.advance(Duration::from_secs(2 * 60));
    // The end takes records over, and looks at the sessions.
    bench.stop().await;
    assert_eq!(bench.open().len(), 1, "the first one was idle for 31 minutes");
    assert_eq!(bench.episodes().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_after_a_restart() {
    let stub = echo();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let first = post(&bench.address, CHAT, &[], &chat(&[user("one")])).await;
    for is_killed in [false, true] {
        match is_killed {
            true => bench.kill(),
            false => drop(bench.stop().await),
        }
        bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], KnownSecrets::default(), |_| {}).await;
        let history = [user("one"), assistant("echo one"), user("two")];
        let next = post(&bench.address, CHAT, &[], &chat(&history)).await;
        let is_same = next.header("x-clawhost-session") == first.header("x-clawhost-session");
        assert_eq!(is_same, !is_killed, "the second time it repeats what was answered");
    }
    let episodes = bench.episodes().await;
    let numbers: Vec<usize> = episodes.iter().map(|episode| episode.turns.len()).collect();
    assert_eq!(numbers, [2, 1], "the second one repeats the second turn of the first");
    assert!(episodes[1].log[0].contains("a repetition of"), "{:?}", episodes[1].log);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_asks_for_once_is_asked_once() {
    let stub = Stub::start(|_, _| Reply::Http(503, vec![], "{\"error\":{\"message\":\"overloaded\"}}".into()));
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    assert_eq!(post(&bench.address, CHAT, &[], &chat(&[user("hi")])).await.status, 503);
    assert_eq!(stub.requests().len(), 1, "clients retry by themselves");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_after_the_end_of_its_session_is_an_episode_of_its_own() {
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let waits = std::sync::Mutex::new(Some(waits));
    let stub = Stub::start(move |number, request: &Received| {
        if number != 1 {
            return says(request, "ok", &[]);
        }
        let waits = waits.lock().unwrap().take().unwrap();
        let mut events = events(request, "late", &[]).into_iter().map(String::into_bytes);
        let first = events.next();
        let wait = std::iter::once_with(move || {
            waits.recv().unwrap();
            Vec::new()
        });
        Reply::Stream { fragments: Box::new(first.into_iter().chain(wait).chain(events)), ends: true }
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let session = [("x-clawhost-session", "s")];
    let ask = |messages: Vec<Value>, streams: bool| json!({"model": "m", "max_tokens": 9, "stream": streams, "messages": messages});
    assert_eq!(post(&bench.address, CHAT, &session, &ask(vec![user("one")], false)).await.status, 200);
    let body = ask(vec![user("one"), assistant("ok"), user("two")], true).to_string();
    let mut sent = send(&bench.address, CHAT, &session, body.as_bytes());
    sent.read_until("data: ");
    let ended = post(&bench.address, "/s/s/end", &[], &json!({})).await;
    assert_eq!(ended.json()["ended"], 1);
    // When feedback is answered, what had ended before is recorded.
    assert_eq!(post(&bench.address, "/v1/feedback", &[], &json!({"session": "s", "score": 1})).await.status, 200);
    go_on.send(()).unwrap();
    assert!(sent.rest().contains("[DONE]"));
    bench.stop().await;
    bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], KnownSecrets::default(), |_| {}).await;
    assert_eq!(bench.open().len(), 0, "nothing is open again");
    assert_eq!(post(&bench.address, CHAT, &session, &ask(vec![user("three")], false)).await.status, 200);
    let episodes = bench.episodes().await;
    let said: Vec<Vec<(Vec<String>, String)>> = episodes.iter().map(turns).collect();
    let turn = |said: &str, answer: &str| vec![(vec![said.to_owned()], answer.to_owned())];
    assert_eq!(said, [turn("one", "ok"), turn("two", "late"), turn("three", "ok")]);
    assert!(episodes[1].log[0].starts_with("a branch of run-"), "{:?}", episodes[1].log);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_waits_for_the_verdicts_that_are_expected_and_a_side_turn_for_none() {
    let stub = echo();
    let mut bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], |config| {
        config.expects = vec![Expectation { source: RewardSource::Judge, within_ms: 600_000 }];
    })
    .await;
    let named = ("x-clawhost-session", "s");
    post(&bench.address, CHAT, &[named], &chat(&[user("one")])).await;
    post(&bench.address, CHAT, &[named, ("x-turn-type", "side")], &chat(&[user("a title for: one")])).await;
    assert_eq!(post(&bench.address, "/s/s/end", &[], &json!({})).await.status, 200);
    let episodes = bench.episodes().await;
    let now = bench.clock.now_ms();
    // Deadlines are whole minutes.
    let until = now.next_multiple_of(60_000) + 600_000;
    assert_eq!(episodes[0].state(now), EpisodeState::Pending { until });
    assert_eq!(episodes[0].state(until), EpisodeState::Decided);
    assert_eq!((episodes[1].expects.len(), episodes[1].state(now)), (0, EpisodeState::Decided));
}
