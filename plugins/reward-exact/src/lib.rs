//! 1 for the correct answer, 0 for any other.
//!
//! Reads the reference answer from the task's `reference`: a JSON string or number, or an object with `answer`. The
//! policy's answer is read from its last message: the last `\boxed{...}`, else the text after the last "the answer is",
//! else the last number, else the whole text.

use clawhost_sdk::{Context, Ending, Episode, OptionSpec, Reads, Result, Reward, Verdict, export_reward};

/// The reward.
#[derive(Debug)]
pub struct Exact;

impl Reward for Exact {
    const NAME: &'static str = "reward-exact";
    const SUMMARY: &'static str = "1 if the last answer equals the task's reference, else 0";

    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::new("tolerance", "0", "largest difference between numbers that still counts, 0 or more")]
    }

    fn reads() -> Vec<Reads> {
        vec![Reads::reference_value(), Reads::reference_field("answer")]
    }

    fn check(context: &Context) -> Result<()> {
        tolerance(context).map(|_| ())
    }

    fn score(episode: &Episode, context: &Context) -> Result<Verdict> {
        let tolerance = tolerance(context)?;
        let Some(reference) = episode.task().reference else {
            return Ok(Verdict::NotApplicable("the task has no reference".into()));
        };
        let Some(gold) = gold(&reference) else {
            return Ok(Verdict::NotApplicable("the reference is no text, no number and has no `answer`".into()));
        };
        if matches!(episode.ending(), Ending::Failed(_)) {
            return Ok(Verdict::NotApplicable("the episode failed".into()));
        }
        let given = read_answer(&episode.last_answer());
        let right = equal(&given, &gold, tolerance);
        let verdict = if right { "is" } else { "is not" };
        // Long answers are cut: the rationale is for people.
        let shown: String = given.chars().take(80).collect();
        Ok(Verdict::scored(f64::from(u8::from(right))).because(format!("`{shown}` {verdict} the reference")))
    }
}

fn tolerance(context: &Context) -> Result<f64> {
    let tolerance = context.option_or("tolerance", 0.0_f64)?;
    if !(tolerance.is_finite() && tolerance >= 0.0) {
        return Err("tolerance must be a finite number, 0 or more".into());
    }
    Ok(tolerance)
}

/// The answer in a reference: a JSON string, a number, or an object's `answer`.
fn gold(reference: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(reference).ok()?;
    let scalar = match &value {
        serde_json::Value::Object(fields) => fields.get("answer")?,
        scalar => scalar,
    };
    match scalar {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The answer in a message.
fn read_answer(text: &str) -> String {
    if let Some(boxed) = last_boxed(text) {
        return clean(&boxed);
    }
    let lower = text.to_lowercase();
    // Lower case may change lengths in other scripts: then the phrase is searched in the original text.
    let haystack = if lower.len() == text.len() { lower.as_str() } else { text };
    if let Some(at) = haystack.rfind("the answer is") {
        let rest = text.get(at + "the answer is".len()..).unwrap_or_default();
        let rest = rest.trim_start_matches([':', ' ', '*']).lines().next().unwrap_or_default();
        return last_number(rest).unwrap_or_else(|| clean(rest));
    }
    last_number(text).unwrap_or_else(|| clean(text))
}

/// The content of the last `\boxed{...}`, with balanced braces.
fn last_boxed(text: &str) -> Option<String> {
    let start = text.rfind("\\boxed{")? + "\\boxed{".len();
    let rest = text.get(start..)?;
    let mut depth = 1;
    for (at, character) in rest.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return rest.get(..at).map(str::to_owned);
        }
    }
    None
}

