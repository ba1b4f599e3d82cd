//! What a gateway is made of, and its limits.

use crate::capture::SpoolLimits;
use crate::guiding::{Guide, MemoryBook};
use crate::ingest::GuidanceSource;
use crate::keys::ClientKeys;
use crate::learned::LearnedBook;
use crate::models::ServedModel;
use crate::observe::TraceSettings;
use crate::pool::EpisodeJudge;
use crate::record_policy::RecordPolicy;
use crate::store::CaptureStore;
use crate::tls::TlsIdentity;
use clawhost_capture::{Redaction, SessionsLimits};
use clawhost_core::{Clock, Digest, Expectation, KnownSecrets, RunId};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Limits of a gateway. Each bounds memory, time or disk that a client or an upstream could use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Bytes of a request's body: a conversation with a few images.
    pub body_bytes: usize,
    /// Bytes of an answer that is not streamed.
    pub answer_bytes: usize,
    /// Time for the head of a request, which a slow client would keep open for ever.
    pub head_time: Duration,
    /// Time for its body.
    pub body_time: Duration,
    /// Connections at the same time.
    pub connections: usize,
    /// Requests to models at the same time.
    pub requests: usize,
    /// Longest duration of an answer.
    pub answer_time: Duration,
    /// How long a client may leave a piece of a streamed answer unread. Its model works on for nobody meanwhile.
    pub unread_time: Duration,
    /// Pause before the second attempt at a model, before jitter; doubled with each attempt.
    pub retry_pause: Duration,
    /// Bytes of exchanges that wait for the store. Beyond it none is recorded until some were taken over.
    pub spool_bytes: u64,
    /// Bytes of one file of them. A file is deleted when all of it was taken over.
    pub spool_file_bytes: u64,
    /// Bytes of an episode's record.
    pub episode_bytes: usize,
    /// Time in which requests may end after the gateway was told to stop.
    pub drain_time: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            answer_bytes: clawhost_wire::ANSWER_BYTES,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            connections: 10_000,
            requests: 4_096,
            answer_time: Duration::from_secs(60 * 60),
            unread_time: Duration::from_secs(5 * 60),
            retry_pause: Duration::from_millis(250),
            spool_bytes: 1 << 30,
            spool_file_bytes: 64 << 20,
            episode_bytes: clawhost_core::Limits::default().episode_bytes,
            drain_time: Duration::from_secs(30),
        }
    }
}

impl GatewayLimits {
    pub(crate) fn spool(&self) -> SpoolLimits {
        SpoolLimits { segment_bytes: self.spool_file_bytes, waiting_bytes: self.spool_bytes }
    }
}

/// The settings of a gateway.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Address and port; port 0 takes a free one.
    pub listen: String,
    /// Names under which it may be addressed, beside those of this machine's loopback.
    pub hosts: Vec<String>,
    /// What it proves its name with. `None`: connections are not encrypted.
    pub tls: Option<TlsIdentity>,
    /// Folder of the spool.
    pub spool: PathBuf,
    /// What is recorded of clients without a key.
    pub record: RecordPolicy,
    /// Limits of what is remembered of sessions.
    pub sessions: SessionsLimits,
    /// What is redacted before anything is recorded.
    pub redaction: Arc<Redaction>,
    /// The verdicts that sessions wait for when they have ended.
    pub expects: Vec<Expectation>,
    /// Other limits.
    pub limits: GatewayLimits,
    /// Tokens of an answer for requests without a limit, where the model needs one.
    pub max_tokens: u32,
    /// Whether each request is an event of `tracing` at the target [`ACCESS_LOG`](crate::ACCESS_LOG).
    pub access_log: bool,
    /// Where spans of requests are sent. `None`: nowhere.
    pub traces: Option<TraceSettings>,
}

impl GatewayConfig {
    /// A gateway at an address with defaults. It redacts nothing.
    pub fn new(listen: impl Into<String>, spool: impl Into<PathBuf>) -> Self {
        Self {
            listen: listen.into(),
            hosts: Vec::new(),
            tls: None,
            spool: spool.into(),
            record: RecordPolicy::default(),
            sessions: SessionsLimits::default(),
            redaction: Arc::default(),
            expects: Vec::new(),
            limits: GatewayLimits::default(),
            max_tokens: 4096,
            access_log: false,
            traces: None,
        }
    }
}

/// What of a gateway can change while it runs.
#[derive(Debug, Clone)]
pub struct GatewayChange {
    /// The models, in the place of those before.
    pub models: Vec<ServedModel>,
    /// Names under which it may be addressed, as in [`GatewayConfig`].
    pub hosts: Vec<String>,
    /// Milliseconds after its last exchange at which a session ends.
    pub session_idle_ms: u64,
    /// What is recorded of clients without a key.
    pub record: RecordPolicy,
    /// What it proves its name with, if it speaks TLS. `None`: as before.
    pub tls: Option<TlsIdentity>,
}

/// What a gateway works with.
pub struct GatewayParts {
    /// Where episodes are recorded.
    pub store: CaptureStore,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The keys of the process: none reaches a record or a client.
    pub secrets: KnownSecrets,
    /// The key of the digests by which conversations are found.
    pub capture_key: [u8; 32],
    /// The models, the first of them for lists in this order.
    pub models: Vec<ServedModel>,
    /// The keys of clients. Without any, clients of this machine need none, and others cannot reach the gateway.
    pub keys: ClientKeys,
    /// Digest of the admin's key. `None`: what is for the admin alone is for nobody.
    pub admin: Option<Digest>,
    /// The playbook that other programs may put into their prompts.
    pub guidance: GuidanceSource,
    /// What is added to the system text of sessions. `None`: nothing.
    pub guide: Option<Arc<dyn Guide>>,
    /// What is remembered of users. `None`: nothing is.
    pub memory: Option<Arc<dyn MemoryBook>>,
    /// Shows what is learned from live sessions.
    pub learned: Option<Arc<dyn LearnedBook>>,
    /// Judges answers for trainers. `None`: there is no reward.
    pub judge: Option<EpisodeJudge>,
    /// Gives the id of a new live run, at a Unix time in milliseconds.
    pub new_run: Box<dyn Fn(u64) -> RunId + Send + Sync>,
}

impl std::fmt::Debug for GatewayParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayParts").field("models", &self.models).finish_non_exhaustive()
    }
}
