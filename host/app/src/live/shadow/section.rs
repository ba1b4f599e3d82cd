//! Which sessions get shadow answers, from whom, and what they may cost: the section `[shadow]` of `gateway.toml`.

use super::budget::DayBudget;
use crate::live::opted_in::OptedIn;
use clawhost_core::escaped;
use clawhost_gateway::ServedModel;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Tokens of a day: below, not even the answers to a short request can be paid in advance; above, it is more than a service has.
const TOKENS: std::ops::RangeInclusive<u64> = 50_000..=10_000_000_000;
/// Most dollars of a day.
const MOST_MONEY: f64 = 100_000.0;
/// Most bytes of an alias in a message.
const SHOWN_BYTES: usize = 60;

/// Shadow answers. Without a budget there are none.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShadowSection {
    /// Most tokens of a day (UTC), of answers and of the judge together.
    pub budget_tokens: Option<u64>,
    /// Most US dollars of a day (UTC), by the prices of the models.
    pub budget_money: Option<f64>,
    /// The alias of the model that judges.
    pub judge: Option<String>,
    /// The aliases of models that may be asked again.
    #[serde(default)]
    pub upstreams: Vec<String>,
    /// Whose sessions are used: `all`, `key:NAME`, or a scope as of memory, `user:KEY/NAME`, `project:KEY/NAME` or `agent:/NAME`.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// A section, checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShadowPlan {
    pub(super) budget: DayBudget,
    pub(super) judge: String,
    pub(super) upstreams: BTreeSet<String>,
    pub(super) scopes: OptedIn,
}

impl ShadowSection {
    /// What is to be done. `None`: there is no budget. The error says what is wrong.
    pub(crate) fn plan(&self) -> Result<Option<ShadowPlan>, String> {
        if self.budget_tokens.is_none() && self.budget_money.is_none() {
            return Ok(None);
        }
        if self.budget_tokens.is_some_and(|tokens| !TOKENS.contains(&tokens)) {
            return Err(format!("shadow.budget_tokens: must be from {} to {}", TOKENS.start(), TOKENS.end()));
        }
        if self.budget_money.is_some_and(|money| !(money > 0.0 && money <= MOST_MONEY)) {
            return Err(format!("shadow.budget_money: must be more than 0 and at most {MOST_MONEY}"));
        }
        if self.upstreams.is_empty() {
            return Err("shadow.upstreams: name the models that may be asked again".to_owned());
        }
        Ok(Some(ShadowPlan {
            budget: DayBudget {
                tokens: self.budget_tokens,
                micros: self.budget_money.map(|money| (money * 1e6).round() as u64),
            },
            judge: self.judge.clone().ok_or("shadow.judge: name the model that judges")?,
            upstreams: self.upstreams.iter().cloned().collect(),
            scopes: OptedIn::of(&self.scopes).map_err(|why| format!("shadow.scopes: {why}"))?,
        }))
    }
}

impl ShadowPlan {
    /// Whether the served models can do it. The error says what is wrong.
    pub(crate) fn check(&self, models: &[ServedModel]) -> Result<(), String> {
        let named = self.upstreams.iter().map(|alias| ("upstreams", alias)).chain([("judge", &self.judge)]);
        for (key, alias) in named {
            let shown = escaped(alias, SHOWN_BYTES);
            let served = models.iter().find(|model| model.alias == *alias);
            let served = served.ok_or_else(|| format!("shadow.{key}: there is no model `{shown}`"))?;
            if served.routing.is_some() {
                return Err(format!("shadow.{key}: `{shown}` is a router; name the models that it chooses from"));
            }
            if self.budget.micros.is_some() && served.first.prices.is_none() {
                return Err(format!("shadow.budget_money: `{shown}` has no prices, so its answers cannot be counted"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::tests::plan;
    use crate::GatewayFile;
    use clawhost_gateway::{ModelSource, ServedModel};
    use clawhost_providers::Prices;
    use std::sync::Arc;

    #[test]
    fn shadow_answers_need_models_that_are_served_and_priced() {
        let model = |alias: &str| ServedModel::new(alias, ModelSource::Local(Arc::new(clawhost_follower::Follower)));
        let check = |money: Option<f64>, models: &[ServedModel], expect: &str| {
            let plan = plan(|section| section.budget_money = money);
            assert_eq!(plan.check(models).err().unwrap_or_default(), expect);
        };
        let (m, judge) = (model("m"), model("judge"));
        check(None, &[m.clone(), judge.clone()], "");
        check(None, std::slice::from_ref(&judge), "shadow.upstreams: there is no model `m`");
        check(None, std::slice::from_ref(&m), "shadow.judge: there is no model `judge`");
        check(
            Some(1.0),
            &[m.clone(), judge.clone()],
            "shadow.budget_money: `m` has no prices, so its answers cannot be counted",
        );
        let priced = |model: ServedModel| {
            let first = model.first.clone().priced(Some(Prices { input: 1.0, output: 2.0 }));
            ServedModel { first, ..model }
        };
        check(Some(1.0), &[priced(m), priced(judge)], "");
    }

    #[test]
    fn a_section_says_what_may_be_asked_of_whom_or_what_is_wrong() {
        let check = |text: &str, expect: Result<bool, &str>| {
            let read = GatewayFile::parse(&format!("[shadow]\n{text}")).and_then(|file| file.shadow.plan());
            match (read, expect) {
                (Ok(plan), Ok(is_on)) => assert_eq!(plan.is_some(), is_on, "{text}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        };
        let rest = "judge = \"j\"\nupstreams = [\"m\"]\nscopes = [\"key:shop\"]";
        let with = |budget: &str| format!("{budget}\n{rest}");
        check(rest, Ok(false));
        check(&with("budget_tokens = 5000000"), Ok(true));
        check(&with("budget_money = 0.5"), Ok(true));
        check(&with("budget_tokens = 49999"), Err("shadow.budget_tokens: must be from 50000 to 10000000000"));
        ["0", "-1", "nan", "1e6"].iter().for_each(|money| {
            check(
                &with(&format!("budget_money = {money}")),
                Err("shadow.budget_money: must be more than 0 and at most"),
            );
        });
        check("budget_tokens = 50000", Err("shadow.upstreams: name the models"));
        check("budget_tokens = 50000\nupstreams = [\"m\"]", Err("shadow.judge: name the model that judges"));
        check("budget_tokens = 50000\nupstreams = [\"m\"]\njudge = \"j\"", Err("shadow.scopes: name who has agreed"));
        check(&with("budget_tokens = 50000\nscope = \"x\""), Err("did you mean `scopes`?"));
    }
}
