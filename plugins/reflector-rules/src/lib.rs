//! Rules from feedback, without a model.
//!
//! It reads what an environment states at the end of an episode, and turns it into rules for a playbook: `when FACT is
//! VALUE and FACT is VALUE: WHAT TO DO`. It knows no environment, only the grammar of reviews ([`clawhost_sdk::review`]),
//! which any environment may write in separate lines of its closing messages or of the results of the last action:
//!
//! ```text
//! expected: call paint {"with": "<colour>"}
//! because: colour is red and size is small
//! not looked up: size, which call measure {} shows
//! ```
//!
//! For this one an episode has failed if its end has `expected`; all others are skipped. A review becomes
//!
//! - the stated rule: `when colour is red and size is small: call paint ...`;
//! - with several facts, every rule on fewer of them: `when colour is red: ...`, `when size is small: ...`;
//! - a rule about looking: `when size is unknown: call measure {}`, if the *opening* states `size: unknown`. The value
//!   is the one that the opening states. A fact that it does not state gives no such rule, because its condition could
//!   not be checked.
//!
//! Feedback may name too many, too few, or wrong facts. So proposals are right, too narrow, too wide or wrong; trials
//! measure which. Those that most episodes of the group suggest come first. Rules that the playbook has already, in an
//! entry or a section, are not proposed again.
//!
//! # Many tasks
//!
//! Given episodes of more than one task, it counts: see [`counting`]. It then proposes all rules that hold over these episodes, successes
//! included, in the order in which they should stand, and retires entries of the running bundle that do not hold any more. The host shows many
//! tasks in a run with a budget, and in every second attempt of a run in which training finds nothing. From the second such attempt on it halves
//! the tasks in another way and proposes with less support, because the trials of such a run measure every proposal.
//!
//! # Look-ups
//!
//! A rule on a fact that must be looked up needs the look-up: it is proposed as an entry that needs the entry about looking, so that the host
//! shows, tries and deploys both together.
//!
//! # Without reviews
//!
//! If episodes of many tasks have no reviews, conditions are learned from what differs between right and wrong decisions. Every turn is a decision
//! ([`reading`]): facts that were known, the action, and how good it was. The episode's reward says so, or a signal that the option `signal` names,
//! after each turn or at the end; texts that name one other action are hints, and suffice alone. Rules are chosen on one half of the tasks and counted on the
//! other ([`covering`]), by the rewards of decisions with and without the action where the conditions hold. If one reward judges several decisions
//! of an episode, it counts as one observation of them together, and not once for each. Actions that show a
//! fact are proposed beside the rules that need it, and other actions are tried where everything fails ([`exploring`]).
//!
//! # Corrections
//!
//! A correction of the user of a live session ([`clawhost_sdk::Episode::corrections`]) is proposed word for word: `when asked for a distance: use metres`, or a
//! text without a condition. Only the host can see whether other users correct the same.
//!
//! # Sections
//!
//! With `write=section` it proposes one change: the section named `section` with one more line. The line is drawn from
//! the first `most` candidates with the seed. So a prompt can evolve: each child differs from its parent by one rule.
//!
//! # Placebos
//!
//! `mode=silent` and `mode=shuffled` make it a placebo, for the control arms of experiments. The silent one never
//! proposes anything. The shuffled one proposes rules of the same form, with the same conditions and in the same number
//! if possible, but each with an action that was *not* stated for it: if a playbook of those rules helps as much, the
//! effect does not come from their content.

mod candidate;
mod case;
mod correction;
mod counting;
mod covering;
mod deeds;
mod exploring;
mod learning;
mod opening;
mod placebo;
mod reading;
mod table;

use candidate::Candidate;
use clawhost_sdk::review::{Condition, is_hidden};
use clawhost_sdk::{
    Context, Entry, Group, OptionSpec, Playbook, Proposal, Random, Reflector, Result, Review, ToolSpec,
    export_reflector, log,
};
use std::collections::BTreeSet;

/// The reflector.
#[derive(Debug)]
pub struct Rules;

const DEFAULT_FACTS: usize = 2;
/// Rules on more facts describe a single case.
const FACTS: std::ops::RangeInclusive<usize> = 1..=2;
const DEFAULT_MOST: usize = 16;
/// Largest number of proposals that the host accepts from one call.
const MOST: std::ops::RangeInclusive<usize> = 1..=64;
/// Episodes that are asked what is the same in all of an environment: which tools there are, and whether there are reviews. Every question is
/// a call to the host, and their number is limited.
const SAMPLE: usize = 64;
const DEFAULT_SECTION: &str = "rules";
/// Longest name of a section in bytes, as in the host.
const LONGEST_SECTION_NAME: usize = 128;
/// Largest size of a section in bytes: the host accepts 64 KiB.
const LONGEST_SECTION: usize = 64 << 10;

/// How the stated rules are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Rules,
    Silent,
    Shuffled,
}

/// Where rules are written.
enum Write {
    Entries,
    Section(String),
}

