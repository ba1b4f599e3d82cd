//! What users see of a router: features of conversations, explanations of decisions, estimates for policies from a recorded log.

use super::*;
use crate::LearnError;
use crate::router::recorded::{GREEDY, replay};
use clawhost_core::{Message, Origin, Role};

fn said(role: Role, text: &str) -> Message {
    Message::text(role, Origin::User, text)
}

#[test]
fn a_summary_counts_what_the_latest_question_holds() {
    let messages = [
        said(Role::System, "You debug databases."),
        said(Role::User, "hi"),
        said(Role::Tool, "  Error: no such file"),
        said(Role::Tool, "the error was found"),
        said(Role::User, "Prove it step by step: the cache of this query.\n```\nx\n```é"),
    ];
    let summary = RequestSummary::of(&messages, 3);
    let question = messages[4].plain_text().chars().count() as f64;
    let expect = RequestSummary {
        characters: messages.iter().map(|message| message.plain_text().chars().count() as u64).sum(),
        turns: 4,
        tools: 3,
        has_code: true,
        non_ascii_share: 1.0 / question,
        reasoning_markers: 2,
        technical_terms: 2,
        class: None,
        failures: 1,
        likeness: 0.0,
    };
    assert_eq!(summary, expect);
    assert_eq!(RequestSummary::of(&[], 0), RequestSummary::default());
}

#[test]
fn the_likeness_of_a_conversation_follows_what_failed() {
    let table = table(&[("cheap", 1.0), ("dear", 10.0)]);
    let settings = RouterSettings::new(&table, Fixed::Model("dear".into()), CostWeight::Fixed(0.1));
    let mut router = Router::new(settings, table, Features::names_of_requests()).unwrap();
    for (number, text) in (0..40).map(|number| (number, if number % 2 == 0 { "refund order" } else { "greeting" })) {
        let (features, words) = router.request(&[said(Role::User, text)], 0).unwrap();
        let request = Request { session: "s", time: number, features: &features, words: &words, seed: number };
        let decision = router.decide(&request).unwrap();
        let reward = if number % 2 == 0 { 0.0 } else { 1.0 };
        router.learn(&[Logged { decision, outcome: outcome(reward) }]).unwrap();
    }
    let likeness = |text: &str| {
        let (features, _) = router.request(&[said(Role::User, text)], 0).unwrap();
        features.get("likeness").unwrap()
    };
    assert!(likeness("a refund") > 0.1 && likeness("greeting") < -0.1 && likeness("weather") == 0.0);
}

#[test]
fn an_explanation_gives_the_reason_of_each_choice() {
    let check = |router: &Router, model: &str, expect: Reason| {
        let features = features(0.0);
        let explained = (0..200).map(|seed| {
            router.explain(&Request { session: "s", time: 0, features: &features, words: &[], seed }).unwrap()
        });
        let found: Vec<Reason> = explained
            .filter(|one| one.decision.action().unwrap().model == model)
            .map(|one| {
                let sum: f64 = one.considered.iter().map(|considered| considered.propensity).sum();
                assert!((sum - 1.0).abs() < 1e-9);
                one.reason
            })
            .collect();
        assert!(!found.is_empty() && found.iter().all(|reason| *reason == expect), "{model}: {found:?}");
    };
    let new = router(|_| {});
    assert_eq!(new.warm_up_left(), WARM_UP);
    check(&new, "dear", Reason::Incumbent);
    check(&new, "cheap", Reason::WarmUp);
    let mut learned = router(|settings| settings.warm_up = 100);
    teach(&mut learned, "cheap", 0.9, 60);
    teach(&mut learned, "dear", 0.9, 60);
    assert_eq!(learned.warm_up_left(), 0);
    check(&learned, "cheap", Reason::Best);
    check(&learned, "dear", Reason::Exploration);
    let mut random = learned.clone();
    random.set_policy(Policy::Random);
    check(&random, "dear", Reason::Policy);
}

#[test]
fn learned_actions_show_outcomes_prices_and_weights() {
    let mut router = router(|_| {});
    for number in 0..60 {
        let x = if number % 2 == 0 { 1.0 } else { -1.0 };
        let reward = if x > 0.0 { 1.0 } else { 0.0 };
        let decision = chosen(&router, x, "cheap");
        router.learn(&[Logged { decision, outcome: outcome(reward) }]).unwrap();
    }
    let [cheap, dear] = &router.actions()[..] else { panic!("two actions") };
    assert_eq!((cheap.outcomes, cheap.is_new, dear.outcomes, dear.is_new), (60, false, 0, true));
    assert!((cheap.cost - 1.0).abs() < 0.1 && (dear.cost - 10.0).abs() < 0.1);
    let (name, weight) = &cheap.weights[0];
    assert!(name == "x" && *weight > 1.0, "{weight}");
    assert_eq!(dear.weights, [("x".to_owned(), 0.0)]);
}

