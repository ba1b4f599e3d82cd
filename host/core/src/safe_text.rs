//! Text from outside, made safe to show.

/// Whether a character could hide or move text on a terminal: control characters, and those that change direction or
/// have no width.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Text with hidden characters made visible, cut at about so many bytes.
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
    fn nothing_reaches_a_terminal_raw() {
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
