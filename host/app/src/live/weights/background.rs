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

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::super::material::LiveSession;
    use super::super::step::{Aged, Learner, Steppable as _, Stepped};
    use super::super::tests::{answer, plan, question, session, taught_model};
    use super::*;
    use clawhost_core::Digest;
    use clawhost_model::cpu::{CpuModel, Work};
    use clawhost_model::device::{AcceleratedModel, ComputeDevice, Slot, SlotAllocator};
    use clawhost_model::generate::{Model, Version};
    use clawhost_model::{HostDecoder, LocalModelError, ModelConfig};
    use std::sync::{Arc, Mutex};
    use thread_priority::{NormalThreadSchedulePolicy, ThreadSchedulePolicy, thread_schedule_policy};

    /// Where something was computed: the name of the thread, its scheduling class, and the threads that its loops run on.
    type Where = (String, ThreadSchedulePolicy, usize);

    /// A model that notes where it computes.
    #[derive(Debug)]
    struct Watched {
        config: Arc<ModelConfig>,
        model: CpuModel,
        slots: SlotAllocator,
        seen: Arc<Mutex<Vec<Where>>>,
    }

    impl Watched {
        fn model(config: &ModelConfig, weights: &HostDecoder, seen: &Arc<Mutex<Vec<Where>>>) -> Model {
            let config = Arc::new(config.clone());
            let model = CpuModel::new(config.clone(), weights);
            Model::Accelerator(Box::new(Self { config, model, slots: SlotAllocator::default(), seen: seen.clone() }))
        }
    }

    impl AcceleratedModel for Watched {
        fn config(&self) -> &Arc<ModelConfig> {
            &self.config
        }

        fn most_at_once(&self) -> usize {
            1024
        }

        fn begin(&self) -> Slot {
            self.slots.begin(0, 1)
        }

        fn knows(&self, slot: &Slot) -> bool {
            self.slots.owns(slot)
        }

        fn copy(&self, from: &Slot, length: usize) -> Result<Slot, LocalModelError> {
            let mut slot = self.begin();
            slot.extend(from.tokens().iter().take(length));
            Ok(slot)
        }

        fn forward(&self, work: &mut [(&mut Slot, &[u32])]) -> Result<Vec<Vec<f32>>, LocalModelError> {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let here = (name, thread_schedule_policy().unwrap(), rayon::current_num_threads());
            self.seen.lock().unwrap().push(here);
            let mut all = Vec::new();
            for (slot, tokens) in work {
                slot.extend(*tokens);
                let mut cache = self.model.cache();
                let mut one = [Work::last(&mut cache, slot.tokens())];
                self.model.forward(&mut one);
                all.extend(one.into_iter().map(|one| one.logits));
            }
            Ok(all)
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_step_scores_on_threads_of_the_lowest_priority_and_on_no_more_than_its_own() {
        const THREADS: usize = 3;
        let folder = taught_model(7);
        let model = folder.open("tiny", &ComputeDevice::processor()).unwrap();
        let mut sessions: Vec<Aged> = Vec::new();
        for number in 0..6 {
            let said = answer(&*model, &question(number), number).await;
            let session: LiveSession = session(number, said, "combined");
            sessions.push((session, Some(0)));
        }
        assert!(sessions.iter().any(|(session, _)| !session.hints.is_empty()), "something is taught");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut learner =
                Learner::open(&folder, "tiny", &plan("combined"), &ComputeDevice::processor(), None).unwrap();
            let watched = Watched::model(&folder.config, &folder.weights, &noted);
            let digest = Digest::of(b"watched");
            learner.model().engine().publish(Version { number: 0, digest, model: watched });
            let stepped = runtime.block_on(learner.step(1, sessions));
            (learner, stepped)
        };
        let (_learner, stepped) = at_low_priority(THREADS, work).await.unwrap();
        assert!(matches!(stepped.unwrap(), Stepped::Taken(_)));
        let seen = seen.lock().unwrap();
        // Each token of the corrections and of the log-probs before the step.
        assert!(seen.len() > 20, "{}", seen.len());
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        for (name, policy, threads) in seen.iter() {
            assert!(
                name.starts_with("train-") && *policy == idle && *threads == THREADS,
                "{name} {policy:?} {threads}"
            );
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_step_gives_the_same_weights_on_any_number_of_threads() {
        let folder = taught_model(7);
        let model = folder.open("tiny", &ComputeDevice::processor()).unwrap();
        let mut sessions: Vec<Aged> = Vec::new();
        for number in 0..6 {
            let said = answer(&*model, &question(number), number).await;
            sessions.push((session(number, said, "combined"), Some(0)));
        }
        let mut states = Vec::new();
        for threads in [1, 3] {
            let (folder, sessions) = (folder.clone(), sessions.clone());
            let work = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut learner =
                    Learner::open(&folder, "tiny", &plan("combined"), &ComputeDevice::processor(), None).unwrap();
                runtime.block_on(learner.step(1, sessions)).unwrap();
                runtime.block_on(learner.snapshot()).unwrap()
            };
            states.push(at_low_priority(threads, work).await.unwrap());
        }
        assert!(states[0] == states[1]);
    }

    #[tokio::test]
    async fn work_runs_while_nothing_else_wants_the_processor_and_other_threads_stay_as_they_are() {
        let policy = || thread_schedule_policy().unwrap();
        let before = policy();
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        assert_eq!(at_low_priority(2, policy).await.unwrap(), idle);
        assert_eq!(policy(), before);
        assert_ne!(before, idle);
    }
}