#[test]
fn a_state_is_read_again_or_refused() {
    use crate::Layer as _;
    let mut router = router(|_| {});
    teach(&mut router, "cheap", 1.0, 3);
    let bytes = router.snapshot().unwrap();
    let again = Router::from_state(&bytes).unwrap();
    assert_eq!((again.digest(), again.identity()), (router.digest(), router.identity()));
    let mut state: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    state["table"]["prices"]["third"] = 1.0.into();
    let error = Router::from_state(state.to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("do not fit each other"), "{error}");
    let error = Router::from_state(b"{}").unwrap_err();
    assert!(error.to_string().starts_with("router: a state that cannot be read: "), "{error}");
}

/// The router and the log of a simulated world.
fn world(decisions: u64) -> Simulation {
    simulation(&WorldSettings { decisions, fresh: 10, ..WorldSettings::default() }, 3).unwrap()
}

#[test]
fn a_replay_judges_policies_on_the_later_half_alone() {
    let Simulation { router, log, .. } = world(4_000);
    let found = replay(&router, &log).unwrap();
    let names: Vec<&str> = found.policies.iter().map(|replayed| replayed.policy.as_str()).collect();
    assert_eq!(names, [GREEDY, "random", "always cheap", "always dear"]);
    assert_eq!((found.outcomes, found.learned, found.judged, found.left_out), (4_000, 2_000, 1_600, 0));
    let utility = |at: usize| found.policies[at].value.utility.value;
    assert_eq!(found.refusal(GREEDY), None);
    assert!(utility(0) > utility(1), "{found:?}");
    assert!((found.recorded.utility - utility(0)).abs() < 0.05, "the log followed a similar policy");
    assert_eq!(found.compared_with, "always dear");
    let mut shuffled = log.clone();
    shuffled.reverse();
    assert_eq!(replay(&router, &shuffled).unwrap(), found, "in the order of time");
}

#[test]
fn a_short_log_is_refused_and_other_records_are_errors() {
    let Simulation { router, mut log, .. } = world(400);
    let found = replay(&router, &log).unwrap();
    assert!(found.policies.iter().all(|replayed| found.refusal(&replayed.policy).is_some()), "{found:?}");
    assert!(!found.verdict.promotes());
    assert!(replay(&router, &[]).unwrap().refusal(GREEDY).is_some());
    log[7].decision.format = 9;
    let error = replay(&router, &log).unwrap_err();
    assert_eq!(error, LearnError::DecisionFormat { found: 9, expected: DECISION_FORMAT });
}

#[test]
fn a_replay_leaves_out_models_that_have_left_and_uses_the_prices_of_today() {
    let Simulation { mut router, log, .. } = world(4_000);
    let before = replay(&router, &log).unwrap();
    router.replace_table(table(&[("cheap", 5.0), ("dear", 10.0)])).unwrap();
    let dearer = replay(&router, &log).unwrap();
    assert!(dearer.recorded.cost > before.recorded.cost && dearer.recorded.reward == before.recorded.reward);
    // Its incumbent has left as well: what remains is compared with chance.
    router.replace_table(table(&[("cheap", 1.0)])).unwrap();
    let left = replay(&router, &log).unwrap();
    let names: Vec<&str> = left.policies.iter().map(|replayed| replayed.policy.as_str()).collect();
    assert_eq!((&names[..], left.compared_with.as_str()), (&[GREEDY, "random", "always cheap"][..], "random"));
    let of_cheap = |log: &[Logged]| log.iter().filter(|one| one.decision.action().unwrap().model == "cheap").count();
    assert_eq!((left.learned, left.left_out), (of_cheap(&log[..2_000]) as u64, 2_000 - of_cheap(&log[2_000..])));
}

#[test]
fn a_changed_configuration_is_a_new_version_and_an_equal_one_is_not() {
    let mut router = router(|_| {});
    teach(&mut router, "cheap", 1.0, 60);
    let (version, identity) = (router.version(), router.identity());
    let incumbent = || Fixed::Model("dear".into());
    let models = [("cheap", 1.0), ("dear", 10.0)];
    router.reconfigure(table(&models), incumbent(), CostWeight::Fixed(0.1)).unwrap();
    assert_eq!((router.version(), router.identity()), (version, identity));
    router.reconfigure(table(&[("cheap", 2.0), ("dear", 10.0)]), incumbent(), CostWeight::Fixed(0.1)).unwrap();
    assert_eq!((router.version(), router.actions()[0].outcomes), (version + 1, 60), "a price alone forgets nothing");
    let budget = CostWeight::Budget(Budget { per_day: 1.0, start: 0.3, rate: 0.1 });
    router.reconfigure(table(&models), incumbent(), budget).unwrap();
    assert_eq!((router.version(), router.cost_weight()), (version + 3, 0.3));
    use crate::Layer as _;
    Router::from_state(&router.snapshot().unwrap()).unwrap();
    let before = router.digest();
    assert!(router.reconfigure(Table::default(), incumbent(), CostWeight::Fixed(0.1)).is_err());
    assert!(router.reconfigure(table(&models), incumbent(), CostWeight::Fixed(-1.0)).is_err());
    assert_eq!(router.digest(), before);
}
