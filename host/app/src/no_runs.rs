//! Why a data folder has no runs yet, if a gateway belongs to it.

use crate::background::running_gateway;
use crate::gateway_file::GATEWAY_FILE;
use crate::{AppError, RequestError};
use clawhost_core::StoreError;
use std::path::Path;

/// The same error as it concerns a gateway: one runs in the data folder, or is configured there. `None`: no gateway is concerned, or it is
/// another error.
pub fn explain_no_runs(folder: &Path, error: &AppError) -> Option<RequestError> {
    if !matches!(error, AppError::Request(RequestError::NoRuns) | AppError::Store(StoreError::Empty { .. })) {
        return None;
    }
    match running_gateway(folder) {
        Ok(Some(gateway)) => Some(RequestError::NothingCaptured { origin: gateway.origin() }),
        _ => folder.join(GATEWAY_FILE).exists().then_some(RequestError::GatewayNotStarted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_gateway_is_named_where_nothing_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let empty = AppError::from(StoreError::Empty { path: "x".to_owned() });
        let none = AppError::from(RequestError::NoRuns);
        let explained = |error: &AppError| explain_no_runs(folder.path(), error).map(|error| error.to_string());
        assert_eq!(explained(&empty), None);
        std::fs::write(folder.path().join(GATEWAY_FILE), "").unwrap();
        let expect = Some("no runs here yet; a gateway is configured here, and does not run".to_owned());
        assert_eq!((explained(&empty), explained(&none)), (expect.clone(), expect));
        assert_eq!(explained(&RequestError::NoPlaybooks.into()), None);
    }
}
