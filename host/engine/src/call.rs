//! One call into a guest: budgets before, verdict after.

use crate::failure;
use crate::state::State;
use crate::ticker::TICK;
use clawhost_core::{CallLimits, Failure, PluginIdentity};
use std::time::{Duration, Instant};
use wasmtime::Store;

/// Sets the budgets of a call.
///
/// # Errors
/// The engine does not count fuel: a fault of the host.
pub(crate) fn begin(store: &mut Store<State>, export: &'static str, limits: &CallLimits) -> wasmtime::Result<()> {
    store.set_fuel(limits.fuel)?;
    store.set_hostcall_fuel(limits.transfer_bytes);
    store.set_epoch_deadline(1);
    let call = &mut store.data_mut().call;
    call.export = export;
    call.fuel = limits.fuel;
    call.ticks = 0;
    call.ticks_limit = limits.busy_ms / TICK.as_millis().max(1) as u64;
    call.deadline = Instant::now() + Duration::from_millis(limits.deadline_ms);
    call.host_calls = 0;
    call.host_bytes = 0;
    Ok(())
}

/// What came of the call.
///
/// # Errors
/// The guest trapped or reached a limit; the store must not be used again.
pub(crate) fn end<T>(
    store: &mut Store<State>,
    plugin: &PluginIdentity,
    result: wasmtime::Result<T>,
) -> Result<T, Failure> {
    result.map_err(|error| failure::from_error(store, plugin, &error))
}

/// Fuel the call has used so far.
pub(crate) fn fuel_used(store: &Store<State>) -> Option<u64> {
    store.get_fuel().ok().map(|left| store.data().call.fuel.saturating_sub(left))
}
