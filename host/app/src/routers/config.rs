//! `routers/NAME.toml`: the models that a router chooses from, with their prices.

use super::files::{read_state, router_file};
use crate::{AppError, RequestError};
use clawhost_learn::LearnError;
use clawhost_learn::router::{Budget, CostWeight, Features, Fixed, RewardRange, Router, RouterSettings, Table, Tiers};
use clawhost_run_config::{plugin_in, policy_in};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Largest size in bytes: far above that of the largest table.
const BYTES: u64 = 1 << 18;
/// Default weight of cost: a reward of 0.1 is given up to save a typical request at the median price.
pub const ROUTER_COST_WEIGHT: f64 = 0.1;
/// Default tokens of a typical episode, before anything is known about it.
pub const ROUTER_TYPICAL_TOKENS: f64 = 5_000.0;
/// The range of rewards of a router that a gateway serves first: rewards of live episodes are from -1 to 1.
pub(super) const LIVE_REWARDS: RewardRange = RewardRange { low: -1.0, high: 1.0 };
/// Change of the weight of cost on a day that spends twice the budget. The simulation of the budget in `clawhost-learn` keeps within
/// 5 % of it at this rate.
const BUDGET_RATE: f64 = 0.1;
/// Tokens of a unit of use: prices are per million tokens.
const UNIT: f64 = 1e6;

/// What a router chooses from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterFile {
    /// The model that gets most requests until enough is learned. `None`: the tiers, or the dearest.
    pub incumbent: Option<String>,
    /// The plugin that decides in the place of what is learned: `PLUGIN.wasm?name=value`, with a path from the folder of this file. Where it
    /// fails, the incumbent or the tiers decide.
    pub plugin: Option<String>,
    /// A model for each tier of complexity: the fixed policy that decides most requests until enough is learned, in place of one model.
    pub tiers: Option<Tiers>,
    /// Reward that a typical request at the median price is worth.
    #[serde(default = "usual_weight")]
    pub cost_weight: f64,
    /// Money per day, in the currency of the prices. The weight of cost then starts at `cost_weight` and follows what is spent.
    /// `None`: the weight is fixed.
    pub budget_per_day: Option<f64>,
    /// Tokens of a typical episode. It matters until a model is tried.
    #[serde(default = "usual_tokens")]
    pub typical_tokens: f64,
    /// The models by name.
    pub models: BTreeMap<String, RoutedSection>,
}

/// A model of a router.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutedSection {
    /// The model: a text as that of a policy, with a path from the folder of this file.
    pub model: String,
    /// Price of a million tokens, in any currency, the same for all models.
    pub price: f64,
    /// The model that may take over when this one has failed.
    pub then: Option<String>,
}

fn usual_weight() -> f64 {
    ROUTER_COST_WEIGHT
}

fn usual_tokens() -> f64 {
    ROUTER_TYPICAL_TOKENS
}

