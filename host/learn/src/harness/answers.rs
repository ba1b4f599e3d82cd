//! The answer of a reflector: its new entries may need each other, and entries that the playbook has.
//!
//! A new entry is needed by the name that the answer gives it, a known one by its id. An entry that needs something unknown, something that was
//! refused, or itself, is refused; the reason names what it needs.

use super::Harness;
use crate::{Answer, EntryId, NEEDS, Status};
use clawhost_core::{Change, Proposal, escaped};
use std::collections::BTreeMap;

/// Characters of a name in the reason of a refusal.
const NAME: usize = 64;

/// What an answer's names stand for. `None`: the entry was refused, or is not processed yet.
type Names = BTreeMap<String, Option<EntryId>>;

fn needs(proposal: &Proposal) -> &[String] {
    match &proposal.change {
        Change::Add(entry) | Change::Update(entry) => &entry.needs,
        _ => &[],
    }
}

/// The name of a new entry, if it has one.
fn name(proposal: &Proposal) -> Option<&str> {
    match &proposal.change {
        Change::Add(entry) => Some(entry.id.as_str()).filter(|name| !name.is_empty()),
        _ => None,
    }
}

/// A name that an entry needs, and through which it needs itself.
fn circular<'a>(proposal: &'a Proposal, by_name: &BTreeMap<&str, &'a Proposal>) -> Option<&'a str> {
    let own = name(proposal)?;
    let reaches = |from: &str| {
        let (mut seen, mut open) = (std::collections::BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            if next == own {
                return true;
            }
            if seen.insert(next) {
                open.extend(by_name.get(next).into_iter().flat_map(|one| needs(one)).map(String::as_str));
            }
        }
        false
    };
    needs(proposal).iter().map(String::as_str).find(|need| reaches(need))
}

impl Harness {
    /// Processes all proposals of an answer, in its order.
    pub(super) fn take_answer(&mut self, Answer { reflector, proposals }: Answer) {
        self.counts.proposed += proposals.len() as u64;
        let mut names = Names::new();
        let refusals = self.refusals(&proposals, &mut names);
        let mut related = Vec::new();
        for (proposal, refusal) in proposals.into_iter().zip(refusals) {
            if let Some(why) = refusal {
                self.refuse(&why);
                continue;
            }
            let (name, needs) = (name(&proposal).map(str::to_owned), needs(&proposal).to_vec());
            let Some(offered) = self.take(&reflector, proposal) else { continue };
            let id = Some(offered.id.clone());
            // The newest answer says all about a bundle.
            if !needs.is_empty() || self.bundles() {
                related.push((name.clone(), offered, needs));
            }
            names.extend(name.map(|name| (name, id)));
        }
        // A refusal may take the ground from others, so this ends when nothing changes any more.
        let mut withdrawn = true;
        while std::mem::take(&mut withdrawn) {
            let mut met = Vec::new();
            for (name, offered, needs) in std::mem::take(&mut related) {
                match self.resolve(&needs, &names).and_then(|ids| self.try_relate(&offered.id, ids)) {
                    Ok(()) => met.push((name, offered, needs)),
                    Err(why) => {
                        self.refuse(&why);
                        names.extend(name.map(|name| (name, None)));
                        if offered.is_new {
                            self.withdraw(&offered.id);
                        }
                        withdrawn = true;
                    }
                }
            }
            related = met;
        }
        self.drop_impossible();
    }

    /// Why proposals are refused for what they need, before any is processed. Fills the names.
    fn refusals(&self, proposals: &[Proposal], names: &mut Names) -> Vec<Option<String>> {
        let mut by_name: BTreeMap<&str, &Proposal> = BTreeMap::new();
        let mut is_second = Vec::new();
        for proposal in proposals {
            let second = name(proposal).is_some_and(|name| by_name.contains_key(name));
            is_second.push(second);
            if let Some(name) = name(proposal).filter(|_| !second) {
                by_name.insert(name, proposal);
                names.insert(name.to_owned(), None);
            }
        }
        let refusal = |(proposal, second): (&Proposal, bool)| {
            if let Some(name) = name(proposal).filter(|_| second) {
                return Some(format!("a second entry named `{}` in one answer", escaped(name, NAME)));
            }
            let needs = needs(proposal);
            if needs.len() > NEEDS {
                return Some(format!("an entry that needs more than {NEEDS} others"));
            }
            let is_known = |need: &&String| {
                by_name.contains_key(need.as_str())
                    || self.status(&EntryId((*need).clone())).is_some_and(Status::is_open)
            };
            if let Some(unknown) = needs.iter().find(|need| !is_known(need)) {
                let unknown = escaped(unknown, NAME);
                return Some(format!("an entry that needs `{unknown}`, which neither its answer nor the playbook has"));
            }
            circular(proposal, &by_name).map(needs_itself)
        };
        proposals.iter().zip(is_second).map(refusal).collect()
    }

    /// The ids of what an entry needs.
    fn resolve(&self, needs: &[String], names: &Names) -> Result<Vec<EntryId>, String> {
        let id = |need: &String| {
            let id = names.get(need).cloned().unwrap_or_else(|| Some(EntryId(need.clone())));
            // It may have been dropped from a full queue.
            let id = id.filter(|id| self.records.contains_key(id));
            id.ok_or_else(|| format!("an entry that needs `{}`, which was refused", escaped(need, NAME)))
        };
        needs.iter().map(id).collect()
    }

    fn try_relate(&mut self, id: &EntryId, needs: Vec<EntryId>) -> Result<(), String> {
        self.relate(id, needs).map_err(|through| needs_itself(&through.0))
    }
}

fn needs_itself(through: &str) -> String {
    format!("an entry that needs itself through `{}`", escaped(through, NAME))
}