struct Settings {
    facts: usize,
    most: usize,
    mode: Mode,
    write: Write,
    signal: String,
    pairs: bool,
}

impl Settings {
    fn of(context: &Context) -> Result<Self> {
        let facts = context.option_or("facts", DEFAULT_FACTS)?;
        let most = context.option_or("most", DEFAULT_MOST)?;
        if !FACTS.contains(&facts) || !MOST.contains(&most) {
            return Err("facts must be 1 to 2, most 1 to 64".into());
        }
        let mode = match context.option("mode").unwrap_or("rules") {
            "rules" => Mode::Rules,
            "silent" => Mode::Silent,
            "shuffled" => Mode::Shuffled,
            other => return Err(format!("mode={other} is none of rules, silent and shuffled").into()),
        };
        let section = context.option("section").unwrap_or(DEFAULT_SECTION);
        if section.is_empty() || section.len() > LONGEST_SECTION_NAME || section.chars().any(is_hidden) {
            return Err(format!("section must be a name of 1 to {LONGEST_SECTION_NAME} plain bytes").into());
        }
        let write = match context.option("write").unwrap_or("entries") {
            "entries" => Write::Entries,
            "section" => Write::Section(section.to_owned()),
            other => return Err(format!("write={other} is neither entries nor section").into()),
        };
        let signal = context.option("signal").unwrap_or_default().to_owned();
        let pairs = match context.option("pairs").unwrap_or("on") {
            "on" => true,
            "off" => false,
            other => return Err(format!("pairs={other} is neither on nor off").into()),
        };
        Ok(Self { facts, most, mode, write, signal, pairs })
    }
}

impl Settings {
    /// Candidates as entries, with what they need.
    fn entries(&self, candidates: &[Candidate], playbook: &Playbook) -> Vec<Entry> {
        let mut entries = candidate::entries(candidates, playbook);
        if !self.pairs {
            entries.iter_mut().for_each(|entry| entry.needs.clear());
        }
        entries
    }
}

/// A line, normalised for comparison: without a list marker, in lower case.
fn plain(line: &str) -> String {
    line.trim().trim_start_matches("- ").to_lowercase()
}

/// All lines of the playbook.
fn known(playbook: &Playbook) -> BTreeSet<String> {
    let entries = playbook.entries.iter().map(|entry| &entry.text);
    let sections = playbook.sections.iter().map(|(_, text)| text);
    entries.chain(sections).flat_map(|text| text.lines()).map(plain).collect()
}

/// The available tools of the first episodes.
fn tools(group: &Group) -> Vec<ToolSpec> {
    let mut names = BTreeSet::new();
    let all = group.episodes().iter().take(SAMPLE).flat_map(clawhost_sdk::Episode::tools);
    all.filter(|tool| names.insert(tool.name.clone())).collect()
}

/// A section with one more line, drawn from the candidates. `None`: there is no candidate, or no space.
fn grown(
    name: &str,
    playbook: &Playbook,
    fresh: &[Candidate],
    random: &mut Random,
    episodes: usize,
) -> Option<Proposal> {
    let chosen = random.choose(fresh)?;
    let old = playbook.section(name).unwrap_or_default().trim_end();
    let text = if old.is_empty() { chosen.text() } else { format!("{old}\n{}", chosen.text()) };
    if text.len() > LONGEST_SECTION {
        log::warn(&format!("the section {name} is full: {LONGEST_SECTION} bytes are allowed"));
        return None;
    }
    Some(chosen.show(Proposal::rewrite_section(name, text, chosen.effect(episodes))))
}

/// A rule of the playbook, if it has the form of this reflector's.
fn rule(line: &str) -> Option<(Vec<Condition>, String)> {
    let (when, deed) =
        plain(line).strip_prefix("when ")?.split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned()))?;
    let read = |part: &str| part.split_once(" is ").and_then(|(fact, value)| Condition::read(fact, value));
    let conditions: Option<Vec<Condition>> = when.split(" and ").map(read).collect();
    Some((conditions?, deed))
}

/// The rules, the number of those that were compared, and the number of decisions. Reviews say most; without one, the signal or the texts
/// say how good decisions were.
fn counted(
    group: &Group,
    known: &[(Vec<Condition>, String)],
    (settings, again): (&Settings, u32),
    random: &mut Random,
) -> (Vec<Candidate>, usize, usize) {
    let Settings { facts, most, signal, .. } = settings;
    let limits = learning::Limits { facts: *facts, most: *most, again };
    if group.episodes().iter().take(SAMPLE).all(|episode| Review::at_the_end(episode).is_empty()) {
        let learned = learning::learn(group.episodes(), &tools(group), known, signal, limits, random);
        return learned.map_or((Vec::new(), 0, 0), |found| (found.rules, found.hypotheses, found.decisions));
    }
    let cases: Vec<case::Case> = group.episodes().iter().flat_map(case::cases).collect();
    let found = counting::count(&cases, known, limits);
    (found.rules, found.hypotheses, cases.len())
}

