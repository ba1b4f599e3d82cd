//! Playbooks in a data folder: lists, served versions, origins, history, import and export.
//!
//! Operations that read take a reader ([`crate::Workspace::read`]). Operations that write ([`rollback`], [`import`])
//! take a [`crate::Workspace`] and hold the playbook's lease, so that no run learns it meanwhile. [`chosen`] resolves
//! the playbook's name; all other operations take the name.

mod exchange;
mod list;
mod origin;
mod served;
mod show;
mod versions;

pub use exchange::{Exported, Imported, export, import, playbook_of, read_playbook};
pub(crate) use exchange::{SkillStamp, skill_stamp};
pub use list::{PlaybookRow, list};
pub(crate) use origin::Beginning;
pub use origin::{Origin, Tasks, warnings};
pub use served::{check_name, chosen, contents, described, document, guided, pick, worth};
pub use show::{ShownPlaybook, show};
pub(crate) use versions::{PlaybookWriter, add};
pub use versions::{RolledBack, VersionDifferences, diff, rollback};
