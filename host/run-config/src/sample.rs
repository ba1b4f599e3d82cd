//! A sample file.

/// A learning run as a file, with every key: values that differ from the default, and the others commented out.
pub const fn sample() -> &'static str {
    include_str!("sample.toml")
}

#[cfg(test)]
mod tests {
    use crate::check::wrong;
    use crate::key::Preset;
    use crate::{Key, Layer, RunSpecPatch, Scope, Source, Value, Verb};

    const HERE: Source = Source::File { line: None };

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// The sample with all comments of the forms `# key = value` and `# [[learn]]` activated.
    fn uncommented() -> RunSpecPatch {
        let is_code =
            |rest: &str| rest.starts_with("[[") || rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        let line = |line: &'static str| match line.strip_prefix("# ") {
            Some(rest) if is_code(rest) => rest,
            _ => line,
        };
        let text = super::sample().lines().map(line).collect::<Vec<_>>().join("\n");
        RunSpecPatch::from_toml(&text, "").unwrap()
    }

    #[test]
    fn the_sample_learns_the_harness_with_defaults() {
        let sample = RunSpecPatch::from_toml(super::sample(), "").unwrap().resolve(Verb::Learn).unwrap();
        let mut least = RunSpecPatch::new();
        least.set(Key::Plugin, text("env_shop.wasm?house=3"), HERE);
        least.set(Key::Rewards, Value::Texts(vec!["reward_state.wasm#weight=1".into()]), HERE);
        least.set(Key::Reflectors, Value::Texts(vec!["reflector_rules.wasm?facts=2".into()]), HERE);
        least.set(Key::Seed, Value::Whole(7), HERE);
        least.set_layers(vec!["harness".into()], HERE);
        assert_eq!(sample, least.resolve(Verb::Learn).unwrap());
    }

    #[test]
    fn the_sample_has_every_key_with_a_valid_value() {
        let full = uncommented();
        assert_eq!(full.layers().unwrap().0, Layer::ALL.map(Layer::name));
        for key in Key::ALL.iter().filter(|key| key.scope() != Scope::Evaluate) {
            let (value, _) = full.get(*key).unwrap_or_else(|| panic!("{} is missing", key.name()));
            assert_eq!(wrong(*key, value, &|_| false), [""; 0], "{}", key.name());
        }
    }

    #[test]
    fn commented_values_of_the_sample_are_the_defaults() {
        let (full, plain) = (uncommented(), RunSpecPatch::from_toml(super::sample(), "").unwrap());
        let commented = full.keys().filter(|key| plain.get(*key).is_none());
        // Off by default, so the sample shows an example.
        for key in commented.filter(|key| *key != Key::Evolve) {
            let (value, _) = full.get(key).unwrap();
            let is_default = key.presets().is_empty()
                || key.presets().iter().any(|preset| match preset {
                    Preset::Whole(number) => *value == Value::Whole(*number),
                    Preset::Number(number) => *value == Value::Number(*number),
                    Preset::Text(name) => *value == text(name),
                    Preset::Flag(flag) => *value == Value::Flag(*flag),
                });
            assert!(is_default, "{}: {value:?} is not {:?}", key.name(), key.default_text());
        }
    }
}
