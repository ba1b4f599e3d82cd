//! Makes text from outside safe to display.

use std::borrow::Cow;

/// Whether a character has no glyph, so that it could hide, reorder or imitate text: control characters, the categories Cf
/// (format), Zl and Zp (line and paragraph separators) of Unicode 16, fillers, variation selectors, and tag characters, which can hide
/// whole texts.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // Cf, with the soft hyphen, Arabic number signs, joiners, direction marks and annotations.
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            // Zl and Zp.
            | '\u{2028}' | '\u{2029}'
            // Fillers, vowels without a glyph, and variation selectors.
            | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180d}' | '\u{180f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}')
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

/// A JSON document with hidden characters written as JSON's own escapes, so that it has the same value and is safe to display. Its
/// line ends and its indentation stay.
pub fn json_escaped(document: &str) -> Cow<'_, str> {
    let hides = |character: char| is_hidden(character) && !matches!(character, '\n' | '\r' | '\t');
    if !document.contains(hides) {
        return Cow::Borrowed(document);
    }
    let mut out = String::with_capacity(document.len() + 16);
    for character in document.chars() {
        if hides(character) {
            let mut units = [0; 2];
            // A string of JSON has UTF-16 in its escapes.
            character.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
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

    #[test]
    fn characters_without_a_glyph_are_hidden() {
        for character in
            "\0\u{7f}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{202e}\u{2028}\u{2029}\u{2066}\u{3164}\u{fe0f}\u{feff}"
                .chars()
        {
            assert!(is_hidden(character), "{character:?}");
        }
        for character in ['\u{e0041}', '\u{115f}', '\u{2800}', '\u{fffa}', '\u{1d173}', '\u{e0100}'] {
            assert!(is_hidden(character), "{character:?}");
        }
        for character in "aÄß ★漢字–“”…🎉\u{301}\u{a0}".chars() {
            assert!(!is_hidden(character), "{character:?}");
        }
    }

    #[test]
    fn a_json_document_keeps_its_value_without_hidden_characters() {
        let text = "a\u{7f}\u{9b}\u{202e}\u{2028}\u{e0041}\u{1b}z\u{e9}";
        let value = serde_json::json!({ text: [text, 1.5] });
        let document = format!("{value:#}");
        let safe = json_escaped(&document);
        assert!(!safe.chars().any(|one| is_hidden(one) && one != '\n'), "{safe:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        assert!(safe.contains("\\u007f\\u009b\\u202e\\u2028\\udb40\\udc41\\u001bz\u{e9}"), "{safe}");
        assert!(matches!(json_escaped("{\n  \"a\": 1\n}"), Cow::Borrowed(_)));
    }
}
