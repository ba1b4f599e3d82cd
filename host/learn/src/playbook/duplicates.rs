//! Detection of lessons that say the same in nearly the same words.
//!
//! A lesson that is wrongly taken for a duplicate is lost, and its support is added to the other lesson. A duplicate that is
//! not detected costs one more trial. So the test is strict, and everything that can invert a meaning must be equal:
//!
//! - Two *rules* (lessons whose conditions a program can evaluate) are duplicates if they have the same set of conditions
//!   and the same action, up to case and white space. Another value or another action makes another lesson.
//! - Two lessons in prose are duplicates if their negations, restrictions, numbers and symbols are equal, and either the
//!   words of one occur in the other in the same order with few additions (Jaccard similarity of word pairs), or an
//!   [`Embedder`] maps both to nearby vectors. A replaced word may be another value, so it makes another lesson.

use super::words::words;
use crate::{Lesson, Skill};
use clawhost_core::Condition;
use std::collections::BTreeSet;

/// Smallest cosine similarity of the vectors of two texts with the same meaning.
const NEAR_COSINE: f64 = 0.95;

/// Maps texts to vectors that are close for similar meanings. A port: a program with an embedding model can implement it.
/// Must be deterministic.
pub trait Embedder: Send + Sync {
    /// The vector of a text. `None` if there is none for it; then the text is compared by its words.
    fn embed(&self, text: &str) -> Option<Vec<f32>>;
}

/// Whether two lessons are the same in nearly the same words.
pub(crate) fn says_the_same(one: &Lesson, other: &Lesson) -> bool {
    one.id() == other.id() || Form::of(one, None).is_duplicate_of(&Form::of(other, None))
}

/// Smallest Jaccard similarity of word pairs. One additional word in seven passes.
const SHARED_PAIRS: f64 = 0.7;

/// Share of the words of a text that another one must have to say nearly the same. One word in five may be missing: an adverb, or another
/// preposition. A missing word may be a value, so the gate has the last word.
const HELD_WORDS: f64 = 0.8;

/// A lesson in the form in which it is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    Rule {
        conditions: BTreeSet<Condition>,
        action: String,
        avoid: String,
    },
    Prose {
        /// Condition, action, avoid.
        wordings: [Wording; 3],
        /// Embedding of the whole lesson.
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

    /// Whether this lesson says what the other one says: the same action under a part of the conditions, or, in prose, nearly all of its
    /// words under a condition with no more of them. Negations, restrictions, numbers and symbols are equal in any case.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Rule { conditions: one, action, avoid },
                Self::Rule { conditions: other, action: same, avoid: equally },
            ) => one.is_subset(other) && action == same && avoid == equally,
            (Self::Prose { wordings: one, .. }, Self::Prose { wordings: other, .. }) => {
                let ([when, does, avoids], [when_other, does_other, avoids_other]) = (one, other);
                one.iter().zip(other).all(|(one, other)| one.negates_alike(other))
                    // What holds in more cases has the shorter condition.
                    && when_other.holds_words_of(when)
                    && does.holds_words_of(does_other)
                    && avoids.holds_words_of(avoids_other)
            }
            // Without a condition it always applies.
            (Self::Prose { wordings: [when, does, avoids], .. }, Self::Rule { action, avoid, .. }) => {
                *when == Wording::of("") && *does == Wording::of(action) && *avoids == Wording::of(avoid)
            }
            _ => false,
        }
    }

    /// Whether both are the same lesson.
    pub(crate) fn is_duplicate_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prose { wordings: one, vector: near }, Self::Prose { wordings: other, vector: to }) => {
                let pairs = || one.iter().zip(other);
                let is_near =
                    || near.as_ref().zip(to.as_ref()).is_some_and(|(one, other)| cosine(one, other) >= NEAR_COSINE);
                pairs().all(|(one, other)| one.negates_alike(other))
                    && (pairs().all(|(one, other)| one.words_alike(other)) || is_near())
            }
            (rule, other) => rule == other,
        }
    }
}

/// Lower case, single spaces, no final full stop.
pub(crate) fn plain(text: &str) -> String {
    let text = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    text.trim_end_matches('.').to_owned()
}

/// Words that do not change the meaning of a lesson, as [`words`] normalises them.
const FILLERS: [&str; 15] = [
    "a", "an", "the", "please", "do", "does", "did", "alway", "any", "very", "just", "really", "simply", "then", "also",
];

/// Words that invert or restrict a meaning, in common languages. In other languages only the word order protects against a
/// wrong match.
const TURNS: [&str; 40] = [
    "not", "no", "none", "nothing", "without", "only", "except", "unless", "instead", "avoid", "stop", "refuse",
    "skip", "nicht", "kein", "keine", "keinen", "nie", "ohne", "nur", "ne", "pas", "jamai", "san", "sauf", "nunca",
    "sin", "solo", "не", "нет", "без", "不", "没", "沒", "无", "無", "未", "非", "别", "勿",
];

/// Punctuation without a meaning of its own. Other marks are symbols, which must be equal.
const MARKS: &str = ".,;:!?'\"’‘“”()-–—…*`";

