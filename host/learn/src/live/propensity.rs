//! Random draws that the host makes when a session starts, each a pure function of a secret and names.

use super::session::EntryDraw;
use crate::{EntryId, LearnError};
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Smallest probability with which an entry is shown. Below it, a session that was shown the entry would count for more than ten.
pub const LEAST_PROPENSITY: f64 = 0.1;
/// Largest probability with which an entry is shown: the same for sessions that were not shown it.
pub const MOST_PROPENSITY: f64 = 0.9;
/// Smallest share of sessions that are served by a new version.
pub const LEAST_SHARE: f64 = 0.01;
/// Largest share of sessions that are served by a new version: it is not the served one.
pub const MOST_SHARE: f64 = 0.5;
/// Usual share of sessions that are served by a new version.
pub const USUAL_SHARE: f64 = 0.05;

/// A number of a range, checked also when it is read.
macro_rules! probability {
    ($(#[$about:meta])* $name:ident, $least:expr, $most:expr, $what:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            /// Checks the range.
            ///
            /// # Errors
            /// The value is outside of the range, or no number.
            pub fn new(value: f64) -> Result<Self, LearnError> {
                match ($least..=$most).contains(&value) {
                    true => Ok(Self(value)),
                    false => Err(LearnError::Live(format!("{} is {value}; it is from {} to {}", $what, $least, $most))),
                }
            }

            /// The value.
            pub fn value(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = LearnError;

            fn try_from(value: f64) -> Result<Self, LearnError> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> f64 {
                value.0
            }
        }
    };
}

probability!(
    /// The probability with which an entry is shown, [`LEAST_PROPENSITY`] to [`MOST_PROPENSITY`].
    Propensity,
    LEAST_PROPENSITY,
    MOST_PROPENSITY,
    "a propensity"
);
probability!(
    /// The share of sessions that a new version serves, [`LEAST_SHARE`] to [`MOST_SHARE`].
    Share,
    LEAST_SHARE,
    MOST_SHARE,
    "the share of a new version"
);

impl Default for Share {
    /// [`USUAL_SHARE`].
    fn default() -> Self {
        Self(USUAL_SHARE)
    }
}

/// What an entry is about; it decides what is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// How a task is done.
    Rule,
    /// How to speak with a user.
    Tone,
}

impl Kind {
    /// What the draw is made for. A user who is met in one tone today and in another one tomorrow notices the experiment: tone is drawn once
    /// per user. (Memory is not drawn at all: it is shown to its own user alone, and its effect is not measured.)
    pub fn unit<'a>(self, session: &'a str, user: &'a str) -> Unit<'a> {
        match self {
            Self::Rule => Unit::Session(session),
            Self::Tone => Unit::User(user),
        }
    }
}

/// What a draw is made for, by its name. Equal units have equal draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit<'a> {
    /// A session.
    Session(&'a str),
    /// A user: the same draw in all of the user's sessions.
    User(&'a str),
}

/// The secret seed of the draws. A client that knew it could predict the draw of a session and pick a session name with the draw that it
/// wants. So the seed is never printed, and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct DrawSeed(Digest);

impl fmt::Debug for DrawSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DrawSeed(secret)")
    }
}

impl DrawSeed {
    /// The seed with these secret bytes.
    pub fn new(secret: &[u8]) -> Self {
        Self(Digest::of(secret))
    }

    /// Whether a unit is shown an entry. A unit that is shown it at one propensity is shown it at every larger one too.
    pub fn shows(&self, unit: Unit<'_>, entry: &EntryId, propensity: Propensity) -> bool {
        self.uniform("live entry", unit, &entry.0) < propensity.value()
    }

    /// The draw for an entry, as estimates need it.
    pub fn draw(&self, unit: Unit<'_>, entry: EntryId, propensity: Propensity) -> EntryDraw {
        EntryDraw { shown: self.shows(unit, &entry, propensity), entry, propensity }
    }

    /// Whether a unit is served by the new version of this name. Like [`DrawSeed::shows`], it is monotone in the share.
    pub fn serves(&self, unit: Unit<'_>, version: &str, share: Share) -> bool {
        self.uniform("live version", unit, version) < share.value()
    }

