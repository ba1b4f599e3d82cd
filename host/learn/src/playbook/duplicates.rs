//! Lessons that say the same in nearly the same words.
//!
//! A lesson that is taken for another one is lost, and its support is counted to the other; one that is not recognised costs a trial.
//! So what is compared must be close, and what can turn a meaning around must be equal:
//!
//! - Two *rules* (conditions that a program can read) are duplicates if they have the same set of conditions and the same action, but
//!   for case and white space. Another value or another action is another lesson.
//! - Two lessons in prose are duplicates if the words of one stand in the other in the same order and little is added (Jaccard
//!   similarity of their word pairs), or an [`Embedder`] finds them near; and negations, restrictions, numbers and symbols are the same. A word in the place of another
//!   may be another value, so it keeps them apart.

use super::words::words;
use crate::{Lesson, Skill};
use clawhost_core::Condition;
use std::collections::BTreeSet;

/// Cosine of the angle between two vectors from which on two texts say the same.
const NEAR_COSINE: f64 = 0.95;

/// Turns texts into vectors that are near each other where meanings are. A port: who has a model of that kind brings it. Equal texts
/// must give equal vectors.
pub trait Embedder: Send + Sync {
    /// The text's vector; none: it has none for this text, which is then compared by its words.
    fn embed(&self, text: &str) -> Option<Vec<f32>>;
}

/// Word pairs that two texts must share, of those of both. One more word in seven still passes.
const SHARED_PAIRS: f64 = 0.7;

/// A lesson, ready to be compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    Rule {
        conditions: BTreeSet<Condition>,
        action: String,
        avoid: String,
    },
    Prose {
        /// Condition, action, what to avoid.
        wordings: [Wording; 3],
        /// Of all of it.
        vector: Option<Vec<f32>>,
    },
}

impl Form {
    pub(crate) fn of(lesson: &Lesson, embedder: Option<&dyn Embedder>) -> Self {
        let nothing = Skill::default();
        let Skill { when, action, avoid, .. } = match lesson {
            Lesson::Skill(skill) => skill,
            Lesson::Text(text) => &Skill { action: text.clone(), ..nothing },
        };
        match lesson.conditions() {
            Some(conditions) if !conditions.is_empty() => {
                Self::Rule { conditions: conditions.into_iter().collect(), action: plain(action), avoid: plain(avoid) }
            }
            _ => Self::Prose {
                wordings: [when, action, avoid].map(|text| Wording::of(text)),
                vector: embedder.and_then(|embedder| embedder.embed(&lesson.prompt())),
            },
        }
    }

    /// Whether both are one lesson.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prose { wordings: one, vector: near }, Self::Prose { wordings: other, vector: to }) => {
                let pairs = || one.iter().zip(other);
                let is_near =
                    || near.as_ref().zip(to.as_ref()).is_some_and(|(one, other)| cosine(one, other) >= NEAR_COSINE);
                pairs().all(|(one, other)| one.turns_alike(other))
                    && (pairs().all(|(one, other)| one.reads_alike(other)) || is_near())
            }
            (rule, other) => rule == other,
        }
    }
}

/// In lower case, with single blanks, without a full stop.
fn plain(text: &str) -> String {
    let text = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    text.trim_end_matches('.').to_owned()
}

/// Words without which a lesson says the same, in the form that [`words`] gives them.
const FILLERS: [&str; 15] = [
    "a", "an", "the", "please", "do", "does", "did", "alway", "any", "very", "just", "really", "simply", "then", "also",
];

/// Words that turn a meaning around or narrow it, in the languages that are met most. In others only the order of words tells.
const TURNS: [&str; 40] = [
    "not", "no", "none", "nothing", "without", "only", "except", "unless", "instead", "avoid", "stop", "refuse",
    "skip", "nicht", "kein", "keine", "keinen", "nie", "ohne", "nur", "ne", "pas", "jamai", "san", "sauf", "nunca",
    "sin", "solo", "не", "нет", "без", "不", "没", "沒", "无", "無", "未", "非", "别", "勿",
];

