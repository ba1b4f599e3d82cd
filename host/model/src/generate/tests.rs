//! Answers do not depend on other requests, on kept caches, or on later weights.

use super::{Answer, Engine, Finish, Request, Room, Sampling, Version};
use crate::cpu::CpuModel;
use crate::cpu::tests::config;
use crate::{Architecture, digest, initial};
use clawhost_core::Partition;
use std::sync::{Arc, Mutex};

fn version(number: u64) -> Version {
    let config = Arc::new(config(Architecture::Qwen3));
    let host = initial(&config, number);
    Version { number, digest: digest(&host), model: CpuModel::new(config, &host).into() }
}

fn request(seed: u64, length: u32) -> Request {
    Request {
        prompt: (0..length).map(|place| (place * 13 + 5) % 61).collect(),
        sampling: Sampling::default(),
        seed,
        choice: 0,
        max_tokens: 24,
        alternatives: 0,
        grammar: None,
        end: vec![60],
        partition: Partition::OWN,
    }
}

/// The parts of an answer that do not depend on caches.
fn said(answer: Answer) -> (Vec<super::Drawn>, Finish, u64) {
    (answer.tokens, answer.finish, answer.version)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_the_same_alone_in_a_batch_and_after_a_cached_prefix() {
    let alone = Engine::new(version(1)).unwrap();
    let right = said(alone.ask(request(7, 30)).await.unwrap());
    assert_eq!(right.0, said(alone.ask(request(7, 30)).await.unwrap()).0, "behind a prefix");

    let crowd = Arc::new(Engine::new(version(1)).unwrap());
    let others: Vec<_> = (0..15u64)
        .map(|number| {
            let crowd = crowd.clone();
            tokio::spawn(async move { crowd.ask(request(number + 100, 3 + 5 * number as u32)).await.unwrap() })
        })
        .collect();
    let twins: Vec<_> = (0..4)
        .map(|_| {
            let crowd = crowd.clone();
            tokio::spawn(async move { said(crowd.ask(request(7, 30)).await.unwrap()) })
        })
        .collect();
    for twin in twins {
        assert_eq!(twin.await.unwrap(), right, "among others, and with members of its group");
    }
    for other in others {
        other.await.unwrap();
    }
    // A conversation that continues reuses its cache.
    let mut longer = request(7, 30);
    longer.prompt.extend(right.0.iter().map(|token| token.token));
    longer.prompt.push(3);
    let known = alone.ask(longer.clone()).await.unwrap();
    assert!(known.reused > 30, "{} tokens were known", known.reused);
    let fresh = Engine::new(version(1)).unwrap().ask(longer).await.unwrap();
    assert_eq!((fresh.reused, said(fresh)), (0, said(known)));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_continue_while_a_hundred_versions_are_published() {
    let engine = Arc::new(Engine::new(version(0)).unwrap());
    let asking: Vec<_> = (0..4u64)
        .map(|asker| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut answers = Vec::new();
                while answers.last().is_none_or(|(_, _, version)| *version < 100) {
                    let seed = asker * 1000 + answers.len() as u64;
                    answers.push(said(engine.ask(request(seed, 5 + asker as u32)).await.unwrap()));
                }
                answers
            })
        })
        .collect();
    for number in 1..=100 {
        engine.publish(version(number));
        tokio::task::yield_now().await;
    }
    for (asker, answers) in asking.into_iter().enumerate() {
        let answers = answers.await.unwrap();
        assert!(answers.is_sorted_by_key(|(_, _, version)| *version), "later answers never use older weights");
        // Each is the answer of its version alone: no answer mixes two.
        for (place, answer) in answers.iter().enumerate().step_by(answers.len().div_ceil(4)) {
            let alone = Engine::new(version(answer.2)).unwrap();
            let seed = asker as u64 * 1000 + place as u64;
            assert_eq!(said(alone.ask(request(seed, 5 + asker as u32)).await.unwrap()), *answer);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_answers_share_the_computation_of_their_prompt() {
    for max_tokens in [1, 24] {
        let engine = Engine::new(version(1)).unwrap();
        let asked = |choice| Request { choice, max_tokens, ..request(7, 40) };
        let answers = engine.ask_many((0..4).map(|choice| (asked(choice), None)).collect()).unwrap();
        for (choice, answer) in (0..).zip(answers) {
            let answer = answer.await.unwrap().unwrap();
            assert_eq!(answer.reused, if choice == 0 { 0 } else { 39 }, "{max_tokens} tokens");
            let alone = Engine::new(version(1)).unwrap().ask(asked(choice)).await.unwrap();
            assert_eq!(said(answer), said(alone));
        }
    }
}

#[tokio::test]
async fn a_watcher_sees_every_token_and_can_end_the_answer() {
    let engine = Engine::new(version(1)).unwrap();
    let plain = Request { end: vec![], ..request(7, 30) };
    let whole = engine.ask(plain.clone()).await.unwrap();
    let (seen, sees) = std::sync::mpsc::channel();
    let mut left = 5;
    let watch = Box::new(move |drawn: &super::Drawn| {
        seen.send(drawn.clone()).unwrap();
        left -= 1;
        if left == 0 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    });
    let cut = engine.ask_watched(plain, Some(watch)).await.unwrap();
    assert_eq!((cut.finish, cut.tokens.as_slice()), (Finish::Stop, &whole.tokens[..5]));
    assert_eq!(sees.iter().collect::<Vec<_>>(), cut.tokens);
}

#[tokio::test]
async fn an_answer_ends_at_end_tokens_and_limits() {
    let engine = Engine::new(version(1)).unwrap();
    let check = async |request: Request, finish: Finish, tokens: usize| {
        let answer = engine.ask(request).await.unwrap();
        assert_eq!((answer.finish, answer.tokens.len()), (finish, tokens));
    };
    check(Request { max_tokens: 1, end: vec![], ..request(1, 9) }, Finish::Length, 1).await;
    check(Request { max_tokens: 999, end: vec![], ..request(1, 120) }, Finish::Length, 8).await;
    check(Request { end: (0..61).collect(), ..request(1, 9) }, Finish::Stop, 1).await;
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let engine = Engine::new(version(1)).unwrap();
    let check = async |request: Request, expect: &str| {
        let error = engine.ask(request).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(Request { prompt: vec![], ..request(1, 1) }, "an empty prompt").await;
    check(request(1, 128), "the prompt has 128 tokens, and the model's context holds 128; shorten it").await;
    check(Request { prompt: vec![1, 61], ..request(1, 1) }, "has the token 61; the model knows 61").await;
    engine.ask(request(1, 5)).await.unwrap();
}

#[tokio::test]
async fn caches_of_older_weights_are_not_reused() {
    let engine = Engine::new(version(1)).unwrap();
    let mut longer = request(7, 30);
    let first = engine.ask(longer.clone()).await.unwrap();
    longer.prompt.extend(first.tokens.iter().map(|token| token.token));
    longer.prompt.push(3);
    engine.publish(version(2));
    let answer = engine.ask(longer.clone()).await.unwrap();
    let fresh = Engine::new(version(2)).unwrap().ask(longer).await.unwrap();
    assert_eq!((answer.reused, said(answer)), (0, said(fresh)));
}

/// The partitions of two clients.
fn clients() -> [Partition; 2] {
    ["a", "b"].map(Partition::of_client)
}

#[tokio::test]
async fn a_cached_prefix_answers_its_own_partition_alone() {
    let engine = Engine::new(version(1)).unwrap();
    let [a, b] = clients();
    let mut longer = Request { partition: a, ..request(7, 30) };
    let first = engine.ask(longer.clone()).await.unwrap();
    longer.prompt.extend(first.tokens.iter().map(|token| token.token));
    longer.prompt.push(3);
    let check = async |partition: Partition, is_known: bool| {
        let answer = engine.ask(Request { partition, ..longer.clone() }).await.unwrap();
        assert_eq!(answer.reused > 30, is_known, "{partition:?}: {} tokens were known", answer.reused);
        assert!(is_known || answer.reused == 0);
        said(answer)
    };
    let others =
        [check(b, false).await, check(Partition::of_client(""), false).await, check(Partition::OWN, false).await];
    let own = check(a, true).await;
    assert!(others.iter().all(|other| *other == own), "sharing changes no bit");
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_share_no_prompt_in_one_batch() {
    let [a, b] = clients();
    for max_tokens in [1, 24] {
        let engine = Engine::new(version(1)).unwrap();
        let asked = |partition| Request { partition, max_tokens, ..request(7, 40) };
        let answers = engine.ask_many([a, b, a, b].map(|partition| (asked(partition), None)).into()).unwrap();
        let alone = said(Engine::new(version(1)).unwrap().ask(asked(a)).await.unwrap());
        for (answer, reused) in answers.into_iter().zip([0, 0, 39, 39]) {
            let answer = answer.await.unwrap().unwrap();
            assert_eq!(answer.reused, reused, "{max_tokens} tokens");
            assert_eq!(said(answer), alone);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_neither_waits_for_a_text_that_is_scored_nor_shares_with_it() {
    let engine = Engine::new(version(1)).unwrap();
    let scored = Request { max_tokens: 0, ..request(7, 40) };
    let (hand, handed) =
        std::sync::mpsc::channel::<tokio::sync::oneshot::Receiver<Result<Answer, crate::LocalModelError>>>();
    let (tell, told) = std::sync::mpsc::channel();
    // The first token is drawn in the round in which the text is scored, whose answer comes after it.
    let watch = Box::new(move |_: &super::Drawn| {
        let mut scoring = handed.recv().unwrap();
        tell.send(scoring.try_recv().is_err()).unwrap();
        std::ops::ControlFlow::Break(())
    });
    let mut answers = engine.ask_many(vec![(scored, None), (request(7, 40), Some(watch))]).unwrap();
    let sampling = answers.pop().unwrap();
    hand.send(answers.pop().unwrap()).unwrap();
    let sampled = sampling.await.unwrap().unwrap();
    assert_eq!((sampled.reused, sampled.tokens.len()), (0, 1));
    assert!(told.recv().unwrap(), "the text was scored first");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_memory_of_keys_and_values_wait_in_order_of_arrival() {
    // 40 tokens have keys and values for 64, 70 tokens for 128.
    let one = version(1).model.bytes_of(40);
    assert_eq!(version(1).model.bytes_of(70), 2 * one);
    let engine = Engine::within(version(1), Room::of_bytes(3 * one)).unwrap();
    let lengths = [20, 60, 21, 61, 22, 23, 62];
    let asked = |number: usize| Request { max_tokens: 10, end: vec![], ..request(number as u64, lengths[number]) };
    // Which request drew a token, in order.
    let drawn: Arc<Mutex<Vec<usize>>> = Arc::default();
    let watched = |number: usize| {
        let drawn = drawn.clone();
        let watch = move |_: &super::Drawn| {
            drawn.lock().unwrap().push(number);
            std::ops::ControlFlow::Continue(())
        };
        (asked(number), Some(Box::new(watch) as super::Watch))
    };
    let answers = engine.ask_many((0..lengths.len()).map(watched).collect()).unwrap();
    for (number, answer) in answers.into_iter().enumerate() {
        let alone = Engine::new(version(1)).unwrap().ask(asked(number)).await.unwrap();
        assert_eq!(said(answer.await.unwrap().unwrap()), said(alone), "request {number}");
    }
    // What needs more than there is is answered alone.
    let narrow = Engine::within(version(1), Room::of_bytes(1)).unwrap();
    assert_eq!(narrow.ask(asked(1)).await.unwrap().tokens.len(), 10);
    let drawn = drawn.lock().unwrap();
    let mut counts = [0; 7];
    let mut begun = Vec::new();
    for number in drawn.iter() {
        if counts[*number] == 0 {
            begun.push(*number);
        }
        counts[*number] += 1;
        let active = (0..7).filter(|number| (1..10).contains(&counts[*number]));
        let bytes: u64 = active.map(|number| version(1).model.bytes_of(lengths[number] as usize + 10)).sum();
        assert!(bytes <= 3 * one, "{bytes} bytes are active, {one} for one");
    }
    assert_eq!(begun, [0, 1, 2, 3, 4, 5, 6], "in order of arrival");
    assert_eq!(counts, [10; 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_share_what_a_round_computes_in_order_of_arrival() {
    // 256 tokens of prompts in a round.
    let engine = Engine::start(version(1), Room::of_machine(), 1).unwrap();
    let asked = |number: u64| {
        let mut request = Request { max_tokens: 3, end: vec![], ..request(number, 100) };
        request.prompt[0] = number as u32;
        request
    };
    let drawn: Arc<Mutex<Vec<u64>>> = Arc::default();
    let watched = |number: u64| {
        let drawn = drawn.clone();
        let watch = move |_: &super::Drawn| {
            drawn.lock().unwrap().push(number);
            std::ops::ControlFlow::Continue(())
        };
        (asked(number), Some(Box::new(watch) as super::Watch))
    };
    let answers = engine.ask_many((0..6).map(watched).collect()).unwrap();
    for (number, answer) in (0..).zip(answers) {
        let alone = Engine::new(version(1)).unwrap().ask(asked(number)).await.unwrap();
        assert_eq!(said(answer.await.unwrap().unwrap()), said(alone), "request {number}");
    }
    // Two prompts and a part of the third; then its rest, two more, and a part of the last.
    let expect = [0, 1, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5];
    assert_eq!(drawn.lock().unwrap()[..expect.len()], expect);
}
