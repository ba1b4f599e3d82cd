//! The time of masks: how long a grammar takes to say which tokens may follow, with a vocabulary of the size of Qwen3's.
//!
//! The vocabulary has 151,000 tokens: the parts of words, and of marks, that occur in this project's documents. Answers are those that a model
//! would write, in their longest tokens. `cargo bench -p clawhost-model --bench grammar`

#![allow(clippy::panic, clippy::print_stdout, reason = "a bench stops where it fails, and tells")]

use clawhost_model::tokens::{TextFiles, TextHost, Texts, Tokenizer};
use clawhost_model::{AnswerShape, Grammars};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Tokens of the vocabulary, without the one that ends an answer.
const TOKENS: usize = 151_000;
/// The longest token in characters.
const LONGEST: usize = 12;
/// How often each answer is written.
const TIMES: usize = 20;

const DOCUMENTS: [&str; 5] = [
    include_str!("../../ARCHITECTURE.md"),
    include_str!("../../DECISIONS.md"),
    include_str!("../../BENCHMARKS.md"),
    include_str!("../../PROOF.md"),
    include_str!("../../../sdk/GUIDE.md"),
];

/// The most frequent parts of the documents' words, with the space before them, and all bytes.
fn vocabulary() -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for document in DOCUMENTS {
        let ascii: Vec<&str> = document.split(|character: char| !character.is_ascii()).collect();
        for word in ascii.iter().flat_map(|part| part.split_inclusive(' ')) {
            for start in 0..word.len() {
                for end in start + 2..=(start + LONGEST).min(word.len()) {
                    *counts.entry(&word[start..end]).or_default() += 1;
                }
            }
        }
    }
    let mut parts: Vec<(&str, usize)> = counts.into_iter().collect();
    parts.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    let single = (0u8..128).map(|byte| char::from(byte).to_string());
    single.chain(parts.into_iter().map(|(part, _)| part.to_owned())).take(TOKENS).collect()
}

/// The tokenizer of these tokens, as a file of Hugging Face's library. The last one ends an answer.
fn tokenizer(tokens: &[String]) -> Tokenizer {
    let vocabulary: Map<String, Value> =
        tokens.iter().enumerate().map(|(number, token)| (token.clone(), json!(number))).collect();
    let end = json!({
        "id": tokens.len(), "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true,
    });
    let document = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [end], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": { "type": "Fuse" },
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "a" },
    });
    let (text, words) = (document.to_string(), BTreeMap::new());
    let files = TextFiles { tokenizer_json: &text, template: None, tool_template: None, words: &words };
    match Texts::open(&files, &[], &TextHost::InProcess) {
        Ok(texts) => texts.tokenizer,
        Err(error) => panic!("{error}"),
    }
}

/// A text in its longest tokens.
fn encoded(text: &str, numbers: &HashMap<&str, u32>) -> Vec<u32> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let fits = |length: &usize| rest.get(..*length).is_some_and(|part| numbers.contains_key(part));
        let length = (1..=LONGEST.min(rest.len())).rev().find(fits).unwrap_or(1);
        tokens.extend(rest.get(..length).and_then(|part| numbers.get(part)));
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

/// Shapes of answers, with one answer for each.
fn answers() -> Vec<(&'static str, AnswerShape, String)> {
    let text = "The gate tests one candidate on validation tasks, pair by pair, and \\\"deploys\\\" it if its lift is above 0. ";
    let person = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "age", "address", "tags"],
        "properties": {
            "name": { "type": "string", "maxLength": 60 }, "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "address": { "type": "object", "required": ["street", "city"], "additionalProperties": false,
                "properties": { "street": { "type": "string" }, "city": { "enum": ["Paris", "Rome", "Athens"] } } },
            "tags": { "type": "array", "items": { "type": "string", "pattern": "^[a-z]+(-[a-z]+)*$" }, "minItems": 1 },
        },
    });
    let named = r#"{"name": "Ada Lovelace", "age": 36, "address": {"street": "12 St James's Square", "city": "Rome"}, "tags": ["mathematics", "first-programmer"]}"#;
    let free = json!({ "type": "object", "properties": { "answer": { "type": "string" } }, "required": ["answer"] });
    let grammar = "start: sum\nsum: product ((\"+\" | \"-\") product)*\nproduct: atom ((\"*\" | \"/\") atom)*\natom: NUMBER | \"(\" sum \")\"\nNUMBER: /[0-9]+([.][0-9]+)?/";
    vec![
        ("JSON of an object with six fields", AnswerShape::Json(person), named.to_owned()),
        ("JSON with a long text", AnswerShape::Json(free), format!("{{\"answer\": \"{}\"}}", text.repeat(4))),
        ("any JSON object", AnswerShape::Json(json!({ "type": "object" })), named.to_owned()),
        (
            "a regular expression",
            AnswerShape::Regex(r"[A-Z][a-z]+ [0-9]{1,2}, [0-9]{4}(, [a-z ]+)*".into()),
            "November 29, 2026, a day of work, and of rest".into(),
        ),
        ("a grammar of sums", AnswerShape::Lark(grammar.into()), "(1+2)*3.25/(4-(5+60)*7)-8.5*(9+10)".into()),
    ]
}

fn of(times: &[Duration], share: f64) -> f64 {
    let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
    times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

fn main() {
    let tokens = vocabulary();
    let numbers: HashMap<&str, u32> = (0..).zip(&tokens).map(|(number, token)| (token.as_str(), number)).collect();
    let tokenizer = tokenizer(&tokens);
    let grammars = Grammars::new(tokenizer, (&[tokens.len() as u32], &[]), tokens.len() + 1);
    let began = Instant::now();
    grammars.compile("start: \"a\"").unwrap_or_else(|error| panic!("{error}"));
    println!("{} tokens, read for grammars in {:.2?}", tokens.len() + 1, began.elapsed());
    let mut all = Vec::new();
    for (name, shape, answer) in answers() {
        let began = Instant::now();
        let grammar = grammars.compile(&shape.text()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let compiled = began.elapsed();
        let answer = encoded(&answer, &numbers);
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let mut state = grammar.begin();
            for token in &answer {
                let began = Instant::now();
                let mask = state.mask().unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(mask.allows(*token), "{name}: {token} after {} masks", times.len());
                state.accept(*token).unwrap_or_else(|error| panic!("{name}: {error}"));
                times.push(began.elapsed());
            }
        }
        all.extend_from_slice(&times);
        times.sort_unstable();
        println!(
            "{name}: {} tokens, median {:.1} us, p99 {:.1} us, most {:.1} us; compiled in {:.2?}",
            answer.len(),
            of(&times, 0.5),
            of(&times, 0.99),
            of(&times, 1.0),
            compiled
        );
    }
    all.sort_unstable();
    println!("all: median {:.1} us, p99 {:.1} us", of(&all, 0.5), of(&all, 0.99));
}
