//! Placebos: rules that look like the stated ones, with other actions.
//!
//! Measuring whether learning helps needs a playbook of the same form whose rules have no meaning. So each condition
//! keeps its text, its evidence and its position, and gets an action that was not stated for it:
//!
//! 1. another candidate's action, if all actions can be permuted so that none keeps its own;
//! 2. else the same call of another available tool that accepts the same arguments;
//! 3. else another stated action;
//! 4. else the same call of any other tool; without one there is no placebo.
//!
//! The second case is the usual one: episodes of a group often share their task, and then all feedback expects the same action.

use crate::candidate::Candidate;
use clawhost_sdk::{Random, ToolSpec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Shuffles (Fisher and Yates).
fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for position in (1..items.len()).rev() {
        items.swap(position, random.below(position as u64 + 1) as usize);
    }
}

/// A random permutation of the actions in which no candidate keeps its action. `None`: one action has more than half of
/// the candidates.
fn dealt(candidates: &[Candidate], random: &mut Random) -> Option<Vec<String>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    candidates.iter().for_each(|candidate| *counts.entry(&candidate.deed).or_default() += 1);
    let most = counts.values().copied().max().filter(|most| most * 2 <= candidates.len())?;
    let mut kinds: Vec<&str> = counts.into_keys().collect();
    shuffle(&mut kinds, random);
    // In blocks of one action, none longer than `most`: taking the action `most` positions further on leaves the block.
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|index| {
        let deed = candidates.get(*index).map(|candidate| candidate.deed.as_str());
        kinds.iter().position(|kind| Some(*kind) == deed)
    });
    let givers = order.iter().cycle().skip(most).filter_map(|index| candidates.get(*index));
    let mut deeds: Vec<(usize, String)> =
        order.iter().copied().zip(givers.map(|candidate| candidate.deed.clone())).collect();
    deeds.sort_by_key(|(index, _)| *index);
    Some(deeds.into_iter().map(|(_, deed)| deed).collect())
}

/// `call TOOL ARGUMENTS`.
fn call(deed: &str) -> Option<(&str, &str)> {
    let call = deed.strip_prefix("call ")?.trim();
    Some(call.split_once(' ').unwrap_or((call, "{}")))
}

/// Whether a tool accepts the arguments of this template, compared by name.
fn takes(tool: &ToolSpec, arguments: &str) -> bool {
    let (Ok(Value::Object(arguments)), Ok(schema)) =
        (serde_json::from_str(arguments), serde_json::from_str::<Value>(&tool.input_schema))
    else {
        return false;
    };
    let known = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    arguments.keys().all(|name| known.is_some_and(|known| known.contains_key(name)))
        && required.into_iter().filter_map(Value::as_str).all(|name| arguments.contains_key(name))
}

/// The candidates with actions that were not stated for them. Candidates without such an action are dropped.
pub(crate) fn shuffled(told: &[Candidate], tools: &[ToolSpec], random: &mut Random) -> Vec<Candidate> {
    let texts: BTreeSet<String> = told.iter().map(Candidate::text).collect();
    let strange = |candidate: &Candidate| !texts.contains(&candidate.text());
    let mut dealt = dealt(told, random).unwrap_or_default().into_iter();
    let mut placebo = |candidate: &Candidate| {
        let dealt = dealt.next().map(|deed| candidate.with_deed(deed)).filter(strange);
        dealt.or_else(|| random.choose(&replacements(candidate, told, tools, &strange)).cloned())
    };
    told.iter().filter_map(&mut placebo).collect()
}

/// The first kind of replacement that is possible.
fn replacements(
    candidate: &Candidate,
    told: &[Candidate],
    tools: &[ToolSpec],
    strange: &dyn Fn(&Candidate) -> bool,
) -> Vec<Candidate> {
    let call = call(&candidate.deed);
    let with = |tool: &ToolSpec| {
        let (_, arguments) = call?;
        Some(candidate.with_deed(format!("call {} {arguments}", tool.name)))
    };
    let of = |replacements: Vec<Candidate>| replacements.into_iter().filter(strange).collect::<Vec<_>>();
    let alike = tools.iter().filter(|tool| call.is_some_and(|(_, arguments)| takes(tool, arguments)));
    let alike = of(alike.filter_map(with).collect());
    if !alike.is_empty() {
        return alike;
    }
    let others = of(told.iter().map(|other| candidate.with_deed(other.deed.clone())).collect());
    if !others.is_empty() {
        return others;
    }
    of(tools.iter().filter_map(with).collect())
}
