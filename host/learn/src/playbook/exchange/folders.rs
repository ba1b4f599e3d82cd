//! Names of folders and files that are valid on every file system.

use std::collections::BTreeSet;

/// Most characters of a name. Readers of skill folders allow 64; a numeric suffix must fit too.
const NAME_CHARACTERS: usize = 48;

/// Device names that Windows reserves.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Names in use.
#[derive(Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Excludes a name.
    pub(super) fn reserve(&mut self, name: &str) {
        self.0.insert(name.to_owned());
    }

    /// A unique name made from the first text that yields one, with a numeric suffix if it is taken.
    pub(super) fn choose(&mut self, after: &[&str]) -> String {
        let base = after.iter().find_map(|text| safe(text)).unwrap_or_else(|| "unnamed".to_owned());
        let mut name = base.clone();
        let mut number = 1_u64;
        while !self.0.insert(name.clone()) {
            number += 1;
            name = format!("{base}-{number}");
        }
        name
    }
}

/// Lower-case letters, digits, and single dashes between them; `None` if nothing is left.
fn safe(text: &str) -> Option<String> {
    let mut name = String::new();
    for character in text.chars() {
        if character.is_ascii_alphanumeric() {
            name.push(character.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(NAME_CHARACTERS);
    let name = name.trim_end_matches('-');
    let is_port = |kind: &str| name.strip_prefix(kind).is_some_and(|rest| rest.len() == 1);
    if DEVICES.contains(&name) || is_port("com") || is_port("lpt") {
        return Some(format!("{name}-skill"));
    }
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_unique() {
        let mut names = Names::default();
        names.reserve("kept");
        let mut check = |text: &str, expect: &str| assert_eq!(names.choose(&[text, "e-1"]), expect, "{text}");
        check("Refund: GOLD customers!", "refund-gold-customers");
        check("refund/gold\\customers", "refund-gold-customers-2");
        check("../..", "e-1");
        check("退款", "e-1-2");
        check("e-1", "e-1-3");
        check("kept", "kept-2");
        check("CON", "con-skill");
        check("lpt1", "lpt1-skill");
        check(&"ab-".repeat(30), &"ab-".repeat(16)[..47]);
        assert_eq!(names.choose(&[""]), "unnamed");
    }
}