/// Marks that say nothing by themselves. Others are symbols, and count.
const MARKS: &str = ".,;:!?'\"’‘“”()-–—…*`";

/// How a text is worded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wording {
    /// In order, without fillers.
    words: Vec<String>,
    /// Negations and restrictions among them.
    turns: Vec<String>,
    /// Digits and symbols, in order.
    exact: String,
}

impl Wording {
    fn of(text: &str) -> Self {
        let mut words = words(text);
        words.retain(|word| !FILLERS.contains(&word.as_str()));
        for word in words.iter_mut().filter(|word| *word == "never") {
            "not".clone_into(word);
        }
        let turns = words.iter().filter(|word| TURNS.contains(&word.as_str())).cloned().collect();
        Self { words, turns, exact: exact(text) }
    }

    /// Whether nothing that could turn the meaning around differs.
    fn turns_alike(&self, other: &Self) -> bool {
        self.turns == other.turns && self.exact == other.exact
    }

    fn reads_alike(&self, other: &Self) -> bool {
        let (short, long) = if self.words.len() <= other.words.len() { (self, other) } else { (other, self) };
        let mut rest = long.words.iter();
        let in_order = short.words.iter().all(|word| rest.any(|other| other == word));
        in_order && shared_pairs(&short.words, &long.words) >= SHARED_PAIRS
    }
}

fn exact(text: &str) -> String {
    let mut exact = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        // A point or a sign in front of a digit is part of a number.
        let of_number = matches!(character, '.' | ',' | '-') && characters.peek().is_some_and(char::is_ascii_digit);
        let is_word = character.is_alphabetic() || character.is_whitespace();
        if of_number || !is_word && !MARKS.contains(character) {
            exact.push(character);
        }
    }
    exact
}

/// Jaccard similarity of the sets of neighbouring words; beginning and end are neighbours too.
fn shared_pairs(one: &[String], other: &[String]) -> f64 {
    let pairs = |words: &[String]| -> BTreeSet<(Option<String>, Option<String>)> {
        let before = std::iter::once(None).chain(words.iter().cloned().map(Some));
        let after = words.iter().cloned().map(Some).chain(std::iter::once(None));
        before.zip(after).collect()
    };
    let (one, other) = (pairs(one), pairs(other));
    one.intersection(&other).count() as f64 / one.union(&other).count() as f64
}