impl RouterFile {
    /// Reads a file. The paths that it names are then those of this process.
    ///
    /// # Errors
    /// It cannot be read, has unknown keys or a value out of range.
    pub fn read(path: &Path) -> Result<Self, AppError> {
        let unusable = |why: String| RequestError::File { path: path.display().to_string(), why };
        let text = clawhost_files::read_text(path, BYTES).map_err(|error| unusable(error.to_string()))?;
        let mut file: Self = toml::from_str(&text).map_err(|error| unusable(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("")).display().to_string();
        file.models.values_mut().for_each(|section| section.model = policy_in(&folder, &section.model));
        file.plugin = file.plugin.map(|plugin| plugin_in(&folder, &plugin));
        let weight = file.cost_weight;
        if !weight.is_finite() || weight < 0.0 {
            return Err(unusable(format!("cost_weight is {weight}; it is finite and at least 0")).into());
        }
        if let Some(budget) = file.budget_per_day.filter(|budget| !budget.is_finite() || *budget <= 0.0) {
            return Err(unusable(format!("budget_per_day is {budget}; it is finite and above 0")).into());
        }
        let tokens = file.typical_tokens;
        if !tokens.is_finite() || tokens < 1.0 {
            return Err(unusable(format!("typical_tokens is {tokens}; it is finite and at least 1")).into());
        }
        if file.incumbent.is_some() && file.tiers.is_some() {
            return Err(unusable("incumbent and tiers both say who decides first; name one of them".to_owned()).into());
        }
        file.table().and_then(|table| file.incumbent(&table)).map_err(|error| unusable(error.to_string()))?;
        Ok(file)
    }

    fn table(&self) -> Result<Table, LearnError> {
        let mut table = Table::new(self.models.iter().map(|(name, model)| (name.clone(), model.price)))?;
        for (name, model) in &self.models {
            if let Some(then) = &model.then {
                table = table.with_escalation(name, then)?;
            }
        }
        Ok(table)
    }

    fn weight_of_cost(&self) -> CostWeight {
        let start = self.cost_weight;
        self.budget_per_day.map_or(CostWeight::Fixed(start), |per_day| {
            CostWeight::Budget(Budget { per_day, start, rate: BUDGET_RATE })
        })
    }

    fn incumbent(&self, table: &Table) -> Result<Fixed, LearnError> {
        if let Some(tiers) = &self.tiers {
            tiers.check(table)?;
            return Ok(Fixed::Tiers(tiers.clone()));
        }
        let dearest = || self.models.iter().max_by(|(_, one), (_, other)| one.price.total_cmp(&other.price));
        let named = self.incumbent.clone().or_else(|| dearest().map(|(name, _)| name.clone())).unwrap_or_default();
        let incumbent = Fixed::Model(named);
        incumbent.model(&Features::default(), table)?;
        Ok(incumbent)
    }

    /// The router that a gateway serves: with what was learned about these models, as its files have it.
    ///
    /// # Errors
    /// The state cannot be read, or a value is out of range.
    pub(crate) fn live(&self, folder: &Path, name: &str) -> Result<Router, AppError> {
        let learned = read_state(&router_file(folder, name, "json"))?.map(|stored| stored.router);
        self.router(learned, LIVE_REWARDS)
    }

    /// The router with these models: a new one, or one that has learned, with what changed in the file since then. `rewards`: the range of
    /// rewards of a new one.
    ///
    /// # Errors
    /// A value out of range.
    pub fn router(&self, learned: Option<Router>, rewards: RewardRange) -> Result<Router, AppError> {
        let table = self.table()?;
        let (incumbent, cost_weight) = (self.incumbent(&table)?, self.weight_of_cost());
        if let Some(mut router) = learned {
            router.reconfigure(table, incumbent, cost_weight)?;
            return Ok(router);
        }
        let usual = RouterSettings::new(&table, incumbent, cost_weight);
        let typical_units = self.typical_tokens / UNIT;
        let settings =
            RouterSettings { typical_units, reference_cost: usual.reference_cost * typical_units, rewards, ..usual };
        Ok(Router::new(settings, table, Features::names_of_requests())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: RewardRange = RewardRange { low: 0.0, high: 1.0 };

    fn read(text: &str) -> Result<RouterFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.toml");
        std::fs::write(&path, text).unwrap();
        RouterFile::read(&path).map_err(|error| error.to_string())
    }

    const GOOD: &str =
        "[models.a]\nmodel = \"follower\"\nprice = 1\nthen = \"b\"\n[models.b]\nmodel = \"random\"\nprice = 3\n";

    #[test]
    fn a_file_names_models_prices_and_escalations() {
        let router = read(GOOD).unwrap().router(None, RANGE).unwrap();
        let actions: Vec<String> = router.table().actions().iter().map(ToString::to_string).collect();
        assert_eq!(actions, ["a", "b", "a > b"]);
        assert_eq!(router.settings().incumbent, Fixed::Model("b".into()), "the dearest");
        assert_eq!((router.settings().reference_cost, router.cost_weight()), (0.01, ROUTER_COST_WEIGHT));
        let other = read(&format!("incumbent = \"a\"\ncost_weight = 0.5\n{GOOD}")).unwrap();
        let changed = other.router(Some(router.clone()), RANGE).unwrap();
        assert_eq!((changed.version(), changed.cost_weight()), (router.version() + 1, 0.5));
        let same = read(GOOD).unwrap().router(Some(router.clone()), RANGE).unwrap();
        assert_eq!(same.version(), router.version());
    }

    #[test]
    fn tiers_decide_first_in_place_of_one_model() {
        let tiers = "[tiers]\nlight = \"a\"\nreasoning = \"b\"\n";
        let file = read(&format!("{GOOD}{tiers}")).unwrap();
        let router = file.router(None, RANGE).unwrap();
        let check = |complexity: f64, expect: &str| {
            let names = Features::names_of_requests();
            let values = names.into_iter().map(|name| {
                let value = if name == "complexity" { complexity } else { 0.0 };
                (name.into(), value)
            });
            let features = Features::new(values.collect()).unwrap();
            let shares = router.propensities(&router.settings().policy, &features).unwrap();
            let actions = router.table().actions().into_iter().zip(shares);
            let (most, share) = actions.max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap();
            assert_eq!((most.to_string().as_str(), share > 0.8), (expect, true), "{complexity}");
        };
        check(0.0, "a");
        check(0.3, "b");
        check(0.9, "b");
        let one = read(&format!("incumbent = \"a\"\n{GOOD}")).unwrap().router(Some(router.clone()), RANGE).unwrap();
        assert_eq!((one.version(), &one.settings().incumbent), (router.version() + 1, &Fixed::Model("a".into())));
    }

    #[test]
    fn paths_are_relative_to_the_folder_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.toml");
        let models =
            ["script:answers.txt", "local:tiny", "local:/models/tiny", "openai:m@http://127.0.0.1:1/v1", "fast"];
        let section = |(at, model): (usize, &&str)| format!("[models.m{at}]\nmodel = \"{model}\"\nprice = 1\n");
        let text: String = models.iter().enumerate().map(section).collect();
        std::fs::write(&path, format!("plugin = \"route.wasm?floor=0.2\"\n{text}")).unwrap();
        let file = RouterFile::read(&path).unwrap();
        let here = |name: &str| folder.path().join(name).display().to_string();
        let found: Vec<&str> = file.models.values().map(|section| section.model.as_str()).collect();
        let expect = [&format!("script:{}", here("answers.txt")), &format!("local:{}", here("tiny"))];
        assert_eq!(found[..2], expect);
        assert_eq!(found[2..], models[2..], "nothing else is a path from there");
        assert_eq!(file.plugin, Some(format!("{}?floor=0.2", here("route.wasm"))));
    }

    #[test]
    fn a_budget_moves_the_weight_of_cost_and_a_start_keeps_what_it_moved_to() {
        let file = read(&format!("cost_weight = 0.5\nbudget_per_day = 10\n{GOOD}")).unwrap();
        let mut router = file.router(None, RANGE).unwrap();
        assert_eq!(router.cost_weight(), 0.5);
        router.spend(0, 20.0).unwrap();
        assert!((router.cost_weight() - 0.7).abs() < 1e-12, "{}", router.cost_weight());
        let again = file.router(Some(router.clone()), RANGE).unwrap();
        assert_eq!(again.cost_weight(), router.cost_weight());
        let fixed = read(GOOD).unwrap().router(Some(again), RANGE).unwrap();
        assert_eq!(fixed.cost_weight(), ROUTER_COST_WEIGHT, "without the budget");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_by_name() {
        let check = |text: &str, expect: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains("r.toml: ") && error.contains(expect), "{error}");
        };
        check("", "missing field `models`");
        check("[models]", "there is no model to choose from");
        check(&format!("weight = 1\n{GOOD}"), "unknown field `weight`");
        check(&format!("cost_weight = -1\n{GOOD}"), "cost_weight is -1");
        check(&format!("budget_per_day = 0\n{GOOD}"), "budget_per_day is 0");
        check(&format!("budget_per_day = inf\n{GOOD}"), "budget_per_day is inf");
        check(&format!("typical_tokens = nan\n{GOOD}"), "typical_tokens is NaN");
        let tiers = |text: &str| format!("{GOOD}[tiers]\n{text}\n");
        check(&tiers("light = \"c\""), "there is no model c in the table of models; there is a, b");
        check(&tiers("light = \"a\""), "the tier medium has no model: name one for it or a higher one, or a fallback");
        check(&tiers("fallback = []"), "the tier light has no model");
        check(&tiers("hevy = \"a\""), "unknown field `hevy`");
        let both = tiers("fallback = [\"a\"]");
        check(
            &format!("incumbent = \"a\"\n{both}"),
            "incumbent and tiers both say who decides first; name one of them",
        );
        check(&format!("incumbent = \"c\"\n{GOOD}"), "there is no model c in the table of models; there is a, b");
        check(&GOOD.replace("\"b\"", "\"c\""), "there is no model c in the table of models");
        check(&GOOD.replace("price = 1", "price = -1"), "the price of a is -1");
    }
}
