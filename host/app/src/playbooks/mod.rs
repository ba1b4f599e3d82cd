//! Playbooks in a data folder: what is there, what is served, where it was learned, versions, exchange with files.

mod served;

pub use served::{check_name, chosen, contents, described, document, guided, pick, worth};
pub fn warnings(_: &dyn clawhost_core::StoreReader, _: &clawhost_run_config::RunSpec, _: &clawhost_core::PlaybookVersion, _: u64) -> Result<Vec<crate::Warning>, crate::AppError> { Ok(vec![]) }
