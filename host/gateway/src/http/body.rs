//! Whole answers of endpoints.

use super::serve::Inner;
use clawhost_providers::UpstreamAnswer;
use std::time::Duration;

/// Says that an answer took too long.
pub(crate) fn too_long(limit: Duration) -> String {
    format!("the answer took longer than {} s", limit.as_secs())
}

async fn read_body(most: usize, upstream: &mut UpstreamAnswer) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    loop {
        match upstream.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > most => {
                return Err(format!("the answer is longer than {most} bytes"));
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(format!("the answer broke off: {error}")),
        }
    }
}

/// The whole body of an answer, without keys of this process. An error says why there is none.
pub(crate) async fn read_whole(gateway: &Inner, upstream: &mut UpstreamAnswer) -> Result<Vec<u8>, String> {
    let limits = &gateway.config.limits;
    let read = tokio::time::timeout(limits.answer_time, read_body(limits.answer_bytes, upstream)).await;
    let bytes = read.unwrap_or_else(|_| Err(too_long(limits.answer_time)))?;
    let secrets = gateway.secrets.secrets();
    if !secrets.is_empty() {
        let text = String::from_utf8_lossy(&bytes);
        if secrets.are_in(&text) {
            return Ok(secrets.scrub(&text).into_owned().into_bytes());
        }
    }
    Ok(bytes)
}
