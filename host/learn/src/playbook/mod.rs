//! The playbook: the text knowledge that an agent is given.
pub mod safety;
