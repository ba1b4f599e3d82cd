//! The model whose weights learn, among the models of a router.

use crate::experience::{Experience, Groups};
use clawhost_core::{Episode, Llm};
use std::sync::Arc;

/// The model whose weights learn, among the models that a router chooses from.
///
/// Where only the weights learn, this model gives all answers: what the router sends to others would cost and teach nothing. Where the router
/// learns in the same iteration, it decides, and the weights learn from the episodes that came to this model alone.
#[derive(Clone)]
pub struct RoutedLearner {
    /// Its name in the router's table.
    pub name: String,
    /// The model.
    pub model: Arc<dyn Llm>,
}

/// The members of a group for which the model of this name gave every answer.
pub(super) fn played_by(name: &str, members: &[Arc<Episode>]) -> Vec<Arc<Episode>> {
    // Without a router in between, no turn names another model than the policy.
    let is_own = |episode: &Episode| {
        episode.turns.iter().all(|turn| turn.answered_by.as_ref().is_none_or(|by| by.model == name))
    };
    members.iter().filter(|episode| is_own(episode)).cloned().collect()
}

impl RoutedLearner {
    fn own_groups(&self, groups: &Groups) -> Groups {
        let groups = groups.iter().map(|(place, members)| (*place, played_by(&self.name, members)));
        groups.filter(|(_, members)| !members.is_empty()).collect()
    }

    /// The episodes that this model played alone. Others are neither its actions nor a baseline for them.
    pub(super) fn own(&self, experience: &Experience) -> Experience {
        Experience {
            id: experience.id.clone(),
            number: experience.number,
            state_id: experience.state_id,
            played: self.own_groups(&experience.played),
            selected: self.own_groups(&experience.selected),
            refilled: experience.refilled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experience::by_group;
    use clawhost_core::{AnsweringModel, Digest, RunId, StateId};
    use clawhost_follower::Follower;

    /// A member of a group, whose turns these models answered.
    fn episode(group: u64, index: u64, models: &[Option<&str>]) -> Arc<Episode> {
        let golden = include_str!("../../../../tests/golden/episode-2.json");
        let mut episode: Episode = serde_json::from_str(golden).unwrap();
        episode.origin.simulated_mut().unwrap().group = group;
        episode.index = index;
        let turn = episode.turns[0].clone();
        let answered = |model: &Option<&str>| {
            let answered_by = model.map(|model| AnsweringModel { model: model.to_owned(), version: None });
            clawhost_core::Turn { answered_by, ..turn.clone() }
        };
        episode.turns = models.iter().map(answered).collect();
        Arc::new(episode)
    }

    #[test]
    fn weights_learn_from_episodes_that_their_model_played_alone() {
        let learner = RoutedLearner { name: "tiny".to_owned(), model: Arc::new(Follower) };
        let (own, other) = (Some("tiny"), Some("dear"));
        let played = by_group(&[
            episode(0, 0, &[own, own]),
            episode(0, 1, &[other]),
            // It gave up, and another model took over.
            episode(0, 2, &[own, other]),
            episode(0, 3, &[None]),
            episode(1, 4, &[other, other]),
        ]);
        let state_id = StateId(Digest::of(b"state"));
        let (selected, id) = (played.clone(), RunId("r".into()));
        let kept = learner.own(&Experience { id, number: 2, state_id, played, selected, refilled: 1 });
        for groups in [&kept.played, &kept.selected] {
            let members: Vec<(u64, Vec<u64>)> =
                groups.iter().map(|(place, members)| (*place, members.iter().map(|one| one.index).collect())).collect();
            assert_eq!(members, [(0, vec![0, 3])]);
        }
        assert_eq!((kept.number, kept.refilled), (2, 1));
    }

    #[test]
    fn a_group_in_which_another_model_alone_is_better_teaches_the_weights_nothing() {
        let rewarded = |index, model: &str, reward| {
            let episode = episode(0, index, &[Some(model)]);
            Arc::new(Episode { reward: Some(reward), ..(*episode).clone() })
        };
        let group = [rewarded(0, "tiny", 0.0), rewarded(1, "dear", 1.0), rewarded(2, "tiny", 0.0)];
        let curriculum = crate::weights::Curriculum::new(1, None, 1.0);
        assert!(curriculum.teaches(&group));
        let routed = curriculum.of_model(Some("tiny".to_owned()));
        assert!(!routed.teaches(&group));
        assert!(routed.teaches(&[&group[..], &[rewarded(3, "tiny", 1.0)]].concat()));
    }
}
