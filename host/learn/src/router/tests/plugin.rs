//! Decisions of plugins.

use super::*;
use crate::router::offline::{Target, evaluate};
use async_trait::async_trait;
use clawhost_core::{
    About, Context, Failure, FailureKind, ModelRouter, PluginIdentity, RouteCandidate, RouteChoice, RoutingPlugin, code,
};

/// A plugin of a name. Nothing here asks it.
struct Named(PluginIdentity, About);

#[async_trait]
impl ModelRouter for Named {
    fn identity(&self) -> &PluginIdentity {
        &self.0
    }

    fn about(&self) -> &About {
        &self.1
    }

    async fn route(&self, _: &Context, _: &[(String, f64)], _: &[RouteCandidate]) -> Result<RouteChoice, Failure> {
        unreachable!("the tests bring choices")
    }
}

fn plugin(name: &str, options: &[(&str, &str)]) -> RoutingPlugin {
    let router = std::sync::Arc::new(Named(PluginIdentity::native(name), About::named(name)));
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    RoutingPlugin { router, options }
}

fn decide_by(router: &Router, choice: Result<&RouteChoice, &Failure>) -> Result<Decision, LearnError> {
    let features = features(1.0);
    let request = Request { session: "s", time: 7, features: &features, words: &[3], seed: 1 };
    router.decide_by(&request, &plugin("p", &[]), choice)
}

#[test]
fn a_decision_of_a_plugin_is_recorded_like_one_of_the_router() {
    let router = router(|_| {});
    let choice = RouteChoice { chosen: 0, propensities: vec![0.25, 0.75] };
    let decision = decide_by(&router, Ok(&choice)).unwrap();
    let own = decide(&router, 1.0, 7);
    assert_eq!((decision.format, decision.version, decision.time), (own.format, own.version, 7));
    assert_eq!((&decision.features, &decision.words), (&own.features, &vec![3]));
    let shares: Vec<(String, f64)> =
        decision.choices.iter().map(|one| (one.action.to_string(), one.propensity)).collect();
    assert_eq!(shares, [("cheap".to_owned(), 0.25), ("dear".to_owned(), 0.75)]);
    assert_eq!(decision.action().unwrap().model, "cheap");
    let asked = AskedPlugin { name: "p".into(), digest: PluginIdentity::native("p").digest, failure: None };
    assert_eq!((&decision.plugin, &own.plugin), (&Some(asked), &None));
    assert_ne!(decision.parameters, own.parameters, "something else decided");
    let text = serde_json::to_string(&decision).unwrap();
    assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
}

#[test]
fn a_plugin_that_fails_leaves_the_decision_to_the_incumbent() {
    let check = |incumbent: &str, expect: [f64; 2]| {
        let router = router(|settings| settings.incumbent = Fixed::Model(incumbent.into()));
        let failure = Failure::new(FailureKind::Limit, code::FUEL, "p used up its fuel");
        let decision = decide_by(&router, Err(&failure)).unwrap();
        let shares: Vec<f64> = decision.choices.iter().map(|choice| choice.propensity).collect();
        assert_eq!((shares.as_slice(), decision.chosen), (&expect[..], usize::from(expect[1] > 0.0)));
        assert_eq!(decision.plugin.unwrap().failure.as_deref(), Some("limit(fuel)"));
    };
    check("dear", [0.0, 1.0]);
    check("cheap", [1.0, 0.0]);
    // An incumbent that has left the table: the session still gets a model.
    check("gone", [1.0, 0.0]);
}

#[test]
fn a_choice_that_does_not_fit_the_actions_is_no_decision() {
    let router = router(|_| {});
    let check = |chosen: usize, propensities: &[f64], says: &str| {
        let choice = RouteChoice { chosen, propensities: propensities.to_vec() };
        let error = decide_by(&router, Ok(&choice)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    check(0, &[1.0], "1 probabilities for 2 actions");
    check(2, &[0.5, 0.5], "a chosen action that could not be chosen");
    check(0, &[0.0, 1.0], "a chosen action that could not be chosen");
    check(0, &[0.5, 0.6], "propensities that do not add up to 1");
    check(0, &[f64::NAN, 1.0], "propensities that do not add up to 1");
}

#[test]
fn candidates_are_the_actions_with_their_prices() {
    let table = table(&[("cheap", 1.0), ("dear", 10.0)]).with_escalation("cheap", "dear").unwrap();
    let settings = router(|_| {}).settings().clone();
    let router = Router::new(settings, table, vec!["x".into()]).unwrap();
    let one = |name: &str, price: f64, then_price| RouteCandidate { name: name.into(), price, then_price };
    let expect = [one("cheap", 1.0, None), one("dear", 10.0, None), one("cheap > dear", 1.0, Some(10.0))];
    assert_eq!(router.candidates(), expect);
}

#[test]
fn what_decides_is_identified_by_component_and_options() {
    let mut router = router(|_| {});
    let of = |router: &Router, name: &str, options: &[(&str, &str)]| router.identity_with(&plugin(name, options));
    let own = of(&router, "p", &[]);
    assert_eq!(own, of(&router, "p", &[]));
    let others = [of(&router, "q", &[]), of(&router, "p", &[("a", "1")]), of(&router, "p", &[("a", "2")])];
    assert!(others.iter().all(|other| *other != own) && others[1] != others[2]);
    teach(&mut router, "cheap", 1.0, 1);
    assert_ne!(of(&router, "p", &[]), own, "the features that it sees depend on what was learned");
}

#[test]
fn the_log_of_a_plugin_teaches_and_is_evaluated_for_other_policies() {
    let mut router = router(|_| {});
    let mut log = Vec::new();
    for number in 0..2_000_u64 {
        let chosen = usize::from(number % 4 != 0);
        let choice = RouteChoice { chosen, propensities: vec![0.25, 0.75] };
        let decision = Decision { time: number, ..decide_by(&router, Ok(&choice)).unwrap() };
        // The cheap one is always right, the dear one in a third of the cases.
        let reward = if chosen == 0 || number % 2 == 0 { 1.0 } else { 0.0 };
        log.push(Logged { decision, outcome: outcome(reward) });
    }
    assert_eq!(router.learn(&log).unwrap().used, 2_000);
    let always = |model: &str| Policy::Fixed(Fixed::Model(model.into()));
    let (cheap, dear) = (always("cheap"), always("dear"));
    let [cheap, dear] = [&cheap, &dear].map(|policy| Target { router: &router, policy });
    let found = evaluate(&log, cheap, dear, 0.05).unwrap();
    assert!(found.candidate.refusal.is_none() && found.gain.interval.0 > 0.0, "{found:?}");
    assert!((found.candidate.reward.value - 1.0).abs() < 0.05, "{found:?}");
}
