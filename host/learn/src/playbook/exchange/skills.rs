//! A folder per skill, with a `SKILL.md`: front matter with name and description, then the instructions in Markdown.
//!
//! The description says when a skill applies, so it becomes the lesson's condition: `When tier is silver.` becomes `tier is
//! silver`, and `Always.` becomes no condition ([`condition`]). The body is the action. A part under the heading "Avoid" or
//! "Anti-patterns" is what to avoid. Exported files have metadata that restores every entry exactly. Sections are files in a
//! folder of their own ([`SECTIONS_FOLDER`]), which other readers of skills ignore.

use super::folders::Names;
use super::front_matter::FrontMatter;
use super::{Imported, assemble, display_tag};
use crate::playbook::Playbook;
use crate::{Entry, EntryId, LearnError, Lesson, Skill};
use std::collections::BTreeMap;

/// The folder of a playbook's sections, one file each.
pub const SECTIONS_FOLDER: &str = "playbook-sections";

/// The file of a skill, in the skill's folder.
pub const SKILL_FILE: &str = "SKILL.md";

/// Fields of the front matter.
const NAME: &str = "name";
const DESCRIPTION: &str = "description";
const SECTION: &str = "section";

/// Metadata of exported files; all keys begin with [`OWN`].
const OWN: &str = "clawhost-";
const OWN_VERSION: &str = "clawhost-version";
const OWN_POSITION: &str = "clawhost-position";
const OWN_KIND: &str = "clawhost-kind";
const OWN_NAME: &str = "clawhost-name";
const OWN_TAGS: &str = "clawhost-tags";
/// The folders of the skills that it needs.
const OWN_NEEDS: &str = "clawhost-needs";

/// The version of exported files that this program writes and reads.
const VERSION: &str = "1";

/// Kinds of lessons.
const TEXT: &str = "text";
const ALWAYS: &str = "always";
const CONDITIONAL: &str = "conditional";

/// Most characters of the description of a text lesson, which repeats the start of the text.
const DESCRIPTION_CHARACTERS: usize = 200;

/// The description of a skill without a condition.
const ALWAYS_DESCRIPTION: &str = "Always.";

const AVOID_HEADING: &str = "## Avoid";

/// Headings, in lower case, above what to avoid.
const AVOID_TITLES: [&str; 5] = ["avoid", "what to avoid", "anti-patterns", "antipatterns", "anti patterns"];

/// The files of a playbook, by path. [`from_skills`] is the inverse.
pub fn to_skills(playbook: &Playbook) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut names = Names::default();
    for (name, text) in &playbook.sections {
        let head = FrontMatter {
            fields: BTreeMap::from([(SECTION.to_owned(), name.clone())]),
            metadata: BTreeMap::from([(OWN_VERSION.to_owned(), VERSION.to_owned())]),
        };
        let path = format!("{SECTIONS_FOLDER}/{}.md", names.choose(&[name, SECTION]));
        files.insert(path, format!("{}\n{text}\n", head.write()));
    }
    let mut names = Names::default();
    names.reserve(SECTIONS_FOLDER);
    let mut skills = Vec::new();
    for (position, entry) in playbook.entries.iter().enumerate() {
        skills.push((entry, skill_file(position, entry, &mut names)));
    }
    let folders: BTreeMap<&EntryId, String> =
        skills.iter().map(|(entry, (folder, ..))| (&entry.id, folder.clone())).collect();
    for (entry, (folder, mut head, body)) in skills {
        let needs: Vec<&String> = entry.needs.iter().filter_map(|need| folders.get(need)).collect();
        if !needs.is_empty() {
            head.metadata.insert(OWN_NEEDS.to_owned(), serde_json::json!(needs).to_string());
        }
        files.insert(format!("{folder}/{SKILL_FILE}"), format!("{}\n{body}\n", head.write()));
    }
    files
}

