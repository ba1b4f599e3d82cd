//! Reflectors: what draws lessons from recorded episodes.

use crate::{About, Attributes, Context, Episode, Failure, Grants, PluginIdentity};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// One lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Chosen by the host; empty in a new entry.
    pub id: String,
    /// The lesson.
    pub text: String,
    /// For retrieval.
    pub tags: Vec<String>,
    /// Room to grow.
    pub extra: Attributes,
}

/// What is known so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Playbook {
    /// Content address of this version.
    pub version: String,
    /// Lessons in order.
    pub entries: Vec<Entry>,
    /// Named sections of free text.
    pub sections: Vec<(String, String)>,
}

/// Where a proposal comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The episode's id.
    pub episode: String,
    /// Turns that show it.
    pub turns: Vec<u32>,
}

/// What to change in a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A new entry.
    Add(Entry),
    /// Another text for an entry that exists.
    Update(Entry),
    /// Take an entry out, by id.
    Retire(String),
    /// Another text for a section: name and text.
    RewriteSection(String, String),
}

/// One suggestion of a reflector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// What to change.
    pub change: Change,
    /// Where it comes from.
    pub evidence: Vec<Evidence>,
    /// What should get better, for people.
    pub expected_effect: String,
}

/// Draws lessons from recorded episodes.
#[async_trait]
pub trait Reflector: Send + Sync {
    /// Which plugin this is.
    fn identity(&self) -> &PluginIdentity;
    /// What it is.
    fn about(&self) -> &About;
    /// What it is allowed beyond computing and logging.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Suggestions; data that still has to pass trial and gate.
    async fn reflect(
        &self,
        context: &Context,
        playbook: &Playbook,
        group: &[std::sync::Arc<Episode>],
    ) -> Result<Vec<Proposal>, Failure>;
}
