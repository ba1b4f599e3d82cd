//! Normalised words of a text: lower case, singular, negations spelled out.

/// Stems that become a word and `not` when `nt` follows (`don't`, `can't`), with that word.
const AUXILIARIES: [(&str, &str); 18] = [
    ("do", "do"),
    ("does", "does"),
    ("did", "did"),
    ("is", "is"),
    ("are", "are"),
    ("was", "was"),
    ("were", "were"),
    ("has", "has"),
    ("have", "have"),
    ("had", "had"),
    ("ca", "can"),
    ("wo", "will"),
    ("could", "could"),
    ("would", "would"),
    ("should", "should"),
    ("must", "must"),
    ("need", "need"),
    ("might", "might"),
];

/// The words of a text in order. A word is a run of letters and digits; apostrophes inside are dropped. Scripts without
/// spaces between words give one word per character.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for character in text.chars() {
        if stands_alone(character) {
            finish(&mut word, &mut words);
            words.push(character.to_string());
        } else if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        } else if !matches!(character, '\'' | '’') {
            finish(&mut word, &mut words);
        }
    }
    finish(&mut word, &mut words);
    words
}

/// Kana and ideographs.
fn stands_alone(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

fn finish(word: &mut String, words: &mut Vec<String>) {
    if word.is_empty() {
        return;
    }
    let word = std::mem::take(word);
    let auxiliary = match word.as_str() {
        "cannot" => Some("can"),
        short => short
            .strip_suffix("nt")
            .and_then(|stem| AUXILIARIES.iter().find(|(known, _)| *known == stem).map(|(_, spelled_out)| *spelled_out)),
    };
    match auxiliary {
        Some(auxiliary) => words.extend([auxiliary.to_owned(), "not".to_owned()]),
        None => words.push(singular(word)),
    }
}

/// Removes a plural ending by the rules of the "S stemmer" (Harman, "How effective is suffixing?", 1991), the stemmer that
/// merges the fewest unrelated words.
fn singular(mut word: String) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    // Words of up to three letters (`yes`, `gas`) are not plurals.
    if word.len() <= 3 {
        return word;
    }
    if word.ends_with("ies") && !ends(&["eies", "aies"]) {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.ends_with('s') && !ends(&["aes", "ees", "oes", "us", "ss"]) {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_normalised() {
        let check = |text: &str, expect: &str| assert_eq!(words(text).join(" "), expect, "{text}");
        check("Check the ORDER's policies, twice!", "check the order policy twice");
        check("addresses, statuses, heroes, bus, less, yes", "addresse statuse heroes bus less yes");
        check("don't; can’t; won't; cannot; doesnt; want", "do not can not will not can not does not want");
        check("refund_order 5.50€ 'now'", "refund order 5 50 now");
        check("退款吗 ok", "退 款 吗 ok");
        check("GRÜSSE", "grüsse");
        check(" -- ", "");
    }
}
