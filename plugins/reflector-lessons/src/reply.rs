//! Parses the model's answer: strict JSON, with each proposal checked on its own.
//!
//! An answer that is not a JSON document of the right form is a [`Complaint`]. Otherwise every proposal is checked on
//! its own: an unknown kind, an unknown entry, a missing action, a text that is too long, or a known lesson is refused
//! with the reason. An answer without any usable proposal is a complaint too, unless all its proposals are known; an
//! empty list is a valid answer.

use clawhost_sdk::{Entry, Playbook, Proposal};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Characters of condition, action and warning together: a lesson is part of every later prompt.
const LONGEST_LESSON: usize = 1200;
/// Characters of a reason.
const LONGEST_REASON: usize = 600;
/// Characters of a name.
const LONGEST_NAME: usize = 120;
/// The reason for refusing a lesson that the playbook, or the same answer, has already.
const KNOWN: &str = "it is known already";
/// Largest size of a tag in bytes: the host accepts 128.
const LONGEST_TAG: usize = 128;
/// Other lessons that a lesson needs, as the host allows.
const MOST_NEEDS: usize = 8;
/// Entries that one merger replaces: more do not say the same.
const MOST_MERGED: usize = 8;
/// Tags of a lesson.
const MOST_TAGS: usize = 8;

/// Why an answer is invalid, as a text for the model.
#[derive(Debug, PartialEq)]
pub(crate) struct Complaint(pub(crate) String);

/// The usable proposals of an answer.
#[derive(Debug)]
pub(crate) struct Reply {
    /// In the order of the answer.
    pub(crate) proposals: Vec<Proposal>,
    /// Refused proposals with their reasons.
    pub(crate) refused: Vec<String>,
}

/// The context of proposals.
pub(crate) struct Subject<'a> {
    /// The current playbook.
    pub(crate) playbook: &'a Playbook,
    /// Ids of the shown episodes; the first has the number 1.
    pub(crate) episodes: &'a [String],
}

#[derive(Deserialize)]
struct Document {
    proposals: Vec<Value>,
}

/// One proposal in the model's format. Missing fields are empty.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Draft {
    change: String,
    id: Option<String>,
    name: Option<String>,
    when: Option<String>,
    #[serde(rename = "do")]
    action: Option<String>,
    avoid: Option<String>,
    /// Ids of the entries that it replaces, for `merge`.
    ids: Option<Vec<String>>,
    /// Names of this answer, or ids.
    needs: Option<Vec<String>>,
    tags: Option<Vec<String>>,
    because: Option<String>,
    /// Numbers; other values are ignored as evidence.
    episodes: Option<Vec<Value>>,
}

/// The content of a code fence, if the text has one: models often wrap their JSON.
fn unwrapped(text: &str) -> &str {
    let inside = || {
        let (_, after) = text.split_once("```")?;
        let (_, lines) = after.split_once('\n')?;
        Some(lines.rsplit_once("```")?.0)
    };
    // A document that begins immediately may contain fences in its texts.
    if text.trim_start().starts_with('{') { text } else { inside().unwrap_or(text) }
}

