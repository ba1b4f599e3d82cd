//! The session of a connection: models in training and sampling sessions belong to it, and it is kept alive.

use super::service::{Abort, Body, Connection, Repeat};
use clawhost_core::ModelError;
use serde_json::json;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a session says that it is there: as the SDK of Tinker does.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A session that lives.
pub(super) struct Session {
    id: String,
    _heartbeat: Abort,
}

impl Connection {
    /// The session, which begins with its first use and is kept alive from then on.
    ///
    /// # Errors
    /// The service does not answer.
    pub(super) async fn session(self: &Arc<Self>) -> Result<String, ModelError> {
        let mut session = self.session.lock().await;
        if let Some(session) = &*session {
            return Ok(session.id.clone());
        }
        let body = json!({
            "tags": ["clawhost"], "user_metadata": null, "sdk_version": env!("CARGO_PKG_VERSION"), "type": "create_session",
        });
        let answer = self.ask("create_session", &Body::Json(body), Repeat::Harmless).await?;
        let id = self.text(&answer, "session_id")?;
        let heartbeat = tokio::spawn(beat(Arc::downgrade(self), id.clone())).abort_handle();
        *session = Some(Session { id: id.clone(), _heartbeat: Abort(heartbeat) });
        Ok(id)
    }

    /// Begins another session at its next use, if this one still counts: the service has lost it.
    pub(super) async fn lose(&self, id: &str) {
        let mut session = self.session.lock().await;
        if session.as_ref().is_some_and(|session| session.id == id) {
            *session = None;
        }
    }
}

/// Keeps a session alive until the connection or the session is gone.
async fn beat(connection: Weak<Connection>, id: String) {
    let body = Body::Json(json!({ "session_id": id, "type": "session_heartbeat" }));
    let mut has_failed = false;
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let Some(connection) = connection.upgrade() else { return };
        let Err(refusal) = connection.ask("session_heartbeat", &body, Repeat::Harmless).await else {
            has_failed = false;
            continue;
        };
        if refusal.is_lost {
            tracing::warn!("a Tinker service has lost the session, and another one begins: {}", refusal.error);
            connection.lose(&id).await;
            return;
        }
        if !std::mem::replace(&mut has_failed, true) {
            tracing::warn!("a Tinker service does not hear that its session is in use: {}", refusal.error);
        }
    }
}
