//! Work that takes a while, on a thread that also serves tasks.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does it here. Other tasks of a runtime with several threads go on meanwhile.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    let has_other_threads = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    match Handle::try_current().is_ok_and(has_other_threads) {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}
