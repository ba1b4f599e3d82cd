//! Examples in the tokens of a model.

use super::ExampleCounts;
use super::rows::{Dialogue, Lesson, Row, invalid};
use crate::AppError;
use clawhost_model::train::Sequence;
use clawhost_model::{ChatFormat, Example, LocalModelError};

/// An example to learn from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prepared {
    pub(super) example: Example,
    /// The label, if there is one.
    pub(super) is_desirable: bool,
    /// The prompt with the answer of another example, for the divergence from the reference. Labels only.
    pub(super) mismatched: Option<Example>,
}

/// Writes conversations in a model's tokens.
struct Writer<'a> {
    format: &'a ChatFormat,
    context: usize,
}

impl Writer<'_> {
    /// `None`: it is longer than the context.
    fn write(&self, place: &str, dialogue: &Dialogue) -> Result<Option<Vec<Sequence>>, AppError> {
        match self.format.given(&dialogue.messages, &dialogue.tools, dialogue.from, self.context) {
            Ok(sequences) if sequences.iter().all(|one| one.trained().is_empty()) => {
                Err(invalid(place, "the answers have no tokens to learn from"))
            }
            Ok(sequences) => Ok(Some(sequences)),
            Err(LocalModelError::TooLong { .. }) => Ok(None),
            Err(error) => Err(invalid(place, error)),
        }
    }
}

/// Writes all examples in the tokens of a model. Those that are longer than its context are left out and counted.
pub(super) fn prepare(
    rows: Vec<Row>,
    format: &ChatFormat,
    context: usize,
    counts: &mut ExampleCounts,
) -> Result<Vec<Prepared>, AppError> {
    let writer = Writer { format, context };
    let mut all = Vec::with_capacity(rows.len());
    for (number, row) in rows.iter().enumerate() {
        let (replies, is_desirable) = match &row.lesson {
            Lesson::Imitate(dialogue) => (vec![dialogue], true),
            Lesson::Prefer { chosen, rejected } => (vec![chosen, rejected], true),
            Lesson::Label { dialogue, is_desirable } => (vec![dialogue], *is_desirable),
        };
        let written = replies.into_iter().map(|reply| writer.write(&row.place, reply));
        let Some(written) = written.collect::<Result<Option<Vec<_>>, _>>()? else {
            counts.too_long += 1;
            continue;
        };
        let mismatched = match mismatch(&rows, number) {
            Some(dialogue) => writer.write(&row.place, &dialogue)?.map(|sequences| Example::new(vec![sequences])),
            None => None,
        };
        all.push(Prepared { example: Example::new(written), is_desirable, mismatched });
    }
    Ok(all)
}

/// The prompt of a labelled example with the answers of another one, half of the data away: neighbours often share a prompt.
fn mismatch(rows: &[Row], number: usize) -> Option<Dialogue> {
    let labelled = |number: usize| match &rows.get(number)?.lesson {
        Lesson::Label { dialogue, .. } => Some(dialogue),
        Lesson::Imitate(_) | Lesson::Prefer { .. } => None,
    };
    let own = labelled(number)?;
    let other = labelled((number + rows.len() / 2) % rows.len())?;
    let (prompt, others) = (own.messages.get(..own.from)?, other.messages.get(..other.from)?);
    if prompt == others {
        return None;
    }
    let answers = other.messages.get(other.from..)?;
    Some(Dialogue { messages: [prompt, answers].concat(), tools: own.tools.clone(), from: own.from })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Message, Origin, Role};
    use clawhost_model::TinyModel;

    fn dialogue(question: &str, answer: &str) -> Dialogue {
        let said = |role, text| Message::text(role, Origin::User, text);
        Dialogue { messages: vec![said(Role::User, question), said(Role::Assistant, answer)], tools: vec![], from: 1 }
    }

    fn labelled(question: &str, answer: &str) -> Row {
        let lesson = Lesson::Label { dialogue: dialogue(question, answer), is_desirable: true };
        Row { place: "data.jsonl:1".into(), lesson }
    }

    fn prepared(rows: Vec<Row>, context: usize) -> (Result<Vec<Prepared>, AppError>, ExampleCounts) {
        let format = TinyModel::default().make().unwrap().chat_format("tiny").unwrap();
        let mut counts = ExampleCounts::default();
        (prepare(rows, &format, context, &mut counts), counts)
    }

    #[test]
    fn a_labelled_example_is_mismatched_with_one_of_another_prompt() {
        let rows = vec![labelled("1+1=", "2"), labelled("1+1=", "3"), labelled("2+2=", "44"), labelled("1+1=", "5")];
        let (all, _) = prepared(rows, 64);
        let lengths: Vec<Option<usize>> =
            all.unwrap().iter().map(|one| Some(one.mismatched.as_ref()?.lengths()[0])).collect();
        // With their end. The last is half of the data away from one with its own prompt.
        assert_eq!(lengths, [Some(3), None, Some(2), None]);
        assert_eq!(prepared(vec![labelled("1+1=", "2")], 64).0.unwrap()[0].mismatched, None, "there is no other");
    }

    #[test]
    fn examples_beyond_the_context_are_left_out_and_unreadable_ones_are_errors() {
        let (all, counts) = prepared(vec![labelled("1+1=", "2"), labelled("1+1=", "123456789")], 8);
        assert_eq!((all.unwrap().len(), counts.too_long), (1, 1));
        let error = prepared(vec![labelled("1+x=", "2")], 64).0.unwrap_err().to_string();
        assert!(error.starts_with("data.jsonl:1: ") && error.contains("the alphabet has no 'x'"), "{error}");
    }
}
