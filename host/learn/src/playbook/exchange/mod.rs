//! Playbooks to and from files.

/// How tags begin that are shown to people and used for nothing: what an imported playbook said about its entries.
pub const DISPLAY_TAG: &str = "imported:";