/// One line with normalised white space. `None` if it is empty.
fn one_line(text: Option<String>) -> String {
    text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a character would hide or move text, or is refused in names by the host.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn is_within(what: &str, text: &str, most: usize) -> Result<(), String> {
    let count = text.chars().count();
    if count > most {
        return Err(format!("{what} has {count} characters, at most {most} are allowed"));
    }
    match text.chars().any(is_hidden) {
        true => Err(format!("{what} has hidden characters")),
        false => Ok(()),
    }
}

impl Draft {
    /// The lesson as an entry, with its parts.
    fn entry(self) -> Result<Entry, String> {
        let (name, when) = (one_line(self.name), one_line(self.when));
        let (action, avoid) = (one_line(self.action), one_line(self.avoid));
        // Some models repeat `when`, or write out that there is no condition.
        let when = when.strip_prefix("when ").unwrap_or(&when);
        let when = if when.eq_ignore_ascii_case("always") { "" } else { when };
        if action.is_empty() {
            return Err("`do` is empty".to_owned());
        }
        is_within("the lesson", &format!("{when}{action}{avoid}"), LONGEST_LESSON)?;
        is_within("`name`", &name, LONGEST_NAME)?;
        let head = if when.is_empty() { "always".to_owned() } else { format!("when {when}") };
        let caution = if avoid.is_empty() { String::new() } else { format!("\n  avoid: {avoid}") };
        let parts = [("name", name.as_str()), ("when", when), ("do", &action), ("avoid", &avoid)];
        let told = parts.into_iter().filter(|(_, value)| !value.is_empty());
        let entry = told.fold(Entry::new(format!("{head}: {action}{caution}")), |entry, (name, value)| {
            entry.with_extra(name, value)
        });
        let entry = listed(self.needs, "needs", MOST_NEEDS)?.into_iter().fold(entry, Entry::needing);
        let tags: BTreeSet<String> = self.tags.unwrap_or_default().into_iter().map(|tag| one_line(Some(tag))).collect();
        let tags: Vec<String> = tags.into_iter().filter(|tag| !tag.is_empty()).collect();
        if tags.len() > MOST_TAGS || tags.iter().any(|tag| tag.len() > LONGEST_TAG || tag.chars().any(is_hidden)) {
            return Err(format!("`tags` are more than {MOST_TAGS}, or one is no plain word"));
        }
        Ok(Entry { tags, ..entry })
    }

    fn proposal(mut self, subject: &Subject<'_>) -> Result<Proposal, String> {
        let id = self.id.take().unwrap_or_default().trim().to_owned();
        let because = one_line(self.because.take());
        is_within("`because`", &because, LONGEST_REASON)?;
        let known = || match subject.playbook.entry(&id) {
            Some(_) if !id.is_empty() => Ok(id.as_str()),
            _ => Err(format!("the playbook has no entry with the id `{}`", id.escape_debug())),
        };
        let seen: BTreeSet<&String> =
            self.episodes.take().iter().flatten().filter_map(|number| episode(number, subject)).collect();
        let proposal = match self.change.as_str() {
            "add" => Proposal::add_entry(self.entry()?, because),
            "update" => Proposal::update(known()?, self.entry()?, because),
            "retire" => Proposal::retire(known()?, because),
            "merge" => {
                let ids = listed(self.ids.take(), "ids", MOST_MERGED)?;
                if let Some(unknown) = ids.iter().find(|id| subject.playbook.entry(id).is_none()) {
                    return Err(format!("the playbook has no entry with the id `{}`", unknown.escape_debug()));
                }
                Proposal::merge(ids, self.entry()?, because)
            }
            other => return Err(format!("`change` is `{}`, not add, update, retire or merge", other.escape_debug())),
        };
        Ok(seen.into_iter().fold(proposal, |proposal, episode| proposal.seen_in(episode.clone(), Vec::new())))
    }
}

/// A list of names, in one line each.
fn listed(list: Option<Vec<String>>, what: &str, most: usize) -> Result<Vec<String>, String> {
    let list: BTreeSet<String> = list.unwrap_or_default().into_iter().map(|one| one_line(Some(one))).collect();
    let list: Vec<String> = list.into_iter().filter(|one| !one.is_empty()).collect();
    if list.len() > most || list.iter().any(|one| one.len() > LONGEST_TAG || one.chars().any(is_hidden)) {
        return Err(format!("`{what}` are more than {most}, or one is no plain word"));
    }
    Ok(list)
}

/// The episode with this number, given as a number or as digits.
fn episode<'a>(number: &Value, subject: &Subject<'a>) -> Option<&'a String> {
    let number = number.as_u64().or_else(|| number.as_str()?.trim().parse().ok())?;
    subject.episodes.get(usize::try_from(number.checked_sub(1)?).ok()?)
}

/// A text, normalised for comparison.
fn plain(text: &str) -> String {
    text.trim().trim_start_matches("- ").to_lowercase()
}

/// What two proposals of one answer must not share: an entry, or a text.
fn subjects(proposal: &Proposal) -> (Option<&str>, Option<String>) {
    use clawhost_sdk::Change;
    match &proposal.change {
        Change::Add(entry) => (None, Some(plain(&entry.text))),
        Change::Update(entry) => (Some(&entry.id), Some(plain(&entry.text))),
        Change::Retire(id) => (Some(id), None),
        Change::Merge((_, entry)) => (None, Some(plain(&entry.text))),
        Change::RewriteSection(_) | Change::Other(_) => (None, None),
    }
}

/// The names of the new lessons of an answer, and what lessons of it need.
fn references(proposals: &[Value]) -> (BTreeSet<String>, BTreeSet<String>) {
    let text = |value: &Value| one_line(value.as_str().map(str::to_owned));
    let added = proposals.iter().filter(|draft| draft.get("change").and_then(Value::as_str) == Some("add"));
    let names = added.filter_map(|draft| draft.get("name")).map(text).filter(|name| !name.is_empty());
    let needs = proposals.iter().filter_map(|draft| draft.get("needs")?.as_array()).flatten();
    (names.collect(), needs.map(text).collect())
}

/// The proposal, if what it needs is in the answer or in the playbook.
fn met(proposal: Proposal, subject: &Subject<'_>, names: &BTreeSet<String>) -> Result<Proposal, String> {
    use clawhost_sdk::Change;
    let (Change::Add(entry) | Change::Update(entry)) = &proposal.change else { return Ok(proposal) };
    match entry.needs.iter().find(|need| !names.contains(*need) && subject.playbook.entry(need).is_none()) {
        Some(unknown) => {
            Err(format!("it needs `{}`, which is neither a name of this answer nor an id", unknown.escape_debug()))
        }
        None => Ok(proposal),
    }
}

