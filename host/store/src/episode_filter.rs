//! Filters of episode lists as SQL conditions on columns: no document is read.

use crate::integers::signed;
use crate::reader::sql_limit;
use clawhost_core::{EpisodeFilter, FailureFilter, RewardFilter};
use rusqlite::types::Value;

/// An SQL condition with the values of its parameters in order. The last two values are the limit and the number of results
/// to leave out, whose parameters follow the condition.
pub(crate) struct Selected {
    pub(crate) condition: String,
    pub(crate) values: Vec<Value>,
}

/// The condition of a filter on the view `episode_rows`.
pub(crate) fn select(filter: &EpisodeFilter) -> Selected {
    let EpisodeFilter { run, failure, reward, task, pending_at, is_live, order: _, skip, limit } = filter;
    let mut all: Vec<&str> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let text = |text: &str| Value::Text(text.to_owned());
    if let Some(run) = run {
        all.push("(run = ? OR parent = ?)");
        values.extend([text(&run.0), text(&run.0)]);
    }
    match failure {
        None => {}
        Some(FailureFilter::Any) => all.push("failure_kind IS NOT NULL"),
        Some(FailureFilter::Named(name)) => {
            all.push("? IN (failure_kind, failure_code, failure_kind || '(' || failure_code || ')')");
            values.push(text(name));
        }
    }
    match reward {
        None => {}
        Some(RewardFilter::Unscored) => all.push("reward IS NULL"),
        Some(RewardFilter::Within { least, greatest }) => {
            all.push("reward BETWEEN ? AND ?");
            values.extend([Value::Real(*least), Value::Real(*greatest)]);
        }
    }
    if let Some(task) = task {
        all.push("task = ?");
        values.push(text(task));
    }
    if let Some(now) = pending_at {
        all.push("pending_until > ?");
        values.push(Value::Integer(signed(*now)));
    }
    if *is_live {
        all.push("live");
    }
    values.extend([Value::Integer(sql_limit(*limit)), Value::Integer(signed(*skip))]);
    let condition = if all.is_empty() { "TRUE".to_owned() } else { all.join(" AND ") };
    Selected { condition, values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::EpisodeOrder;

    #[test]
    fn every_parameter_has_a_value_including_limit_and_skip() {
        let full = EpisodeFilter {
            run: Some(clawhost_core::RunId("run-a".into())),
            failure: Some(FailureFilter::Named("fu_el%".into())),
            reward: Some(RewardFilter::Within { least: 0.0, greatest: 1.0 }),
            task: Some("t".into()),
            pending_at: Some(7),
            is_live: true,
            order: EpisodeOrder::NewestFirst,
            skip: 3,
            limit: None,
        };
        for filter in [
            EpisodeFilter::default(),
            EpisodeFilter { failure: Some(FailureFilter::Any), ..EpisodeFilter::default() },
            EpisodeFilter { reward: Some(RewardFilter::Unscored), ..EpisodeFilter::default() },
            full.clone(),
        ] {
            let Selected { condition, values } = select(&filter);
            assert_eq!(condition.matches('?').count() + 2, values.len(), "{condition}");
        }
    }
}
