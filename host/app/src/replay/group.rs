//! Replays one group: its episodes, and their verdicts.

use super::plugins::Loaded;
use clawhost_core::{
    Clock, Environment, Episode, EpisodeId, Llm, Question, Reward, RewardRecord, RewardScope, standing,
};
use clawhost_play::{ReplayOutcome, replay_answered, replay_verdicts};
use std::sync::Arc;

/// A group, with the plugins for its replay.
pub(crate) struct Assembled {
    pub(crate) group: Vec<Arc<Episode>>,
    pub(crate) environments: Vec<Loaded<dyn Environment>>,
    /// One entry per verdict of the group: its reward, its position, and its plugin.
    pub(crate) verdicts: Vec<(usize, usize, Loaded<dyn Reward>)>,
}

/// The result of one episode.
pub(crate) struct Replayed {
    pub(crate) episode: Arc<Episode>,
    pub(crate) outcome: ReplayOutcome,
    /// The results of its verdicts, with the names of the rewards.
    pub(crate) verdicts: Vec<(String, ReplayOutcome)>,
}

impl Assembled {
    /// `only`: only this episode of the group. `answering`: models that answer again instead of the record, by their identities.
    pub(crate) async fn replay(
        self,
        episode_bytes: usize,
        only: Option<EpisodeId>,
        answering: &[Arc<dyn Llm>],
        clock: Arc<dyn Clock>,
    ) -> Vec<Replayed> {
        let wanted = |episode: &Episode| only.as_ref().is_none_or(|id| *id == episode.id);
        let mut replayed: Vec<Replayed> = Vec::new();
        for (episode, environment) in self.group.iter().zip(&self.environments) {
            let outcome = match environment {
                _ if !wanted(episode) => continue,
                Ok(environment) => {
                    let model = answering.iter().find(|model| model.identity() == episode.policy.model).cloned();
                    replay_answered(environment.as_ref(), episode, model, (episode_bytes, clock.as_ref())).await
                }
                Err(why) => ReplayOutcome::NotReplayed(why.clone()),
            };
            replayed.push(Replayed { episode: episode.clone(), outcome, verdicts: Vec::new() });
        }
        // A reward that judges groups is called once per group.
        let mut of_group: Vec<(Question, Vec<ReplayOutcome>)> = Vec::new();
        for (of, position, reward) in &self.verdicts {
            let Some(episode) = self.group.get(*of).filter(|episode| wanted(episode)) else { continue };
            let Some(record) = episode.verdicts.get(*position) else { continue };
            let outcome = match reward {
                Err(why) => ReplayOutcome::NotReplayed(why.clone()),
                Ok(reward) if reward.description().scope == RewardScope::Each => {
                    let alone = std::slice::from_ref(episode);
                    replay_verdicts(reward.as_ref(), &[record], alone).await.pop().unwrap_or(no_verdict())
                }
                Ok(reward) => {
                    let question = record.question();
                    if !of_group.iter().any(|(known, _)| *known == question) {
                        of_group.push((question.clone(), self.replay_group(reward.as_ref(), &question).await));
                    }
                    let known = of_group.iter().find(|(known, _)| *known == question);
                    let member = self.complete().position(|member| member.id == episode.id);
                    known
                        .zip(member)
                        .and_then(|((_, outcomes), member)| outcomes.get(member).cloned())
                        .unwrap_or(no_verdict())
                }
            };
            if let Some(replayed) = replayed.iter_mut().find(|known| known.episode.id == episode.id) {
                replayed.verdicts.push((record.reward.name.clone(), outcome));
            }
        }
        replayed
    }

    /// The episodes that were judged.
    fn complete(&self) -> impl Iterator<Item = &Arc<Episode>> {
        self.group.iter().filter(|member| member.ending.is_complete())
    }

    async fn replay_group(&self, reward: &dyn Reward, question: &Question) -> Vec<ReplayOutcome> {
        let complete: Vec<Arc<Episode>> = self.complete().cloned().collect();
        let records: Vec<&RewardRecord> = self
            .complete()
            .filter_map(|member| standing(&member.verdicts).find(|known| known.question() == *question))
            .collect();
        replay_verdicts(reward, &records, &complete).await
    }
}

fn no_verdict() -> ReplayOutcome {
    ReplayOutcome::NotReplayed("not every episode of its group has this verdict".into())
}
