//! Token requests of a tiny model.

use super::*;
use crate::device::ComputeDevice;
use crate::train::{OptimizerSettings, Schedule, Sequence, Trained, Trainer};
use crate::{ModelFolder, TinyModel};
use clawhost_core::TokenSampling;

fn folder() -> ModelFolder {
    TinyModel { seed: 4, ..TinyModel::default() }.make().unwrap()
}

fn calls() -> TokenCalls {
    TokenCalls::new(folder().open("tiny", &ComputeDevice::processor()).unwrap())
}

/// Tokens from a seed, without the end token.
fn text(length: u32, salt: u32) -> Vec<u32> {
    (0..length).map(|place| (place * 7 + salt * 11 + 3) % 15).collect()
}

fn request(prompt: &[u32]) -> TokenRequest {
    TokenRequest { prompt: prompt.to_vec(), max_tokens: 12, seed: 5, alternatives: 3, ..TokenRequest::default() }
}

fn logprobs(tokens: &[ScoredToken]) -> Vec<f64> {
    tokens.iter().filter_map(|token| token.logprob).collect()
}

#[tokio::test]
async fn scores_equal_those_that_training_computes() {
    let (folder, calls) = (folder(), calls());
    let tokens = text(40, 1);
    let found = calls.score(&tokens, 2).await.unwrap();
    let (config, host) = (Arc::new(folder.config.clone()), &folder.weights);
    let (settings, schedule) = (OptimizerSettings::default(), Schedule::constant(1e-3));
    let trainer = Trainer::on_processor(config, host, Trained::Full, settings, schedule);
    let mask: Vec<bool> = (0..tokens.len()).map(|place| place > 0).collect();
    let right = trainer.scores(&[&Sequence::new(tokens.clone(), &mask, 1.0).unwrap()]).unwrap();
    let found_logprobs = logprobs(&found.tokens);
    assert_eq!(found_logprobs.len(), tokens.len() - 1);
    for (found, right) in found_logprobs.iter().zip(&right[0].logprobs) {
        assert!((found - right).abs() < 1e-5, "{found} {right}");
    }
    assert_eq!((found.tokens[0].logprob, found.tokens[0].alternatives.len()), (None, 0));
    for token in found.tokens.iter().skip(1) {
        let [first, second] = [0, 1].map(|place| token.alternatives[place].logprob);
        assert!(first >= second && first >= token.logprob.unwrap(), "{token:?}");
    }
    assert_eq!(found.model.version, calls.model().version);
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_do_not_depend_on_other_requests() {
    let calls = Arc::new(calls());
    let right = calls.score(&text(50, 0), 2).await.unwrap();
    let tasks: Vec<_> = (0..12u32)
        .map(|number| {
            let calls = calls.clone();
            tokio::spawn(async move {
                let prompt = text(50, number % 3);
                calls.sample(&request(&prompt), None).await.unwrap();
                (number, calls.score(&prompt, 2).await.unwrap())
            })
        })
        .collect();
    for task in tasks {
        let (number, found) = task.await.unwrap();
        assert_eq!(found == right, number % 3 == 0);
    }
}

#[tokio::test]
async fn a_sampled_answer_has_the_scores_of_its_tokens() {
    let calls = calls();
    for temperature in [0.0, 1.0] {
        let sampling = TokenSampling { temperature: Some(temperature), ..TokenSampling::default() };
        let answer = calls.sample(&TokenRequest { sampling, ..request(&text(9, 2)) }, None).await.unwrap();
        let ids: Vec<u32> = answer.tokens.iter().map(|token| token.id).collect();
        assert_eq!(answer.record.tokens, ids);
        assert_eq!(answer.versions.iter().map(|part| part.tokens).sum::<usize>(), ids.len());
        let scores = calls.score(&[text(9, 2), ids].concat(), 3).await.unwrap();
        for (sampled, scored) in answer.tokens.iter().zip(&scores.tokens[9..]) {
            assert!((sampled.logprob.unwrap() - scored.logprob.unwrap()).abs() < 1e-5);
            assert_eq!(sampled.alternatives, scored.alternatives);
            let beside = sampled.alternatives.iter().find(|other| other.id == sampled.id);
            assert!(beside.is_none_or(|other| Some(other.logprob) == sampled.logprob), "{sampled:?}");
            let sampled = sampled.logprob_sampled.unwrap();
            assert!(if temperature > 0.0 { (sampled - scored.logprob.unwrap()).abs() < 1e-5 } else { sampled == 0.0 });
        }
    }
}

#[tokio::test]
async fn equal_seeds_give_equal_answers_and_choices_differ() {
    let calls = calls();
    let ask = async |seed, choice| {
        let answer = calls.sample(&TokenRequest { seed, choice, ..request(&text(9, 2)) }, None).await.unwrap();
        answer.record.tokens
    };
    assert_eq!(ask(1, 0).await, ask(1, 0).await);
    assert_ne!(ask(1, 0).await, ask(1, 1).await);
    assert_ne!(ask(1, 0).await, ask(2, 0).await);
}

#[tokio::test]
async fn a_streamed_answer_equals_the_whole_one() {
    let calls = calls();
    let wanted = TokenRequest { stop: vec!["77777".into()], ..request(&text(9, 2)) };
    let whole = calls.sample(&wanted, None).await.unwrap();
    let (mut heard, mut tokens) = (String::new(), Vec::new());
    let mut sink = |delta: TokenDelta| {
        heard.push_str(&delta.text);
        tokens.extend(delta.tokens);
        ControlFlow::Continue(())
    };
    let streamed = calls.sample(&wanted, Some(&mut sink)).await.unwrap();
    assert_eq!(streamed, whole);
    assert_eq!((&tokens, heard.as_str()), (&whole.tokens, whole.text.as_str()));
    let stopped = calls.sample(&wanted, Some(&mut |_: TokenDelta| ControlFlow::Break(()))).await;
    assert_eq!(stopped.unwrap_err(), ModelError::Stopped);
}

#[tokio::test]
async fn an_answer_ends_by_tokens_texts_and_limits() {
    let calls = calls();
    let greedy = TokenSampling { temperature: Some(0.0), ..TokenSampling::default() };
    let wanted = TokenRequest { sampling: greedy, ..request(&text(9, 2)) };
    let free = calls.sample(&wanted, None).await.unwrap();
    let check = async |request: TokenRequest, tokens: usize, finish: TokenFinish| {
        let answer = calls.sample(&request, None).await.unwrap();
        assert_eq!((answer.tokens.len(), &answer.finish), (tokens, &finish));
        assert_eq!(answer.record.tokens, free.record.tokens[..tokens]);
        answer.text
    };
    let first = free.record.tokens[0];
    let token = TokenRequest { stop_tokens: vec![first], ..wanted.clone() };
    assert_eq!(check(token, 1, TokenFinish::StopToken(first)).await, "", "a stop token has no text");
    let stop = free.tokens[0].text.clone();
    let text = TokenRequest { stop: vec![String::new(), stop.clone()], ..wanted.clone() };
    assert_eq!(check(text, 1, TokenFinish::StopText(stop)).await, "");
    let two = TokenRequest { max_tokens: 2, ..wanted.clone() };
    assert_eq!(check(two, 2, TokenFinish::Length).await.chars().count(), 2);
}

#[tokio::test]
async fn the_context_bounds_prompts_and_answers() {
    let calls = calls();
    let context = calls.context();
    let nothing = TokenSampling { temperature: Some(0.0), ..TokenSampling::default() };
    let long = TokenRequest { max_tokens: u32::MAX, sampling: nothing, ..request(&text(context as u32 - 3, 2)) };
    assert!(calls.sample(&long, None).await.unwrap().tokens.len() <= 3);
    assert_eq!(calls.score(&text(context as u32, 2), 0).await.unwrap().tokens.len(), context);
    let too_long = calls.score(&text(context as u32 + 1, 2), 0).await.unwrap_err();
    assert!(matches!(too_long, ModelError::TooLong(_)), "{too_long}");
    let too_long = calls.sample(&request(&text(context as u32, 2)), None).await.unwrap_err();
    assert!(matches!(too_long, ModelError::TooLong(_)), "{too_long}");
    assert!(calls.score(&[1, 16], 0).await.unwrap_err().to_string().contains("the model knows 16"));
}

#[tokio::test]
async fn texts_become_tokens_and_texts_again() {
    let calls = calls();
    let tokens = calls.tokenize("12+3=", true).await.unwrap();
    assert_eq!((tokens.as_slice(), calls.vocabulary()), (&[1, 2, 10, 3, 11][..], 16));
    assert_eq!(calls.detokenize(&tokens).await.unwrap(), "12+3=");
    assert_eq!(calls.token_texts(&tokens).await.unwrap(), ["1", "2", "+", "3", "="]);
}

#[tokio::test]
async fn requests_beyond_the_memory_wait_and_none_is_refused() {
    let model = folder().open("tiny", &ComputeDevice::processor()).unwrap();
    let calls = TokenCalls { places: Semaphore::new(30), most: 30, model };
    let held = calls.place(30).await.unwrap();
    let mut asked = Box::pin(calls.score(&[1, 2, 3], 0));
    assert!(waits(asked.as_mut()).await, "there is no memory for it");
    drop(held);
    assert_eq!(asked.await.unwrap().tokens.len(), 3);
    // More than there ever is: it gets all of it.
    assert_eq!(calls.sample(&request(&text(40, 1)), None).await.unwrap().record.prompt.len(), 40);
    assert_eq!(calls.places.available_permits(), 30);
}

/// Whether a future waits after it was polled once.
async fn waits<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn requests_share_keys_and_values_within_their_partition_alone() {
    let calls = calls();
    let [a, b] = ["a", "b"].map(Partition::of_client);
    let asked = |prompt: &[u32], partition| TokenRequest { partition, ..request(prompt) };
    let first = calls.sample(&asked(&text(30, 2), a), None).await.unwrap();
    let longer = [text(30, 2), first.record.tokens, vec![3]].concat();
    let reused = async |partition| {
        let asked = calls.request(&asked(&longer, partition));
        calls.engine().ask(asked).await.unwrap().reused
    };
    assert_eq!((reused(b).await, reused(Partition::OWN).await), (0, 0));
    assert!(reused(a).await >= 30);
    let answers = [a, b].map(|partition| asked(&longer, partition));
    let [of_a, of_b] = [calls.sample(&answers[0], None).await.unwrap(), calls.sample(&answers[1], None).await.unwrap()];
    assert_eq!(of_a, of_b, "sharing changes no bit");
}