/// The folder, the front matter and the body of a skill.
fn skill_file(position: usize, entry: &Entry, names: &mut Names) -> (String, FrontMatter, String) {
    let line = entry.lesson.line();
    let mut metadata =
        BTreeMap::from([(OWN_VERSION.to_owned(), VERSION.to_owned()), (OWN_POSITION.to_owned(), position.to_string())]);
    let (folder, kind, description, body) = match &entry.lesson {
        Lesson::Text(text) => {
            let start: String = line.chars().take(DESCRIPTION_CHARACTERS).collect();
            (names.choose(&[&line, &entry.id.0]), TEXT, start, text.clone())
        }
        Lesson::Skill(Skill { name, when, action, avoid }) => {
            let folder = names.choose(&[name, &line, &entry.id.0]);
            if *name != folder {
                metadata.insert(OWN_NAME.to_owned(), name.clone());
            }
            let body = match avoid.as_str() {
                "" => guarded(action),
                avoid => format!("{}\n\n{AVOID_HEADING}\n\n{}", guarded(action), guarded(avoid)),
            };
            if when.is_empty() {
                (folder, ALWAYS, ALWAYS_DESCRIPTION.to_owned(), body)
            } else {
                (folder, CONDITIONAL, when.clone(), body)
            }
        }
    };
    metadata.insert(OWN_KIND.to_owned(), kind.to_owned());
    if !entry.tags.is_empty() {
        metadata.insert(OWN_TAGS.to_owned(), serde_json::Value::from(entry.tags.clone()).to_string());
    }
    let fields = BTreeMap::from([(NAME.to_owned(), folder.clone()), (DESCRIPTION.to_owned(), description)]);
    (folder, FrontMatter { fields, metadata }, body)
}