/// The last number of a text: sign, digits with thousands separators, decimals.
fn last_number(text: &str) -> Option<String> {
    let mut last = None;
    let mut current = String::new();
    let mut previous = ' ';
    for character in text.chars().chain([' ']) {
        let continues = match character {
            '0'..='9' => true,
            '.' | ',' => current.chars().last().is_some_and(|digit| digit.is_ascii_digit()),
            // A minus between digits is an operator, before a number it is a sign.
            '-' | '\u{2212}' => current.is_empty() && !previous.is_ascii_digit() && previous != ')',
            _ => false,
        };
        if continues {
            current.push(if character == '\u{2212}' { '-' } else { character });
        } else {
            let number = current.trim_end_matches(['.', ',']);
            if number.chars().any(|digit| digit.is_ascii_digit()) {
                last = Some(number.to_owned());
            }
            current.clear();
        }
        previous = character;
    }
    last
}

fn clean(text: &str) -> String {
    text.trim().trim_matches(['$', '*', '.', '`', '"', ' ']).to_owned()
}

/// A number in any usual spelling.
fn number(text: &str) -> Option<f64> {
    let text: String = clean(text).chars().filter(|character| !matches!(character, ',' | '_' | ' ')).collect();
    let text = text.strip_suffix('%').unwrap_or(&text).replace('\u{2212}', "-");
    if let Some((above, below)) = text.split_once('/') {
        let (above, below): (f64, f64) = (above.parse().ok()?, below.parse().ok()?);
        return Some(above / below).filter(|value| value.is_finite());
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn equal(given: &str, gold: &str, tolerance: f64) -> bool {
    match (number(given), number(gold)) {
        (Some(given), Some(gold)) => (given - gold).abs() <= tolerance,
        _ => clean(given).eq_ignore_ascii_case(&clean(gold)),
    }
}

export_reward!(Exact);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::Task;
    use clawhost_sdk::testing::{episode, judge};

    fn check(reference: &str, answer: &str, expected: f64) {
        let task = Task::new("train", "t", "").with_reference(reference);
        let episodes = vec![episode(task, &[("question", "thinking, 99"), ("more", answer)], Ending::Terminated)];
        let verdicts = judge::<Exact>(episodes, &[]).unwrap();
        assert_eq!(verdicts[0].value(), Some(expected), "{reference} | {answer}");
    }

    #[test]
    fn answers_are_parsed_in_usual_formats() {
        for (answer, right) in [
            ("42", 1.0),
            ("42.0", 1.0),
            ("The answer is 42.", 1.0),
            ("the answer is: **42**", 1.0),
            ("First 17 + 25, so \\boxed{42}", 1.0),
            ("\\boxed{41}, no, \\boxed{42}", 1.0),
            ("17 + 25 = 42", 1.0),
            ("It is $42$", 1.0),
            ("\\boxed{42}, not 43", 1.0),
            ("43", 0.0),
            ("-42", 0.0),
            ("42 or 43", 0.0),
            ("", 0.0),
            ("forty-two", 0.0),
        ] {
            check("\"42\"", answer, right);
            check("42", answer, right);
            check(r#"{"difficulty": 3, "answer": "42"}"#, answer, right);
        }
        check("\"-7\"", "3 - 10 = -7", 1.0);
        check("\"1234\"", "That makes 1,234.", 1.0);
        check("\"0.5\"", "\\boxed{1/2}", 1.0);
        check("\"Paris\"", "The answer is paris.", 1.0);
        check("\"Paris\"", "The answer is London.", 0.0);
    }

    #[test]
    fn without_a_reference_there_is_no_value() {
        let episodes = vec![episode(Task::new("train", "t", ""), &[("q", "a")], Ending::Terminated)];
        assert!(matches!(&judge::<Exact>(episodes, &[]).unwrap()[0], Verdict::NotApplicable(_)));
    }

    #[test]
    fn a_tolerance_is_checked_and_used() {
        let one =
            || vec![episode(Task::new("train", "t", "").with_reference("3.14"), &[("q", "3.1")], Ending::Terminated)];
        assert_eq!(judge::<Exact>(one(), &[("tolerance", "0.1")]).unwrap()[0].value(), Some(1.0));
        assert_eq!(judge::<Exact>(one(), &[]).unwrap()[0].value(), Some(0.0));
        assert!(matches!(&judge::<Exact>(one(), &[("tolerance", "-1")]).unwrap()[0], Verdict::Failed(_)));
    }
}
