//! The reflector port: proposes lessons from recorded episodes.

use crate::{About, Attributes, Context, Episode, Failure, Grants, PluginIdentity};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// An entry of a playbook, as plugins see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Id, assigned by the host; empty in a new entry.
    pub id: String,
    /// The lesson.
    pub text: String,
    /// Tags for retrieval.
    pub tags: Vec<String>,
    /// Extension fields.
    pub extra: Attributes,
}

/// A playbook, as plugins see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Playbook {
    /// Content address of this version.
    pub version: String,
    /// Lessons in order.
    pub entries: Vec<Entry>,
    /// Named sections of free text.
    pub sections: Vec<(String, String)>,
}

/// The basis of a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Id of the episode.
    pub episode: String,
    /// The relevant turns.
    pub turns: Vec<u32>,
}

/// A proposed change of a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A new entry.
    Add(Entry),
    /// A new text for an existing entry.
    Update(Entry),
    /// Removal of an entry, by id.
    Retire(String),
    /// A new text for a section: name and text.
    RewriteSection(String, String),
}

/// One proposal of a reflector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The proposed change.
    pub change: Change,
    /// The episodes that it is based on.
    pub evidence: Vec<Evidence>,
    /// Expected improvement, for people.
    pub expected_effect: String,
}

/// Proposes changes from recorded episodes.
#[async_trait]
pub trait Reflector: Send + Sync {
    /// Identity of the plugin.
    fn identity(&self) -> &PluginIdentity;
    /// Description.
    fn about(&self) -> &About;
    /// Its grants.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Returns proposals. They are data, and must still pass trial and gate.
    async fn reflect(
        &self,
        context: &Context,
        playbook: &Playbook,
        group: &[std::sync::Arc<Episode>],
    ) -> Result<Vec<Proposal>, Failure>;
}
