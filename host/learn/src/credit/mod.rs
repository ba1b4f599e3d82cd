//! Credit: what an entry is worth, measured inside groups.
