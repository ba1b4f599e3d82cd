//! One call into a guest: sets the budgets before, classifies the outcome after.

use crate::failure;
use crate::lane::LaneTicket;
use crate::state::{LimitHit, QUICK_TICKS, State};
use crate::ticker::TICK;
use clawhost_core::{CallLimits, Failure, PluginIdentity, code};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmtime::Store;

/// Sets the budgets of a call.
///
/// # Errors
/// The engine does not count fuel: a defect of the host.
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
    call.abandoned = false;
    call.turn = Arc::default();
    Ok(())
}

/// The wall-clock deadline of a call. Waiting in the slow lane does not count.
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) turn: Arc<LaneTicket>,
}

/// Interval at which a call that waits in the slow lane is checked again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs the call under its deadline, which covers computing (the guest yields at every tick) and waiting for the host. The
/// timer is only set if the call does not finish at once.
///
/// # Errors
/// The error of the call; or its deadline passed: the call was abandoned, and its fuel is unknown.
pub(crate) async fn within<T>(
    deadline: Deadline,
    call: impl Future<Output = wasmtime::Result<T>>,
) -> wasmtime::Result<T> {
    let Deadline { at, turn } = deadline;
    let mut call = std::pin::pin!(call);
    let mut until = at;
    loop {
        match tokio::time::timeout_at(tokio::time::Instant::from_std(until), &mut call).await {
            Ok(result) => return result,
            Err(_) => {
                let (later, now) = (at + turn.waited(), Instant::now());
                until = match turn.waits() {
                    true => now + PATIENCE,
                    false if later > now => later,
                    false => return Err(LimitHit::new(code::DEADLINE, "took longer than its deadline").into()),
                };
            }
        }
    }
}

/// The outcome of the call.
///
/// # Errors
/// The guest trapped or exceeded a limit; the store must not be used again.
pub(crate) fn end<T>(
    store: &mut Store<State>,
    plugin: &PluginIdentity,
    result: wasmtime::Result<T>,
) -> Result<T, Failure> {
    let state = store.data();
    state.call.turn.leave();
    if state.call.ticks <= QUICK_TICKS {
        state.lane.was_quick();
    }
    result.map_err(|error| {
        let abandoned = error.downcast_ref::<LimitHit>().is_some_and(|hit| hit.code == code::DEADLINE);
        store.data_mut().call.abandoned = abandoned;
        failure::from_error(store, plugin, &error)
    })
}

/// Fuel used by the call; `None` if it was abandoned.
pub(crate) fn fuel_used(store: &Store<State>) -> Option<u64> {
    if store.data().call.abandoned {
        return None;
    }
    store.get_fuel().ok().map(|left| store.data().call.fuel.saturating_sub(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::SlowLane;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A call that computes and takes its turn in the lane again 1,000 times, and waits 10 microseconds each time. It has waited before its
    /// deadline is looked at.
    async fn within_deadline(at: Instant) -> wasmtime::Result<()> {
        let clock = AtomicU64::new(0);
        let elapsed = move || Duration::from_micros(clock.fetch_add(10, Ordering::Relaxed));
        let lane = Arc::new(SlowLane::with_clock(2, elapsed));
        let turn = Arc::new(LaneTicket::default());
        turn.clone().again(lane.clone()).await;
        let call = async {
            for _ in 0..1000 {
                turn.clone().again(lane.clone()).await;
            }
            Ok(())
        };
        within(Deadline { at, turn: turn.clone() }, call).await
    }

    #[tokio::test]
    async fn short_waits_in_the_lane_do_not_defer_a_deadline_for_ever() {
        let hour = Duration::from_secs(3600);
        let late = within_deadline(Instant::now() - hour).await.unwrap_err();
        assert_eq!(late.downcast_ref::<LimitHit>().map(|hit| hit.code), Some(code::DEADLINE));
        within_deadline(Instant::now() + hour).await.unwrap();
    }
}
