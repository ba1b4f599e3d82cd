//! Stores: one for an episode, or one for a call of a reward.

use crate::call::Deadline;
use crate::failure;
use crate::grants::ModelGrants;
use crate::host::HostInner;
use crate::state::{Memory, State, on_tick};
use clawhost_core::Failure;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::{Engine, Store};

/// A store with its place among the live instances of the host.
pub(crate) struct InstanceLease {
    pub(crate) store: Store<State>,
    _permit: OwnedSemaphorePermit,
}

impl InstanceLease {
    /// When the call in progress must be over.
    pub(crate) fn deadline(&self) -> Deadline {
        let call = &self.store.data().call;
        Deadline { at: call.deadline, turn: call.turn.clone() }
    }

    /// Waits for a free place, then makes a store. Nothing waits while it holds a place, so no two can wait for each
    /// other.
    pub(crate) async fn take(
        host: &HostInner,
        engine: &Engine,
        memory_bytes: usize,
        seed: u64,
        grants: Arc<ModelGrants>,
    ) -> Result<Self, Failure> {
        let permit = host.admission.clone().acquire_owned().await.map_err(failure::host)?;
        let memory = Memory::new(host.memory.clone(), memory_bytes, &host.limits);
        let mut store = Store::new(engine, State::new(host.limits.clone(), memory, host.lane.clone(), seed, grants));
        store.limiter(|state| &mut state.memory);
        store.epoch_deadline_callback(on_tick);
        Ok(Self { store, _permit: permit })
    }
}
