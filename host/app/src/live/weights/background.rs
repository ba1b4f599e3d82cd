//! Work beside the answers of a gateway, on threads that the system runs when nothing else waits.

use crate::AppError;

/// Lets this thread run only while nothing else wants the processor, so that requests are answered at once, also on the same processor. Where the
/// system has no such class, the thread has the lowest priority; where it knows no priorities of threads, it stays as it is.
fn lower() {
    #[cfg(target_os = "linux")]
    let lowered = thread_priority::set_thread_priority_and_policy(
        thread_priority::thread_native_id(),
        thread_priority::ThreadPriority::Min,
        thread_priority::ThreadSchedulePolicy::Normal(thread_priority::NormalThreadSchedulePolicy::Idle),
    );
    #[cfg(not(target_os = "linux"))]
    let lowered = thread_priority::set_current_thread_priority(thread_priority::ThreadPriority::Min);
    if let Err(error) = lowered {
        tracing::debug!("training has the usual priority: {error:?}");
    }
}

/// Does something on as many threads of the lowest priority, as [`lower`] says.
///
/// # Errors
/// There are no threads, or the work panicked.
pub(super) async fn at_low_priority<T: Send + 'static>(
    threads: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AppError> {
    let failed = |why: String| AppError::Host(format!("training in the background: {why}"));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("train-{number}"))
        .start_handler(|_| lower())
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let done = tokio::task::spawn_blocking(move || pool.install(work)).await;
    done.map_err(|error| failed(error.to_string()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_while_nothing_else_wants_the_processor_and_other_threads_stay_as_they_are() {
        use thread_priority::{NormalThreadSchedulePolicy, ThreadSchedulePolicy, thread_schedule_policy};
        let policy = || thread_schedule_policy().unwrap();
        let before = policy();
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        assert_eq!(at_low_priority(2, policy).await.unwrap(), idle);
        assert_eq!(policy(), before);
        assert_ne!(before, idle);
    }
}
