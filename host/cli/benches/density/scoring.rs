//! Scoring: a group in one call, and the same episodes one by one.

use crate::figures::{ROUNDS, line_of, micros, table};
use crate::plugins::{guest, host};
use clawhost_core::{
    Attributes, Context, Digest, EPISODE_FORMAT, Ending, Episode, EpisodeId, EpisodeOrigin, Message, Origin,
    PluginIdentity, PolicyRecord, Reward as _, Role, RunId, Sampling, Simulated, Task, Turn, TurnTiming, Usage,
};
use clawhost_engine::{Allocation, ModelGrants, RewardPlugin};
use clawhost_follower::Follower;
use clawhost_play::ChatPolicy;
use std::sync::Arc;
use std::time::Instant;

const EPISODES: usize = 64;
const TURNS: usize = 20;
/// Groups that are scored per round.
const GROUPS: usize = 20;

/// An episode of `TURNS` turns with a few words each.
fn episode(index: u64) -> Arc<Episode> {
    let policy = ChatPolicy::new(Arc::new(Follower), None, Sampling::default());
    let text = |role, origin, text: String| Message::text(role, origin, text);
    let turn = |turn: usize| Turn {
        observation: vec![text(
            Role::User,
            Origin::Environment,
            format!("It is higher than {turn}. Reply with a whole number between {turn} and 99."),
        )],
        request: Digest::of(b"request"),
        action: text(Role::Assistant, Origin::Policy, format!("My guess is {turn}.")),
        finish: "stop".into(),
        tool_results: vec![],
        signals: vec![],
        usage: Usage::default(),
        tokens: None,
        answered_by: None,
        logprobs: vec![],
        ignored: vec![],
        others: Vec::new(),
        fuel: Some(7000),
        host_calls: Digest::of(b""),
        extra: vec![],
        timing: TurnTiming::default(),
    };
    let task =
        Task { input: "Guess a number.".into(), reference: Some("\"19\"".into()), ..Task::new("train", "train-0") };
    Arc::new(Episode {
        format: EPISODE_FORMAT,
        id: EpisodeId::new(&Digest::of(b"bench"), index),
        run: RunId("bench".into()),
        index,
        task_hash: task.digest(),
        task,
        origin: EpisodeOrigin::Simulated(Simulated {
            group: 0,
            environment: PluginIdentity { name: "bench".into(), version: "1".into(), digest: Digest::of(b"bench") },
            seed: index,
            options: Attributes::new(),
            max_turns: TURNS as u32,
            grants: Default::default(),
            branch: None,
        }),
        expects: vec![],
        state_id: policy.state_id(),
        policy: PolicyRecord {
            model: policy.identity(),
            seed: index,
            system_prompt: None,
            sampling: Default::default(),
            playbook: None,
        },
        system_hint: None,
        tools: vec![],
        turns: (0..TURNS).map(turn).collect(),
        closing: vec![],
        untaken: None,
        ending: Ending::Terminated,
        signals: vec![],
        artefacts: vec![],
        verdicts: vec![],
        reward: None,
        log: vec![],
        journal: vec![],
        created_at: 0,
    })
}

async fn scored(reward: &RewardPlugin, context: &Context, group: &[Arc<Episode>]) {
    let verdicts = reward.score(context, group).await.verdicts.unwrap();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, clawhost_core::Verdict::Scored(_))), "{verdicts:?}");
}

pub(crate) async fn measure() {
    table(
        &format!("Scoring {EPISODES} episodes of {TURNS} turns, ms for all"),
        &["what", "median", "least to greatest"],
    );
    let host = host(Allocation::Pooled, None);
    let load = async |name: &str| host.reward(name, &guest(name), ModelGrants::default()).await.unwrap();
    let (together, alone) = (load("odd_group_reward").await, load("reward_exact").await);
    let group: Vec<Arc<Episode>> = (0..EPISODES as u64).map(episode).collect();
    let context = Context { seed: 1, options: Attributes::new() };
    let (mut at_once, mut one_by_one) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..GROUPS {
            scored(&together, &context, &group).await;
        }
        at_once.push(began.elapsed());
        let began = Instant::now();
        for _ in 0..GROUPS {
            for episode in &group {
                scored(&alone, &context, std::slice::from_ref(episode)).await;
            }
        }
        one_by_one.push(began.elapsed());
    }
    let ms = |rounds: &[_]| micros(rounds, GROUPS * 1000);
    line_of("one call, scope `group`, every turn read (odd_group_reward)", ms(&at_once), "ms");
    line_of("64 calls, scope `each`, the last turn read (reward_exact)", ms(&one_by_one), "ms");
}