/// Parses a playbook from files, by path: every `SKILL.md`, and exported sections. Other files are ignored. Exported skills
/// come first, in their order, then foreign skills by path.
///
/// # Errors
/// Front matter that cannot be parsed; a skill without name, description or body; a duplicate; a text that the check
/// rejects.
pub fn from_skills(files: &BTreeMap<String, String>) -> Result<Playbook, LearnError> {
    let mut sections = Vec::new();
    let mut entries = Vec::new();
    for (path, text) in files {
        let text = text.replace("\r\n", "\n");
        let error = |why: String| LearnError::Document(format!("{path}: {why}"));
        let mut parts = path.rsplit('/');
        let (file, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if file == SKILL_FILE {
            let (head, body) = FrontMatter::read(&text).map_err(error)?;
            entries.push(read_skill(path, head, body).map_err(error)?);
        } else if folder == SECTIONS_FOLDER && file.ends_with(".md") {
            let (mut head, body) = FrontMatter::read(&text).map_err(error)?;
            check_version(&head.metadata.remove(OWN_VERSION).unwrap_or_default()).map_err(error)?;
            let name = required(&mut head, SECTION).map_err(error)?;
            sections.push((name, own_body(body).to_owned()));
        }
    }
    // The sort is stable: foreign skills have no position and stay ordered by path.
    entries.sort_by_key(|(position, _)| *position);
    assemble(sections, entries.into_iter().map(|(_, entry)| entry).collect())
}

/// An entry and its position.
fn read_skill(path: &str, mut head: FrontMatter, body: &str) -> Result<(u64, Imported), String> {
    let name = required(&mut head, NAME)?;
    let description = required(&mut head, DESCRIPTION)?;
    let mut needs = Vec::new();
    let (position, lesson, mut tags) = match head.metadata.remove(OWN_VERSION) {
        Some(version) => {
            check_version(&version)?;
            let position = head.metadata.remove(OWN_POSITION).unwrap_or_default();
            let position = position.parse().map_err(|_| format!("`{OWN_POSITION}` is `{position}`, not a number"))?;
            let name = head.metadata.remove(OWN_NAME).unwrap_or(name);
            let kind = head.metadata.remove(OWN_KIND).unwrap_or_default();
            let tags = match head.metadata.remove(OWN_TAGS) {
                Some(tags) => {
                    serde_json::from_str(&tags).map_err(|_| format!("`{OWN_TAGS}` is no JSON list of texts"))?
                }
                None => Vec::new(),
            };
            if let Some(listed) = head.metadata.remove(OWN_NEEDS) {
                needs =
                    serde_json::from_str(&listed).map_err(|_| format!("`{OWN_NEEDS}` is no JSON list of folders"))?;
            }
            (position, own_lesson(&kind, name, description, own_body(body))?, tags)
        }
        None => (u64::MAX, foreign_lesson(name, description, body)?, Vec::new()),
    };
    if let Some(unknown) = head.metadata.keys().find(|key| key.starts_with(OWN)) {
        return Err(format!(
            "unknown metadata `{unknown}`; remove it, or export the playbook again with this clawhost"
        ));
    }
    tags.extend(head.fields.iter().chain(&head.metadata).map(|(key, value)| display_tag(key, value)));
    let folder = path.rsplit('/').nth(1).unwrap_or_default().to_owned();
    Ok((position, Imported { place: path.to_owned(), lesson, tags, needs, name: folder }))
}

fn required(head: &mut FrontMatter, key: &str) -> Result<String, String> {
    let value = head.fields.remove(key);
    let present = value.filter(|value| key == SECTION || !value.trim().is_empty());
    present.ok_or_else(|| format!("the front matter has no `{key}`; add a line `{key}: ...`"))
}

fn check_version(version: &str) -> Result<(), String> {
    if version == VERSION {
        return Ok(());
    }
    Err(format!(
        "`{OWN_VERSION}` is `{version}`, this clawhost reads {VERSION}; export the playbook again with a clawhost of the same version"
    ))
}

/// The text between the blank line after the front matter and the final line end.
fn own_body(body: &str) -> &str {
    let body = body.strip_prefix('\n').unwrap_or(body);
    body.strip_suffix('\n').unwrap_or(body)
}

fn own_lesson(kind: &str, name: String, description: String, body: &str) -> Result<Lesson, String> {
    let when = match kind {
        TEXT => return Ok(Lesson::Text(body.to_owned())),
        // A person may have replaced the description by a condition.
        ALWAYS => condition(&description),
        CONDITIONAL => description,
        other => return Err(format!("`{OWN_KIND}` is `{other}`, not `{TEXT}`, `{ALWAYS}` or `{CONDITIONAL}`")),
    };
    let lines: Vec<&str> = body.split('\n').collect();
    let heading = lines.iter().position(|line| avoid_level(line).is_some());
    let (action, avoid) = lines.split_at(heading.unwrap_or(lines.len()));
    let (action, avoid) = (action.join("\n"), avoid.get(1..).unwrap_or_default().join("\n"));
    let (action, avoid) = match heading {
        Some(_) => (action.strip_suffix('\n').unwrap_or(&action), avoid.strip_prefix('\n').unwrap_or(&avoid)),
        None => (action.as_str(), ""),
    };
    Ok(Lesson::Skill(Skill { name, when, action: unguarded(action), avoid: unguarded(avoid) }))
}

/// The condition that a description states, without a leading "when" (prompts add it) and without the final full stop.
/// `always` gives the empty condition.
fn condition(description: &str) -> String {
    let text = description.trim();
    let text = text.strip_suffix('.').filter(|rest| !rest.ends_with('.')).unwrap_or(text).trim_end();
    if text.eq_ignore_ascii_case(ALWAYS) {
        return String::new();
    }
    match text.split_once(char::is_whitespace) {
        _ if text.is_empty() => description.to_owned(),
        Some((first, rest)) if first.eq_ignore_ascii_case("when") => rest.trim_start().to_owned(),
        _ => text.to_owned(),
    }
}

/// A skill that was not exported by this program. Tabs become spaces, and emoji variation selectors are dropped: both are
/// harmless, and would otherwise be shown as escapes.
fn foreign_lesson(name: String, description: String, body: &str) -> Result<Lesson, String> {
    let body = body.replace('\t', "    ").replace('\u{fe0f}', "");
    let (mut action, mut avoid) = (Vec::new(), Vec::new());
    let mut avoid_depth = None;
    let mut in_code = false;
    for line in body.lines() {
        // A line in a code block that looks like a heading is a comment.
        in_code ^= line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        let level = if in_code { None } else { heading(line).map(|(level, _)| level) };
        let opens = if in_code { None } else { avoid_level(line) };
        if opens.is_some() {
            avoid_depth = opens;
            continue;
        }
        if level.is_some_and(|level| avoid_depth.is_some_and(|depth| level <= depth)) {
            avoid_depth = None;
        }
        if avoid_depth.is_some() { &mut avoid } else { &mut action }.push(line);
    }
    let (action, avoid) = (action.join("\n").trim().to_owned(), avoid.join("\n").trim().to_owned());
    if action.is_empty() && avoid.is_empty() {
        return Err("the skill has no body; write the instructions below the front matter".to_owned());
    }
    Ok(Lesson::Skill(Skill { name, when: condition(&description.replace('\u{fe0f}', "")), action, avoid }))
}

/// A Markdown heading: its level and title.
fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    ((1..=6).contains(&level) && title.starts_with(' ')).then(|| (level, title.trim()))
}

