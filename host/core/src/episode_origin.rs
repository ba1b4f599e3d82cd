//! Origins of episodes: simulated in an environment plugin, or captured from an external agent.

use crate::{Attributes, Branch, Digest, Grants, PluginIdentity};
use serde::{Deserialize, Serialize};

/// The origin of an episode. In JSON its fields are siblings of the episode's: `environment`, `seed`, `group`, ... for a
/// simulated episode, `live` for a live one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, try_from = "Fields")]
pub enum EpisodeOrigin {
    /// Played in an environment plugin. Can be replayed.
    Simulated(Simulated),
    /// Captured from an agent outside of this program. Cannot be replayed.
    Live(Live),
}

/// What a simulated episode depends on, besides its task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Group of the run; members share task and environment seed.
    pub group: u64,
    /// The environment.
    pub environment: PluginIdentity,
    /// The environment's seed.
    pub seed: u64,
    /// The environment's options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Attributes,
    /// The episode is truncated after this many turns.
    pub max_turns: u32,
    /// Grants of the environment.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// The branch, if it branched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
}

/// The session of a live episode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSession {
    /// Name of the session, chosen by the agent or the gateway.
    pub session: String,
    /// Name of the agent.
    pub agent: String,
    /// Model name in the agent's requests.
    pub alias: String,
    /// The user whom the agent serves, if its client names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The project that it works on, if its client names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

impl LiveSession {
    /// A session of an agent that names no user and no project.
    pub fn new(session: impl Into<String>, agent: impl Into<String>, alias: impl Into<String>) -> Self {
        Self { session: session.into(), agent: agent.into(), alias: alias.into(), user: None, project: None }
    }

    /// The scopes of the session behind the key of its client, as `LEVEL:OWNER/NAME`: of its user, its project and its agent.
    pub fn scopes(&self, owner: &str) -> impl Iterator<Item = String> {
        let named = [
            ("user", self.user.as_deref()),
            ("project", self.project.as_deref()),
            ("agent", Some(self.agent.as_str())),
        ];
        named.into_iter().filter_map(move |(level, name)| Some(format!("{level}:{owner}/{}", name?)))
    }
}

/// Why learning leaves a live episode out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// The client or its key said so.
    NoTrain,
    /// Several conversations fitted one of its requests, so that it may hold answers to somebody else.
    Ambiguous,
    /// It asks again what another episode asked: its answer would count twice.
    Repetition,
    /// It is beside a conversation, as a request for a title: not the agent's work.
    SideTurn,
    /// A part of an answer is missing, because it was a secret: what is left is not what the model said.
    Redacted,
}

impl Withheld {
    /// Whether rewards judge such an episode: side turns are not the agent's work, a repetition would count twice, and what its client keeps out of
    /// learning is no judge's business.
    pub fn is_judged(self) -> bool {
        !matches!(self, Self::SideTurn | Self::Repetition | Self::NoTrain)
    }
}

/// Origin of a live episode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// The session.
    pub live: LiveSession,
    /// Why learning leaves it out, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

/// The fields of both origins in a document.
#[derive(Deserialize)]
struct Fields {
    live: Option<LiveSession>,
    withheld: Option<Withheld>,
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
        let Fields { live, withheld, group, environment, seed, options, max_turns, grants, branch } = fields;
        let missing = |name: &str| format!("missing field `{name}`: an episode is simulated, or has the field `live`");
        match (live, environment) {
            (Some(_), Some(_)) => Err("the episode has both `environment` and `live`".to_owned()),
            (Some(live), None) => Ok(Self::Live(Live { live, withheld })),
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
        Self::Live(Live { live: session, withheld: None })
    }

    /// Why learning leaves the episode out, if it does.
    pub fn withheld(&self) -> Option<Withheld> {
        match self {
            Self::Simulated(_) => None,
            Self::Live(live) => live.withheld,
        }
    }

    /// What it depends on, if it was simulated.
    pub fn simulated(&self) -> Option<&Simulated> {
        match self {
            Self::Simulated(simulated) => Some(simulated),
            Self::Live(_) => None,
        }
    }

    /// Mutable access to the same.
    pub fn simulated_mut(&mut self) -> Option<&mut Simulated> {
        match self {
            Self::Simulated(simulated) => Some(simulated),
            Self::Live(_) => None,
        }
    }

    /// The session, if it is live.
    pub fn session(&self) -> Option<&LiveSession> {
        match self {
            Self::Simulated(_) => None,
            Self::Live(Live { live, .. }) => Some(live),
        }
    }

    /// Name of the environment or of the agent.
    pub fn name(&self) -> &str {
        match self {
            Self::Simulated(simulated) => &simulated.environment.name,
            Self::Live(Live { live, .. }) => &live.agent,
        }
    }

    /// Seed for everything derived from the episode: the environment's seed, or a digest of a live session's name.
    pub fn seed(&self) -> u64 {
        match self {
            Self::Simulated(simulated) => simulated.seed,
            Self::Live(Live { live, .. }) => Digest::of(live.session.as_bytes()).prefix_u64(),
        }
    }
}
