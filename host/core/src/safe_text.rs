//! Makes text from outside safe to display.

/// Whether a character could hide or reorder text on a terminal: control characters, direction marks and zero-width
/// characters.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The text with hidden characters escaped, cut off after about `limit` bytes.
pub fn escaped(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if out.len() >= limit {
            out.push('…');
            break;
        }
        if is_hidden(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        for (text, shown) in [
            ("plain ünïcode", "plain ünïcode"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("two\nlines", "two\\nlines"),
        ] {
            assert_eq!(escaped(text, 100), shown);
        }
        assert_eq!(escaped("0123456789", 4), "0123…");
    }
}
