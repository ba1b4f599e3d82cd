//! Tasks and seeds of a run.

use super::*;
use clawhost_core::Episode;
use std::collections::BTreeSet;

async fn played(plan: Plan) -> Vec<Arc<Episode>> {
    let (store, environment) = (Arc::new(Memory::default()), Counting { turns: 1, tasks: 40, ..Counting::default() });
    play_ports(plan, ports(environment, vec![], store.clone()), &Cancel::default()).await.unwrap();
    let mut episodes = store.episodes();
    episodes.sort_by_key(|episode| episode.index);
    episodes
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sides_of_a_try_share_a_seed_and_other_tries_have_others() {
    let seeds = async |group, tries| -> Vec<u64> {
        let episodes = played(Plan { group, paired: true, tries, ..plan(2 * u64::from(group)) }).await;
        episodes.iter().map(|episode| episode.policy.seed).collect()
    };
    let (once, twice) = (seeds(2, 1).await, seeds(4, 2).await);
    assert_eq!((once[0], once[2]), (once[1], once[3]));
    assert_eq!([twice[0], twice[1], twice[4], twice[5]], once[..], "the first try is the one of a single try");
    assert_eq!((twice[2], twice[6]), (twice[3], twice[7]));
    let different: BTreeSet<u64> = twice.into_iter().collect();
    assert_eq!(different.len(), 4, "two groups of two tries");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_plays_exactly_the_given_positions() {
    let about = |episode: &Arc<Episode>| (episode.task.id.clone(), episode.seed(), episode.policy.seed);
    for (group, paired) in [(1, true), (1, false), (2, false)] {
        let every = played(Plan { group, paired, ..plan(20 * u64::from(group)) }).await;
        let positions = Some(vec![5, 19, 2]);
        let chosen = played(Plan { group, paired, positions, ..plan(3 * u64::from(group)) }).await;
        let expected = [5, 19, 2].into_iter().flat_map(|position| {
            let first = position * group as usize;
            every[first..first + group as usize].iter().map(about)
        });
        assert_eq!(chosen.iter().map(about).collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{group} {paired}");
        let ids: BTreeSet<_> = every.iter().chain(&chosen).map(|episode| episode.id.clone()).collect();
        assert_eq!(ids.len(), every.len() + chosen.len(), "episodes of different plans have different ids");
    }
}
