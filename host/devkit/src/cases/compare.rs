//! Compares what happened with what a case expects.

use super::text::{Expected, fits};
use clawhost_core::{Change, Ending, Episode, Message, Proposal, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// What differs, as the key of the case says it.
    pub what: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl Mismatch {
    pub(crate) fn new(what: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), expected: expected.into(), found: found.into() }
    }
}

/// What happened, in the words of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Happened {
    /// The observations: the opening, then one for each turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<String>,
    /// How the episode ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why the episode failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The last value of every signal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub signals: BTreeMap<String, f64>,
    /// Artefacts that are text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artefacts: BTreeMap<String, String>,
    /// The reward. `None`: not scored.
    pub reward: Option<f64>,
    /// `scored`, `not applicable` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rationale: String,
    /// Texts of the proposals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposals: Option<Vec<String>>,
    /// Most fuel of one call, in millions of instructions.
    pub fuel_million: f64,
    /// Turns.
    pub turns: u32,
}

/// Instructions of a million.
const MILLION: f64 = 1e6;

/// The texts of messages, and of tool results before them.
fn said<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    messages.into_iter().map(Message::plain_text).collect::<Vec<_>>().join("\n")
}

impl Happened {
    /// What happened in an episode.
    pub(crate) fn in_episode(episode: &Episode) -> Self {
        let mut observations =
            vec![episode.turns.first().map_or_else(|| said(&episode.closing), |first| said(&first.observation))];
        let later = episode.turns.iter().enumerate().map(|(index, turn)| {
            let next = episode.turns.get(index.saturating_add(1)).map_or(&episode.closing, |next| &next.observation);
            said(turn.tool_results.iter().chain(next))
        });
        observations.extend(later);
        let mut signals = BTreeMap::new();
        for signal in episode.turns.iter().flat_map(|turn| &turn.signals) {
            signals.insert(signal.name.clone(), signal.value);
        }
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).ok();
        let artefacts = episode.artefacts.iter().filter_map(|one| Some((one.name.clone(), text(&one.bytes)?)));
        let fuel = episode.turns.iter().filter_map(|turn| turn.fuel).max().unwrap_or(0);
        let (verdict, rationale) = episode.verdicts.first().map(|record| words(&record.verdict)).unzip();
        Self {
            observations,
            status: Some(match &episode.ending {
                Ending::Terminated => "terminated".to_owned(),
                Ending::Truncated(_) => "truncated".to_owned(),
                Ending::Failed(failure) => failure.label(),
            }),
            failure: match &episode.ending {
                Ending::Failed(failure) => Some(failure.to_string()),
                _ => None,
            },
            signals,
            artefacts: artefacts.collect(),
            reward: episode.reward,
            verdict,
            rationale: rationale.unwrap_or_default(),
            proposals: None,
            fuel_million: fuel as f64 / MILLION,
            turns: u32::try_from(episode.turns.len()).unwrap_or(u32::MAX),
        }
    }

    /// What a reward said of an episode.
    pub(crate) fn verdict(verdict: &Verdict) -> Self {
        let (word, rationale) = words(verdict);
        let reward = match verdict {
            Verdict::Scored(card) => Some(card.value),
            Verdict::NotApplicable(_) | Verdict::Failed(_) => None,
        };
        Self { reward, verdict: Some(word), rationale, ..Self::default() }
    }

    /// What a reflector proposed.
    pub(crate) fn proposals(proposals: &[Proposal]) -> Self {
        Self { proposals: Some(proposals.iter().map(|one| proposed(&one.change)).collect()), ..Self::default() }
    }

    /// All differences from what is expected.
    pub(crate) fn compare(&self, expected: &Expected) -> Vec<Mismatch> {
        let mut differences = Vec::new();
        if let Some(wanted) = &expected.observations {
            differences.extend(texts("observations", wanted, &self.observations));
        }
        if let (None, Some(failure)) = (&expected.status, &self.failure) {
            differences.push(Mismatch::new("status", "no failure, as none is named", failure));
        }
        if let Some(wanted) = &expected.status
            && Some(wanted) != self.status.as_ref()
        {
            differences.push(Mismatch::new("status", wanted, self.status.clone().unwrap_or_default()));
        }
        for (name, wanted) in &expected.signals {
            let found = self.signals.get(name);
            if found.is_none_or(|found| (found - wanted).abs() > f64::EPSILON * wanted.abs().max(1.0)) {
                let found = found.map_or_else(|| "not set".to_owned(), f64::to_string);
                differences.push(Mismatch::new(format!("signals.{name}"), wanted.to_string(), found));
            }
        }
        for (name, wanted) in &expected.artefacts {
            let found = self.artefacts.get(name);
            if found.is_none_or(|found| !fits(wanted, found)) {
                let found = found.cloned().unwrap_or_else(|| "not there, or no text".to_owned());
                differences.push(Mismatch::new(format!("artefacts.{name}"), wanted, found));
            }
        }
        if let Some(wanted) = expected.reward
            && self.reward.is_none_or(|found| !wanted.contains(found))
        {
            let found = self
                .reward
                .map_or_else(|| format!("not scored{}", because(&self.rationale)), |found| found.to_string());
            differences.push(Mismatch::new("reward", wanted.to_string(), found));
        }
        if let Some(wanted) = &expected.verdict
            && Some(wanted) != self.verdict.as_ref()
        {
            let found = format!("{}{}", self.verdict.as_deref().unwrap_or("none"), because(&self.rationale));
            differences.push(Mismatch::new("verdict", wanted, found));
        }
        if let Some(wanted) = &expected.rationale
            && !fits(wanted, &self.rationale)
        {
            differences.push(Mismatch::new("rationale", wanted, &self.rationale));
        }
        if let Some(wanted) = &expected.proposals {
            differences.extend(texts("proposals", wanted, self.proposals.as_deref().unwrap_or_default()));
        }
        let bytes: u64 = self.observations.iter().map(|text| text.len() as u64).sum();
        let ceilings = [
            ("most_fuel_million", expected.most_fuel_million, self.fuel_million),
            ("most_bytes", expected.most_bytes.map(|most| most as f64), bytes as f64),
            ("most_turns", expected.most_turns.map(f64::from), f64::from(self.turns)),
        ];
        for (what, most, found) in ceilings {
            if let Some(most) = most.filter(|most| found > *most) {
                differences.push(Mismatch::new(what, format!("at most {most}"), found.to_string()));
            }
        }
        differences
    }
}

