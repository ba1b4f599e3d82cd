//! Stores: one per episode, or one per call of a reward or reflector.

use crate::call::Deadline;
use crate::failure;
use crate::grants::ModelGrants;
use crate::host::PluginHost;
use crate::state::{Memory, State, on_tick};
use clawhost_core::Failure;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::{Engine, Store};

/// A store with its permit among the live instances of the host.
pub(crate) struct InstanceLease {
    pub(crate) store: Store<State>,
    _permit: OwnedSemaphorePermit,
}

impl InstanceLease {
    /// The deadline of the call in progress.
    pub(crate) fn deadline(&self) -> Deadline {
        let call = &self.store.data().call;
        Deadline { at: call.deadline, turn: call.turn.clone() }
    }

    /// Waits for a permit, then creates a store. A task that holds a permit does not wait for another one without a deadline,
    /// so there is no deadlock.
    pub(crate) async fn take(
        host: &PluginHost,
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
