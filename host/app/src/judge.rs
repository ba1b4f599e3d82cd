//! The rewards of a gateway: they judge answers for trainers, and record nothing.

use crate::events::EventSink;
use crate::plugins::Plugins;
use crate::{AppError, Workspace};
use clawhost_core::Episode;
use clawhost_engine::ModelGrants;
use clawhost_gateway::EpisodeJudge;
use clawhost_play::{Cancel, ScoringRule, judged};
use clawhost_run_config::{PluginSpec, RewardSpec};
use std::sync::Arc;

/// A judge of these rewards. `None`: there is none.
///
/// # Errors
/// A reward cannot be loaded, or refuses its options.
pub(crate) async fn judge(
    workspace: &Workspace,
    rewards: &[PluginSpec],
    events: &dyn EventSink,
) -> Result<Option<EpisodeJudge>, AppError> {
    if rewards.is_empty() {
        return Ok(None);
    }
    let (host, store, grants) = (workspace.host()?, workspace.store(), ModelGrants::default());
    let plain = |plugin: &PluginSpec| RewardSpec { plugin: plugin.clone(), weight: 1.0, source: None, part: None };
    let specs: Vec<RewardSpec> = rewards.iter().map(plain).collect();
    let rules = Plugins { host: &host, store: &store, grants: &grants, events }.rewards(&specs).await?;
    let rules: Arc<[ScoringRule]> = rules.into();
    Ok(Some(Arc::new(move |episode: Episode| {
        let rules = rules.clone();
        Box::pin(async move {
            let unscored = Arc::new(episode.clone());
            let all = judged(&rules, vec![episode], &Cancel::default()).await;
            all.into_iter().next().unwrap_or(unscored)
        })
    })))
}
