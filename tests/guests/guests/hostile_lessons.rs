//! Proposes an invalid lesson, as the option `attack` says.

use clawhost_sdk::{Change, Context, Entry, Group, Playbook, Proposal, Reflector, Result, export_reflector};

struct Guest;

fn lesson(text: &str, tags: &[&str]) -> Proposal {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let entry = Entry { id: String::new(), text: text.to_owned(), tags, needs: vec![], extra: vec![] };
    Proposal { change: Change::Add(entry), ..Proposal::add("", "less guessing") }
}

fn needing(needs: impl Iterator<Item = String>) -> Proposal {
    Proposal::add_entry(needs.fold(Entry::new("plain"), Entry::needing), "less guessing")
}

impl Reflector for Guest {
    const NAME: &'static str = "hostile-lessons";

    fn reflect(_: &Group, _: &Playbook, context: &Context) -> Result<Vec<Proposal>> {
        let one = |change: Change| Proposal { change, ..lesson("", &[]) };
        Ok(vec![match context.option("attack").unwrap_or_default() {
            "10 MiB" => lesson(&"x".repeat(10 << 20), &[]),
            "65 KiB" => lesson(&"x".repeat((64 << 10) + 1), &[]),
            "control characters" => lesson("a\u{1b}[2Jb\u{202e}c\0d", &[]),
            "a hidden tag" => lesson("plain", &["\u{200b}"]),
            "a hidden section" => one(Change::RewriteSection(("rules\u{202e}".into(), "none".into()))),
            "retires nothing" => one(Change::Retire(String::new())),
            "a kind of its own" => one(Change::Other("burn\u{1b}[2J".into())),
            "65 needs" => needing((0..65).map(|number| number.to_string())),
            "a hidden need" => needing(["\u{200b}".to_owned()].into_iter()),
            "merges 65" => Proposal::merge((0..65).map(|number| number.to_string()), Entry::new("plain"), "less"),
            "65 proofs" => (0..65).fold(lesson("plain", &[]), |proposal, _| proposal.seen_in("episode", vec![])),
            _ => lesson("plain", &["tag"]),
        }])
    }
}

export_reflector!(Guest);
