//! The training thread: steps of layers, snapshots, demonstrations. The async executor is never blocked by a computation.

use crate::LearningError;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A dedicated thread for long computations. Jobs run one after the other.
pub struct TrainingThread {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TrainingThread {
    /// Name of the thread in debuggers and system tools.
    pub const NAME: &'static str = "clawhost-training";

    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start() -> Result<Self, LearningError> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new()
            .name(Self::NAME.to_owned())
            .spawn(move || waiting.into_iter().for_each(|job| job()))
            .map_err(|error| LearningError::Host(format!("no thread for training: {error}")))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs a job on the thread and awaits its result without blocking the executor.
    ///
    /// # Errors
    /// The thread has ended.
    ///
    /// # Panics
    /// Propagates a panic of the job.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, LearningError> {
        let gone = || LearningError::Host("the training thread has ended".to_owned());
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            // The caller may have been dropped; then nobody needs the result.
            let _ = done.send(catch_unwind(AssertUnwindSafe(job)));
        });
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        match result.await.map_err(|_| gone())? {
            Ok(value) => Ok(value),
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Drop for TrainingThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Panics of jobs are caught inside the loop.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn jobs_run_in_order_on_the_named_thread() {
        let training = TrainingThread::start().unwrap();
        let name = training.run(|| std::thread::current().name().map(str::to_owned)).await.unwrap();
        assert_eq!(name.as_deref(), Some(TrainingThread::NAME));
        let mut seen = Vec::new();
        for number in 0..3 {
            seen.push(training.run(move || number).await.unwrap());
        }
        assert_eq!(seen, [0, 1, 2]);
    }

    #[tokio::test]
    async fn a_panicking_job_ends_its_caller_but_not_the_thread() {
        let training = std::sync::Arc::new(TrainingThread::start().unwrap());
        let shared = training.clone();
        let broken = tokio::spawn(async move { shared.run::<()>(|| panic!("a bug")).await });
        assert!(broken.await.unwrap_err().is_panic());
        assert_eq!(training.run(|| 7).await.unwrap(), 7);
    }
}
