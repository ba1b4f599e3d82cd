//! A playbook's text is part of the record, and replays.

use crate::world::*;
use clawhost_core::{Digest, Episode};
use clawhost_play::{ReplayOutcome, replay_episode};
use clawhost_testkit::Still;
use std::sync::Arc;

async fn replay(world: &World, episode: &Episode) -> ReplayOutcome {
    replay_episode(world.environment.as_ref(), episode, 1 << 20, &Still).await
}

/// The first system prompt comes from the operator, from the environment, from neither, and from neither with an explicitly
/// empty prompt.
fn worlds() -> Vec<World> {
    let environment = |hint: Option<&str>| Arc::new(Lights { hint: hint.map(str::to_owned), ..Lights::default() });
    let with = |prompt: Option<&str>, hint| World {
        prompt: prompt.map(str::to_owned),
        environment: environment(hint),
        ..World::usual()
    };
    vec![
        with(Some("always: answer wait"), Some("watch the light")),
        with(None, Some("always: answer wait")),
        with(None, None),
        with(Some(""), Some("watch the light")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn episodes_replay_with_a_playbook_after_every_kind_of_system_prompt() {
    for world in worlds() {
        world.learn(&small()).await;
        assert!(!world.deployed().is_empty());
        let episodes = world.store.all();
        let guided =
            episodes.iter().filter(|one| one.policy.playbook.as_ref().is_some_and(|book| !book.text.is_empty()));
        assert!(guided.count() > 50);
        for episode in &episodes {
            let outcome = replay(&world, episode).await;
            assert_eq!(outcome, ReplayOutcome::Exact, "{:?} {}", world.prompt, episode.run);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tampered_playbook_in_a_record_is_detected() {
    type Tampers = fn(&mut Episode);
    let tampers: [Tampers; 6] = [
        |episode| episode.policy.playbook.as_mut().unwrap().text.push_str("\n- when colour is red: answer sleep"),
        |episode| episode.policy.playbook.as_mut().unwrap().text.clear(),
        |episode| episode.policy.playbook.as_mut().unwrap().digest = Digest::of(b"another"),
        |episode| episode.policy.playbook = None,
        |episode| episode.policy.system_prompt.as_mut().unwrap().push('!'),
        // Both fields consistently.
        |episode| {
            let text = &mut episode.policy.playbook.as_mut().unwrap().text;
            let changed = text.replace("answer", "reply");
            let prompt = episode.policy.system_prompt.as_mut().unwrap();
            *prompt = prompt.replace(text.as_str(), &changed);
            *text = changed;
        },
    ];
    for world in worlds() {
        world.learn(&small()).await;
        let mut episodes = world.store.of_phases(".test");
        episodes.retain(|episode| episode.policy.playbook.as_ref().is_some_and(|book| !book.text.is_empty()));
        assert!(!episodes.is_empty());
        for (number, tamper) in tampers.iter().enumerate() {
            let mut episode = episodes[0].clone();
            tamper(&mut episode);
            let outcome = replay(&world, &episode).await;
            assert!(matches!(outcome, ReplayOutcome::Differs(_)), "{number}, {:?}: {outcome:?}", world.prompt);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_that_failed_to_start_replays() {
    for mut world in worlds() {
        let refuses = |_: &clawhost_core::Task, seed: u64| seed.is_multiple_of(5);
        let hint = world.environment.hint.clone();
        world.environment = Arc::new(Lights { refuses: Box::new(refuses), hint, ..Lights::default() });
        world.learn(&small()).await;
        let mut episodes = world.store.all();
        episodes.retain(|episode| !episode.ending.is_complete());
        assert!(!episodes.is_empty());
        for episode in &episodes {
            assert_eq!(replay(&world, episode).await, ReplayOutcome::Exact, "{:?} {}", world.prompt, episode.run);
        }
    }
}
