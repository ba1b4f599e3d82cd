//! Every encoding of a key is scrubbed.

use super::*;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

const KEY: &str = "sk-Proj_4/7+a9Zq";

fn secrets() -> Secrets {
    Secrets::of(&[Secret::new(KEY).unwrap()])
}

#[test]
fn a_key_is_found_in_every_encoding() {
    let check = |text: &str, expect: &str| assert_eq!(secrets().scrub(text), expect, "{text}");
    check("no key: sk-Proj_4/7+a9Z", "no key: sk-Proj_4/7+a9Z");
    check("a sk-Proj_4/7+a9Zq b", "a [key] b");
    check("SK-PROJ_4/7+A9ZQ", "[key]");
    check(r"\u0073k-Proj_4\/7+a9Z\u0071!", "[key]!");
    check(r"\\u0073k-Proj_4\\\/7\u{2b}a9Z\x71", "[key]");
    check("sk%2dProj_4%2F7%252ba9Zq", "[key]");
    check("sk&#45;Proj&lowbar;4&#x2F;7&amp;plus;a9&#0090q", "[key]");
    check("736b2d50726f6a5f342f372b61395a71", "[key]");
    check("736B2D50726F6A5F342F372B61395A71.", "[key].");
    check("sk-Proj_4/7+a9Zqsk-Proj_4/7+a9Zq", "[key][key]");
    check("\u{e4}sk-Proj_4/7+a9Zq\u{e4}", "\u{e4}[key]\u{e4}");
    for before in ["", "x", "xy"] {
        for written in [STANDARD.encode(format!("{before}{KEY}z")), URL_SAFE_NO_PAD.encode(format!("{before}{KEY}z"))] {
            assert!(secrets().are_in(&written), "{written}");
        }
    }
}

#[test]
fn short_keys_and_placeholders_are_not_scrubbed() {
    let check = |key: &str, expect: bool| assert_eq!(Secret::new(key).unwrap().is_scrubbed(), expect, "{key}");
    for placeholder in ["EMPTY", "none", "sk-12345678", "xxxxxxxxxxxxxxxx"] {
        check(placeholder, false);
    }
    check("sk-123456789", true);
    assert!(Secrets::of(&[Secret::new("EMPTY").unwrap()]).is_empty());
    assert_eq!(Secret::new("  "), None);
    assert_eq!(format!("{:?}", Secret::new(KEY)), "Some(Secret(..))");
    assert_eq!(format!("{:?}", secrets()), "Secrets(..)");
}

#[test]
fn a_fragmented_key_is_found() {
    let secrets = Secrets::of(&[Secret::new("sk-sk-123456").unwrap()]);
    let check = |pieces: &[&str], expected: &[&str]| {
        let mut text = ScrubbedText::default();
        let mut passed: Vec<String> = pieces.iter().map(|piece| text.push(&secrets, piece)).collect();
        passed.push(text.rest());
        assert_eq!(passed, expected, "{pieces:?}");
    };
    check(&["no key"], &["no key", ""]);
    check(&["a sk-sk-123456 b"], &["a [key] b", ""]);
    check(&["a sk-", "sk-123456 b"], &["a ", "[key] b", ""]);
    check(&["a s", "k", "-sk-", "123456"], &["a ", "", "", "[key]", ""]);
    check(&["sk-sk-", "sk-123456"], &["", "sk-[key]", ""]);
    check(&["sk-", "sk-2"], &["", "sk-sk-2", ""]);
    check(&["a sk-sk"], &["a ", "sk-sk"]);
    check(&["\u{e4}s", "\u{e4}"], &["\u{e4}", "s\u{e4}", ""]);
    check(&[r"a \u00", r"73k-sk-123", "456"], &["a ", "", "[key]", ""]);
    check(&["50 ", "% of"], &["50 ", "% of", ""]);
    let mut open = ScrubbedText::default();
    assert_eq!(open.push(&Secrets::default(), "sk-sk-123456"), "sk-sk-123456");
}

/// One character of a key in one of many encodings.
fn written(byte: u8, way: u8) -> String {
    let character = char::from(byte);
    match way {
        0 => format!("\\u{byte:04x}"),
        1 => format!("\\u{byte:04X}"),
        2 => format!("\\\\u{byte:04x}"),
        3 => format!("\\x{byte:02x}"),
        4 => format!("\\u{{{byte:x}}}"),
        5 => format!("%{byte:02x}"),
        6 => format!("%{byte:02X}"),
        7 => format!("%25{byte:02x}"),
        8 => format!("&#{byte};"),
        9 => format!("&#x{byte:x};"),
        10 => format!("&#X00{byte:X};"),
        11 => format!("&amp;#{byte};"),
        12 if character.is_ascii_punctuation() => format!("\\{character}"),
        13 => character.to_ascii_uppercase().to_string(),
        14 => character.to_ascii_lowercase().to_string(),
        _ => character.to_string(),
    }
}

fn keys() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_./+-]{12,60}".prop_filter("a row of one character is a placeholder", |key| {
        Secret::new(key).is_some_and(|key| key.is_scrubbed())
    })
}