/// Cosine of the angle between two vectors. Where there is none (another number of dimensions, no length) it is no number, and near
/// nothing.
fn cosine(one: &[f32], other: &[f32]) -> f64 {
    let dot = |one: &[f32], other: &[f32]| -> f64 {
        one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
    };
    let cosine = dot(one, other) / (dot(one, one) * dot(other, other)).sqrt();
    if one.len() == other.len() { cosine } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &str, other: &str, expect: bool) {
        let (one, other) = (Form::of(&Lesson::read(one), None), Form::of(&Lesson::read(other), None));
        assert_eq!(one.says_the_same(&other), expect, "{one:?} {other:?}");
        assert_eq!(other.says_the_same(&one), expect, "the other way round: {one:?} {other:?}");
    }

    #[test]
    fn rules_are_duplicates_only_where_they_do_the_same_in_the_same_case() {
        check("when tier is gold and age is days: refund", "when Age is days and tier is GOLD: Refund.", true);
        check("when tier is gold: refund", "when tier is silver: refund", false);
        check("when tier is gold: refund", "when tier is gold: escalate", false);
        check("when tier is gold: call pay {\"n\": 1}", "when tier is gold: call pay {\"n\": -1}", false);
        check("when tier is gold: refund", "when tier is gold and age is days: refund", false);
        check("when tier is gold: refund", "always: refund", false);
        check("when tier is gold: refund", "when tier is not gold: refund", false);
    }

    #[test]
    fn prose_is_a_duplicate_where_only_its_dress_differs() {
        check("Check the policy before refunding.", "check policy BEFORE refunding", true);
        check(
            "Always verify the order's number before a refund",
            "Please verify order numbers before the refund!",
            true,
        );
        check("always: be kind", "Be kind.", true);
        check("Never refund twice", "Don't refund twice.", true);
        check("when in doubt: ask the customer", "when in doubt: ask customers", true);
        let long = "verify the order number with the customer before you promise a refund to them";
        check(long, &format!("Carefully {long}"), true);
    }

    #[test]
    fn what_could_mean_something_else_is_no_duplicate() {
        check(
            "do refund orders of gold customers before the others",
            "do not refund orders of gold customers before the others",
            false,
        );
        check(
            "refund if the tier of the customer who asks you for it is gold",
            "refund if the tier of the customer who asks you for it is silver",
            false,
        );
        check(
            "when a customer waits for it longer than two weeks refund it at once",
            "when a customer waits for it longer than two weeks refund it only at once",
            false,
        );
        check("prefer a refund over a voucher", "prefer a voucher over a refund", false);
        check(
            "pay 5.0 euros to everybody who asks for it in person",
            "pay 50 euros to everybody who asks for it in person",
            false,
        );
        check("pay -5 euros", "pay 5 euros", false);
        check(
            "use the tool for orders in the shop when they <ask>",
            "use the tool for orders in the shop when they ask",
            false,
        );
        check("when in doubt: ask", "when in hurry: ask", false);
        check("be kind", "be kind and check the order", false);
        check("退款前请先核对订单号码和客户地址", "退款前请先不核对订单号码和客户地址", false);
        check("✅", "❌", false);
    }

    #[test]
    fn words_that_matter_are_written_as_they_are_compared() {
        FILLERS.iter().chain(&TURNS).for_each(|word| assert_eq!(words(word), [*word]));
    }

    #[test]
    fn what_to_avoid_counts_too() {
        let skill = |when: &str, avoid: &str| {
            Form::of(
                &Lesson::Skill(Skill {
                    when: when.into(),
                    action: "pay".into(),
                    avoid: avoid.into(),
                    ..Skill::default()
                }),
                None,
            )
        };
        for when in ["", "a is b"] {
            assert!(skill(when, "waiting").says_the_same(&skill(when, "Waiting")));
            assert!(!skill(when, "waiting").says_the_same(&skill(when, "haste")));
            assert!(!skill(when, "waiting").says_the_same(&skill(when, "")));
        }
    }

    /// Knows a few texts by heart.
    struct Known(Vec<(&'static str, Vec<f32>)>);

    impl Embedder for Known {
        fn embed(&self, text: &str) -> Option<Vec<f32>> {
            self.0.iter().find(|(known, _)| *known == text.trim_start_matches("- ")).map(|(_, vector)| vector.clone())
        }
    }

    #[test]
    fn an_embedder_finds_other_words_but_cannot_overrule_a_negation_or_a_value() {
        let known = Known(vec![
            ("greet people", vec![1.0, 0.0]),
            ("say hello to everyone", vec![0.99, 0.1]),
            ("count to three", vec![0.9, 0.5]),
            ("never greet people", vec![1.0, 0.0]),
            ("greet 2 people", vec![1.0, 0.0]),
            ("odd", vec![1.0]),
            ("nothing", vec![0.0, 0.0]),
            ("when tier is gold: refund", vec![1.0, 0.0]),
            ("when tier is silver: refund", vec![1.0, 0.0]),
        ]);
        let check = |one: &str, other: &str, expect: bool| {
            let form = |text: &str| Form::of(&Lesson::read(text), Some(&known));
            assert_eq!(form(one).says_the_same(&form(other)), expect, "{one} {other}");
        };
        check("greet people", "say hello to everyone", true);
        for other in ["count to three", "never greet people", "greet 2 people", "odd", "nothing", "unheard of"] {
            check("greet people", other, false);
        }
        check("greet people", "Greet the people!", true);
        check("when tier is gold: refund", "when tier is silver: refund", false);
    }
}