    /// Uniform in [0, 1). Each step digests the digest before it, of fixed length, so no two different inputs are digested as the same bytes.
    fn uniform(&self, purpose: &str, unit: Unit<'_>, about: &str) -> f64 {
        let (kind, name) = match unit {
            Unit::Session(name) => ("session", name),
            Unit::User(name) => ("user", name),
        };
        let digest = [purpose, kind, name, about].iter().fold(self.0, |digest, part| digest.extended(part.as_bytes()));
        // The 53 bits that a number holds.
        (digest.prefix_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed() -> DrawSeed {
        DrawSeed::new(b"secret")
    }

    fn entry(name: &str) -> EntryId {
        EntryId(name.into())
    }

    #[test]
    fn only_numbers_of_the_range_are_propensities() {
        for (value, expect) in [(0.1, true), (0.9, true), (0.5, true), (0.099, false), (0.91, false), (f64::NAN, false)]
        {
            assert_eq!(Propensity::new(value).is_ok(), expect, "{value}");
            assert_eq!(serde_json::from_value::<Propensity>(value.into()).is_ok(), expect, "{value}");
        }
        assert!(Share::new(0.009).is_err() && Share::new(0.51).is_err());
        assert_eq!(Share::default(), Share::new(0.05).unwrap());
    }

    #[test]
    fn the_share_that_is_shown_is_the_propensity_and_draws_are_independent() {
        const UNITS: u32 = 50_000;
        for p in [0.1, 0.5, 0.9] {
            let propensity = Propensity::new(p).unwrap();
            let (mut one, mut both) = (0, 0);
            for number in 0..UNITS {
                let name = format!("s{number}");
                let shown = |id: &str| seed().shows(Unit::Session(&name), &entry(id), propensity);
                one += u32::from(shown("a"));
                both += u32::from(shown("a") && shown("b"));
            }
            let close = |count: u32, expect: f64| {
                let error = 4.0 * (expect * (1.0 - expect) / f64::from(UNITS)).sqrt();
                assert!((f64::from(count) / f64::from(UNITS) - expect).abs() < error, "{p}: {count} of {UNITS}");
            };
            close(one, p);
            close(both, p * p);
        }
    }

    #[test]
    fn draws_are_sticky_and_those_of_a_smaller_propensity_stay() {
        let at = |p: f64, name: &str| seed().shows(Unit::User(name), &entry("a"), Propensity::new(p).unwrap());
        for number in 0..200 {
            let name = format!("u{number}");
            let draw = seed().draw(Unit::User(&name), entry("a"), Propensity::new(0.3).unwrap());
            assert_eq!((draw.shown, draw.propensity.value()), (at(0.3, &name), 0.3));
            assert!(!at(0.3, &name) || at(0.6, &name));
        }
    }

    #[test]
    fn secret_unit_and_entry_change_the_draw() {
        let draws = |seed: &DrawSeed, kind: Kind, id: &str| -> Vec<bool> {
            let half = Propensity::new(0.5).unwrap();
            (0..64).map(|number| seed.shows(kind.unit(&format!("n{number}"), "n"), &entry(id), half)).collect()
        };
        let base = draws(&seed(), Kind::Rule, "a");
        assert_ne!(base, draws(&DrawSeed::new(b"other"), Kind::Rule, "a"));
        assert_ne!(base, draws(&seed(), Kind::Rule, "b"));
        // One draw for all of a user's sessions.
        let user = draws(&seed(), Kind::Tone, "a");
        assert!(user.iter().all(|shown| shown == &user[0]));
        let uniform = |unit, about: &str| seed().uniform("p", unit, about);
        assert_ne!(uniform(Unit::Session("n"), "a"), uniform(Unit::User("n"), "a"));
        assert_ne!(uniform(Unit::Session("ab"), "c"), uniform(Unit::Session("a"), "bc"));
        assert_eq!(format!("{:?}", seed()), "DrawSeed(secret)");
    }

    #[test]
    fn draws_never_change_between_versions() {
        // Golden: a session that goes on after an update must see what it saw before.
        assert_eq!(seed().uniform("live entry", Unit::Session("s"), "a"), 0.066_220_770_390_949_98);
    }
}