/// The text in fragments of these lengths.
fn fragments(text: &str, lengths: &[usize]) -> Vec<String> {
    let mut characters = text.chars();
    let mut all: Vec<String> = lengths.iter().map(|length| characters.by_ref().take(*length).collect()).collect();
    all.push(characters.collect());
    all
}

#[test]
fn every_text_of_a_value_is_scrubbed_and_its_numbers_stay() {
    let value = serde_json::json!({
        "a": [1.5, null, true, format!("is {KEY}")],
        KEY: { "deep": ["sk%2dProj_4%2F7%252ba9Zq", 7] },
        "plain": "kept",
    });
    let expect =
        serde_json::json!({ "a": [1.5, null, true, "is [key]"], "plain": "kept", "[key]": { "deep": ["[key]", 7] } });
    assert_eq!(secrets().scrub_all(value.clone()).unwrap(), expect);
    assert_eq!(Secrets::default().scrub_all(value.clone()).unwrap(), value);
    let plain = "{\"a\":   1}".to_owned();
    assert_eq!(secrets().scrub_document(plain.clone()).unwrap(), (plain, false), "as it was written");
    assert!(secrets().scrub_all(vec![STANDARD.encode(KEY)]).unwrap().join("").contains(SCRUBBED));
    let refused = secrets().scrub_document(format!("no json: {KEY}")).unwrap_err().to_string();
    assert!(refused.starts_with("it repeats a key") && !refused.contains(KEY), "{refused}");
}

#[test]
fn keys_that_are_added_later_are_known_to_all_doors() {
    let (known, other) = (KnownSecrets::default(), KnownSecrets::default());
    let door = known.clone();
    assert!(door.secrets().is_empty());
    known.add(&Secret::new(KEY).unwrap());
    known.add(&Secret::new("another-key-12").unwrap());
    assert_eq!(door.secrets().scrub(&format!("{KEY} another-key-12")), "[key] [key]");
    assert!(other.secrets().is_empty());
}

proptest! {
    #[test]
    fn no_document_keeps_a_key_in_any_of_its_texts(
        key in keys(),
        texts in prop::collection::vec((prop::collection::vec(0_u8..24, 60), "[ -~]{0,9}", "[ -~]{0,9}"), 1..4),
    ) {
        let secrets = Secrets::of(&[Secret::new(&key).unwrap()]);
        let spelled = |ways: &[u8]| key.bytes().zip(ways).map(|(byte, way)| written(byte, *way)).collect::<String>();
        let texts: Vec<String> =
            texts.iter().map(|(ways, before, after)| format!("{before} {} {after}", spelled(ways))).collect();
        let document = serde_json::json!({ "texts": texts, "one": { "more": [texts.first()] } });
        let (clean, found) = secrets.scrub_document(document.to_string()).unwrap();
        prop_assert!(found && !secrets.are_in(&clean), "{document} became {clean}");
    }

    #[test]
    fn every_mixture_of_escapes_is_scrubbed_in_any_fragments(
        key in keys(),
        ways in prop::collection::vec(0_u8..24, 60),
        lengths in prop::collection::vec(0_usize..9, 0..40),
        (before, after) in ("[ -~]{0,9}", "[ -~]{0,9}"),
    ) {
        let secrets = Secrets::of(&[Secret::new(&key).unwrap()]);
        let spelled: String = key.bytes().zip(&ways).map(|(byte, way)| written(byte, *way)).collect();
        let text = format!("{before} {spelled} {after}");
        let clean = secrets.scrub(&text);
        prop_assert!(clean.contains(SCRUBBED) && !clean.contains(&spelled), "{text} became {clean}");
        let mut stream = ScrubbedText::default();
        let mut passed: String =
            fragments(&text, &lengths).iter().map(|fragment| stream.push(&secrets, fragment)).collect();
        passed.push_str(&stream.rest());
        // The semicolon after the last character's number may arrive after the key was scrubbed.
        prop_assert_eq!(passed.replace(';', ""), clean.replace(';', ""));
    }

    #[test]
    fn every_hexadecimal_and_base64_form_is_scrubbed(
        key in keys(),
        (before, after) in ("[ -~]{0,5}", "[ -~]{0,5}"),
    ) {
        let secrets = Secrets::of(&[Secret::new(&key).unwrap()]);
        let bytes = format!("{before}{key}{after}").into_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for form in [hex.clone(), hex.to_uppercase(), STANDARD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            prop_assert!(secrets.are_in(&form), "{form}");
            prop_assert!(!secrets.are_in(&secrets.scrub(&form)), "{form}");
        }
    }

    #[test]
    fn texts_without_keys_are_unchanged(text in any::<String>()) {
        let secrets = secrets();
        if !secrets.are_in(&text) {
            prop_assert_eq!(secrets.scrub(&text), text.as_str());
            let mut stream = ScrubbedText::default();
            let passed = stream.push(&secrets, &text) + &stream.rest();
            prop_assert_eq!(passed, text);
        }
    }
}
