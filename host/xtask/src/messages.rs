//! Compares `host/ERRORS.md` with the code: it contains every error message and failure code, and every test that it names exists.

use crate::root;
use crate::tidy::{all_sources, files};
use anyhow::{Context as _, Result};

/// Shorter constant texts are too short to identify a message.
const WORDS: usize = 12;

/// The string literals after each `marker` in the source.
fn literals(text: &str, marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(marker) {
        let rest = text.get(at + marker.len()..).unwrap_or_default();
        let Some((between, rest)) = rest.split_once('"') else { continue };
        // Only `format!(` and white space may be between marker and literal.
        if !["", "format!("].contains(&between.trim()) {
            continue;
        }
        let mut literal = String::new();
        let mut characters = rest.chars();
        while let Some(character) = characters.next() {
            match character {
                '"' => break,
                '\\' => literal.extend(characters.next()),
                other => literal.push(other),
            }
        }
        found.push(literal);
    }
    found
}

/// The longest text between placeholders and line ends.
fn constant(message: &str) -> Option<&str> {
    let parts = message.split(['{', '}', '\n']);
    // The text between braces is the name of a placeholder.
    let texts = parts.map(|part| part.trim_matches([' ', ':', ';', ',', '(', ')']));
    texts.filter(|text| text.len() >= WORDS && text.contains(' ')).max_by_key(|text| text.len())
}

pub(crate) fn check(findings: &mut Vec<String>) -> Result<()> {
    let path = root().join("host/ERRORS.md");
    let table = std::fs::read_to_string(&path).context("host/ERRORS.md")?;
    // Messages quote with backticks, and so do code spans.
    let plain = table.replace('`', "");
    for (file, text) in files(&root().join("host"), "rs")? {
        let file = file.display().to_string();
        if file.contains("/xtask/") || file.contains("/target/") {
            continue;
        }
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for message in ["#[error(", "UsageError("].iter().flat_map(|marker| literals(text, marker)) {
            if let Some(words) = constant(&message.replace('`', "")).filter(|words| !plain.contains(words)) {
                findings.push(format!("host/ERRORS.md: no row for `{words}` ({file})"));
            }
        }
        if file.ends_with("core/src/failure.rs") {
            for line in text.lines().filter(|line| line.trim_start().starts_with("pub const ")) {
                let code = line.split('"').nth(1).unwrap_or_default();
                if !table.contains(&format!("`{code}`")) {
                    findings.push(format!("host/ERRORS.md: no row for the failure code `{code}`"));
                }
            }
        }
    }
    let sources: String = all_sources()?.into_iter().map(|(_, text)| text).collect();
    for row in table.lines().filter(|line| line.starts_with("| `") || line.starts_with("| …")) {
        let cell = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default().trim();
        if cell.starts_with('—') {
            continue;
        }
        let test = cell.trim_matches('`');
        if !sources.contains(&format!("fn {test}(")) {
            findings.push(format!("host/ERRORS.md: no test `{test}`"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_the_code_and_reduced_to_their_constant_text() {
        let code = "#[error(\"{0}: no \\\"such\\\" thing in {place}; look elsewhere\")] Err(UsageError(format!(\"x {y}\"))) UsageError(text)";
        assert_eq!(literals(code, "#[error("), ["{0}: no \"such\" thing in {place}; look elsewhere"]);
        assert_eq!(literals(code, "UsageError("), ["x {y}"]);
        assert_eq!(constant("{0}: no such thing in {place}; look there"), Some("no such thing in"));
        assert_eq!(constant("{0}"), None);
    }
}
