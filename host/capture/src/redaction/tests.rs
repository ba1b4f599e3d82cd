use super::*;
use crate::exchange::Exchange;
use crate::testing::{exchange, message, says};
use crate::{Answer, CaptureKey, Marks};
use clawhost_core::{
    Digest, GrammarRecord, Message, ModelResponse, OtherAnswer, Part, Role, TokenLogprob, TokenRecord, ToolCall,
    ToolSpec,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const KEY: &str = "sk-proj-AbCdEfGh1234567890xyz";

fn redaction(emails: bool, patterns: &[&str]) -> Redaction {
    let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    Redaction::new(&RedactionSettings { keys: true, emails, patterns }).unwrap()
}

fn all() -> Redaction {
    redaction(true, &[r"Falcon-\d+"])
}

#[test]
fn keys_and_tokens_of_known_forms_are_redacted() {
    let check = |text: &str, kind: &str| {
        let expect = format!("use [redacted:{kind}], please");
        assert_eq!(all().text(&format!("use {text}, please")).as_deref(), Some(expect.as_str()), "{text}");
    };
    let (digits, hex) = ("0123456789".repeat(4), "0123456789abcdef".repeat(4));
    check(KEY, "key");
    check("sk-ant-api03-abc_DEF-0123456789", "key");
    check(&format!("sk_live_{digits}"), "key");
    check(&format!("ghp_{digits}"), "key");
    check(&format!("github_pat_11AB_{digits}"), "key");
    check(&format!("glpat-{digits}"), "key");
    check("AKIAIOSFODNN7EXAMPLE", "key");
    check(&format!("aws_secret_access_key = {digits}"), "key");
    check(&format!("AIza{}", &digits[..35]), "key");
    check("xoxb-1234567890-abc", "key");
    check(&format!("hf_{digits}"), "key");
    check(&format!("npm_{}", &digits[..36]), "key");
    check(&format!("gsk_{digits}0"), "key");
    check(&format!("ch-{hex}"), "key");
    check(&format!("ch-admin-{hex}"), "key");
    check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "token");
    check("Bearer abcdefghijklmnopqrstuvwxyz==", "token");
    let block = |kind: &str| format!("-----BEGIN {kind}PRIVATE KEY-----\nMIIE\nAA==\n-----END {kind}PRIVATE KEY-----");
    check(&block(""), "private-key");
    check(&block("OPENSSH "), "private-key");
    check("jo.do+x@mail.example.com", "email");
    check("Falcon-9", "pattern");
}

#[test]
fn a_private_key_that_was_cut_off_is_redacted_to_the_end() {
    let cut = all().text("see\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabc");
    assert_eq!(cut.as_deref(), Some("see\n[redacted:private-key]"));
}

#[test]
fn what_only_looks_similar_stays() {
    for text in [
        "",
        "task-management-is-a-skill-worth-having",
        "sk-short",
        "AKIA and ghp_ are prefixes",
        "Bearer of good news",
        "a@b",
        "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----",
        "[redacted:key] and [redacted:email]",
    ] {
        assert_eq!(all().text(text), None, "{text}");
    }
}

#[test]
fn groups_are_switched_on_and_off() {
    let check = |settings: RedactionSettings, expect: &str| {
        let text = format!("{KEY} a@b.example");
        let redacted = Redaction::new(&settings).unwrap().text(&text).unwrap_or(text);
        assert_eq!(redacted, expect);
    };
    let set = |keys, emails| RedactionSettings { keys, emails, patterns: vec![] };
    check(RedactionSettings::default(), "[redacted:key] a@b.example");
    check(set(false, true), &format!("{KEY} [redacted:email]"));
    check(set(false, false), &format!("{KEY} a@b.example"));
    assert!(Redaction::new(&set(false, false)).unwrap().is_empty());
}

#[test]
fn overlapping_matches_are_one() {
    let check = |patterns: &[&str], text: &str, expect: &str| {
        assert_eq!(redaction(true, patterns).text(text).as_deref(), Some(expect), "{patterns:?} {text}");
    };
    check(&["abc", "cde"], "xabcdex", "x[redacted:pattern]x");
    check(&["."], "abc", "[redacted:pattern]");
    check(&["a"], "banana", "b[redacted:pattern]n[redacted:pattern]n[redacted:pattern]");
    check(&["^x"], "xx", "[redacted:pattern]x");
    // A match that takes a replacement in.
    check(&[r"^\S+ "], "x y z", "[redacted:pattern]z");
    check(&["team: .*"], "team: a@b.example", "[redacted:pattern]");
    check(&[r"\] x"], "a@b.example x", "[redacted:pattern]");
}