/// The level of a heading above what to avoid.
fn avoid_level(line: &str) -> Option<usize> {
    let (level, title) = heading(line)?;
    let title = title.trim_end_matches(['#', ':', ' ']).to_lowercase();
    AVOID_TITLES.contains(&title.as_str()).then_some(level)
}

/// Escapes lines that would parse as the heading above what to avoid, with one more backslash.
fn guarded(text: &str) -> String {
    let guard = |line: &str| {
        if avoid_level(line.trim_start_matches('\\')).is_some() { format!("\\{line}") } else { line.to_owned() }
    };
    text.split('\n').map(guard).collect::<Vec<_>>().join("\n")
}

fn unguarded(text: &str) -> String {
    let bare = |line: &str| {
        let is_guarded = avoid_level(line.trim_start_matches('\\')).is_some();
        if is_guarded { line.strip_prefix('\\').unwrap_or(line) } else { line }.to_owned()
    };
    text.split('\n').map(bare).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    fn skill(name: &str, when: &str, action: &str, avoid: &str) -> Lesson {
        Lesson::Skill(Skill { name: name.into(), when: when.into(), action: action.into(), avoid: avoid.into() })
    }

    #[test]
    fn a_playbook_is_a_folder_per_skill() {
        let mut first = Entry::new(skill("Gold refunds", "tier is gold", "refund", "waiting"), "import");
        first.tags = vec!["money".into()];
        let second = Entry::new(Lesson::Text("Be kind.".into()), "import");
        let playbook =
            Playbook { sections: BTreeMap::from([("House".into(), "rules".into())]), entries: vec![first, second] };
        let written = to_skills(&playbook);
        let gold = "---\nname: \"gold-refunds\"\ndescription: \"tier is gold\"\nmetadata:\n  clawhost-kind: \"conditional\"\n  \
            clawhost-name: \"Gold refunds\"\n  clawhost-position: \"0\"\n  clawhost-tags: \"[\\\"money\\\"]\"\n  \
            clawhost-version: \"1\"\n---\n\nrefund\n\n## Avoid\n\nwaiting\n";
        let kind = "---\nname: \"be-kind\"\ndescription: \"Be kind.\"\nmetadata:\n  clawhost-kind: \"text\"\n  \
            clawhost-position: \"1\"\n  clawhost-version: \"1\"\n---\n\nBe kind.\n";
        let house = "---\nsection: \"House\"\nmetadata:\n  clawhost-version: \"1\"\n---\n\nrules\n";
        let expect =
            [("gold-refunds/SKILL.md", gold), ("be-kind/SKILL.md", kind), ("playbook-sections/house.md", house)];
        assert_eq!(written, files(&expect));
        assert_eq!(from_skills(&written), Ok(playbook));
    }

    #[test]
    fn a_skill_names_the_folders_of_those_that_it_needs() {
        let look = Entry::new(skill("Look", "tier is unknown", "look", ""), "import");
        let rule =
            Entry { needs: vec![look.id.clone()], ..Entry::new(skill("Pay", "tier is gold", "pay", ""), "import") };
        let playbook = Playbook { entries: vec![look, rule], ..Playbook::default() };
        let written = to_skills(&playbook);
        assert!(written["pay/SKILL.md"].contains("clawhost-needs: \"[\\\"look\\\"]\""), "{}", written["pay/SKILL.md"]);
        assert_eq!(from_skills(&written), Ok(playbook));
        let mut without = written;
        without.remove("look/SKILL.md");
        let error = from_skills(&without).unwrap_err().to_string();
        assert!(error.starts_with("pay/SKILL.md: it needs `look`, which is not in the playbook"), "{error}");
    }

    #[test]
    fn order_and_unusual_texts_round_trip() {
        let lessons = [
            skill("z", "", "one\n## Avoid\n\\## Avoid\ntwo\n", "\n# Avoid:\nthree\n\n"),
            skill("", "a", "b", ""),
            skill("", "a", "B2", ""),
            Lesson::Text("## Avoid\n\nnothing\n---\n".into()),
            skill("playbook-sections", "x", "\n", "avoid this"),
        ];
        let entries: Vec<Entry> = lessons.map(|lesson| Entry::new(lesson, "import")).to_vec();
        let playbook = Playbook { entries, ..Playbook::default() };
        assert!(to_skills(&playbook).keys().any(|path| path.starts_with("playbook-sections-2/")));
        assert_eq!(from_skills(&to_skills(&playbook)), Ok(playbook.clone()));
        let windows = to_skills(&playbook).into_iter().map(|(path, text)| (path, text.replace('\n', "\r\n"))).collect();
        assert_eq!(from_skills(&windows), Ok(playbook), "Windows line ends");
    }

    #[test]
    fn foreign_skills_are_imported() {
        let text = "---\nname: pdf-forms\ndescription: Filling PDF forms\nlicense: MIT\nmetadata:\n  author: somebody\n---\n\
            # Forms\n\n1. Read\tit ⚠\u{fe0f}\n\n```sh\n# Avoid\n```\n\n## Anti-Patterns\n\n- Guessing\n### Why\nbad\n\n## More\n\nend\n";
        let own = to_skills(&Playbook {
            entries: vec![Entry::new(Lesson::Text("Own comes first.".into()), "import")],
            ..Playbook::default()
        });
        let mut all = files(&[("a/pdf-forms/SKILL.md", text), ("a/pdf-forms/scripts/x.md", "junk")]);
        all.extend(own);
        let playbook = from_skills(&all).unwrap();
        let entry = &playbook.entries[1];
        let action = "# Forms\n\n1. Read    it ⚠\n\n```sh\n# Avoid\n```\n\n## More\n\nend";
        assert_eq!(entry.lesson, skill("pdf-forms", "Filling PDF forms", action, "- Guessing\n### Why\nbad"));
        assert_eq!(entry.tags, ["imported:license=MIT", "imported:author=somebody"]);
        assert!(entry.lesson.prompt().starts_with("- when Filling PDF forms: # Forms\n\n  1. Read"));
        assert_eq!(from_skills(&to_skills(&playbook)), Ok(playbook));
    }

    #[test]
    fn a_free_text_description_becomes_a_condition() {
        let check = |description: &str, shown: &str| {
            let text = format!("---\nname: n\ndescription: {description}\n---\nwait\n");
            let playbook = from_skills(&files(&[("n/SKILL.md", &text)])).unwrap();
            assert_eq!(playbook.entries[0].lesson.prompt(), shown, "{description}");
            assert_eq!(from_skills(&to_skills(&playbook)), Ok(playbook), "{description}");
        };
        check("tier is silver", "- when tier is silver: wait");
        check("when tier is silver", "- when tier is silver: wait");
        check("When tier is silver.", "- when tier is silver: wait");
        check("WHEN  tier is silver .", "- when tier is silver: wait");
        check("tier is silver.", "- when tier is silver: wait");
        check("whenever it rains", "- when whenever it rains: wait");
        check("Fills forms. Use when asked...", "- when Fills forms. Use when asked...: wait");
        ["always", "Always", "ALWAYS.", "always.", "' Always . '"]
            .iter()
            .for_each(|text| check(text, "- always: wait"));
        check("always in May", "- when always in May: wait");
        // A description that would become empty is kept.
        check("when", "- when when: wait");
        check("'.'", "- when .: wait");
    }

    #[test]
    fn exported_conditions_that_look_like_free_text_round_trip() {
        for when in ["when tier is silver", "When x.", "always", "Always.", "always."] {
            let entries = vec![Entry::new(skill("n", when, "wait", ""), "import")];
            let playbook = Playbook { entries, ..Playbook::default() };
            assert_eq!(from_skills(&to_skills(&playbook)), Ok(playbook), "{when}");
        }
    }

    #[test]
    fn edits_in_exported_files_are_imported() {
        let playbook =
            Playbook { entries: vec![Entry::new(skill("n", "a", "b", ""), "import")], ..Playbook::default() };
        let edited: BTreeMap<_, _> = to_skills(&playbook)
            .into_iter()
            .map(|(path, text)| (path, text.replace("\nb\n", "\nc\n\n## Anti-patterns\n\nd")))
            .collect();
        assert_eq!(from_skills(&edited).unwrap().entries[0].lesson, skill("n", "a", "c", "d"));
        let always = Playbook { entries: vec![Entry::new(skill("n", "", "b", ""), "import")], ..Playbook::default() };
        let edited: BTreeMap<_, _> = to_skills(&always)
            .into_iter()
            .map(|(path, text)| (path, text.replace("Always.", "When a is b.")))
            .collect();
        assert_eq!(from_skills(&edited).unwrap().entries[0].lesson, skill("n", "a is b", "b", ""));
    }

    #[test]
    fn errors_name_the_file_and_the_remedy() {
        let check = |path: &str, text: &str, expect: &str| {
            let error = from_skills(&files(&[(path, text)])).unwrap_err().to_string();
            assert!(error.starts_with(path) && error.contains(expect), "{error}");
        };
        let head = |head: &str| format!("---\n{head}\n---\n\nbody\n");
        check("a/SKILL.md", "body", "line 1: a skill begins");
        check("a/SKILL.md", &head("name: x"), "the front matter has no `description`; add a line");
        check("a/SKILL.md", &head("name: x\ndescription: ' '"), "the front matter has no `description`");
        check("SKILL.md", "---\nname: x\ndescription: y\n---\n \n", "the skill has no body");
        check("a/SKILL.md", &head("name: x\ndescription: AKIAIOSFODNN7EXAMPLE"), "the lesson contains a key");
        let own = |metadata: &str| head(&format!("name: x\ndescription: y\nmetadata:\n  {metadata}"));
        check("a/SKILL.md", &own("clawhost-version: 2"), "`clawhost-version` is `2`, this clawhost reads 1; export");
        check("a/SKILL.md", &own("clawhost-version: 1"), "`clawhost-position` is ``, not a number");
        check("a/SKILL.md", &own("clawhost-new: 1"), "unknown metadata `clawhost-new`; remove it");
        let own = |rest: &str| own(&format!("clawhost-version: 1\n  clawhost-position: 0\n  {rest}"));
        check("a/SKILL.md", &own("clawhost-kind: odd"), "`clawhost-kind` is `odd`, not `text`");
        check("a/SKILL.md", &own("clawhost-tags: odd"), "no JSON list of texts");
        check("playbook-sections/a.md", "text", "line 1: a skill begins");
        check("playbook-sections/a.md", &head("section: a"), "`clawhost-version` is ``");
        let twice = files(&[
            ("a/SKILL.md", "---\nname: a\ndescription: y\n---\nbody"),
            ("b/SKILL.md", "---\nname: b\ndescription: y\n---\nbody"),
        ]);
        let error = from_skills(&twice).unwrap_err().to_string();
        assert_eq!(error, "a/SKILL.md and b/SKILL.md are equal; remove one");
    }
}
