//! The cost of a run, and of a point of what it gained.

use super::estimate;
use super::reading::Reading;
use crate::runs::Estimate;
use clawhost_core::{RunKind, Usage};
use clawhost_providers::Prices;
use clawhost_run_config::Price;
use serde::Serialize;

/// What was paid.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spent {
    /// Episodes.
    pub episodes: u64,
    /// Tokens of all models, read and generated.
    pub tokens: u64,
    /// Money, in the currency of the prices. `None`: the run knows no prices.
    pub money: Option<f64>,
}

/// What a run gains a point of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// Reward, added over its episodes: of a run that played.
    Reward,
    /// Lift, in mean reward on the test split: of a run that learned.
    Lift,
}

/// A cost with the range that follows from the interval of what was gained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ranged {
    /// The cost.
    pub value: f64,
    /// It if the gain is at the upper end of its interval.
    pub low: f64,
    /// It if the gain is at the lower end. `None`: there the gain is not above 0.
    pub high: Option<f64>,
}

/// The cost of one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerPoint {
    /// The point.
    pub of: Point,
    /// Episodes.
    pub episodes: Ranged,
    /// Tokens.
    pub tokens: Ranged,
    /// Money. `None`: the run knows no prices.
    pub money: Option<Ranged>,
}

/// The cost of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RunCost {
    /// Without the test, which teaches nothing.
    pub spent: Spent,
    /// The test: what the policy used in it.
    pub test: Spent,
    /// The cost of one point, without the test. `None`: nothing was gained, or the run only evaluated.
    pub per_point: Option<PerPoint>,
}

/// The cost of tokens. `None`: the price is unknown.
pub(crate) fn money(price: Option<Price>, usage: Usage) -> Option<f64> {
    let Price { input, output } = price?;
    Some(Prices { input, output }.of(usage))
}

impl Ranged {
    /// A cost divided by a gain with its interval. `None`: the gain is not above 0.
    fn of(cost: f64, gain: Estimate) -> Option<Self> {
        let divided = |gain: f64| (gain > 0.0).then(|| cost / gain);
        let value = divided(gain.mean)?;
        match gain.interval {
            Some((low, high)) => Some(Self { value, low: divided(high)?, high: divided(low) }),
            None => Some(Self { value, low: 0.0, high: None }),
        }
    }
}

impl PerPoint {
    fn of(of: Point, spent: Spent, gain: Estimate) -> Option<Self> {
        Some(Self {
            of,
            episodes: Ranged::of(spent.episodes as f64, gain)?,
            tokens: Ranged::of(spent.tokens as f64, gain)?,
            money: spent.money.and_then(|money| Ranged::of(money, gain)),
        })
    }
}

impl RunCost {
    pub(super) fn of(reading: &Reading) -> Self {
        let (price, all) = (reading.spec.budget.price, reading.row.spent);
        let (episodes, used) = reading.test;
        let rest = Usage {
            prompt_tokens: all.prompt_tokens.saturating_sub(used.prompt_tokens),
            completion_tokens: all.completion_tokens.saturating_sub(used.completion_tokens),
            ..Usage::default()
        };
        let spent = |episodes, usage: Usage| Spent { episodes, tokens: usage.tokens(), money: money(price, usage) };
        let test = spent(episodes, used);
        let spent = spent(reading.tally.episodes.saturating_sub(episodes), rest);
        let per_point = match reading.row.kind {
            RunKind::Play => reading.reward.and_then(|reward| {
                let scored = reading.tally.scored as f64;
                let all = |mean: f64| mean * scored;
                let interval = reward.interval.map(|(low, high)| (all(low), all(high)));
                PerPoint::of(Point::Reward, spent, Estimate { mean: all(reward.mean), interval })
            }),
            RunKind::Learn => {
                let lift = reading.before.as_ref().and_then(|one| clawhost_play::contrast(one, &reading.after, true));
                let lift = lift.and_then(|lift| estimate((Some(lift.mean), lift.interval)));
                lift.and_then(|lift| PerPoint::of(Point::Lift, spent, lift))
            }
            RunKind::Evaluate | RunKind::Phase | RunKind::Live => None,
        };
        Self { spent, test, per_point }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_divided_by_the_gain_and_both_ends_of_its_interval() {
        let check = |mean: f64, interval: Option<(f64, f64)>, expect: Option<(f64, f64, Option<f64>)>| {
            let found = Ranged::of(100.0, Estimate { mean, interval });
            assert_eq!(found.map(|Ranged { value, low, high }| (value, low, high)), expect, "{mean} {interval:?}");
        };
        check(0.5, Some((0.25, 1.0)), Some((200.0, 100.0, Some(400.0))));
        check(0.5, Some((-0.1, 1.0)), Some((200.0, 100.0, None)));
        check(0.5, None, Some((200.0, 0.0, None)));
        check(0.0, Some((-0.1, 0.1)), None);
        check(-0.5, Some((-0.6, -0.4)), None);
    }

    #[test]
    fn money_is_known_if_prices_are() {
        let usage = Usage { prompt_tokens: 2_000_000, completion_tokens: 500_000, ..Usage::default() };
        assert_eq!(money(Some(Price { input: 0.15, output: 0.6 }), usage), Some(0.6));
        assert_eq!(money(None, usage), None);
    }
}
