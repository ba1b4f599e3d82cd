//! Bad input: refused by name, or with a defined result.

use super::*;
use crate::{Layer, LearnError};

#[test]
fn prices_and_models_out_of_range_are_refused_by_name() {
    let check = |models: &[(&str, f64)], expect: &str| {
        let error = Table::new(models.iter().map(|(model, price)| ((*model).to_owned(), *price))).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(&[], "there is no model to choose from");
    check(&[("a", -1.0)], "the price of a is -1");
    check(&[("a", 1.0), ("b", f64::NAN)], "the price of b is NaN");
    check(&[("a", f64::INFINITY)], "the price of a is inf");
    check(&[("a", 1.0), ("a", 2.0)], "model a is named twice");
    let many: Vec<(String, f64)> = (0..=ACTIONS).map(|at| (at.to_string(), 1.0)).collect();
    assert!(Table::new(many).is_err());
    let table = table(&[("a", 0.0), ("b", 1.0)]);
    assert!(table.clone().with_escalation("a", "c").unwrap_err().to_string().contains("there is no model c"));
    assert!(table.with_escalation("a", "a").is_err());
}

#[test]
fn models_that_cost_nothing_are_chosen_by_their_reward() {
    let free = table(&[("a", 0.0), ("b", 0.0)]);
    assert_eq!(free.median_price(), None);
    let settings = RouterSettings::new(&free, Fixed::Model("a".into()), CostWeight::Fixed(1.0));
    let mut router = Router::new(RouterSettings { warm_up: 0, ..settings }, free, vec!["x".into()]).unwrap();
    teach(&mut router, "a", 0.2, 100);
    teach(&mut router, "b", 0.8, 100);
    assert!(propensity(&router, "b") > 0.8);
    assert!(router.expected(&features(0.0)).unwrap().iter().all(|expected| expected.cost == 0.0));
    assert_eq!(table(&[("a", 0.0), ("b", 1.0), ("c", 3.0)]).median_price(), Some(2.0));
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let check = |change: fn(&mut RouterSettings), expect: &str| {
        let mut settings = router(|_| {}).settings().clone();
        change(&mut settings);
        let error = Router::new(settings, table(&[("a", 1.0)]), Vec::new()).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(|settings| settings.cost_weight = CostWeight::Fixed(f64::NAN), "cost weight of NaN");
    check(|settings| settings.cost_weight = CostWeight::Fixed(f64::INFINITY), "cost weight of inf");
    check(|settings| settings.cost_weight = CostWeight::Fixed(-0.1), "cost weight of -0.1");
    check(
        |settings| settings.cost_weight = CostWeight::Budget(Budget { per_day: 0.0, start: 0.1, rate: 0.1 }),
        "budget of 0",
    );
    check(|settings| settings.reference_cost = 0.0, "reference cost of 0");
    check(|settings| settings.typical_units = -1.0, "typical units of -1");
    check(|settings| settings.forgetting = 1.5, "forgetting factor of 1.5");
    check(|settings| settings.exploration = f64::NAN, "exploration of NaN");
    check(|settings| settings.floor = 2.0, "floor of 2");
    check(|settings| settings.rewards = RewardRange { low: 1.0, high: 0.0 }, "rewards from 1 to 0");
    check(|settings| settings.rewards = RewardRange { low: f64::NAN, high: 1.0 }, "rewards from NaN to 1");
}

#[test]
fn features_that_are_not_finite_are_refused_by_name() {
    let check = |value: f64, expect: &str| {
        let error = Features::new(vec![("a".into(), 0.0), ("b".into(), value)]).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(f64::NAN, "feature b is NaN");
    check(f64::INFINITY, "feature b is inf");
    check(1e10, "feature b is 1");
    let request = RequestSummary { non_ascii_share: f64::NAN, ..RequestSummary::default() };
    assert!(Features::of(&request).unwrap_err().to_string().contains("feature non_ascii is NaN"));
    assert!(Features::new(vec![("a".into(), 0.0), ("a".into(), 1.0)]).is_err());
    let many = (0..=FEATURES).map(|at| (at.to_string().into(), 0.0)).collect();
    assert!(Features::new(many).is_err());
    // Other features than the router's.
    let other = Features::new(vec![("y".into(), 0.0)]).unwrap();
    let router = router(|_| {});
    let request = Request { session: "s", time: 0, features: &other, words: &[], seed: 0 };
    assert!(router.decide(&request).unwrap_err().to_string().contains("features y; expected x"));
}

#[test]
fn outcomes_out_of_range_teach_nothing() {
    let mut router = router(|_| {});
    let before = router.digest();
    let good = || Logged { decision: chosen(&router, 0.0, "cheap"), outcome: outcome(1.0) };
    let check = |change: fn(&mut Logged), expect: &str| {
        let mut bad = good();
        change(&mut bad);
        let error = router.clone().learn(&[good(), bad.clone()]).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
        bad
    };
    check(|bad| bad.outcome.reward = f64::NAN, "reward of NaN");
    check(|bad| bad.outcome.reward = -0.5, "reward of -0.5");
    check(|bad| bad.outcome.units = [f64::INFINITY, 0.0], "inf units");
    check(|bad| bad.outcome.units = [1.0, -1.0], "-1 units");
    check(|bad| bad.decision.chosen = 9, "could not be chosen");
    check(|bad| bad.decision.choices[0].propensity = 0.7, "do not add up to 1");
    check(|bad| bad.decision.choices[0].propensity = f64::NAN, "do not add up to 1");
    let bad = check(|bad| bad.decision.words = vec![WORD_BUCKETS], "word buckets");
    let logged = [good(), bad];
    assert!(router.learn(&logged).is_err());
    assert_eq!(router.digest(), before, "not even the good one was learned");
}

#[test]
fn a_log_of_another_format_is_refused() {
    let mut router = router(|_| {});
    let mut logged = Logged { decision: chosen(&router, 0.0, "cheap"), outcome: outcome(1.0) };
    let text = serde_json::to_string(&logged).unwrap();
    assert_eq!(serde_json::from_str::<Logged>(&text).unwrap(), logged);
    logged.decision.format = DECISION_FORMAT + 1;
    let expect = LearnError::DecisionFormat { found: DECISION_FORMAT + 1, expected: DECISION_FORMAT };
    assert_eq!(router.learn(&[logged.clone()]), Err(expect.clone()));
    assert_eq!(logged.decision.action(), Err(expect));
}

#[test]
fn a_model_that_leaves_or_joins_changes_only_its_own_actions() {
    let mut router = router(|settings| settings.warm_up = 0);
    teach(&mut router, "cheap", 0.6, 100);
    teach(&mut router, "dear", 0.9, 100);
    let known = |router: &Router, model: &str| {
        let expected = router.expected(&features(0.0)).unwrap();
        expected.into_iter().find(|expected| expected.action.model == model).unwrap()
    };
    let (cheap, version) = (known(&router, "cheap"), router.version());
    let late = Logged { decision: chosen(&router, 0.0, "dear"), outcome: outcome(1.0) };
    router.replace_table(table(&[("cheap", 1.0), ("new", 2.0)])).unwrap();
    assert_eq!((known(&router, "cheap"), router.version()), (cheap, version + 1));
    assert_eq!(known(&router, "new").reward, 0.5, "nothing is known about it");
    assert_eq!(propensity(&router, "new").min(0.1), 0.1, "a new model is tried as often as in the warm-up");
    // A reward of the model that left.
    assert_eq!(router.learn(&[late]), Ok(Learned { used: 0, gone: 1 }));
    assert_eq!((router.version(), router.gone()), (version + 1, 1));
    // A fixed policy on it is an error; an incumbent is not.
    router.set_policy(Policy::Fixed(Fixed::Model("dear".into())));
    let features = features(0.0);
    let request = Request { session: "s", time: 0, features: &features, words: &[], seed: 0 };
    let error = router.decide(&request).unwrap_err();
    assert_eq!(error, LearnError::UnknownModel { model: "dear".into(), known: "cheap, new".into() });
    let before = router.digest();
    assert_eq!(router.replace_table(Table::default()), Err(LearnError::NoModels));
    assert_eq!(router.digest(), before);
}

#[test]
fn without_its_incumbent_the_warm_up_is_uniform() {
    let mut router = router(|_| {});
    router.replace_table(table(&[("a", 1.0), ("b", 2.0)])).unwrap();
    assert_eq!((propensity(&router, "a"), propensity(&router, "b")), (0.5, 0.5));
}
