//! Leases: which process works on what.

use crate::{RunId, StoreError};

/// What a lease is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LeaseSubject {
    /// A run that is played.
    Run(RunId),
    /// A playbook that is learned or edited, by its name.
    Playbook(String),
    /// The data folder as a whole: shared by those who write records, exclusive for those who remove some.
    Folder,
}

/// How a lease is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseMode {
    /// By one process.
    Exclusive,
    /// By any number of processes, while none holds it exclusively.
    Shared,
}

/// A lease that this process holds. It ends when it is dropped, and with the process, however that ends.
pub trait Lease: Send + Sync + std::fmt::Debug {
    /// Ends the lease of something that is over: nothing needs to be left behind for a later process.
    fn complete(self: Box<Self>);
}

/// Grants leases.
pub trait Leases: Send + Sync {
    /// Takes a lease. None: another process holds it.
    ///
    /// # Errors
    /// Leases cannot be kept here.
    fn acquire(&self, subject: &LeaseSubject, mode: LeaseMode) -> Result<Option<Box<dyn Lease>>, StoreError>;
}
