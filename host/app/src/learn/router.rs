//! The router layer from a specification.

use crate::events::EventSink;
use crate::routers::{RouterResult, router_name};
use crate::session::Session;
use crate::{AppError, RequestError};
use clawhost_learn::router::RewardRange;
use clawhost_learning::{RouterPorts, RouterStage};
use clawhost_play::ScoringRule;
use std::sync::Arc;

/// The range of these rewards; that of a router without rewards decides nothing.
fn range(rules: &[ScoringRule]) -> RewardRange {
    let bounds = rules.iter().map(|rule| rule.reward.description()).map(|reward| (reward.minimum, reward.maximum));
    let (low, high) = bounds.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))).unwrap_or((0.0, 1.0));
    RewardRange { low, high }
}

/// The name of the router that the policy of a run names.
pub(super) fn named(session: &Session<'_>) -> Result<String, AppError> {
    let policy = &session.spec.policy.model;
    let name = router_name(policy).map(str::to_owned);
    Ok(name.ok_or_else(|| RequestError::NoRouter { why: format!("the policy `{policy}` names no router") })?)
}

/// Opens the router with its models. The second part takes the result of the run.
pub(super) fn stage(
    session: &Session<'_>,
    events: &dyn EventSink,
) -> Result<(RouterStage, Arc<RouterResult>), AppError> {
    let name = named(session)?;
    let opened = session.models.policy_router(&name, Some(range(&session.rewards)), events)?;
    if opened.plugin.is_some() {
        let why =
            format!("a plugin decides for router `{name}`; it can learn in a run once its file names no `plugin`");
        return Err(RequestError::NoRouter { why }.into());
    }
    let result = opened.result();
    let keeper = result.clone();
    let ports = RouterPorts { name, router: opened.router, models: opened.models, keeper };
    Ok((RouterStage::new(ports)?, result))
}
