//! Lessons that need each other, and lessons that become one, through the loop and the gate.

use super::lessons::status;
use crate::world::*;
use clawhost_core::{Change, Entry, LearningStore as _, PlaybookVersion, Proposal};
use clawhost_learn::gate::Decision;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{EntryId, Lesson};
use clawhost_learning::{GatePlan, LearnReport};
use std::sync::Arc;

fn id(text: &str) -> EntryId {
    Lesson::read(text).id()
}

fn entry(name: &str, text: &str, needs: &[&str]) -> Entry {
    let needs = needs.iter().map(|need| (*need).to_owned()).collect();
    Entry { id: name.into(), text: text.into(), tags: vec![], needs, extra: vec![] }
}

fn proposal(change: Change) -> Proposal {
    Proposal { change, evidence: vec![], expected_effect: String::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_is_tried_and_deployed_together() {
    let pair = |_: &Shown| {
        let all = [entry("", RED, &["aside"]), entry("aside", NEUTRAL, &[])];
        Ok(all.map(|entry| proposal(Change::Add(entry))).to_vec())
    };
    let world = World::new(Proposer::by(pair));
    let report = world.learn(&WorldPlan { iterations: 8, ..small() }).await;
    assert_eq!((status(&report, RED), status(&report, NEUTRAL)), ("deployed", "deployed"), "{report:#?}");
    let version = world.store.versions("lights").pop().unwrap();
    let served: Playbook = serde_json::from_value(version.document).unwrap();
    let red = served.entries.iter().find(|entry| entry.id == id(RED)).unwrap();
    assert_eq!(red.needs, [id(NEUTRAL)]);
    for episode in world.store.all() {
        let Some(record) = episode.policy.playbook else { continue };
        let shows = |text: &str| record.shown.contains(&id(text).0);
        assert!(!shows(RED) || shows(NEUTRAL), "{record:?}");
    }
}

const AGAIN: &str = "when colour is red and colour is red: answer stop";

/// A world that serves these lessons.
async fn serving(world: World, lessons: &[&str]) -> World {
    let entries = lessons.iter().map(|text| clawhost_learn::Entry::new(Lesson::read(text), "operator")).collect();
    let playbook = Playbook { entries, ..Playbook::default() };
    let version = PlaybookVersion {
        name: "lights".into(),
        number: 0,
        digest: playbook.digest(),
        document: serde_json::json!(playbook),
        why: "by hand".into(),
        run: None,
        created_at: 0,
    };
    world.store.add_version(version, None).await.unwrap();
    world
}

fn plan() -> WorldPlan {
    WorldPlan { gate: GatePlan { every: 4, pairs: 400, alpha: 0.05 }, ..small() }
}

fn decisions(report: &LearnReport) -> Vec<Decision> {
    report.iterations.iter().filter_map(|one| one.gate()).map(|gate| gate.decision).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lessons_that_say_the_same_become_one_if_the_gate_finds_no_loss() {
    let world = serving(World::new(Proposer::of(&[])), &[AGAIN, GREEN, RED]).await;
    let report = world.learn(&plan()).await;
    assert_eq!(decisions(&report), [Decision::Promote], "{report:#?}");
    let gate = report.iterations.iter().find_map(|one| one.gate()).unwrap();
    assert_eq!((gate.candidate, gate.evidence.wins, gate.evidence.losses), (1, 0, 0), "one share of alpha");
    assert!(gate.evidence.pairs > 300, "the margin is a fiftieth of the reward: {}", gate.evidence.pairs);
    let versions = world.store.versions("lights");
    assert_eq!(versions.len(), 2, "the version before it stays, to roll back to");
    let served: Playbook = serde_json::from_value(versions[1].document.clone()).unwrap();
    // The shorter lesson stays: more tokens are saved.
    assert_eq!(served.entries.iter().map(|entry| &entry.id).collect::<Vec<_>>(), [&id(GREEN), &id(RED)]);
    assert_eq!(served.entries[1].merges, [id(AGAIN)]);
    assert_eq!(
        versions[1].why,
        format!("passed the gate: {} merged into {}, after {} pairs", id(AGAIN), id(RED), gate.evidence.pairs)
    );
    assert_eq!(status(&report, AGAIN), "superseded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merger_that_loses_is_rejected_and_not_tried_again() {
    let merge = |_: &Shown| {
        let parts = vec![id(RED).0, id(GREEN).0];
        Ok(vec![proposal(Change::Merge(parts, entry("", "always: answer stop", &[])))])
    };
    // Grey lights are wrong, so that reflectors are asked.
    let wanted = |_: &str, colour: &str| if colour == "grey" { "look" } else { right(colour) };
    let environment = Arc::new(Lights { wanted, ..Lights::default() });
    let world = World { environment, ..World::new(Proposer::by(merge)) };
    let world = serving(world, &[RED, GREEN]).await;
    let report = world.learn(&WorldPlan { gate: GatePlan { every: 1, ..plan().gate }, ..plan() }).await;
    assert_eq!(decisions(&report), [Decision::Futile], "{report:#?}");
    assert_eq!(world.deployed(), [GREEN, RED]);
    assert_eq!(status(&report, "always: answer stop"), "expired");
}
