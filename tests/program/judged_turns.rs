//! A judge of turns beside an outcome, from the command line.

use super::*;
use crate::stub::{Stub, chat};
use clawhost_model::TinyModel;
use std::sync::{Arc, Mutex};

/// Whether the judge likes the last answer in its material: it ends with an even digit.
fn is_liked(material: &str) -> bool {
    let answer = material.lines().rfind(|line| line.starts_with("[agent]")).unwrap_or_default();
    answer.trim_end().ends_with(['0', '2', '4', '6', '8'])
}

/// A judge that cannot tell anything about an episode, and likes some turns. It notes its votes.
fn judge(votes: Arc<Mutex<Vec<bool>>>) -> Stub {
    Stub::start(move |_, request| {
        let text = request.body["messages"][1]["content"].as_str().unwrap();
        if !text.contains("Judge turn") {
            return chat("\\boxed{0}");
        }
        let liked = is_liked(text);
        votes.lock().unwrap().push(liked);
        chat(if liked { "good \\boxed{1}" } else { "bad \\boxed{-1}" })
    })
}

#[test]
fn turns_learn_from_their_judge_and_the_outcome_stays_that_of_the_episode() {
    let Some(bench) = Bench::new("turns_learn_from_their_judge") else { return };
    let model = bench.data.path().join("tiny");
    TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap().write(&model).unwrap();
    // Nobody guesses a number of this size, so all outcomes are equal.
    let plugin = format!("{}?size=1000000&guesses=3&talk=terse", bench.guest("env_guess"));
    let outcome = format!("{}?name=distance&equals=0&absent=0", bench.guest("reward_signal"));
    let judged = format!("{}?votes=1&turns=judge", bench.guest("reward_judge"));
    let learned = |credit: &[&str]| {
        let votes = Arc::new(Mutex::new(Vec::new()));
        let stub = judge(votes.clone());
        let (grant, model) = (format!("llm:judge=openai:m@{}", stub.base_url()), model.display().to_string());
        let words = ["learn", &plugin, "--layer", "weights", "--model", &model, "--seed", "7", "-q"];
        let rewards = ["--reward", &outcome, "--reward", &judged, "--grant", &grant];
        let few = ["--episodes", "32", "--group", "8", "--max-tokens", "2", "--refills", "0", "--warmup", "0"];
        let looks = ["--test-pairs", "0", "--evaluate-every", "0"];
        let shown = ["--demonstrations", "demonstrate=clumsy", "--demonstrations-steps", "10"];
        let all = [&words[..], &rewards, &few, &looks, &shown, credit].concat();
        let (document, _) = without_timing(bench.json(&all));
        let votes = votes.lock().unwrap().clone();
        let share = |part: &[bool]| part.iter().filter(|liked| **liked).count() as f64 / part.len() as f64;
        let third = votes.len() / 3;
        (document, share(&votes[..third]), share(&votes[2 * third..]))
    };
    // The judge's votes decide nothing about episodes: an outcome is there.
    let (by_episode, ..) = learned(&["--credit", "episode", "--iterations", "3"]);
    assert_eq!(by_episode["learn"]["learned"], 0, "equal outcomes teach nothing");
    let (by_turn, first, last) =
        learned(&["--credit", "judge", "--credit-weight", "0.5", "--iterations", "20", "--rate", "0.005"]);
    assert!(by_turn["learn"]["learned"].as_u64() > Some(10), "{}", by_turn["learn"]["learned"]);
    assert_ne!(by_episode["weights"]["after"], by_turn["weights"]["after"]);
    assert!(last > first + 0.15, "the share of turns that the judge likes: {first}, then {last}");
    let shown = bench.json(&["episodes", "list", "--limit", "1"]);
    let episode = bench.json(&["episodes", "show", shown[0]["id"].as_str().unwrap()]);
    assert_eq!(episode["reward"], 0.0, "the outcome");
    let per_turn = episode["verdicts"][1]["verdict"]["scored"]["per_turn"].as_array().unwrap();
    assert_eq!(per_turn.len(), episode["turns"].as_array().unwrap().len());
}

#[test]
fn credit_by_a_judge_that_says_nothing_of_turns_is_refused_with_a_reason() {
    let Some(bench) = Bench::new("a_judge_that_says_nothing_of_turns") else { return };
    let model = bench.data.path().join("tiny");
    TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap().write(&model).unwrap();
    let plugin = format!("{}?size=10&guesses=2&talk=terse", bench.guest("env_guess"));
    let model = model.display().to_string();
    let words = ["learn", &plugin, "--layer", "weights", "--model", &model, "--max-tokens", "2", "--credit", "judge"];
    let few = ["--iterations", "1", "--episodes", "16", "--test-pairs", "0", "--evaluate-every", "0", "--refills", "0"];
    let told = bench.run(&[&words[..], &few].concat());
    let told = format!("{}{}", stdout(&told), stderr(&told));
    assert!(told.contains("no reward scored the turns of any episode"), "{told}");
    let alone = ["--credit-weight", "0.5"];
    bench.refused(&[&words[..8], &alone].concat(), &["--credit-weight: needs --credit turn or judge"]);
}
