//! The certificate of a gateway, from its files.

use crate::gateway_file::TlsSection;
use crate::{AppError, RequestError};
use clawhost_gateway::TlsIdentity;
use std::path::Path;

/// Largest size of a file in bytes: a chain of certificates has some thousands.
const BYTES: u64 = 1 << 20;

/// Reads the certificate and the key of a section.
///
/// # Errors
/// A file cannot be read, or they do not fit together.
pub(crate) fn identity(section: &TlsSection) -> Result<TlsIdentity, AppError> {
    let read = |path: &str| {
        clawhost_files::read_text(Path::new(path), BYTES)
            .map_err(|error| AppError::from(RequestError::File { path: path.to_owned(), why: error.to_string() }))
    };
    Ok(TlsIdentity::of_pem(&read(&section.certificate)?, &read(&section.key)?)?)
}
