//! Paths in a file are relative to the file's folder. This module makes them relative to the working directory.

use crate::{Key, LocalModelText, Value};
use clawhost_package::{Named, named};
use std::path::Path;

/// A value of a file with the file's folder prepended to its paths. Options after a path are kept.
pub(crate) fn from_here(key: Key, value: Value, folder: &str) -> Value {
    if folder.is_empty() || folder == "." {
        return value;
    }
    match (key, value) {
        (Key::Plugin | Key::EvolveReflector, Value::Text(text)) => Value::Text(plugin_in(folder, &text)),
        (Key::Teacher, Value::Text(text)) if is_endpoint(&text) => Value::Text(text),
        (Key::Model | Key::Teacher | Key::SystemPromptFile | Key::Out, Value::Text(text)) => {
            Value::Text(path(folder, &text))
        }
        (Key::Policy, Value::Text(text)) => Value::Text(policy_in(folder, &text)),
        (Key::Rewards | Key::Reflectors | Key::Mix, Value::Texts(texts)) => {
            Value::Texts(texts.iter().map(|text| plugin_in(folder, text)).collect())
        }
        (Key::Grants, Value::Texts(texts)) => Value::Texts(texts.iter().map(|text| grant(folder, text)).collect()),
        (_, value) => value,
    }
}

/// Whether a teacher is asked over the network, and is no folder.
pub(crate) fn is_endpoint(teacher: &str) -> bool {
    ["openai:", "anthropic:"].iter().any(|kind| teacher.starts_with(kind))
}

/// The paths that a value names, as [`from_here`] finds them.
pub(crate) fn paths(key: Key, value: &Value) -> Vec<&str> {
    let file = |text: &'_ str| text.find(['?', '#']).unwrap_or(text.len());
    match (key, value) {
        (Key::Plugin | Key::EvolveReflector, Value::Text(text)) => vec![text.get(..file(text)).unwrap_or_default()],
        (Key::Teacher, Value::Text(text)) if is_endpoint(text) => Vec::new(),
        (Key::Model | Key::Teacher | Key::SystemPromptFile | Key::Out, Value::Text(text)) => vec![text],
        (Key::Policy, Value::Text(text)) => of_policy(text).into_iter().collect(),
        (Key::Rewards | Key::Reflectors | Key::Mix, Value::Texts(texts)) => {
            texts.iter().map(|text| text.get(..file(text)).unwrap_or_default()).collect()
        }
        (Key::Grants, Value::Texts(texts)) => {
            fn granted(text: &str) -> Option<&str> {
                let (_, spec) = text.split_once('=').filter(|(alias, _)| alias.starts_with("llm:"))?;
                of_policy(spec)
            }
            texts.iter().filter_map(|text| granted(text)).collect()
        }
        _ => Vec::new(),
    }
}

/// The path that a policy names, without options.
fn of_policy(text: &str) -> Option<&str> {
    match text.split_once(':')? {
        ("local", _) => LocalModelText::of(text).map(|local| local.folder),
        ("script", place) => Some(place),
        _ => None,
    }
}

fn path(folder: &str, text: &str) -> String {
    // The validator refuses an empty path.
    if text.is_empty() { String::new() } else { Path::new(folder).join(text).display().to_string() }
}

/// A plugin whose path is relative to a folder. Options after the path are kept, and so is the name of a module.
pub fn plugin_in(folder: &str, text: &str) -> String {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let (file, rest) = text.split_at(end);
    match named(file, false) {
        Ok(Named::Path) => format!("{}{rest}", path(folder, file)),
        // What is neither is refused when it is read.
        Ok(Named::Module(_)) | Err(_) => text.to_owned(),
    }
}

/// A policy whose path is relative to a folder: `local:DIR` and `script:FILE` have one.
pub fn policy_in(folder: &str, text: &str) -> String {
    match text.split_once(':') {
        Some((kind @ ("local" | "script"), place)) => format!("{kind}:{}", path(folder, place)),
        _ => text.to_owned(),
    }
}

fn grant(folder: &str, text: &str) -> String {
    match text.split_once('=') {
        Some((alias, spec)) if alias.starts_with("llm:") => format!("{alias}={}", policy_in(folder, spec)),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_local_models_are_no_part_of_their_paths() {
        let check = |key, value: Value, expected: &[&str]| assert_eq!(paths(key, &value), expected);
        let text = |text: &str| Value::Text(text.to_owned());
        check(Key::Policy, text("local:tiny?dtype=int8"), &["tiny"]);
        check(Key::Policy, text("local:tiny?x"), &["tiny?x"]);
        check(Key::Policy, text("script:a.txt"), &["a.txt"]);
        check(Key::Policy, text("openai:gpt"), &[]);
        check(Key::Grants, Value::Texts(vec!["llm:judge=local:tiny?dtype=bf16".into(), "kv".into()]), &["tiny"]);
    }

    #[test]
    fn paths_of_a_file_are_relative_to_its_folder_and_options_stay() {
        let check = |key, text: &str, expected: &str| {
            let got = from_here(key, Value::Text(text.to_owned()), "runs/a");
            assert_eq!(got, Value::Text(expected.to_owned()), "{key:?}: {text}");
        };
        check(Key::Plugin, "env.wasm?size=1/2", "runs/a/env.wasm?size=1/2");
        check(Key::Plugin, "/env.wasm?a=1", "/env.wasm?a=1");
        check(Key::Plugin, "", "");
        check(Key::Plugin, "./shop/env", "runs/a/./shop/env");
        check(Key::Plugin, "shop/env@1?size=2", "shop/env@1?size=2");
        check(Key::EvolveReflector, "r.wasm", "runs/a/r.wasm");
        check(Key::Model, "tiny", "runs/a/tiny");
        check(Key::Teacher, "large", "runs/a/large");
        check(Key::Teacher, "openai:m@http://h/v1", "openai:m@http://h/v1");
        check(Key::SystemPromptFile, "p.txt", "runs/a/p.txt");
        check(Key::Out, "/out", "/out");
        check(Key::Policy, "script:answers.txt", "script:runs/a/answers.txt");
        check(Key::Policy, "local:tiny", "local:runs/a/tiny");
        check(Key::Policy, "local:/tiny", "local:/tiny");
        check(Key::Policy, "openai:m@http://h/v1", "openai:m@http://h/v1");
        check(Key::Policy, "follower", "follower");
        check(Key::SystemPrompt, "p.txt", "p.txt");
        check(Key::Tasks, "train", "train");
    }

    #[test]
    fn paths_in_lists_are_relative_too() {
        let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        let check = |key, given: &[&str], expected: &[&str]| {
            assert_eq!(from_here(key, texts(given), "f"), texts(expected), "{key:?}");
        };
        check(
            Key::Rewards,
            &["r.wasm?a=1#weight=2", "r.wasm#weight=2"],
            &["f/r.wasm?a=1#weight=2", "f/r.wasm#weight=2"],
        );
        check(Key::Reflectors, &["r.wasm"], &["f/r.wasm"]);
        check(Key::Grants, &["kv", "llm:a=local:m", "llm:b=follower"], &["kv", "llm:a=local:f/m", "llm:b=follower"]);
        check(Key::Forbid, &["r.wasm"], &["r.wasm"]);
    }

    #[test]
    fn an_empty_folder_leaves_paths_unchanged() {
        for folder in ["", "."] {
            let value = Value::Text("env.wasm".to_owned());
            assert_eq!(from_here(Key::Plugin, value.clone(), folder), value);
        }
    }
}