/// The name of a new lesson that repeats an entry of the playbook, and the id of that entry.
fn repetition(proposal: &Proposal, subject: &Subject<'_>) -> Option<(String, String)> {
    let clawhost_sdk::Change::Add(entry) = &proposal.change else { return None };
    let known = subject.playbook.entries.iter().find(|known| plain(&known.text) == plain(&entry.text))?;
    Some((entry.extra("name").unwrap_or(&entry.id).to_owned(), known.id.clone()))
}

impl Reply {
    /// Lets lessons need the entries that others of this answer repeated, and drops those that need a lesson that was not taken. Returns the
    /// number of dropped ones.
    fn settle_needs(&mut self, repeated: &BTreeMap<String, String>, subject: &Subject<'_>) -> u32 {
        use clawhost_sdk::Change;
        for proposal in &mut self.proposals {
            let (Change::Add(entry) | Change::Update(entry)) = &mut proposal.change else { continue };
            for need in &mut entry.needs {
                if let Some(id) = repeated.get(need) {
                    need.clone_from(id);
                }
            }
        }
        let mut dropped = 0;
        loop {
            let added = |proposal: &Proposal| match &proposal.change {
                Change::Add(entry) => Some(entry.id.clone()),
                _ => None,
            };
            let taken: BTreeSet<String> = self.proposals.iter().filter_map(added).collect();
            let missing = |proposal: &Proposal| {
                let (Change::Add(entry) | Change::Update(entry)) = &proposal.change else { return None };
                let is_missing = |need: &&String| !taken.contains(*need) && subject.playbook.entry(need).is_none();
                entry.needs.iter().find(is_missing).cloned()
            };
            let Some((at, need)) =
                self.proposals.iter().enumerate().find_map(|(at, proposal)| Some((at, missing(proposal)?)))
            else {
                return dropped;
            };
            self.proposals.remove(at);
            self.refused.push(format!("a proposal needs `{}`, which was not taken", need.escape_debug()));
            dropped += 1;
        }
    }
}

/// A new lesson under its name, if another one needs it.
fn named(mut proposal: Proposal, needed: &BTreeSet<String>) -> Proposal {
    use clawhost_sdk::Change;
    if let Change::Add(entry) = &mut proposal.change
        && let Some(name) = entry.extra("name").map(str::to_owned).filter(|name| needed.contains(name))
    {
        entry.id = name;
    }
    proposal
}

/// Parses an answer, with at most `most` proposals.
///
/// # Errors
/// It is not a document of the right form, or no proposal can be used.
pub(crate) fn read(text: &str, subject: &Subject<'_>, most: usize) -> Result<Reply, Complaint> {
    let document: Document = serde_json::from_str(unwrapped(text).trim()).map_err(|error| {
        Complaint(format!("the answer is no JSON document of the form that was asked for: {error}"))
    })?;
    let (names, needed) = references(&document.proposals);
    let mut texts: BTreeSet<String> = subject.playbook.entries.iter().map(|entry| plain(&entry.text)).collect();
    let mut ids: BTreeSet<String> = BTreeSet::new();
    // Names of lessons that repeat an entry of the playbook, with the ids of these.
    let mut repeated: BTreeMap<String, String> = BTreeMap::new();
    let mut reply = Reply { proposals: Vec::new(), refused: Vec::new() };
    // Proposals that repeat the playbook are not a mistake.
    let mut useless = 0;
    for (number, draft) in (1..).zip(document.proposals) {
        let draft: Result<Draft, _> = serde_json::from_value(draft);
        let read = draft.map_err(|error| error.to_string()).and_then(|draft| draft.proposal(subject));
        let read = read.and_then(|proposal| met(proposal, subject, &names)).map(|proposal| named(proposal, &needed));
        let fresh = read.and_then(|proposal| {
            let (id, text) = subjects(&proposal);
            if reply.proposals.len() >= most {
                return Err(format!("at most {most} proposals are taken"));
            }
            if text.is_some_and(|text| !texts.insert(text)) {
                repeated.extend(repetition(&proposal, subject));
                return Err(KNOWN.to_owned());
            }
            match id.is_some_and(|id| !ids.insert(id.to_owned())) {
                true => Err("another proposal changes the same entry".to_owned()),
                false => Ok(proposal),
            }
        });
        match fresh {
            Ok(proposal) => reply.proposals.push(proposal),
            Err(why) => {
                useless += u32::from(why != KNOWN);
                reply.refused.push(format!("proposal {number}: {why}"));
            }
        }
    }
    useless += reply.settle_needs(&repeated, subject);
    if reply.proposals.is_empty() && useless > 0 {
        return Err(Complaint(format!("nothing that it proposes can be used: {}", reply.refused.join("; "))));
    }
    Ok(reply)
}

#[cfg(test)]
mod tests;
