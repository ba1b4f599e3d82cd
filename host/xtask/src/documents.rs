//! Checks the documents: links between them resolve, the README stays short, and the glossary stays small.

use crate::root;
use crate::tidy::files;
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The README has fewer lines than this, so that a new user can read all of it. Details belong in `host/guides`.
const README_LINES: usize = 160;

/// Largest number of terms in the glossary. With more, readers cannot tell which ones matter.
const GLOSSARY_TERMS: usize = 40;

/// Folders with documents.
const FOLDERS: [&str; 6] = ["host", "wit", "plugins", "sdk", "examples", "tests"];

/// Folders inside them that contain build output.
const BUILT: [&str; 3] = ["target", "corpus", "artifacts"];

/// Lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// A line without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Targets of all links to files or headings.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            let rest = line.get(at + 2..).unwrap_or_default();
            let Some((target, _)) = rest.split_once(')') else { continue };
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// The anchor that GitHub gives a heading. (GitHub numbers repeated headings; this is not supported.)
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The valid anchors of a text: its headings, and its explicit anchors (`<a id="...">`).
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| anchor(line.trim_start_matches('#')));
    let named = prose(text).flat_map(|line| line.split("<a id=\"").skip(1)).filter_map(|rest| rest.split('"').next());
    headings.chain(named.map(str::to_owned)).collect()
}

/// Why a link of a document is broken. `None`: it resolves.
fn broken(path: &Path, text: &str, link: &str) -> Result<Option<String>> {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = path.parent().unwrap_or(Path::new("")).join(file);
    if !file.is_empty() && !target.exists() {
        return Ok(Some(format!("no file `{file}`")));
    }
    if heading.is_empty() {
        return Ok(None);
    }
    let is_there = if file.is_empty() {
        anchors(text).contains(heading)
    } else {
        let text = std::fs::read_to_string(&target).with_context(|| target.display().to_string())?;
        anchors(&text).contains(heading)
    };
    Ok((!is_there).then(|| format!("no heading `#{heading}` behind `{link}`")))
}

/// Terms of the glossary: the first cells of its tables.
fn terms(text: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| term |"));
    rows.filter_map(|row| row.split('|').nth(1)).map(|term| term.trim().to_owned()).collect()
}

/// Findings about the number of terms, and about duplicate terms.
fn glossary(text: &str) -> Vec<String> {
    let terms = terms(text);
    let mut found = Vec::new();
    if terms.is_empty() || terms.len() > GLOSSARY_TERMS {
        found.push(format!("{} terms; 1 to {GLOSSARY_TERMS} are allowed", terms.len()));
    }
    let mut seen = BTreeSet::new();
    let twice = terms.iter().filter(|term| !seen.insert(*term));
    found.extend(twice.map(|term| format!("`{term}` is there twice")));
    found
}

/// All documents, with their text.
fn documents() -> Result<Vec<(PathBuf, String)>> {
    let readme = root().join("README.md");
    let text = std::fs::read_to_string(&readme).context("README.md")?;
    let mut all = vec![(readme, text)];
    for folder in FOLDERS {
        all.extend(files(&root().join(folder), "md")?);
    }
    let is_built = |path: &Path| {
        let inside = path.strip_prefix(root()).unwrap_or(path);
        inside.iter().any(|part| BUILT.iter().any(|built| part == *built))
    };
    all.retain(|(path, _)| !is_built(path));
    Ok(all)
}

pub(crate) fn check(findings: &mut Vec<String>) -> Result<()> {
    for (path, text) in documents()? {
        let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        for link in links(&text) {
            findings.extend(broken(&path, &text, &link)?.map(|why| format!("{shown}: {why}")));
        }
        let lines = text.lines().count();
        if shown == "README.md" && lines >= README_LINES {
            findings.push(format!("{shown}: {lines} lines; it must have fewer than {README_LINES}"));
        }
        if path.ends_with("host/GLOSSARY.md") {
            findings.extend(glossary(&text).into_iter().map(|why| format!("{shown}: {why}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_and_headings_are_found_outside_of_code() {
        let check = |text: &str, expect: &[&str]| assert_eq!(links(text), expect, "{text}");
        check("[a](b.md), [c](../d#e) and [f](#g)", &["b.md", "../d#e", "#g"]);
        check("[a](https://example.org/b.md) [c](mailto:d@example.org)", &[]);
        check("`[a](b)`, [`c`](d)", &["d"]);
        check("```rust\n[a](b)\n```\n[c](d)", &["d"]);
        check("[a](b", &[]);
    }

    #[test]
    fn anchors_equal_those_of_github() {
        let check = |heading: &str, expect: &str| assert_eq!(anchor(heading), expect, "{heading}");
        check(" Other languages", "other-languages");
        check("`wire` and `providers`", "wire-and-providers");
        check("How to ...", "how-to-");
        check("1. An environment", "1-an-environment");
        check("snake_case", "snake_case");
    }

    #[test]
    fn broken_links_are_reported() {
        let here = root().join("host/ARCHITECTURE.md");
        let text = "# Map\n```\n# Code\n```\n<a id=\"place\"></a>A place\n";
        let check = |link: &str, expect: Option<&str>| {
            assert_eq!(broken(&here, text, link).unwrap().as_deref(), expect, "{link}");
        };
        check("../README.md", None);
        check("guides", None);
        check("#map", None);
        check("#place", None);
        check("../README.md#the-loop", None);
        check("nowhere.md", Some("no file `nowhere.md`"));
        check("#code", Some("no heading `#code` behind `#code`"));
        check("../README.md#nowhere", Some("no heading `#nowhere` behind `../README.md#nowhere`"));
    }

    #[test]
    fn a_glossary_has_unique_terms_up_to_a_limit() {
        let table = |terms: &[String]| {
            let rows: String = terms.iter().map(|term| format!("| {term} | What it means. |\n")).collect();
            format!("# Glossary\n\n| term | meaning |\n|---|---|\n{rows}")
        };
        let check = |terms: &[String], expect: &[&str]| assert_eq!(glossary(&table(terms)), expect, "{terms:?}");
        let many: Vec<String> = (0..=GLOSSARY_TERMS).map(|number| format!("term {number}")).collect();
        check(many.get(1..).unwrap(), &[]);
        check(&many, &["41 terms; 1 to 40 are allowed"]);
        check(&[], &["0 terms; 1 to 40 are allowed"]);
        check(&["run".to_owned(), "run".to_owned()], &["`run` is there twice"]);
    }
}
