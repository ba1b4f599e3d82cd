//! Environments whose rules nobody tells: what is shared by the tests of each.

use super::*;

/// An environment with hidden rules.
pub(crate) struct Hidden {
    /// Its component.
    pub(crate) guest: &'static str,
    /// The option that names a world.
    pub(crate) world: &'static str,
    /// Further options.
    pub(crate) options: &'static str,
    /// The signal that is the reward.
    pub(crate) signal: &'static str,
    /// The signal that the reflector reads. Empty: it reads the reward.
    pub(crate) read: &'static str,
}

impl Hidden {
    fn plugin(&self, bench: &Bench, world: u64, more: &str) -> String {
        format!("{}?{}={world}{}{more}", bench.guest(self.guest), self.world, self.options)
    }

    fn reward(&self, bench: &Bench) -> String {
        format!("{}?name={}", bench.guest("reward_signal"), self.signal)
    }

    /// The words of a learning run.
    pub(crate) fn learn(&self, bench: &Bench, world: u64, budget: u64, mode: &str) -> Vec<String> {
        let reflector = format!("{}?signal={}&mode={mode}", bench.guest("reflector_rules"), self.read);
        let (plugin, reward) = (self.plugin(bench, world, ""), self.reward(bench));
        let (budget, seed, playbook) =
            (budget.to_string(), world.to_string(), format!("world{world}{mode}{budget}{}", self.read));
        let words = ["learn", &plugin, "--reward", &reward, "--reflector", &reflector, "--layer", "harness", "-q"];
        let numbers = ["--budget", &budget, "--seed", &seed, "--test-pairs", "60", "--playbook", &playbook];
        words.iter().chain(&numbers).map(|word| (*word).to_owned()).collect()
    }

    /// The document of a learning run.
    pub(crate) fn learned(&self, bench: &Bench, world: u64, budget: u64, mode: &str) -> Value {
        let words = self.learn(bench, world, budget, mode);
        let document = bench.outside_timing(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let failed = &document["learn"]["reflections"]["failed"];
        assert_eq!(failed, &serde_json::json!({}), "no call of the reflector fails");
        document
    }

    /// Mean lift over worlds that nobody tuned on. A failed promotion counts as 0.
    pub(crate) fn lift(&self, bench: &Bench, worlds: std::ops::Range<u64>, budget: u64, mode: &str) -> f64 {
        let count = worlds.clone().count() as f64;
        let lift = |world| {
            let document = self.learned(bench, world, budget, mode);
            let mean = |name: &str| document[name]["mean"].as_f64().unwrap();
            mean("heldout_after") - mean("heldout_before")
        };
        worlds.map(lift).sum::<f64>() / count
    }

    /// Mean reward of the follower, with these options.
    pub(crate) fn played(&self, bench: &Bench, world: u64, more: &str) -> f64 {
        let (plugin, reward) = (self.plugin(bench, world, more), self.reward(bench));
        let played = bench.json(&["run", &plugin, "--reward", &reward, "--episodes", "60"]);
        assert_eq!(played["scored"], 60, "{played}");
        played["reward_mean"].as_f64().unwrap()
    }

    /// Checks that everything can be known, little is known at first, and equal seeds give equal runs.
    pub(crate) fn check(&self, bench: &Bench, world: u64) {
        let (nothing, all) = (self.played(bench, world, ""), self.played(bench, world, "&handbook=all"));
        assert!(nothing < 0.35 && all > 0.999, "{nothing} without and {all} with the handbook");
        let words = self.learn(bench, world, 100, "rules");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let learned = bench.outside_timing(&words);
        let elsewhere = bench.fresh();
        assert_eq!(elsewhere.outside_timing(&[&words[..], &["--concurrency", "3"]].concat()), learned);
    }
}
