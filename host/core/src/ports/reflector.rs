//! The reflector port: proposes lessons from recorded episodes.

use crate::{About, Attributes, Context, Episode, Failure, Grants, PluginIdentity};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// An entry of a playbook, as plugins see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Id, assigned by the host. In a new entry empty, or a name by which other entries of the same answer need it.
    pub id: String,
    /// The lesson.
    pub text: String,
    /// Tags for retrieval.
    pub tags: Vec<String>,
    /// Entries without which it is useless: ids, or names of the same answer.
    pub needs: Vec<String>,
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
    /// How often another approach was asked for, because training found nothing.
    pub attempt: u32,
    /// Lessons that training tried in vain, the latest last.
    pub tried: Vec<Entry>,
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
    /// One entry in the place of several deployed ones, by their ids.
    Merge(Vec<String>, Entry),
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
