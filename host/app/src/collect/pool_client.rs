//! The data pool of a running gateway, as far as collecting needs it.

use crate::background::origin;
use crate::{AppError, RequestError};
use clawhost_core::{Channel, Digest, Secret, escaped};
use clawhost_providers::GatewayClient;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

/// Largest answer in bytes: a trajectory with one step.
const ANSWER_BYTES: usize = 64 << 20;
/// Bytes of a refusal that an error quotes.
const WHY_BYTES: usize = 300;

/// What a registration found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registered {
    /// It has no step yet.
    New,
    /// It has steps, and has not ended.
    Begun,
    /// It has ended.
    Ended {
        /// Whether trainers get it.
        trainable: bool,
    },
}

/// The pool.
#[derive(Debug)]
pub(super) struct PoolClient {
    client: GatewayClient,
    is_encrypted: bool,
}

impl PoolClient {
    pub(super) fn new(
        (address, certificate): (SocketAddr, Option<Digest>),
        key: Option<Secret>,
    ) -> Result<Self, AppError> {
        let is_encrypted = certificate.is_some();
        Ok(Self { client: GatewayClient::new(address, certificate, key)?, is_encrypted })
    }

    /// The address at which a conversation becomes this trajectory, without the version.
    pub(super) fn base_url(&self, id: &str, group: &str) -> String {
        format!("{}/{}/{}", origin(self.client.address(), self.is_encrypted), segment(id), segment(group))
    }

    async fn asked(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, AppError> {
        let answered = self.client.send(method, path, body, ANSWER_BYTES).await;
        let (status, bytes) =
            answered.map_err(|error| RequestError::GatewayDoesNotAnswer { why: error.to_string() })?;
        let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if (200..300).contains(&status) {
            return Ok(document);
        }
        let why = document.pointer("/error/message").and_then(Value::as_str).unwrap_or("it gives no reason");
        Err(RequestError::GatewayRefuses { status, why: escaped(why, WHY_BYTES) }.into())
    }

    /// Registers a trajectory.
    pub(super) async fn register(
        &self,
        id: &str,
        group: &str,
        channel: Channel,
        metadata: &Map<String, Value>,
    ) -> Result<Registered, AppError> {
        let body = json!({"id": id, "group": group, "channel": channel, "metadata": metadata});
        let row = self.asked("POST", "/v1/trajectories", Some(&body)).await?;
        let trainable = row.get("trainable") != Some(&Value::Bool(false));
        Ok(match row.get("state").and_then(Value::as_str) {
            Some("open") if self.steps(id).await? == 0 && trainable => Registered::New,
            Some("open") => Registered::Begun,
            _ => Registered::Ended { trainable },
        })
    }

    /// The steps of a trajectory so far.
    pub(super) async fn steps(&self, id: &str) -> Result<u64, AppError> {
        let row = self.asked("GET", &format!("/v1/trajectories/{}?limit=1", segment(id)), None).await?;
        Ok(row.get("step_count").and_then(Value::as_u64).unwrap_or(0))
    }

    /// Ends a trajectory.
    pub(super) async fn complete(&self, id: &str, reward: Option<f64>) -> Result<(), AppError> {
        let body = json!({"reward": reward});
        self.asked("POST", &format!("/v1/trajectories/{}/complete", segment(id)), Some(&body)).await.map(|_| ())
    }

    /// Ends a trajectory that trainers do not get.
    pub(super) async fn give_up(&self, id: &str, why: &str) -> Result<(), AppError> {
        let body = json!({"trainable": false, "note": why});
        self.asked("PATCH", &format!("/v1/trajectories/{}", segment(id)), Some(&body)).await?;
        self.complete(id, None).await
    }
}

/// What is escaped in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A name in a path.
fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_addresses() {
        let pool = PoolClient::new(("127.0.0.1:8700".parse().unwrap(), None), None).unwrap();
        assert_eq!(pool.base_url("a b-1", "é"), "http://127.0.0.1:8700/a%20b-1/%C3%A9");
    }
}