/// A proposed change as a text: that of its entry, or what it does.
fn proposed(change: &Change) -> String {
    match change {
        Change::Add(entry) | Change::Update(entry) | Change::Merge(_, entry) => entry.text.clone(),
        Change::Retire(id) => format!("retire {id}"),
        Change::RewriteSection(name, text) => format!("section {name}: {text}"),
    }
}

fn because(rationale: &str) -> String {
    if rationale.is_empty() { String::new() } else { format!(": {rationale}") }
}

/// A verdict in one word, and its reason.
fn words(verdict: &Verdict) -> (String, String) {
    match verdict {
        Verdict::Scored(card) => ("scored".to_owned(), card.rationale.clone()),
        Verdict::NotApplicable(why) => ("not applicable".to_owned(), why.clone()),
        Verdict::Failed(failure) => ("failed".to_owned(), failure.to_string()),
    }
}

fn texts(what: &str, wanted: &[String], found: &[String]) -> Vec<Mismatch> {
    let mut differences: Vec<Mismatch> = wanted
        .iter()
        .zip(found)
        .enumerate()
        .filter(|(_, (wanted, found))| !fits(wanted, found))
        .map(|(index, (wanted, found))| Mismatch::new(format!("{what}[{index}]"), wanted, found))
        .collect();
    if wanted.len() != found.len() {
        let count = |all: &[String]| format!("{} of them", all.len());
        let more = found.get(wanted.len()).map(|next| format!(", the next one: {next}")).unwrap_or_default();
        differences.push(Mismatch::new(what, count(wanted), format!("{}{more}", count(found))));
    }
    differences
}
