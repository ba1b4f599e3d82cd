//! Writes a run file.

use crate::learn::{HARNESS, Learn};
use crate::run_file::{RunFile, SystemPrompt, Work};
use std::fmt::{Debug, Display};

impl RunFile {
    /// The file with every value in it, defaults too; a value that somebody else decides stands as a comment. It reads back
    /// as the same.
    pub fn to_toml(&self) -> String {
        let mut out = Writer(String::new());
        out.text("plugin", &self.plugin);
        out.texts("rewards", &self.rewards);
        out.text("policy", &self.policy);
        out.text_or("tasks", self.tasks.as_deref(), "the environment's train, or its first split");
        out.value("seed", self.seed);
        if let Work::Play(play) = &self.work {
            out.value("group", play.group);
            out.value("episodes", play.episodes);
        }
        out.value("max_turns", self.max_turns);
        out.value("concurrency", self.concurrency);
        out.number("failure_budget", self.failure_budget);
        match &self.system_prompt {
            None => out.comment("system_prompt", "the environment's own hint"),
            Some(SystemPrompt::Text(text)) => out.text("system_prompt", text),
            Some(SystemPrompt::File(path)) => out.text("system_prompt_file", path),
        }
        out.number_or("temperature", self.temperature, "the model's own");
        out.value("max_tokens", self.max_tokens);
        out.texts("grants", &self.grants);
        match self.max_tokens_total {
            Some(tokens) => out.value("max_tokens_total", tokens),
            None => out.comment("max_tokens_total", "no limit"),
        }
        out.number_or("max_cost", self.max_cost, "no limit");
        out.text_or("price", self.price.map(|price| price.to_string()).as_deref(), "unknown");
        if let Work::Learn(learn) = &self.work {
            out.learn(learn);
        }
        out.0
    }
}

struct Writer(String);

impl Writer {
    fn learn(&mut self, learn: &Learn) {
        self.section("learn");
        self.texts("layers", &[HARNESS]);
        self.value("iterations", learn.iterations);
        self.value("episodes", learn.episodes);
        self.value("group", learn.group);
        self.value("deterministic", true);

        let harness = &learn.harness;
        self.section("harness");
        self.text("reflector", &harness.reflector);
        self.text_or("playbook", harness.playbook.as_deref(), "the environment's name");
        self.value("token_budget", harness.token_budget);
        self.value("trial_slots", harness.trial_slots);
        self.value("reflect_every", harness.reflect_every);
        self.texts("forbid", &harness.forbid);

        self.section("gate");
        self.value("every", learn.gate.every);
        self.value("pairs", learn.gate.pairs);
        self.number("alpha", learn.gate.alpha);

        self.section("evolve");
        self.value("budget", learn.evolve.budget);
        self.value("minibatch", learn.evolve.minibatch);
        self.text("section", &learn.evolve.section);
        self.text("reflector", &learn.evolve.reflector);

        self.section("eval");
        self.value("pairs", learn.eval.pairs);
    }

    fn line(&mut self, parts: &[&str]) {
        self.0.extend(parts.iter().copied());
        self.0.push('\n');
    }

    fn section(&mut self, name: &str) {
        self.line(&["\n[", name, "]"]);
    }

    fn comment(&mut self, key: &str, words: &str) {
        self.line(&["# ", key, ": ", words]);
    }

    fn value(&mut self, key: &str, value: impl Display) {
        self.line(&[key, " = ", &value.to_string()]);
    }

    /// `Debug` always writes a point or an exponent, by which TOML tells numbers from whole numbers.
    fn number(&mut self, key: &str, number: impl Debug) {
        self.value(key, format_args!("{number:?}"));
    }

    fn number_or(&mut self, key: &str, number: Option<impl Debug>, otherwise: &str) {
        match number {
            Some(number) => self.number(key, number),
            None => self.comment(key, otherwise),
        }
    }

    fn text(&mut self, key: &str, text: &str) {
        self.value(key, quoted(text));
    }

    fn text_or(&mut self, key: &str, text: Option<&str>, otherwise: &str) {
        match text {
            Some(text) => self.text(key, text),
            None => self.comment(key, otherwise),
        }
    }

    fn texts(&mut self, key: &str, texts: &[impl Display]) {
        let texts: Vec<String> = texts.iter().map(|text| quoted(&text.to_string())).collect();
        self.value(key, format_args!("[{}]", texts.join(", ")));
    }
}

/// A basic string of TOML: quotation mark, backslash and control characters are escaped, everything else stands for itself.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(control))),
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}
