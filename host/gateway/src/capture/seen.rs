//! What a recorder is given, and what it returns.

use crate::observe::Observation;
use clawhost_capture::ClientSession;
use clawhost_core::{Digest, LlmIdentity, ModelRequest};
use std::sync::Arc;

/// A request as it is recorded.
pub(crate) struct Seen<'a> {
    pub(crate) client: ClientSession,
    /// Name of the agent.
    pub(crate) agent: String,
    /// The requested model.
    pub(crate) alias: String,
    pub(crate) dialect: &'static str,
    /// The model that is asked.
    pub(crate) model: LlmIdentity,
    pub(crate) request: &'a ModelRequest,
    /// Digest of the body. The record has a keyed digest of it.
    pub(crate) digest: Digest,
    /// Id of the response that it continues.
    pub(crate) previous: Option<String>,
    pub(crate) side: Option<bool>,
    /// The project that the client names.
    pub(crate) project: Option<String>,
    pub(crate) no_train: bool,
    /// Whether it is not recorded.
    pub(crate) no_record: bool,
    /// The request, if the gateway answers it.
    pub(crate) observation: Option<Arc<Observation>>,
}

/// The result of recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// It is in the spool.
    Recorded,
    /// It is not, and why.
    Missed(String),
    /// The client's key keeps it out of the record.
    Off,
}
