//! Arithmetic and word problems, generated from the seed: one question, one answer.
//!
//! Every problem belongs to exactly one split, chosen by a hash of its content, for every seed: test problems are never
//! trained on. The hash mixes all bits (SplitMix64): a linear one would exclude whole residues, and with them digit
//! pairs, from training. The answer is in the task's `reference`, which only rewards see.
//!
//! With `talk=terse` arithmetic is asked as `17+35=` without further text, for models whose vocabulary has little more
//! than digits. With `demonstrate=answers` the question has the attribute `demonstration` with the answer (sums only),
//! for models that learn by imitation first.

mod problem;

use clawhost_sdk::{
    Action, Context, Message, MessageEnvironment, Opening, OptionSpec, Params, Random, Result, Signals, Split, Step,
    Task, export_environment,
};
use problem::{Kind, Problem};

/// One episode.
#[derive(Debug)]
pub struct Math;

/// Numbers of tasks per split. The splits have about 80, 10 and 10 of 100 problems. Tasks are drawn, so some problems occur twice.
/// There are so many training tasks that they cover nearly all of the smallest kind: 8,000 draws would miss every third sum below 100.
const SPLITS: [(&str, u64); 3] = [("train", 32_768), ("val", 1000), ("test", 1000)];

/// Draws before a task stops looking for a problem of its split. A tenth of all problems fit, so 200 draws fail once in 10^9.
const DRAWS: u64 = 200;

/// The split of a problem.
fn split_of(problem: &Problem) -> &'static str {
    let mut state = 0u64;
    for byte in problem.key.bytes() {
        state = Random::new(state ^ u64::from(byte)).next_u64();
    }
    match state % 10 {
        0 => "test",
        1 => "val",
        _ => "train",
    }
}

/// The problem at a position of a split. It does not depend on earlier positions.
fn problem_at(seed: u64, split: &str, position: u64, kinds: &[Kind]) -> Result<Problem> {
    let salt = split.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut random = Random::new(Random::new(seed ^ salt).next_u64() ^ position.wrapping_mul(0x9e37_79b9));
    for _ in 0..DRAWS {
        let kind = random.choose(kinds).copied().ok_or("no kinds")?;
        let problem = Problem::draw(kind, &mut random);
        if split_of(&problem) == split {
            return Ok(problem);
        }
    }
    Err(format!("no problem of split {split} found at {position}").into())
}

fn kinds(context: &Context) -> Result<Vec<Kind>> {
    let wanted = context.option("kind").unwrap_or("all");
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.is(wanted)).collect();
    if kinds.is_empty() {
        return Err(format!("kind={wanted}: choose all, arithmetic, words, or one of {}", Kind::names()).into());
    }
    Ok(kinds)
}

/// `Calculate 7 + 35.` as `07+35=`: each digit has a fixed position.
fn short(text: &str) -> String {
    let plain = text.strip_prefix("Calculate ").unwrap_or(text).trim_end_matches('.');
    let word = |word: &str| if word.parse::<u64>().is_ok() { format!("{word:0>2}") } else { word.to_owned() };
    format!("{}=", plain.split(' ').map(word).collect::<String>())
}

/// The answer to `17+35=`.
fn sum(question: &str) -> Option<i64> {
    let (one, other) = question.strip_suffix('=')?.split_once('+')?;
    one.parse::<i64>().ok()?.checked_add(other.parse().ok()?)
}

impl MessageEnvironment for Math {
    const NAME: &'static str = "env-math";
    const SUMMARY: &'static str = "Arithmetic and word problems generated from the seed";
    const SNAPSHOT: bool = true;
    const DEMONSTRATIONS: bool = true;

    fn options() -> Vec<OptionSpec> {
        let summary = format!("all, arithmetic, words, or one of {}", Kind::names());
        vec![
            OptionSpec::new("kind", "all", summary),
            OptionSpec::new("talk", "words", "words, or terse: `17+35=`, for models that know few characters"),
            OptionSpec::new("demonstrate", "no", "no, or answers: the question says what to answer (kind=addition)"),
        ]
    }

    fn splits() -> Vec<Split> {
        SPLITS.into_iter().map(|(name, tasks)| Split::new(name, tasks)).collect()
    }

    fn check(context: &Context) -> Result<()> {
        let kinds = kinds(context)?;
        let terse = context.is_other("talk", ["words", "terse"])?;
        if terse && !kinds.iter().all(|kind| kind.is("arithmetic")) {
            return Err("talk=terse has no words for word problems: say kind=arithmetic, or one of its kinds".into());
        }
        if context.is_other("demonstrate", ["no", "answers"])? && kinds != [Kind::Addition] {
            return Err("demonstrate=answers knows sums only: say kind=addition".into());
        }
        Ok(())
    }

