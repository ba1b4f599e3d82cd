//! Reads the text of `sweep.toml`: a run as in `run.toml`, and the values that its options take in turn.

use crate::check::expected;
use crate::folder::from_here;
use crate::problem::{Problem, label};
use crate::read::{Lines, Reader, found, other_version, raw, syntax, whole};
use crate::unknown::hint;
use crate::value::SHOWN_BYTES;
use crate::write::written;
use crate::{Key, Layer, Problems, RunSpecPatch, Scope, Source, Value, Verb};
use clawhost_core::escaped;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Most combinations of values. More are a mistake in a list rather than a plan: each is a run with its own episodes.
pub const SWEEP_POINTS: usize = 1024;

/// How the runs of a sweep are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepMethod {
    /// Every combination is one run, as the file describes it.
    Grid,
    /// Successive halving: all combinations are tried with few episodes, and the better half with twice as many, until one is
    /// left, which gets what the file says.
    Halving,
}

impl SweepMethod {
    const ALL: [(&'static str, Self); 2] = [("grid", Self::Grid), ("halving", Self::Halving)];

    /// Its name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Halving => "halving",
        }
    }
}

/// A sweep as a file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPatch {
    /// Whether the runs play or learn.
    pub verb: Verb,
    /// Most episodes of all runs together.
    pub budget: u64,
    /// How the runs are chosen.
    pub method: SweepMethod,
    /// The options that all runs share.
    pub base: RunSpecPatch,
    /// Options and their values, in the order of the table of options.
    pub vary: Vec<(Key, Vec<Value>, Source)>,
}

/// One combination of values.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPoint {
    /// The varied options in a file's notation, as `seed = 2` and `[[learn]] harness, gate_pairs = 64`.
    pub values: Vec<(String, String)>,
    /// All options of the run.
    pub patch: RunSpecPatch,
}

/// The keys of the file.
const KEYS: [&str; 6] = ["version", "command", "budget", "method", "run", "vary"];

impl SweepPatch {
    /// Reads the text of a sweep. Paths of its run are relative to `folder`, the file's own. Nothing is opened.
    ///
    /// # Errors
    /// All problems of single keys. Each run is checked by [`RunSpecPatch::resolve_with`].
    pub fn from_toml(text: &str, folder: &str) -> Result<Self, Problems> {
        let lines = Lines::of(text);
        let (root, errors) = DeTable::parse_recoverable(text);
        if let Some(problems) = Problems::of(syntax(&errors, &lines)) {
            return Err(problems);
        }
        let root = root.get_ref();
        if let Some(problems) = Problems::of(other_version(root, &lines).into_iter().collect()) {
            return Err(problems);
        }
        let mut sweep = SweepReader { lines: &lines, folder, problems: Vec::new() };
        let patch = sweep.top(root);
        match Problems::of(sweep.problems) {
            Some(problems) => Err(problems),
            None => Ok(patch),
        }
    }

    /// The number of combinations.
    pub fn count(&self) -> usize {
        self.vary.iter().fold(1, |count: usize, (_, values, _)| count.saturating_mul(values.len()))
    }

    /// All combinations: the first option changes slowest.
    pub fn points(&self) -> Vec<SweepPoint> {
        let mut points = vec![SweepPoint { values: Vec::new(), patch: self.base.clone() }];
        for (key, values, source) in &self.vary {
            let with = |point: &SweepPoint, value: &Value| {
                let mut point = point.clone();
                point.values.push((label(key.scope(), key.name()), written(value)));
                let mut one = RunSpecPatch::new();
                one.set(*key, value.clone(), *source);
                SweepPoint { patch: one.over(point.patch), ..point }
            };
            points = points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
        }
        points
    }
}

struct SweepReader<'a> {
    lines: &'a Lines,
    folder: &'a str,
    problems: Vec<Problem>,
}

