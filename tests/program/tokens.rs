//! A served local model as a teacher: it scores texts, and generates token ids.

use super::*;
use crate::client::send;
use crate::serving::Served;
use serde_json::json;

fn ask(served: &Served, path: &str, body: &Value) -> Value {
    let answer = send(&served.address, path, &[], body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[test]
fn a_served_local_model_scores_what_it_generated() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let folder = bench.data.path().join("tiny").display().to_string();
    bench.out(&["model", "init", &folder, "--width", "16", "--context", "32", "--alphabet", "0123456789+=<>?#"]);
    let served = Served::start(&bench, &[&format!("tiny=local:{folder}")]);
    let prompt = ask(&served, "/tokenize", &json!({"prompt": "12+3="}))["tokens"].clone();
    let params = json!({"max_tokens": 8, "temperature": 1.0, "seed": 3});
    let generated = ask(&served, "/generate", &json!({"prompt_ids": prompt, "sampling_params": params}));
    let ids = |value: &Value| value.as_array().unwrap().clone();
    let (tokens, logprobs) = (ids(&generated["token_ids"]), ids(&generated["log_probs"]));
    assert!(!tokens.is_empty() && tokens.len() == logprobs.len(), "{generated}");
    let all = [ids(&prompt), tokens.clone()].concat();
    let scored = json!({"model": "tiny", "prompt": all, "echo": true, "max_tokens": 0, "logprobs": 1});
    let scored = ask(&served, "/v1/completions", &scored);
    let scores = ids(&scored["choices"][0]["logprobs"]["token_logprobs"]);
    assert_eq!((scores.len(), &scores[0]), (all.len(), &Value::Null));
    for (scored, sampled) in scores[scores.len() - logprobs.len()..].iter().zip(&logprobs) {
        assert!((scored.as_f64().unwrap() - sampled.as_f64().unwrap()).abs() < 1e-5, "{scored} {sampled}");
    }
    assert_eq!(generated["weights"], scored["system_fingerprint"]);
    let output = served.terminate();
    assert!(stderr(&output).contains("recorded 1 exchanges"), "scores are no turn: {}", stderr(&output));
}
