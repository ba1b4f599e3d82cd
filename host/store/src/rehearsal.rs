//! Rehearsal of a removal: runs the same statements without committing, so its counts are exact.

use crate::blobs::Blobs;
use crate::error::Fault;
use crate::ledger::Ledger;
use crate::writer::{Store, off_executor};
use crate::{retention, schema};
use clawhost_core::{LedgerKey, Removal, Removed, StoreError};
use rusqlite::TransactionBehavior;

impl Store {
    /// Counts what a removal would remove. It uses its own connection, so that writes of this store do not wait for it
    /// in the queue. No process commits meanwhile.
    pub(crate) async fn rehearse_removal(&self, removal: Removal) -> Result<Removed, StoreError> {
        let path = self.path().to_owned();
        // Nothing is committed, so any key will do.
        let key = LedgerKey::default();
        off_executor(move || {
            let folder = path.parent().unwrap_or(std::path::Path::new(""));
            let all = || -> Result<Removed, Fault> {
                let mut connection = schema::open(&path)?;
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let mut removed = retention::remove(&transaction, &removal, &mut Ledger::new(&transaction, &key))?;
                let referred = retention::referred_to(&transaction)?;
                let blobs = Blobs::new(folder).files()?.blobs;
                removed.blobs = blobs.iter().filter(|(digest, _)| !referred.contains(digest)).count() as u64;
                transaction.rollback()?;
                Ok(removed)
            };
            all().map_err(|fault| fault.explain(&path))
        })
        .await
    }
}
