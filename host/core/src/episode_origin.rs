//! Where an episode comes from: it was played in an environment of ours, or captured from an agent that works elsewhere.

use crate::{Attributes, Branch, Digest, Grants, PluginIdentity};
use serde::{Deserialize, Serialize};

/// Where an episode comes from. In JSON its fields stand beside those of the episode: `environment`, `seed`, `group`, ... of a
/// simulated one, `live` of a live one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, try_from = "Fields")]
pub enum EpisodeOrigin {
    /// An environment plugin was played. It can be played again.
    Simulated(Simulated),
    /// An agent outside of this program worked. It cannot be played again.
    Live(Live),
}

/// What a simulated episode depends on, beside its task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Which group of the run it belongs to; members share task and environment seed.
    pub group: u64,
    /// The environment.
    pub environment: PluginIdentity,
    /// The environment's seed.
    pub seed: u64,
    /// The environment's options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Attributes,
    /// The host stops after so many turns.
    pub max_turns: u32,
    /// What the environment was allowed beyond computing and logging.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// Where it branched off, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
}

/// The session that a live episode was captured from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSession {
    /// The session's name, as the agent or the gateway chose it.
    pub session: String,
    /// The agent's name.
    pub agent: String,
    /// The name by which the agent asked for its model.
    pub alias: String,
}

/// A live episode's origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Its session.
    pub live: LiveSession,
}

/// The fields of both origins, as they may stand in a document.
#[derive(Deserialize)]
struct Fields {
    live: Option<LiveSession>,
    group: Option<u64>,
    environment: Option<PluginIdentity>,
    seed: Option<u64>,
    #[serde(default)]
    options: Attributes,
    max_turns: Option<u32>,
    #[serde(default)]
    grants: Grants,
    branch: Option<Branch>,
}

impl TryFrom<Fields> for EpisodeOrigin {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let Fields { live, group, environment, seed, options, max_turns, grants, branch } = fields;
        let missing = |name: &str| format!("missing field `{name}`: an episode is simulated, or has the field `live`");
        match (live, environment) {
            (Some(_), Some(_)) => Err("the episode has both `environment` and `live`".to_owned()),
            (Some(live), None) => Ok(Self::Live(Live { live })),
            (None, environment) => Ok(Self::Simulated(Simulated {
                group: group.ok_or_else(|| missing("group"))?,
                environment: environment.ok_or_else(|| missing("environment"))?,
                seed: seed.ok_or_else(|| missing("seed"))?,
                options,
                max_turns: max_turns.ok_or_else(|| missing("max_turns"))?,
                grants,
                branch,
            })),
        }
    }
}

impl EpisodeOrigin {
    /// The origin of a live episode.
    pub fn live(session: LiveSession) -> Self {
        Self::Live(Live { live: session })
    }

    /// What it depends on, where it was simulated.
    pub fn simulated(&self) -> Option<&Simulated> {
        match self {
            Self::Simulated(simulated) => Some(simulated),
            Self::Live(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn simulated_mut(&mut self) -> Option<&mut Simulated> {
        match self {
            Self::Simulated(simulated) => Some(simulated),
            Self::Live(_) => None,
        }
    }

    /// Its session, where it is live.
    pub fn session(&self) -> Option<&LiveSession> {
        match self {
            Self::Simulated(_) => None,
            Self::Live(Live { live }) => Some(live),
        }
    }

    /// The name of the environment or of the agent. Lists show it; rewards and reflectors read it.
    pub fn name(&self) -> &str {
        match self {
            Self::Simulated(simulated) => &simulated.environment.name,
            Self::Live(Live { live }) => &live.agent,
        }
    }

    /// Seeds what is derived from an episode: the environment's seed; of a live one a digest of its session's name.
    pub fn seed(&self) -> u64 {
        match self {
            Self::Simulated(simulated) => simulated.seed,
            Self::Live(Live { live }) => Digest::of(live.session.as_bytes()).prefix_u64(),
        }
    }
}