/// The words of a text in the form in which they are compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wording {
    /// Words in order, without fillers.
    words: Vec<String>,
    /// The negations and restrictions among them.
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

    /// Whether negations, restrictions, numbers and symbols are equal.
    fn negates_alike(&self, other: &Self) -> bool {
        self.turns == other.turns && self.exact == other.exact
    }

    /// Whether nearly all words of another wording occur here.
    fn holds_words_of(&self, other: &Self) -> bool {
        let held = other.words.iter().filter(|word| self.words.contains(word)).count();
        held as f64 >= HELD_WORDS * other.words.len() as f64
    }

    fn words_alike(&self, other: &Self) -> bool {
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
        // A point, comma or minus sign before a digit is part of the number.
        let of_number = matches!(character, '.' | ',' | '-') && characters.peek().is_some_and(char::is_ascii_digit);
        let is_word = character.is_alphabetic() || character.is_whitespace();
        if of_number || !is_word && !MARKS.contains(character) {
            exact.push(character);
        }
    }
    exact
}

/// Jaccard similarity of the sets of adjacent word pairs, including the text's start and end.
fn shared_pairs(one: &[String], other: &[String]) -> f64 {
    let pairs = |words: &[String]| -> BTreeSet<(Option<String>, Option<String>)> {
        let before = std::iter::once(None).chain(words.iter().cloned().map(Some));
        let after = words.iter().cloned().map(Some).chain(std::iter::once(None));
        before.zip(after).collect()
    };
    let (one, other) = (pairs(one), pairs(other));
    one.intersection(&other).count() as f64 / one.union(&other).count() as f64
}

/// Cosine similarity. NaN, which is never near, for different dimensions or a zero vector.
pub(super) fn cosine(one: &[f32], other: &[f32]) -> f64 {
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
        assert_eq!(one.is_duplicate_of(&other), expect, "{one:?} {other:?}");
        assert_eq!(other.is_duplicate_of(&one), expect, "the other way round: {one:?} {other:?}");
    }

    #[test]
    fn rules_are_duplicates_if_conditions_and_action_are_equal() {
        check("when tier is gold and age is days: refund", "when Age is days and tier is GOLD: Refund.", true);
        check("when tier is gold: refund", "when tier is silver: refund", false);
        check("when tier is gold: refund", "when tier is gold: escalate", false);
        check("when tier is gold: call pay {\"n\": 1}", "when tier is gold: call pay {\"n\": -1}", false);
        check("when tier is gold: refund", "when tier is gold and age is days: refund", false);
        check("when tier is gold: refund", "always: refund", false);
        check("when tier is gold: refund", "when tier is not gold: refund", false);
    }

    #[test]
    fn prose_with_the_same_words_in_order_is_a_duplicate() {
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
    fn prose_with_another_value_or_negation_is_no_duplicate() {
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
    fn a_lesson_covers_another_that_says_the_same_or_less() {
        let check = |wide: &str, narrow: &str, expect: bool| {
            let form = |text: &str| Form::of(&Lesson::read(text), None);
            assert_eq!(form(wide).covers(&form(narrow)), expect, "{wide:?} {narrow:?}");
        };
        check("when tier is gold: refund", "when tier is gold and age is days: Refund.", true);
        check("when tier is gold: refund", "when tier is gold: refund", true);
        check("always: refund", "when tier is gold: refund", true);
        check("always: refund", "when tier is gold: escalate", false);
        check("always: apologise at once", "when the parcel arrived broken: apologise at once", true);
        check("when the parcel arrived broken: apologise at once", "always: apologise at once", false);
        check("when it arrived broken: apologise", "when it arrived broken and paid by invoice: apologise", true);
        check("when it arrived broken and paid by invoice: apologise", "when it arrived broken: apologise", false);
        check("when tier is gold and age is days: refund", "when tier is gold: refund", false);
        check("when tier is gold: refund", "when tier is gold and age is days: escalate", false);
        check("when tier is gold: refund", "when tier is silver and age is days: refund", false);
        let long = "Check the order number with the customer before you promise a refund.";
        check(long, "Check the order number before you promise any refund.", true);
        check("Check the order number before you promise any refund.", long, false);
        check(long, "Never check the order number before you promise any refund.", false);
        check(long, "Check the order number 2 times before you promise a refund.", false);
        check(long, "Offer a voucher before you promise a refund.", false);
    }

    #[test]
    fn word_lists_are_in_normalised_form() {
        FILLERS.iter().chain(&TURNS).for_each(|word| assert_eq!(words(word), [*word]));
    }

    #[test]
    fn the_avoid_part_is_compared_too() {
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
            assert!(skill(when, "waiting").is_duplicate_of(&skill(when, "Waiting")));
            assert!(!skill(when, "waiting").is_duplicate_of(&skill(when, "haste")));
            assert!(!skill(when, "waiting").is_duplicate_of(&skill(when, "")));
        }
    }

    /// An embedder with a fixed table.
    struct Known(Vec<(&'static str, Vec<f32>)>);

    impl Embedder for Known {
        fn embed(&self, text: &str) -> Option<Vec<f32>> {
            self.0.iter().find(|(known, _)| *known == text.trim_start_matches("- ")).map(|(_, vector)| vector.clone())
        }
    }

    #[test]
    fn an_embedder_matches_paraphrases_but_not_other_negations_or_values() {
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
            assert_eq!(form(one).is_duplicate_of(&form(other)), expect, "{one} {other}");
        };
        check("greet people", "say hello to everyone", true);
        for other in ["count to three", "never greet people", "greet 2 people", "odd", "nothing", "unheard of"] {
            check("greet people", other, false);
        }
        check("greet people", "Greet the people!", true);
        check("when tier is gold: refund", "when tier is silver: refund", false);
    }
}
