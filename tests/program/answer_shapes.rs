//! Answers that parse: grammars, tool calls, reasoning and arguments of the template, on the command line and through a gateway.

use super::models::{bench, reference};
use super::*;
use crate::client::send;
use crate::serving::Served;
use serde_json::json;

/// A city, as JSON.
fn schema() -> Value {
    json!({
        "type": "object", "properties": { "city": { "enum": ["Paris", "Rome"] }, "n": { "type": "integer", "minimum": 1, "maximum": 9 } },
        "required": ["city", "n"], "additionalProperties": false,
    })
}

fn is_of_schema(text: &str) -> bool {
    let found: Value = serde_json::from_str(text).unwrap_or_default();
    let city = found["city"].as_str().unwrap_or_default();
    ["Paris", "Rome"].contains(&city) && (1..=9).contains(&found["n"].as_i64().unwrap_or_default())
}

#[test]
fn answers_on_the_command_line_are_of_the_shape_that_is_asked_for() {
    let bench = bench();
    let model = reference("qwen3");
    let file = bench.path("city.json");
    std::fs::write(&file, schema().to_string()).unwrap();
    let words = ["model", "generate", &model, "A city:", "--max-tokens", "64", "--temperature", "1", "--n", "3"];
    let told = bench.json(&[&words[..], &["--schema", &file]].concat());
    for sample in told["samples"].as_array().unwrap() {
        assert!(is_of_schema(sample["text"].as_str().unwrap()), "{sample}");
        assert_eq!(sample["finish"], "stop");
    }
    assert!(told["grammar"].as_str().unwrap().starts_with("sha256:"), "{told}");
    let told = bench.json(&[&words[..], &["--regex", "(ab|cd){2}"]].concat());
    assert!(told["samples"].as_array().unwrap().iter().all(|one| one["text"].as_str().unwrap().len() == 4), "{told}");
    let grammar = bench.path("sum.lark");
    std::fs::write(&grammar, "start: N (\"+\" N)~2\nN: /[0-9]/").unwrap();
    let told = bench.json(&[&words[..], &["--grammar", &grammar]].concat());
    assert!(told["samples"].as_array().unwrap().iter().all(|one| one["text"].as_str().unwrap().len() == 5), "{told}");
    bench.refused(&[&words[..], &["--regex", "["]].concat(), &["grammar: "]);
    bench.refused(&[&words[..], &["--schema", &grammar]].concat(), &["sum.lark", "no JSON"]);
    bench.refused(&[&words[..], &["--schema", &file, "--regex", "a"]].concat(), &["--schema", "--regex"]);
    bench.refused(&[&words[..], &["--repetition-penalty", "0"]].concat(), &["a number above 0 and at most 10"]);
    let greedy = ["model", "generate", &model, "Hello", "--max-tokens", "24", "--temperature", "0"];
    let free = bench.json(&greedy);
    let penalised = bench.json(&[&greedy[..], &["--repetition-penalty", "10"]].concat());
    assert_ne!(free["samples"], penalised["samples"]);
}

