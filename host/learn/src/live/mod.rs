//! Live sessions: the effect of an entry or of a new version, from sessions that are played once.

mod propensity;

pub use propensity::{
    DrawSeed, Kind, LEAST_PROPENSITY, LEAST_SHARE, MOST_PROPENSITY, MOST_SHARE, Propensity, Share, USUAL_SHARE, Unit,
};
