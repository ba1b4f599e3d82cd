//! What shadow answers may cost in a day. A call is paid for before it is made, by an upper bound; what it really cost replaces that afterwards.

use clawhost_core::{ModelRequest, Usage};
use clawhost_providers::Prices;
use serde::{Deserialize, Serialize};

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Tokens that a chat template adds to a message and to a tool, at most.
const FRAME_TOKENS: u64 = 32;

/// The budget of a day (UTC). At least one of the two is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DayBudget {
    pub(super) tokens: Option<u64>,
    /// Millionths of a dollar.
    pub(super) micros: Option<u64>,
}

/// What something costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cost {
    pub(super) tokens: u64,
    /// Millionths of a dollar; 0 where no prices are known.
    pub(super) micros: u64,
}

impl Cost {
    pub(super) fn of(usage: Usage, prices: Option<Prices>) -> Self {
        let tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        Self { tokens, micros: prices.map_or(0, |prices| prices.micros(usage)) }
    }

    /// The most that a request costs: a token has at least one byte.
    pub(super) fn bound(request: &ModelRequest, prices: Option<Prices>) -> Self {
        let frames = (request.messages.len() + request.tools.len()) as u64;
        let prompt_tokens = (request.bytes() as u64).saturating_add(frames.saturating_mul(FRAME_TOKENS));
        Self::of(Usage { prompt_tokens, completion_tokens: request.max_tokens.into(), ..Usage::default() }, prices)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let (tokens, micros) = (self.tokens.saturating_add(other.tokens), self.micros.saturating_add(other.micros));
        Self { tokens, micros }
    }

    /// The same with one part of it in the place of another.
    pub(super) fn instead(self, part: Self, other: Self) -> Self {
        self.minus(part).plus(other)
    }

    fn minus(self, other: Self) -> Self {
        let (tokens, micros) = (self.tokens.saturating_sub(other.tokens), self.micros.saturating_sub(other.micros));
        Self { tokens, micros }
    }
}

/// What was spent in a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DaySpending {
    /// Days since 1970.
    day: u64,
    pub(super) spent: Cost,
}

/// Whether something can be paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// It was paid.
    Paid,
    /// Not today.
    Later,
    /// On no day.
    Never,
}

impl DayBudget {
    fn holds(&self, cost: Cost) -> bool {
        self.tokens.is_none_or(|tokens| cost.tokens <= tokens) && self.micros.is_none_or(|micros| cost.micros <= micros)
    }
}

impl DaySpending {
    /// Pays for something before it is done, if there is room today.
    pub(super) fn pay(&mut self, budget: &DayBudget, cost: Cost, now_ms: u64) -> Room {
        if !budget.holds(cost) {
            return Room::Never;
        }
        // A clock that was set back does not give the day's budget again.
        let day = now_ms / DAY_MS;
        if day > self.day {
            *self = Self { day, spent: Cost::default() };
        }
        let spent = self.spent.plus(cost);
        if !budget.holds(spent) {
            return Room::Later;
        }
        self.spent = spent;
        Room::Paid
    }

    /// Replaces what was paid by what it cost.
    pub(super) fn settle(&mut self, paid: Cost, cost: Cost) {
        self.spent = self.spent.instead(paid, cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Message, Origin, Role};

    fn tokens(tokens: u64) -> Cost {
        Cost { tokens, micros: 0 }
    }

    #[test]
    fn a_day_has_its_budget_and_a_call_is_paid_before() {
        let budget = DayBudget { tokens: Some(100), micros: None };
        let mut spending = DaySpending::default();
        let mut check = |cost: u64, now: u64, expect: Room, spent: u64| {
            assert_eq!((spending.pay(&budget, tokens(cost), now), spending.spent.tokens), (expect, spent), "{cost}");
        };
        check(101, DAY_MS, Room::Never, 0);
        check(60, DAY_MS, Room::Paid, 60);
        check(60, DAY_MS + 1, Room::Later, 60);
        check(40, DAY_MS + 1, Room::Paid, 100);
        check(1, 2 * DAY_MS - 1, Room::Later, 100);
        check(60, 2 * DAY_MS, Room::Paid, 60);
        // The clock was set back.
        check(60, DAY_MS, Room::Later, 60);
        spending.settle(tokens(60), tokens(7));
        assert_eq!(spending.spent, tokens(7));
        spending.settle(tokens(5), tokens(200));
        assert_eq!(spending.pay(&budget, tokens(1), 2 * DAY_MS), Room::Later, "more than was paid counts, too");
    }

    #[test]
    fn tokens_and_money_both_have_to_suffice() {
        let prices = Some(Prices { input: 1.0, output: 10.0 });
        let usage = Usage { prompt_tokens: 20, completion_tokens: 3, ..Usage::default() };
        assert_eq!(Cost::of(usage, prices), Cost { tokens: 23, micros: 50 });
        assert_eq!(Cost::of(usage, None), tokens(23));
        let cost = Cost { tokens: 10, micros: 50 };
        let check = |tokens, micros, expect: Room| {
            let budget = DayBudget { tokens, micros };
            assert_eq!(DaySpending::default().pay(&budget, cost, 0), expect, "{budget:?}");
        };
        check(Some(10), Some(50), Room::Paid);
        check(None, Some(50), Room::Paid);
        check(Some(9), Some(50), Room::Never);
        check(Some(10), Some(49), Room::Never);
    }

    #[test]
    fn the_bound_of_a_request_has_a_token_for_each_byte() {
        let messages = vec![Message::text(Role::User, Origin::User, "hello")];
        let request = ModelRequest { messages, max_tokens: 7, ..ModelRequest::default() };
        assert_eq!(Cost::bound(&request, None), tokens(5 + FRAME_TOKENS + 7));
    }
}