/// The reference model with a context that holds tools.
fn with_long_context(bench: &Bench) -> String {
    let (from, to) = (reference("qwen3"), bench.path("qwen"));
    std::fs::create_dir(&to).unwrap();
    for name in [
        "chat_template.jinja",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        std::fs::copy(Path::new(&from).join(name), Path::new(&to).join(name)).unwrap();
    }
    let config = std::fs::read_to_string(Path::new(&from).join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["max_position_embeddings"] = 8192.into();
    std::fs::write(Path::new(&to).join("config.json"), config.to_string()).unwrap();
    to
}

#[test]
fn a_local_model_has_options_wherever_it_is_named() {
    let bench = bench();
    let folder = with_long_context(&bench);
    let (plain, quiet) =
        (format!("plain=local:{folder}"), format!("quiet=local:{folder}?arg.enable_thinking=false&dtype=int8"));
    let served = Served::start(&bench, &[&plain, &quiet]);
    let asked = |model: &str, more: Value| {
        let mut body =
            json!({"model": model, "max_tokens": 4, "temperature": 0, "messages": [{"role": "user", "content": "Hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = ask(&served, "/v1/chat/completions", &body);
        assert_eq!(status, 200, "{answer}");
        answer["usage"]["prompt_tokens"].clone()
    };
    let thinking = |on: bool| json!({"chat_template_kwargs": {"enable_thinking": on}});
    let (by_default, of_quiet) = (asked("plain", json!({})), asked("quiet", json!({})));
    assert_eq!(of_quiet, asked("plain", thinking(false)));
    assert_eq!(by_default, asked("quiet", thinking(true)), "a request has the last word");
    assert_ne!(by_default, of_quiet);
    drop(served.terminate());
    for (option, says) in
        [("dtype=int4", "dtype is one of f32, bf16, f16, int8"), ("arg.messages=1", "messages cannot be an argument")]
    {
        let model = format!("qwen=local:{folder}?{option}");
        bench.refused(&["serve", "--listen", "127.0.0.1:0", "--upstream", &model], &[says]);
    }
}

fn ask(served: &Served, path: &str, body: &Value) -> (u16, Value) {
    let answer = send(&served.address, path, &[], body.to_string().as_bytes()).answer();
    (answer.status, answer.json())
}

#[test]
fn a_gateway_keeps_answers_of_a_local_model_within_what_is_asked_for() {
    let bench = bench();
    let served = Served::start(&bench, &[&format!("qwen=local:{}", with_long_context(&bench))]);
    let chat = |more: Value| {
        let mut body = json!({
            "model": "qwen", "max_tokens": 80, "temperature": 1.0, "seed": 5, "messages": [{"role": "user", "content": "Where?"}],
            // A model without training could think for ever.
            "chat_template_kwargs": {"enable_thinking": false},
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(&served, "/v1/chat/completions", &body)
    };
    let format = json!({"type": "json_schema", "json_schema": {"name": "city", "schema": schema(), "strict": true}});
    let (status, answer) = chat(json!({"response_format": format}));
    let said = |answer: &Value| answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
    assert!(status == 200 && is_of_schema(&said(&answer)), "{answer}");
    let (_, answer) = chat(json!({"structured_outputs": {"choice": ["left", "right"]}}));
    assert!(["left", "right"].contains(&said(&answer).as_str()), "{answer}");

    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": schema()}}]);
    let (_, answer) = chat(json!({"tools": tools, "tool_choice": "required", "max_tokens": 900}));
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
    for call in choice["message"]["tool_calls"].as_array().unwrap() {
        assert!(call["function"]["name"] == "look" && is_of_schema(call["function"]["arguments"].as_str().unwrap()));
    }
    let messages = json!({
        "model": "qwen", "max_tokens": 900, "messages": [{"role": "user", "content": "Where?"}], "tool_choice": {"type": "tool", "name": "look"},
        "tools": [{"name": "look", "input_schema": schema()}], "thinking": {"type": "disabled"},
    });
    let (status, answer) = ask(&served, "/v1/messages", &messages);
    assert_eq!(
        (status, &answer["content"][0]["name"], &answer["stop_reason"]),
        (200, &"look".into(), &"tool_use".into()),
        "{answer}"
    );
    assert!(is_of_schema(&answer["content"][0]["input"].to_string()), "{answer}");

    // Arguments of the template change the prompt; fields that cannot be followed are refused by name.
    let tokens = |more: Value| chat(more).1["usage"]["prompt_tokens"].as_u64().unwrap();
    let plain = tokens(json!({}));
    assert_ne!(plain, tokens(json!({"chat_template_kwargs": {"enable_thinking": true}})));
    for (wrong, name) in [
        (json!({"logit_bias": {"99999999": 1}}), "logit_bias"),
        (json!({"presence_penalty": 9}), "presence_penalty"),
        (json!({"guided_regex": "["}), "grammar"),
        (json!({"chat_template_kwargs": {"messages": []}}), "messages"),
        (json!({"guided_choice": []}), "choice"),
    ] {
        let (status, answer) = chat(wrong.clone());
        assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains(name), "{wrong}: {answer}");
    }
    let banned = chat(json!({"logit_bias": {"0": 100, "1": -100}, "frequency_penalty": 0.5, "top_k": 5}));
    assert_eq!(banned.0, 200, "{banned:?}");
    drop(served.terminate());
    bench.out(&["episodes", "close"]);
    let lines = bench.out(&["episodes", "export"]);
    assert!(lines.contains("\"grammar\":{\"digest\":\"sha256:"), "the record has each answer's grammar");
}
