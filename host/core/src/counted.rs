//! Numbers with their nouns, for people.

/// A whole number with its thousands apart: `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of things: `1 run`, `2 runs`, `1,200 episodes`. The noun stands in the singular; its plural ends as English nouns do.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", thousands(number), plural(number, noun))
}

/// A noun as it follows a number.
fn plural(number: u64, noun: &str) -> String {
    const VOWELS: [char; 5] = ['a', 'e', 'i', 'o', 'u'];
    match noun.strip_suffix('y') {
        _ if number == 1 => noun.to_owned(),
        Some(stem) if !stem.ends_with(VOWELS) => format!("{stem}ies"),
        _ if noun.ends_with(['s', 'x']) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(["7", "999", "1,000", "1,234,567"], [7, 999, 1000, 1_234_567].map(thousands));
    }

    #[test]
    fn one_thing_is_singular_and_every_other_number_is_plural() {
        let check = |number: u64, noun: &str, expect: &str| assert_eq!(counted(number, noun), expect);
        check(1, "run", "1 run");
        check(0, "run", "0 runs");
        check(1_200, "episode", "1,200 episodes");
        check(1, "entry", "1 entry");
        check(2, "entry", "2 entries");
        check(2, "day", "2 days");
        check(2, "pass", "2 passes");
    }
}
