//! What was drawn for forgotten sessions that have entered trials: it stays as numbers that name nobody. Trials compare sessions as they were
//! drawn, and would find what is not there if sessions left them because of how they ended.

use crate::AppError;
use clawhost_core::{EpisodeId, RunId, StoreReader};
use clawhost_learn::LearnError;
use clawhost_learn::live::trials::SessionDraws;
use std::collections::{BTreeMap, BTreeSet};

/// What stands in the place of an agent that is forgotten.
const FORGOTTEN: &str = "forgotten";

/// A random number in the place of a user's. Sessions of one user keep one number, because their rewards depend on each other.
fn random() -> Result<u64, AppError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| AppError::Host(format!("no randomness for a number: {error}")))?;
    Ok(u64::from_be_bytes(bytes))
}

/// The draws of these sessions that have entered trials, without their users. `agent`: the agent that is forgotten, if one is. Draws that this
/// program cannot read are left out, and removed with those that wait.
pub(super) fn anonymous(
    reader: &dyn StoreReader,
    episodes: &BTreeSet<(RunId, EpisodeId)>,
    agent: Option<&str>,
) -> Result<BTreeMap<u64, String>, AppError> {
    let (mut all, mut users) = (BTreeMap::new(), BTreeMap::new());
    for (run, id) in episodes {
        let Some(stored) = reader.draw_of(run, id)?.filter(|stored| stored.has_entered) else { continue };
        let Ok(mut draws) = serde_json::from_str::<SessionDraws>(&stored.document) else { continue };
        draws.user = match users.get(&draws.user) {
            Some(known) => *known,
            None => *users.entry(draws.user).or_insert(random()?),
        };
        if agent == Some(draws.class.as_str()) {
            FORGOTTEN.clone_into(&mut draws.class);
        }
        let document = serde_json::to_string(&draws).map_err(|error| LearnError::Document(error.to_string()))?;
        all.insert(stored.number, document);
    }
    Ok(all)
}