    fn tasks(context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>> {
        let kinds = kinds(context)?;
        let terse = context.is_other("talk", ["words", "terse"])?;
        let size = SPLITS.into_iter().find(|(name, _)| *name == split).map_or(0, |(_, size)| size);
        let end = size.min(offset.saturating_add(u64::from(limit)));
        let task = |position| {
            let problem = problem_at(context.seed, split, position, &kinds)?;
            let text = if terse { short(&problem.text) } else { problem.text };
            Ok(Task::new(split, format!("{split}-{position}"), text)
                .with_reference(format!("\"{}\"", problem.answer))
                .with_tag(problem.kind.name()))
        };
        (offset..end).map(task).collect()
    }

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let question = &params.task.input;
        if question.is_empty() {
            return Err("the task has no question".into());
        }
        if params.context.is_other("talk", ["words", "terse"])? {
            let demonstrates = params.context.is_other("demonstrate", ["no", "answers"])?;
            let said = Message::user(question.as_str());
            let said = match sum(question).filter(|_| demonstrates) {
                Some(sum) => said.demonstrating(sum.to_string()),
                None => said,
            };
            return Ok((Self, Opening { observation: vec![said], ..Opening::default() }));
        }
        let hint = "You solve problems. Think if you must, then end with the answer in \\boxed{}.";
        let opening = Opening::text(format!("{question}\nPut the answer in \\boxed{{}}."));
        Ok((Self, Opening { system_hint: Some(hint.to_owned()), ..opening }))
    }

    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step> {
        let text = action.plain_text();
        signals.set("boxed", f64::from(u8::from(text.contains("\\boxed{"))));
        Ok(Step::done("Noted."))
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(_: &Params, state: &[u8]) -> Result<Self> {
        if state.is_empty() { Ok(Self) } else { Err("a state of this environment is empty".into()) }
    }
}

export_environment!(Math);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::testing::play_task;
    use std::collections::{BTreeMap, BTreeSet};

    fn context(seed: u64, kind: &str) -> Context {
        Context::new(seed, vec![("kind".to_owned(), kind.to_owned())])
    }

    fn tasks(seed: u64, kind: &str, split: &str, count: u64) -> Vec<Task> {
        (0..count)
            .step_by(256)
            .flat_map(|offset| Math::tasks(&context(seed, kind), split, offset, 256).unwrap())
            .take(count as usize)
            .collect()
    }

    #[test]
    fn the_splits_share_no_problem_under_any_seed() {
        let mut home: BTreeMap<String, String> = BTreeMap::new();
        for seed in 0..4 {
            for (split, size) in SPLITS {
                for task in tasks(seed, "all", split, size.min(1000)) {
                    let known = home.entry(task.input.clone()).or_insert_with(|| split.to_owned());
                    assert_eq!(known, split, "{}", task.input);
                }
            }
        }
    }

    #[test]
    fn training_covers_every_digit_pair() {
        let mut seen = BTreeMap::from([("train", BTreeSet::new()), ("test", BTreeSet::new())]);
        for split in ["train", "test"] {
            for task in tasks(1, "addition", split, if split == "train" { 32_768 } else { 1000 }) {
                let numbers: Vec<u32> = task.input.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
                let [a, b] = numbers[..] else { panic!("{}", task.input) };
                let pairs = seen.get_mut(split).unwrap();
                pairs.insert(("units", a % 10, b % 10));
                pairs.insert(("tens", a / 10, b / 10));
            }
        }
        assert_eq!(seen["train"].len(), 200, "every pair of digits in both places");
        let sums = tasks(1, "addition", "train", 32_768);
        let all: BTreeSet<&str> = sums.iter().map(|task| task.input.as_str()).collect();
        assert!(all.len() > 7500, "nearly all sums of training come: {}", all.len());
        assert!(seen["test"].len() > 190, "{}", seen["test"].len());
    }

    #[test]
    fn tasks_are_a_function_of_seed_split_and_position() {
        let whole = Math::tasks(&context(7, "all"), "val", 0, 20).unwrap();
        let part = Math::tasks(&context(7, "all"), "val", 10, 5).unwrap();
        let texts = |tasks: &[Task]| tasks.iter().map(|task| (task.id.clone(), task.input.clone())).collect::<Vec<_>>();
        assert_eq!(texts(&whole[10..15]), texts(&part));
        let other = Math::tasks(&context(8, "all"), "val", 0, 20).unwrap();
        assert_ne!(texts(&whole), texts(&other));
        assert_eq!(Math::tasks(&context(7, "all"), "val", 999, 20).unwrap().len(), 1, "the end of the split");
        assert!(Math::tasks(&context(7, "all"), "none", 0, 20).unwrap().is_empty());
        assert!(Math::tasks(&context(7, "poetry"), "val", 0, 1).is_err());
    }

    #[test]
    fn one_answer_ends_the_episode_and_the_question_has_no_answer() {
        for task in tasks(3, "all", "train", 50) {
            let reference = task.reference.clone().unwrap();
            let params = Params { task: task.clone(), context: context(3, "all"), max_turns: 1 };
            let transcript = play_task::<Math>(params, &["\\boxed{1}"]);
            assert!(transcript.over);
            assert!(transcript.observations[0].starts_with(&task.input));
            assert!(!transcript.observations[1].contains(reference.trim_matches('"')));
        }
    }
}
