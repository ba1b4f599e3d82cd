//! Proofs that travel: a run as one file, and what can be shown from that file alone.
//!
//! [`prove`] packs a finished run: its specification, components, episodes, reports and what it learned. [`verify`] takes the file on any
//! machine, plays its episodes again, computes every number of the claim from them, and says what was computed again, what was only
//! recorded, and what no file can show. It needs no data folder and writes nothing. The format is in `host/PROOF.md`.

mod adapter;
mod archive;
mod claim;
mod components;
mod episodes;
mod error;
mod local;
mod pack;
mod part;
mod playbook;
mod report;
mod sample;
mod signature;
mod statistics;
mod summary;
mod verify;
mod words;

pub use adapter::ProvedAdapter;
pub use error::ProofError;
pub use pack::{ProveRequest, Proved, prove};
pub use report::{Proof, Statement, Verified};
pub use sample::Sample;
pub use signature::Signature;
pub use summary::{ProofSummary, proof_summary};
pub use verify::{VERIFY_CONCURRENCY, VerifyRequest, verify};
