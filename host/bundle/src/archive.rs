//! The tar around the entries. What a header says follows from name and length, so that a reader compares it.

use crate::error::BundleError;

/// Bytes of a block: headers have one, and contents are filled up to whole ones.
pub(crate) const BLOCK: u64 = 512;
/// Bytes of the end of an archive.
pub(crate) const END: u64 = 2 * BLOCK;

/// The header of an entry.
pub(crate) fn header(name: &str, length: u64) -> Result<[u8; BLOCK as usize], BundleError> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name).map_err(|_| BundleError::Header { name: name.to_owned() })?;
    header.set_mode(0o644);
    header.set_size(length);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    Ok(*header.as_bytes())
}

/// The length in a header, if it is one.
pub(crate) fn length(block: &[u8; BLOCK as usize]) -> Option<u64> {
    tar::Header::from_byte_slice(block).entry_size().ok()
}

/// Bytes behind a content up to the next block.
pub(crate) fn filling(length: u64) -> u64 {
    (BLOCK - length % BLOCK) % BLOCK
}

/// Bytes of an entry with its header. `None`: more than any file has.
pub(crate) fn size(length: u64) -> Option<u64> {
    length.checked_add(BLOCK)?.checked_add(filling(length))
}
