//! A file to begin with.

/// A minimal learning run with comments, as a file.
pub const fn sample() -> &'static str {
    include_str!("sample.toml")
}

#[cfg(test)]
mod tests {
    use crate::{Learn, RunFile, Work};

    #[test]
    fn the_sample_is_a_learning_run_with_defaults() {
        let learn = Learn::new("reflector_rules.wasm?facts=2");
        let expected = RunFile {
            rewards: vec!["reward_state.wasm#weight=1".into()],
            seed: 7,
            work: Work::Learn(learn),
            ..RunFile::new("env_shop.wasm?house=3")
        };
        assert_eq!(RunFile::parse(super::sample()), Ok(expected));
    }
}
