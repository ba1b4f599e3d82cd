//! Proposes one lesson from what it can read.

use clawhost_sdk::{Context, Group, Playbook, Proposal, Reflector, Result, export_reflector};

struct Guest;

impl Reflector for Guest {
    const NAME: &'static str = "odd-reflector";

    fn reflect(group: &Group, playbook: &Playbook, _: &Context) -> Result<Vec<Proposal>> {
        let episode = group.episodes().first().ok_or("nothing to reflect on")?;
        let rewards: Vec<Option<f64>> = group.episodes().iter().map(|episode| episode.reward()).collect();
        let (entries, reference) = (playbook.entries.len(), episode.task().reference);
        let text = format!("{entries} entries, reference {reference:?}, rewards {rewards:?}");
        Ok(vec![Proposal::add(text, "less guessing").seen_in(episode.id(), vec![0])])
    }
}

export_reflector!(Guest);
