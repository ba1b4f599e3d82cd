//! Work beside the answers of a gateway, on threads that the system runs when nothing else waits.

use crate::AppError;

/// The lowest priority of a process or thread (`nice`).
const LOWEST: i32 = 19;

/// Gives this thread the lowest priority. Where the system does not know priorities of threads, it stays as it is.
fn lower() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, LOWEST) {
        tracing::debug!("training has the usual priority: {error}");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = LOWEST;
}

/// Does something on as many threads of the lowest priority.
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
    async fn work_runs_at_the_lowest_priority_and_leaves_other_threads_alone() {
        let own = || rustix::process::getpriority_process(None).unwrap();
        let before = own();
        assert_eq!(at_low_priority(2, own).await.unwrap(), LOWEST);
        assert_eq!(own(), before);
    }
}
