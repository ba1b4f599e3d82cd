use clawhost_sdk::{Context, Group, Playbook, Proposal, Reflector, Result, export_reflector};

/// The beginning of a line in which an environment says what it expected.
const EXPECTED: &str = "expected: ";

/// Makes a lesson of every line that says what was expected. A proposal is data: the host measures it before it is served.
pub struct {{type}};

impl Reflector for {{type}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = "0.1.0";
    const SUMMARY: &'static str = "proposes lessons from what the environment says at the end";

    fn reflect(group: &Group, playbook: &Playbook, _: &Context) -> Result<Vec<Proposal>> {
        let mut lessons: Vec<String> = Vec::new();
        for episode in group.episodes().iter().filter(|episode| episode.reward().is_some_and(|reward| reward < 1.0)) {
            for text in episode.closing().iter().map(|message| message.plain_text()) {
                let expected = text.lines().filter_map(|line| line.strip_prefix(EXPECTED));
                lessons.extend(expected.map(|what| format!("always: {what}")));
            }
        }
        lessons.sort();
        lessons.dedup();
        lessons.retain(|lesson| playbook.entries.iter().all(|known| known.text != *lesson));
        Ok(lessons.into_iter().map(|lesson| Proposal::add(lesson, "does what was expected")).collect())
    }
}

export_reflector!({{type}});
