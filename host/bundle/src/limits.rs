//! The limits of a bundle. All are checked before anything is read or reserved.

/// Largest bundle in bytes: some three million episodes of small games. It is also what `prove` holds in memory, because the manifest comes
/// first and is known last.
pub const BUNDLE_BYTES: u64 = 1 << 30;
/// Largest manifest in bytes: enough for [`ENTRIES`] entries.
pub const MANIFEST_BYTES: u64 = 16 << 20;
/// Most entries.
pub const ENTRIES: usize = 1 << 16;
/// Largest entry in bytes after decompression. A reader holds a few of them at a time.
pub const UNPACKED_BYTES: u64 = 64 << 20;
/// Largest sum of all entries in bytes after decompression: a bundle cannot keep a reader busy for days.
pub const ALL_UNPACKED_BYTES: u64 = 64 << 30;
/// Most episodes that a manifest may announce: a sample is drawn from a list of their groups.
pub const EPISODES: u64 = 1 << 22;
/// Largest factor by which an entry grows when it is decompressed. Episodes of one task repeat each other, and shrink to a hundredth.
pub const RATIO: u64 = 2_000;
/// Entries up to this size may have any ratio: a small one of zeros is harmless.
pub const ANY_RATIO_BYTES: u64 = 1 << 20;
/// Largest window of the decompressor, as a power of two: memory that a compressed entry may ask for beside its content.
pub(crate) const WINDOW_LOG: u32 = 27;
/// Level of compression: twice as fast as the default of archivers for a few percent more bytes.
pub(crate) const LEVEL: i32 = 6;
