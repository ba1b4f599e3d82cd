//! A file to begin with.

/// A learning run as a file, with every key: what differs from the default, and the rest commented out.
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

    /// The sample with all that is commented out: `# key = value`, and sections.
    fn uncommented() -> String {
        let is_key =
            |rest: &str| rest.starts_with('[') || rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        let line = |line: &'static str| match line.strip_prefix("# ") {
            Some(rest) if is_key(rest) => rest,
            _ => line,
        };
        super::sample().lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_key_of_a_run_file_stands_in_the_sample_and_means_something() {
        let full = RunFile::parse(&uncommented()).unwrap();
        let Work::Learn(learn) = &full.work else { panic!("{full:?}") };
        assert_eq!((learn.evolve.budget, full.grants.len(), full.tasks.as_deref()), (1000, 2, Some("train")));
        for key in full.to_toml().lines().filter_map(|line| Some(line.split_once(" = ")?.0)) {
            assert!(uncommented().lines().any(|line| line.starts_with(&format!("{key} = "))), "{key} is missing");
        }
    }

    #[test]
    fn what_is_commented_out_as_a_default_is_the_default() {
        let full = RunFile::parse(&uncommented()).unwrap();
        let Work::Learn(learn) = full.work.clone() else { panic!("{full:?}") };
        let default = Learn::new("reflector_rules.wasm?facts=2");
        let examples = crate::Harness { playbook: None, forbid: Vec::new(), ..learn.harness.clone() };
        assert_eq!((examples, &learn.gate), (default.harness, &default.gate));
        let plain = RunFile::new("");
        assert_eq!(
            (full.max_turns, full.concurrency, full.failure_budget, full.max_tokens),
            (plain.max_turns, plain.concurrency, plain.failure_budget, plain.max_tokens)
        );
    }
}
