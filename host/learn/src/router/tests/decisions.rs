//! How decisions are made.

use super::*;

#[test]
fn the_warm_up_is_eight_tenths_incumbent_and_two_tenths_uniform() {
    let mut router = router(|_| {});
    for _ in 0..2 {
        assert_eq!((propensity(&router, "cheap"), propensity(&router, "dear")), (0.1, 0.9));
        let missing = 199 - router.learned() as usize;
        teach(&mut router, "cheap", 1.0, missing);
    }
    teach(&mut router, "cheap", 1.0, 1);
    assert!(propensity(&router, "cheap") > 0.5, "after 200 outcomes it decides by what it learned");
}

#[test]
fn propensities_are_inverse_gaps_with_a_floor() {
    let estimated = |utilities: &[f64], outcomes: u64| -> Vec<Estimated> {
        utilities.iter().map(|utility| Estimated { utility: *utility, outcomes }).collect()
    };
    let check = |utilities: &[f64], learned: u64, each: u64, expect: &[f64]| {
        let settings = RouterSettings { exploration: 0.5, ..router(|_| {}).settings().clone() };
        let got = inverse_gap(&estimated(utilities, each), learned, &settings);
        let near = got.iter().zip(expect).all(|(got, expect)| (got - expect).abs() < 1e-12);
        assert!(near && got.len() == expect.len(), "{utilities:?}: {got:?}");
    };
    // gamma = 0.5 sqrt(2 * 800) = 20: 1 / (2 + 20 * 0.1).
    check(&[0.5, 0.4], 800, 400, &[0.75, 0.25]);
    check(&[0.4, 0.5], 800, 400, &[0.25, 0.75]);
    check(&[0.3, 0.3], 800, 400, &[0.5, 0.5]);
    check(&[0.3], 800, 400, &[1.0]);
    // 1 / (2 + 2,000 * 1) is below the floor of 0.02 / 2, and below that of a new action.
    check(&[0.0, 1.0], 8_000_000, 400, &[0.01, 0.99]);
    check(&[0.0, 1.0], 8_000_000, NEW_UNTIL - 1, &[0.1, 0.9]);
    check(&[0.0, 1.0], 8_000_000, NEW_UNTIL, &[0.01, 0.99]);
}

#[test]
fn draws_follow_the_propensities_and_the_seed() {
    let router = router(|_| {});
    let cheap = (0..20_000).filter(|seed| decide(&router, 0.0, *seed).action().unwrap().model == "cheap").count();
    assert!((1_850..2_150).contains(&cheap), "{cheap} of 20,000 at a propensity of 0.1");
    assert_eq!(decide(&router, 0.0, 7), decide(&router, 0.0, 7));
    let only = |policy: Policy| {
        let mut router = router.clone();
        router.set_policy(policy);
        (0..100).map(|seed| decide(&router, 0.0, seed).action().unwrap().model.clone()).collect::<Vec<_>>()
    };
    assert!(only(Policy::Fixed(Fixed::Model("cheap".into()))).iter().all(|model| model == "cheap"));
    // Nothing is known: the cheapest is the best guess.
    assert!(only(Policy::Greedy).iter().all(|model| model == "cheap"));
    assert!(only(Policy::Random).iter().any(|model| model == "dear"));
}

#[test]
fn tiers_choose_by_complexity_and_fall_back_to_higher_ones() {
    let complexity = |complexity: f64| Features::new(vec![("complexity".into(), complexity)]).unwrap();
    let tiers = Tiers {
        light: Some("a".into()),
        medium: Some("gone".into()),
        heavy: Some("b".into()),
        reasoning: None,
        fallback: vec!["gone too".into(), "c".into()],
    };
    let table = table(&[("a", 1.0), ("b", 2.0), ("c", 3.0)]);
    let check = |at: f64, expect: &str| assert_eq!(tiers.model(&complexity(at), &table), Some(expect), "{at}");
    check(0.0, "a");
    check(0.24, "a");
    check(0.25, "b");
    check(0.5, "b");
    check(0.75, "c");
    assert_eq!(tiers.model(&features(3.0), &table), Some("a"), "without a complexity the request is light");
    assert_eq!(Tiers::default().model(&complexity(0.5), &table), None);
    let of = |request: RequestSummary| Features::of(&request).unwrap().get("complexity").unwrap();
    assert_eq!(of(RequestSummary::default()), 0.0);
    let request =
        RequestSummary { characters: 4_000, has_code: true, reasoning_markers: 1, ..RequestSummary::default() };
    assert!((of(request) - 0.55).abs() < 1e-12);
    assert_eq!(of(RequestSummary { turns: 100, ..RequestSummary::default() }), 1.0);
}

#[test]
fn a_request_has_at_most_sixteen_finite_features() {
    let request = RequestSummary {
        characters: u64::MAX,
        turns: u32::MAX,
        tools: u32::MAX,
        class: Some("code".into()),
        reasoning_markers: u32::MAX,
        ..RequestSummary::default()
    };
    let features = Features::of(&request).unwrap();
    assert!(features.names().count() <= FEATURES);
    assert!(features.names().eq(Features::names_of_requests().iter().map(String::as_str)));
    let classes: f64 = (0..CLASS_BUCKETS).map(|at| features.get(&format!("class_{at}")).unwrap()).sum();
    assert_eq!(classes, 1.0);
}

