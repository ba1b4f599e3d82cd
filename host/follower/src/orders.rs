//! Orders: explicit requests in the latest message.

use crate::arithmetic;

/// The answer to the first order in a text, if there is one. If the order leaves a choice, `chance` decides.
pub(crate) fn obey(text: &str, chance: u64) -> Option<String> {
    calculate(text).or_else(|| choice(text, chance))
}

/// One of the choices that a text lists, drawn with `chance`. `None`: it lists none.
pub(crate) fn choice(text: &str, chance: u64) -> Option<String> {
    number_between(text, chance).or_else(|| one_of(text, chance))
}

/// The text after a phrase, in any case.
fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let found = text.char_indices().find(|(at, _)| {
        text.get(*at..at + phrase.len()).is_some_and(|candidate| candidate.eq_ignore_ascii_case(phrase))
    });
    text.get(found?.0 + phrase.len()..)
}

fn calculate(text: &str) -> Option<String> {
    arithmetic::evaluate(after(text, "calculate ")?).map(|value| value.to_string())
}

fn integer(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()) + (text.len() - digits.len());
    let (number, rest) = text.split_at_checked(length)?;
    Some((number.parse().ok()?, rest))
}

fn number_between(text: &str, chance: u64) -> Option<String> {
    let (low, rest) = integer(after(text, "a whole number between ")?)?;
    let (high, _) = integer(rest.trim_start().strip_prefix("and ")?)?;
    let span = u128::from(high.checked_sub(low).and_then(|span| u64::try_from(span).ok())?) + 1;
    let step = (u128::from(chance) * span) >> 64;
    Some((i128::from(low) + i128::try_from(step).ok()?).to_string())
}

fn one_of(text: &str, chance: u64) -> Option<String> {
    let list = after(text, "one of: ")?.lines().next()?;
    let choices: Vec<&str> =
        list.trim_end_matches('.').split(',').map(str::trim).filter(|choice| !choice.is_empty()).collect();
    let index = (u128::from(chance) * choices.len() as u128) >> 64;
    choices.get(usize::try_from(index).ok()?).map(|choice| (*choice).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_within_the_offered_range() {
        for chance in [0, 1, u64::MAX / 2, u64::MAX] {
            let number: i64 = obey("a whole number between -3 and 3", chance).unwrap().parse().unwrap();
            assert!((-3..=3).contains(&number));
            assert!(["a", "b b"].contains(&obey("Answer with one of: a, b b.", chance).unwrap().as_str()));
        }
        assert_eq!(obey("a whole number between 3 and -3", 1), None);
        assert_eq!(obey("a whole number between 9223372036854775807 and -1", 1), None);
        assert_eq!(obey("one of: ", 1), None);
        assert_eq!(obey("größer: CALCULATE 2 + 2", 1).as_deref(), Some("4"));
    }
}
