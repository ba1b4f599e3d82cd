//! The port for leases: exclusive access of processes to runs, playbooks and the data folder.

use crate::{RunId, StoreError};

/// The subject of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LeaseSubject {
    /// A run in progress.
    Run(RunId),
    /// A playbook that is learned or edited, by name.
    Playbook(String),
    /// Weights that learn while they serve, by the alias of their model.
    Weights(String),
    /// Changing which version of such weights answers, by the alias of their model: for a moment, also while another process trains them.
    ServedWeights(String),
    /// Taking the traffic of agents: one gateway per data folder.
    Gateway,
    /// The whole data folder: shared by writers, exclusive for removals.
    Folder,
}

/// Mode of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseMode {
    /// One process.
    Exclusive,
    /// Any number of processes, as long as none has it exclusively.
    Shared,
}

/// A lease of this process. It ends when it is dropped or when the process ends.
pub trait Lease: Send + Sync + std::fmt::Debug {
    /// Ends the lease and removes its file, because the subject is complete.
    fn complete(self: Box<Self>);
}

/// Grants leases.
pub trait Leases: Send + Sync {
    /// Acquires a lease; `None` if another process holds it.
    ///
    /// # Errors
    /// Leases are not possible in this folder.
    fn acquire(&self, subject: &LeaseSubject, mode: LeaseMode) -> Result<Option<Box<dyn Lease>>, StoreError>;
}