#[test]
fn a_new_price_acts_at_once() {
    let mut router = router(|_| {});
    teach(&mut router, "cheap", 0.6, 100);
    teach(&mut router, "dear", 0.9, 100);
    router.set_policy(Policy::Greedy);
    assert_eq!(decide(&router, 0.0, 0).action().unwrap().model, "dear");
    router.replace_table(table(&[("cheap", 1.0), ("dear", 30.0)])).unwrap();
    assert_eq!(decide(&router, 0.0, 0).action().unwrap().model, "cheap");
    let expected = router.expected(&features(0.0)).unwrap();
    assert!((expected[1].cost - 30.0).abs() < 1e-6 && (expected[1].reward - 0.9).abs() < 0.02, "{expected:?}");
}

#[test]
fn an_escalation_is_an_action_with_the_cost_of_both_attempts() {
    let table = table(&[("cheap", 1.0), ("dear", 10.0)]).with_escalation("cheap", "dear").unwrap();
    let mut router = router(|_| {});
    router.replace_table(table).unwrap();
    for escalated in [0.0, 0.0, 0.0, 1.0].repeat(50) {
        let decision = chosen(&router, 0.0, "cheap > dear");
        router.learn(&[Logged { decision, outcome: Outcome { reward: 1.0, units: [1.0, escalated] } }]).unwrap();
    }
    let expected = router.expected(&features(0.0)).unwrap();
    let escalation = expected.iter().find(|expected| expected.action.then.is_some()).unwrap();
    assert!((escalation.cost - 3.5).abs() < 0.05 && escalation.reward > 0.95, "{escalation:?}");
}

#[test]
fn an_action_that_always_fails_keeps_its_floor_and_is_never_the_best() {
    let mut router = router(|_| {});
    teach(&mut router, "dear", 0.9, 500);
    teach(&mut router, "cheap", 0.0, 500);
    let left = propensity(&router, "cheap");
    assert!((FLOOR / 2.0..0.06).contains(&left), "{left}");
    router.set_policy(Policy::Greedy);
    assert_eq!(propensity(&router, "dear"), 1.0);
}

#[test]
fn equal_parameters_have_equal_identities() {
    let mut one = router(|_| {});
    let fresh = one.identity();
    assert_eq!(fresh, router(|_| {}).identity());
    one.set_policy(Policy::Greedy);
    one.set_policy(Policy::Learned);
    assert_eq!((one.identity(), one.version()), (fresh, 2), "the version is no parameter");
    teach(&mut one, "cheap", 1.0, 1);
    assert_ne!(one.identity(), fresh);
    assert_eq!(decide(&one, 0.0, 0).parameters, one.identity());
    assert_eq!(decide(&one, 0.0, 0).version, 3);
    assert_ne!(router(|settings| settings.cost_weight = CostWeight::Fixed(0.2)).identity(), fresh);
}

#[test]
fn words_that_fail_make_a_request_like_them_hard() {
    let (hard, easy) = (word_buckets("prove the theorem"), word_buckets("say hello"));
    let mut router = router(|_| {});
    assert_eq!(router.likeness().of(&hard), 0.0);
    for number in 0..100 {
        let mut decision = chosen(&router, 0.0, "cheap");
        let fails = number % 2 == 0;
        decision.words = if fails { hard.clone() } else { easy.clone() };
        router.learn(&[Logged { decision, outcome: outcome(if fails { 0.0 } else { 1.0 }) }]).unwrap();
    }
    let likeness = router.likeness();
    assert!(likeness.of(&hard) > 0.3 && likeness.of(&easy) < -0.3, "{} {}", likeness.of(&hard), likeness.of(&easy));
    assert!(likeness.of(&word_buckets("unknown words")).abs() < 1e-12);
    assert_eq!(word_buckets("Say HELLO, hello!"), easy);
    assert!(word_buckets(&"many different words 1 2 3 4 5 6 7 8 9 ".repeat(1_000)).len() <= REQUEST_BUCKETS);
}

#[test]
fn tiers_without_a_model_are_refused_by_name() {
    let table = table(&[("cheap", 1.0), ("dear", 10.0)]);
    let some = |model: &str| Some(model.to_owned());
    let check = |tiers: Tiers, expect: &str| {
        let refused = tiers.check(&table).err().map_or_else(String::new, |error| error.to_string());
        assert!(refused.contains(expect) && refused.is_empty() == expect.is_empty(), "{refused}");
    };
    check(Tiers { light: some("cheap"), reasoning: some("dear"), ..Tiers::default() }, "");
    check(Tiers { light: some("cheap"), fallback: vec!["dear".into()], ..Tiers::default() }, "");
    check(Tiers { fallback: vec!["dear".into()], ..Tiers::default() }, "");
    check(Tiers { light: some("cheap"), ..Tiers::default() }, "the tier medium has no model");
    check(Tiers { heavy: some("dear"), ..Tiers::default() }, "the tier reasoning has no model");
    check(Tiers::default(), "the tier light has no model");
    check(Tiers { light: some("chaep"), ..Tiers::default() }, "there is no model chaep in the table of models");
    check(Tiers { fallback: vec!["gone".into()], ..Tiers::default() }, "there is no model gone");
}
