//! Branching and replay with native environments, one of which is not deterministic.

use super::*;
use async_trait::async_trait;
use clawhost_core::{
    BranchWay, Context, Environment, EnvironmentDescription, Failure, LiveEpisode, Opening, PluginIdentity, Snapshot,
    StartParams, Task, code,
};
use clawhost_play::{Environments, ReplayOutcome, replay_episode};

async fn run(environment: Arc<dyn Environment>, plan: Plan) -> (RunReport, Arc<Memory>) {
    let store = Arc::new(Memory::default());
    let ports = Ports {
        environments: Environments::One(environment),
        rewards: vec![],
        policy: ChatPolicy::new(Arc::new(Parrot::default()), None, Sampling::default()),
        store: store.clone(),
        clock: Arc::new(Still),
        meter: Arc::new(Free),
    };
    let report = play_ports(plan, ports, &Cancel::default()).await.unwrap();
    (report, store)
}

/// All instances after the second end after one turn.
struct Fickle {
    steady: Counting,
    hasty: Counting,
}

#[async_trait]
impl Environment for Fickle {
    fn identity(&self) -> &PluginIdentity {
        self.steady.identity()
    }

    fn description(&self) -> &EnvironmentDescription {
        self.steady.description()
    }

    async fn tasks(&self, context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        self.steady.tasks(context, split, offset, limit).await
    }

    async fn start(&self, params: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        let begun = self.steady.begun.load(std::sync::atomic::Ordering::Relaxed);
        if begun == 2 { self.hasty.start(params).await } else { self.steady.start(params).await }
    }

    async fn restore(&self, _: StartParams, _: &Snapshot) -> Result<Box<dyn LiveEpisode>, Failure> {
        panic!("snapshots are not supported")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_shares_its_trunk_whatever_the_concurrency() {
    let mut reports = Vec::new();
    for concurrency in [1, 16] {
        let plan = Plan { group: 4, branch_at: Some(2), concurrency, ..plan(16) };
        let (report, store) = run(Arc::new(Counting::default()), plan).await;
        for episode in store.episodes() {
            let branch = episode.branch().cloned().unwrap();
            assert_eq!((branch.at, branch.way, branch.pays), (2, BranchWay::Replay, episode.index % 4 == 0));
            assert_eq!(episode.turns.len(), 3);
        }
        // The eight shared turns and sixteen own ones were paid for.
        assert_eq!(report.usage.prompt_tokens, 3 * (8 + 16));
        reports.push(report);
    }
    assert_eq!(reports[0], reports[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trunk_that_ends_early_branches_before_its_last_turn() {
    for (turns, at) in [(3, 2), (1, 0)] {
        let environment = Counting { turns, ..Counting::default() };
        let (_, store) = run(Arc::new(environment), Plan { group: 2, branch_at: Some(6), ..plan(4) }).await;
        for episode in store.episodes() {
            assert_eq!(episode.branch().unwrap().at, at, "{turns} turns");
            assert_eq!(episode.turns.len() as u32, turns);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_differs_fails_with_the_plugins_name() {
    let hasty = Counting { turns: 1, ..Counting::default() };
    let environment = Fickle { steady: Counting::default(), hasty };
    let plan = Plan { group: 4, branch_at: Some(2), concurrency: 1, failure_budget: 1.0, ..plan(4) };
    let (report, store) = run(Arc::new(environment), plan).await;
    assert_eq!(report.failed, 3, "the first member equals the trunk");
    let failed = store.episodes().into_iter().find(|episode| !episode.ending.is_complete()).unwrap();
    let clawhost_core::Ending::Failed(failure) = &failed.ending else { panic!("{:?}", failed.ending) };
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Host, code::REPLAY));
    assert!(failure.message.contains("counting is not deterministic"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn episodes_of_a_native_environment_replay_too() {
    for branch_at in [None, Some(2)] {
        let (_, store) = run(Arc::new(Counting::default()), Plan { group: 2, branch_at, ..plan(4) }).await;
        for episode in store.episodes() {
            let replay = async |environment: Counting| replay_episode(&environment, &episode, 1 << 20, &Still).await;
            assert_eq!(replay(Counting::default()).await, ReplayOutcome::Exact);
            let ReplayOutcome::Differs(difference) = replay(Counting { turns: 4, ..Counting::default() }).await else {
                panic!("an environment with more turns must differ")
            };
            assert_eq!((difference.turn, difference.what.as_str()), (None, "ending"), "{difference:?}");
            let shorter = replay(Counting { turns: 2, ..Counting::default() }).await;
            let ReplayOutcome::Differs(difference) = shorter else { panic!("{shorter:?}") };
            assert_eq!((difference.turn, difference.what.as_str()), (Some(2), "turns"), "{difference:?}");
        }
    }
}

/// Has no memory for an instance.
struct Crowded(Counting);

#[async_trait]
impl Environment for Crowded {
    fn identity(&self) -> &PluginIdentity {
        self.0.identity()
    }

    fn description(&self) -> &EnvironmentDescription {
        self.0.description()
    }

    async fn tasks(&self, context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        self.0.tasks(context, split, offset, limit).await
    }

    async fn start(&self, _: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        Err(Failure::new(FailureKind::Host, code::HOST_MEMORY, "the host's guest memory is used up"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_fails_for_host_reasons_says_nothing_about_the_record() {
    let (_, store) = run(Arc::new(Counting::default()), plan(1)).await;
    let whole = store.episodes().remove(0);
    // As if its operator had stopped it after the second turn.
    let mut stopped = (*whole).clone();
    stopped.closing = stopped.turns.pop().unwrap().observation;
    let cancelled = Failure::new(FailureKind::Cancelled, code::CANCELLED, "stopped by the operator");
    stopped.ending = clawhost_core::Ending::Failed(cancelled);
    for recorded in [&*whole, &stopped] {
        let crowded = replay_episode(&Crowded(Counting::default()), recorded, 1 << 20, &Still).await;
        assert!(matches!(&crowded, ReplayOutcome::NotReplayed(why) if why.contains("used up")), "{crowded:?}");
    }
    let exact = replay_episode(&Counting::default(), &stopped, 1 << 20, &Still).await;
    assert!(matches!(&exact, ReplayOutcome::ExactTurns(_)), "{exact:?}");
}