#[test]
fn json_is_searched_as_it_reads_and_stays_json() {
    let check = |patterns: &[&str], text: &str, expect: &str| {
        let redacted = redaction(true, patterns).text(text);
        assert_eq!(redacted.as_deref(), Some(expect), "{text}");
    };
    check(&[], r#"{ "to":"a\u0040b.example" }"#, r#"{ "to":"[redacted:email]" }"#);
    check(&[], &format!(r#"{{"env":"A=1\n{KEY}\n"}}"#), r#"{"env":"A=1\n[redacted:key]\n"}"#);
    check(
        &["password.*"],
        r#"{"a":"password 1","b":"x","c":"password 2"}"#,
        r#"{"a":"[redacted:pattern]","b":"x","c":"[redacted:pattern]"}"#,
    );
    let nested = json!({"body": json!({"to": "a\u{40}b.example", "n": "x\ny"}).to_string()}).to_string();
    let redacted: Value = serde_json::from_str(&all().text(&nested.replace('@', "\\\\u0040")).unwrap()).unwrap();
    assert_eq!(redacted["body"], r#"{"to":"[redacted:email]","n":"x\ny"}"#);
    // A pattern that names the syntax is taken at its word.
    check(&[r#""pin": \d+"#], r#"{"x":[1,{"pin": 42}]}"#, r#"{"x":[1,{[redacted:pattern]}]}"#);
}

#[test]
fn a_pattern_that_cannot_be_used_is_named() {
    let check = |patterns: Vec<String>, expect: &str| {
        let error = Redaction::new(&RedactionSettings { patterns, ..RedactionSettings::default() }).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(vec!["ok".into(), "(".into()], "patterns[1]: ");
    check(vec!["a".repeat(PATTERN_BYTES + 1)], "patterns[0]: it is longer than 4096 bytes");
    check(vec![r"(\w{1000}){1000}".into()], "patterns[0]: ");
    check(vec!["a".into(); PATTERNS + 1], "there may be 64");
}

fn everything() -> Exchange {
    let said = |text: &str| format!("{text} {KEY}");
    let call = ToolCall {
        id: "call-1".into(),
        name: "f".into(),
        arguments: json!({"key": KEY}).to_string(),
        extra: vec![("openai".into(), json!({"note": KEY}).to_string())],
    };
    let asked = Message {
        parts: vec![
            Part::Text(said("use")),
            Part::Json(json!({"k": KEY}).to_string()),
            Part::Other(json!({"openai": {"type": "x", "text": KEY}}).to_string()),
        ],
        tool_calls: vec![call],
        extra: vec![("anthropic".into(), said(""))],
        ..message(Role::User, "")
    };
    let tool = ToolSpec {
        name: "f".into(),
        description: said("as"),
        input_schema: json!({"default": KEY}).to_string(),
        extra: vec![("openai".into(), said(""))],
    };
    Exchange {
        system: Some(said("be brief")),
        tools: Some(vec![tool]),
        ..exchange(0, vec![asked, message(Role::User, "plain")], says(&said("ok"), &[]))
    }
}

#[test]
fn everything_that_was_said_is_redacted_and_names_stay() {
    let key = CaptureKey::new([1; 32]);
    let answers = [
        says(&format!("ok {KEY}"), &[]),
        Answer::Incomplete { message: Some(Box::new(message(Role::Assistant, KEY))), why: format!("at {KEY}") },
        Answer::Failed { status: 400, why: format!("wrong key {KEY}") },
    ];
    for answer in answers {
        let before = Exchange { answer, ..everything() };
        let mut after = before.clone();
        all().exchange(&mut after, &key);
        let text = serde_json::to_string(&after).unwrap();
        assert!(!text.contains("AbCdEfGh"), "{text}");
        assert_eq!(after.session, before.session);
        assert_eq!(after.messages[0].tool_calls[0].id, "call-1");
        assert_eq!(after.messages[1], before.messages[1]);
        let redacted = after.redacted.unwrap();
        assert!(redacted.answer);
        assert_eq!(redacted.messages, Marks::of(&key, &before.messages, &[]).messages, "as they were said");
    }
    let mut plain = exchange(0, vec![message(Role::User, "hi")], says("ok", &[]));
    let before = plain.clone();
    all().exchange(&mut plain, &key);
    assert_eq!(plain, before);
    plain.system = Some(KEY.into());
    all().exchange(&mut plain, &key);
    assert!(!plain.is_answer_redacted() && plain.redacted.is_some());
}

fn answered(pieces: &[&str]) -> ModelResponse {
    let logprob = |text: &&str| TokenLogprob {
        token: (*text).into(),
        logprob: -0.5,
        alternatives: vec![("other".into(), -1.0), (KEY.into(), -2.0)],
    };
    let record = TokenRecord {
        version: 1,
        shared: 0,
        prompt: vec![1],
        tokens: vec![2; pieces.len()],
        logprob_model: vec![-0.5; pieces.len()],
        logprob_sampled: vec![-0.5; pieces.len()],
        temperature: 1.0,
        restricted: false,
        grammar: None,
    };
    let Answer::Complete(response) = says(&pieces.concat(), &[]) else { panic!("an answer") };
    ModelResponse { tokens: Some(Box::new(record)), logprobs: pieces.iter().map(logprob).collect(), ..*response }
}

#[test]
fn tokens_of_what_is_redacted_go() {
    let check = |pieces: &[&str], tokens: bool, expect: &[&str]| {
        let mut exchange = exchange(0, vec![], Answer::Complete(Box::new(answered(pieces))));
        all().exchange(&mut exchange, &CaptureKey::new([1; 32]));
        let response = exchange.answer.complete().unwrap();
        assert_eq!(response.tokens.is_some(), tokens, "{pieces:?}");
        let kept: Vec<&str> = response.logprobs.iter().map(|one| one.token.as_str()).collect();
        assert_eq!(kept, expect);
        let alternatives = response.logprobs.iter().flat_map(|one| &one.alternatives);
        assert!(alternatives.into_iter().all(|(text, _)| text == "other"));
    };
    check(&["it ", "is ", "fine"], true, &["it ", "is ", "fine"]);
    check(&["it is ", "Fal", "con", "-9", ", I say"], false, &["it is ", ", I say"]);
    check(&["it is Fal", "con-9, I", " say"], false, &[" say"]);
    check(&["Falc", "Falcon-1", "on-1"], false, &[]);
}

#[test]
fn tokens_go_where_their_grammar_is_redacted() {
    let check = |text: &str, tokens: bool| {
        let mut response = answered(&["it ", "is ", "fine"]);
        let grammar = GrammarRecord { digest: Digest::of(text.as_bytes()), text: text.into() };
        response.tokens.as_mut().unwrap().grammar = Some(grammar);
        let mut exchange = exchange(0, vec![], Answer::Complete(Box::new(response)));
        all().exchange(&mut exchange, &CaptureKey::new([1; 32]));
        assert_eq!(exchange.answer.complete().unwrap().tokens.is_some(), tokens, "{text}");
    };
    check("start: \"it is fine\"", true);
    check(&format!("start: \"{KEY}\""), false);
}

#[test]
fn every_answer_to_a_request_is_redacted() {
    let mut response = answered(&["it ", "is ", "fine"]);
    let logprobs = answered(&["it is ", "Falcon-9"]).logprobs;
    response.others = vec![OtherAnswer { message: message(Role::Assistant, KEY), finish: "stop".into(), logprobs }];
    let mut exchange = exchange(0, vec![], Answer::Complete(Box::new(response)));
    all().exchange(&mut exchange, &CaptureKey::new([1; 32]));
    assert!(exchange.is_answer_redacted());
    let response = exchange.answer.complete().unwrap();
    let text = serde_json::to_string(&response.others).unwrap();
    assert!(!text.contains("AbCdEfGh") && !text.contains("Falcon"), "{text}");
    assert!(response.tokens.is_none());
}

#[test]
fn documents_keep_their_ids() {
    let mut document = json!({"id": "Falcon-1", "call_id": "Falcon-2", "output": [{"text": "Falcon-3", "n": 4}]});
    all().document(&mut document);
    let expect = json!({"id": "Falcon-1", "call_id": "Falcon-2", "output": [{"text": "[redacted:pattern]", "n": 4}]});
    assert_eq!(document, expect);
}

/// Texts in which parts of secrets, replacements and JSON stand side by side.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(KEY.to_owned()),
        Just("a@b.example".to_owned()),
        Just("Bearer ".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----".to_owned()),
        Just("Falcon-".to_owned()),
        Just("[redacted:key]".to_owned()),
        Just("[redacted:".to_owned()),
        Just("\\u0040".to_owned()),
        "[a-z0-9 \"{}:,@.\\\\\n-]{0,12}",
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// The text with every replacement as one character that no pattern here has.
fn outside(text: &str) -> String {
    Kind::ALL.iter().fold(text.to_owned(), |text, kind| text.replace(kind.replacement(), "\u{1}"))
}

proptest! {
    #[test]
    fn nothing_that_matches_remains_and_nothing_changes_again(text in texts()) {
        let redaction = all();
        let redacted = redaction.text(&text).unwrap_or(text);
        prop_assert_eq!(redaction.text(&redacted), None);
        prop_assert!(!redaction.any.is_match(&outside(&redacted)), "{}", redacted);
    }

    #[test]
    fn json_stays_json_and_hides_nothing(texts in proptest::collection::btree_map(texts(), texts(), 0..4)) {
        let redaction = all();
        // Every character may be escaped.
        let text = serde_json::to_string(&texts).unwrap().replace('@', "\\u0040").replace('k', "\\u006b");
        let redacted = redaction.text(&text).unwrap_or(text);
        let Value::Object(read) = serde_json::from_str(&redacted).unwrap() else { panic!("an object") };
        for said in read.iter().flat_map(|(name, value)| [name.as_str(), value.as_str().unwrap()]) {
            prop_assert!(!redaction.any.is_match(&outside(said)), "{}", said);
        }
    }

    #[test]
    fn any_patterns_end_and_change_nothing_again(pattern in "[ab.|^$()*+?\\[\\]-]{1,8}", text in "[ab \\[\\]\n]{0,16}") {
        let settings = RedactionSettings { patterns: vec![pattern], ..RedactionSettings::default() };
        if let Ok(redaction) = Redaction::new(&settings) {
            let redacted = redaction.text(&text).unwrap_or(text);
            prop_assert_eq!(redaction.text(&redacted), None);
        }
    }
}