/// All rules that these episodes of many tasks support, in the order in which they should stand; and what leaves the bundle.
fn bundle(group: &Group, playbook: &Playbook, settings: &Settings, random: &mut Random) -> Vec<Proposal> {
    if settings.mode == Mode::Silent {
        return Vec::new();
    }
    let has_status = |entry: &Entry, status: &str| entry.extra("status") == Some(status);
    // A queued entry was not shown yet.
    let shown = playbook.entries.iter().filter(|entry| !has_status(entry, "queued"));
    let known: Vec<(Vec<Condition>, String)> = shown.filter_map(|entry| rule(&entry.text)).collect();
    // The host shows many tasks in every second attempt, or in all.
    let again = playbook.attempt / 2;
    let (rules, hypotheses, cases) = counted(group, &known, (settings, again), random);
    log::info(&format!("{} rules of {hypotheses} that were compared, counted in {cases} decisions", rules.len()));
    let mut rules = match settings.mode {
        Mode::Shuffled => placebo::shuffled(&rules, &tools(group), random),
        Mode::Rules | Mode::Silent => rules,
    };
    rules.truncate(*MOST.end() / 2);
    let texts: BTreeSet<String> = rules.iter().map(|rule| plain(&rule.text())).collect();
    let is_bundled = |entry: &&Entry| has_status(entry, "bundled");
    let leaves = playbook.entries.iter().filter(is_bundled).filter(|entry| !texts.contains(&plain(&entry.text)));
    let leaves = leaves.take(*MOST.end() / 2).map(|entry| {
        Proposal::retire(entry.id.clone(), "fewer of the decisions seen so far would have been right with it")
    });
    let episodes = group.episodes().len();
    let entries = settings.entries(&rules, playbook);
    let added =
        rules.iter().zip(entries).map(|(rule, entry)| rule.show(Proposal::add_entry(entry, rule.effect(episodes))));
    leaves.chain(added).collect()
}

impl Reflector for Rules {
    const NAME: &'static str = "reflector-rules";
    const SUMMARY: &'static str = "rules out of the lines `expected: DEED` and `because: FACT is VALUE` of an environment's feedback, without a model";

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("facts", "2", "most facts of a rule, 1 or 2"),
            OptionSpec::new("most", "16", "most proposals at a time, 1 to 64"),
            OptionSpec::new("write", "entries", "what is proposed: new entries, or a section with one more line"),
            OptionSpec::new("section", DEFAULT_SECTION, "which section, with write=section"),
            OptionSpec::new(
                "signal",
                "",
                "for environments without reviews: the signal that says how good a turn or an episode was, more is better; empty: the reward",
            ),
            OptionSpec::new("pairs", "on", "on, or off for control arms: no rule says which look-up it needs"),
            OptionSpec::new("mode", "rules", "rules, or a placebo for control arms: silent or shuffled"),
        ]
    }

    fn check(context: &Context) -> Result<()> {
        Settings::of(context).map(|_| ())
    }

    fn reflect(group: &Group, playbook: &Playbook, context: &Context) -> Result<Vec<Proposal>> {
        let settings = Settings::of(context)?;
        if settings.mode == Mode::Rules && matches!(settings.write, Write::Entries) {
            let corrections = correction::proposals(group, &known(playbook), settings.most);
            if !corrections.is_empty() {
                return Ok(corrections);
            }
        }
        let mut random = Random::new(context.seed);
        let tasks = group.episodes().iter().map(|episode| episode.task().id);
        if matches!(settings.write, Write::Entries) && counting::has_many_tasks(tasks) {
            // The host gives every call of a run the same seed.
            let number = (u64::from(playbook.attempt) << 32) + group.episodes().len() as u64;
            let mut random = Random::new(context.seed ^ Random::new(number).next_u64());
            return Ok(bundle(group, playbook, &settings, &mut random));
        }
        let candidates = match settings.mode {
            Mode::Silent => return Ok(Vec::new()),
            Mode::Rules => candidate::gather(group, settings.facts),
            Mode::Shuffled => placebo::shuffled(&candidate::gather(group, settings.facts), &tools(group), &mut random),
        };
        let mut seen = known(playbook);
        let mut fresh: Vec<Candidate> =
            candidates.into_iter().filter(|candidate| seen.insert(plain(&candidate.text()))).collect();
        fresh.truncate(settings.most);
        let episodes = group.episodes().len();
        Ok(match &settings.write {
            Write::Entries => fresh
                .iter()
                .zip(settings.entries(&fresh, playbook))
                .map(|(candidate, entry)| candidate.show(Proposal::add_entry(entry, candidate.effect(episodes))))
                .collect(),
            Write::Section(name) => grown(name, playbook, &fresh, &mut random, episodes).into_iter().collect(),
        })
    }
}

export_reflector!(Rules);

#[cfg(test)]
mod counting_tests;
#[cfg(test)]
mod learning_tests;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