impl SweepReader<'_> {
    fn refuse(&mut self, name: &str, at: Option<usize>, why: String) {
        let source = at.map(|at| self.lines.source(at));
        self.problems.push(Problem::at(name, source, why));
    }

    fn top(&mut self, root: &DeTable<'_>) -> SweepPatch {
        for key in root.keys().filter(|key| !KEYS.contains(&key.get_ref().as_ref())) {
            let why = format!("unknown key; known here: {}", KEYS.join(", "));
            self.refuse(&escaped(key.get_ref(), SHOWN_BYTES), Some(key.span().start), why);
        }
        let verbs = [("run", Verb::Play), ("learn", Verb::Learn)];
        let verb = self.choice(root, "command", &verbs).unwrap_or(Verb::Play);
        let method = self.choice(root, "method", &SweepMethod::ALL).unwrap_or(SweepMethod::Grid);
        let budget = self.budget(root);
        let base = self.base(root);
        let vary = self.vary(root, method);
        let sweep = SweepPatch { verb, budget, method, base, vary };
        if sweep.count() > SWEEP_POINTS {
            let why = format!("{} combinations; at most {SWEEP_POINTS} are swept", sweep.count());
            self.refuse("vary", None, why);
        }
        sweep
    }

    /// One of some words; the first if the key is absent.
    fn choice<T: Copy>(&mut self, root: &DeTable<'_>, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let Some((key, value)) = root.get_key_value(name) else { return choices.first().map(|(_, choice)| *choice) };
        let word = value.get_ref().as_str();
        let chosen = choices.iter().find(|(known, _)| Some(*known) == word).map(|(_, choice)| *choice);
        if chosen.is_none() {
            let known: Vec<&str> = choices.iter().map(|(known, _)| *known).collect();
            let why = expected(&found(value.get_ref()), &format!("one of {}", known.join(", ")));
            self.refuse(name, Some(key.span().start), why);
        }
        chosen
    }

    fn budget(&mut self, root: &DeTable<'_>) -> u64 {
        const WANTED: &str = "the number of episodes that all runs may play together, at least 1";
        let Some((key, value)) = root.get_key_value("budget") else {
            self.refuse("budget", None, format!("missing; expected {WANTED}"));
            return 0;
        };
        whole(value.get_ref()).filter(|budget| *budget > 0).unwrap_or_else(|| {
            self.refuse("budget", Some(key.span().start), expected(&found(value.get_ref()), WANTED));
            0
        })
    }

    fn base(&mut self, root: &DeTable<'_>) -> RunSpecPatch {
        let Some((key, value)) = root.get_key_value("run") else {
            self.refuse("[run]", None, "missing; expected the options of the runs, as in run.toml".to_owned());
            return RunSpecPatch::new();
        };
        let Some(table) = value.get_ref().as_table() else {
            let why = expected(&found(value.get_ref()), "a section with the options of the runs, as in run.toml");
            self.refuse("[run]", Some(key.span().start), why);
            return RunSpecPatch::new();
        };
        let mut reader = Reader::new(self.lines, self.folder);
        reader.top(table);
        match reader.finish() {
            Ok(patch) => self.shared(patch),
            Err(problems) => {
                self.problems.extend(problems.iter().cloned());
                RunSpecPatch::new()
            }
        }
    }

    /// Refuses options that runs cannot share.
    fn shared(&mut self, patch: RunSpecPatch) -> RunSpecPatch {
        let is_harness =
            patch.layers().is_some_and(|(names, _)| names.iter().any(|name| name == Layer::Harness.name()));
        let refused = [
            (Key::Name, true, "a name belongs to one run; give the runs tags"),
            (Key::Playbook, is_harness, "each run of a sweep learns a playbook of its own, which begins empty"),
        ];
        for (key, is_refused, why) in refused {
            if let Some((_, source)) = patch.get(key).filter(|_| is_refused) {
                self.problems.push(Problem::of(key, Some(*source), [why.into()]));
            }
        }
        patch
    }

    fn vary(&mut self, root: &DeTable<'_>, method: SweepMethod) -> Vec<(Key, Vec<Value>, Source)> {
        let mut vary = Vec::new();
        match root.get_key_value("vary").map(|(key, value)| (key.span().start, value.get_ref().as_table())) {
            Some((_, Some(table))) => {
                for (key, value) in table.iter() {
                    let name = key.get_ref().as_ref();
                    match (name.parse::<Layer>(), value.get_ref().as_table()) {
                        (Ok(layer), Some(fields)) => {
                            for (key, value) in fields.iter() {
                                vary.extend(self.option(key, value, Scope::Layer(layer), method));
                            }
                        }
                        _ => vary.extend(self.option(key, value, Scope::Run, method)),
                    }
                }
            }
            Some((at, None)) => self.refuse("[vary]", Some(at), "expected a section with lists of values".to_owned()),
            None => self.refuse("[vary]", None, "missing; expected lists of values, as seed = [1, 2, 3]".to_owned()),
        }
        vary.sort_by_key(|(key, ..)| *key);
        vary
    }

    /// An option with its values.
    fn option(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        scope: Scope,
        method: SweepMethod,
    ) -> Option<(Key, Vec<Value>, Source)> {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        let shown = label(scope, &escaped(name, SHOWN_BYTES));
        let Some(found_key) = Key::within(scope).find(|known| known.name() == name) else {
            self.refuse(&shown, Some(at), format!("unknown key{}", hint(name, scope)));
            return None;
        };
        if matches!(found_key, Key::Name | Key::Tags) {
            self.refuse(&shown, Some(at), "a label changes no result; put it into [run]".to_owned());
            return None;
        }
        let is_length = matches!(found_key, Key::Episodes | Key::Iterations | Key::Budget);
        if is_length && method == SweepMethod::Halving {
            self.refuse(&shown, Some(at), "halving itself chooses how long a run is".to_owned());
            return None;
        }
        let Some(list) = value.get_ref().as_array().filter(|list| !list.is_empty()) else {
            let why = expected(&found(value.get_ref()), "a list of values, one for each run");
            self.refuse(&shown, Some(at), why);
            return None;
        };
        let mut values: Vec<Value> = Vec::new();
        for element in list.iter() {
            match raw(found_key, element.get_ref()) {
                Ok(value) if values.contains(&value) => {
                    self.refuse(&shown, Some(element.span().start), "each value once".to_owned());
                }
                Ok(value) => values.push(value),
                Err(all) => all.into_iter().for_each(|why| self.refuse(&shown, Some(element.span().start), why)),
            }
        }
        let values = values.into_iter().map(|value| from_here(found_key, value, self.folder)).collect();
        Some((found_key, values, self.lines.source(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "version = 1\nbudget = 100\n[run]\nplugin = \"env.wasm\"\n";

    #[test]
    fn every_combination_of_values_is_a_run_and_the_first_option_changes_slowest() {
        let text = "budget = 600\ncommand = \"learn\"\nmethod = \"halving\"\n[run]\nplugin = \"env.wasm\"\nrewards = [\"r.wasm\"]\n\
            [[run.learn]]\nlayer = \"harness\"\nreflectors = [\"f.wasm\"]\n[vary]\nseed = [1, 2]\n[vary.harness]\nalpha = [0.05, 0.1]\n";
        let sweep = SweepPatch::from_toml(text, "there").unwrap();
        assert_eq!((sweep.verb, sweep.budget, sweep.method), (Verb::Learn, 600, SweepMethod::Halving));
        let points = sweep.points();
        let shown = |point: &SweepPoint| {
            let values: Vec<String> = point.values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            values.join("; ")
        };
        assert_eq!(
            points.iter().map(shown).collect::<Vec<_>>(),
            [
                "seed = 1; [[learn]] harness, alpha = 0.05",
                "seed = 1; [[learn]] harness, alpha = 0.1",
                "seed = 2; [[learn]] harness, alpha = 0.05",
                "seed = 2; [[learn]] harness, alpha = 0.1",
            ]
        );
        let last = points[3].patch.clone().resolve(Verb::Learn).unwrap();
        assert_eq!((last.play.seed, last.harness().unwrap().alpha), (2, 0.1));
        assert_eq!(last.environment.path, "there/env.wasm", "paths are relative to the file");
        let plain = SweepPatch::from_toml(&format!("{HEAD}[vary]\nseed = [1]"), "").unwrap();
        assert_eq!((plain.verb, plain.method, plain.count()), (Verb::Play, SweepMethod::Grid, 1));
    }

    #[test]
    fn every_mistake_of_a_sweep_is_reported_with_its_line() {
        let check = |text: &str, expect: &str| {
            let problems = SweepPatch::from_toml(text, "").unwrap_err().to_string();
            assert_eq!(problems, expect, "{text}");
        };
        let vary = |lines: &str| format!("{HEAD}[vary]\n{lines}");
        check(&vary("seed = 3"), "line 6: seed: found 3; expected a list of values, one for each run");
        check(&vary("seed = []"), "line 6: seed: found a list; expected a list of values, one for each run");
        check(
            &vary("seed = [1, \"x\"]"),
            "line 6: seed: found the text \"x\"; expected a whole number from 0 to 9007199254740991",
        );
        check(&vary("seed = [1,\n1]"), "line 7: seed: each value once");
        check(&vary("tags = [[\"a\"]]"), "line 6: tags: a label changes no result; put it into [run]");
        check(&vary("sed = [1]"), "line 6: sed: unknown key; did you mean `seed`?");
        check(
            &vary("[vary.harness]\nalpa = [0.1]"),
            "line 7: [[learn]] harness, alpa: unknown key; did you mean `alpha`?",
        );
        check(
            &vary("seed = [1]").replace("version = 1", "method = \"halving\"").replace("seed", "episodes"),
            "line 6: episodes: halving itself chooses how long a run is",
        );
        let many = |name: &str| format!("{name} = {:?}\n", (1..=40).collect::<Vec<u64>>());
        check(&vary(&(many("seed") + &many("max_turns"))), "vary: 1600 combinations; at most 1024 are swept");
        check(
            "budget = 0\ncommand = \"eval\"\nextra = 1\n[run]\nplugn = \"e\"\n",
            "[vary]: missing; expected lists of values, as seed = [1, 2, 3]\n\
            line 1: budget: found 0; expected the number of episodes that all runs may play together, at least 1\n\
            line 2: command: found the text \"eval\"; expected one of run, learn\n\
            line 3: extra: unknown key; known here: version, command, budget, method, run, vary\n\
            line 5: plugn: unknown key; did you mean `plugin`?",
        );
        let one = "\n[vary]\nseed = [1]";
        check(&format!("{HEAD}name = \"a\"{one}"), "line 5: name: a name belongs to one run; give the runs tags");
        check(
            &format!("{HEAD}playbook = \"a\"\n[[run.learn]]\nlayer = \"harness\"{one}"),
            "line 5: playbook: each run of a sweep learns a playbook of its own, which begins empty",
        );
        check(
            "[vary]\nseed = [1]",
            "budget: missing; expected the number of episodes that all runs may play together, at least 1\n\
            [run]: missing; expected the options of the runs, as in run.toml",
        );
    }
}
