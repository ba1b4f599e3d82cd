//! Router plugins: what they choose, and choices that are refused with a reason.

use super::*;
use clawhost_core::{FailureKind, ModelRouter as _, RouteCandidate, RouteChoice, code};
use clawhost_engine::RouterPlugin;

fn candidates() -> Vec<RouteCandidate> {
    let one = |name: &str, price: f64| RouteCandidate { name: name.into(), price, then_price: None };
    vec![one("a", 1.0), one("b", 10.0)]
}

fn context(seed: u64, options: &[(&str, &str)]) -> Context {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Context { seed, options }
}

async fn routed(plugin: &RouterPlugin, context: &Context, characters: f64) -> Result<RouteChoice, Failure> {
    let features = [("characters".to_owned(), characters.ln_1p())];
    plugin.route(context, &features, &candidates()).await
}

async fn loaded(host: &Host, folder: &Path, guest: &str) -> RouterPlugin {
    host.router(guest, &guests::bytes(folder, guest)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_is_valid_or_refused_with_a_reason() {
    let Some(folder) = folder("a_choice_is_valid_or_refused") else { return };
    use FailureKind::{Invalid, Limit, Plugin, Trap};
    let table: [(&str, FailureKind, &str, &str); 18] = [
        ("NaN", Invalid, code::NOT_FINITE, "the probability of a is NaN"),
        ("infinite", Invalid, code::NOT_FINITE, "the probability of a is inf"),
        ("negative", Invalid, code::OUT_OF_RANGE, "the probability -0.5 of `a`, outside 0 to 1"),
        ("above one", Invalid, code::OUT_OF_RANGE, "the probability 1.5 of `a`, outside 0 to 1"),
        ("too much", Invalid, code::OUT_OF_RANGE, "probabilities that add up to 1.000001999"),
        ("twice", Invalid, code::DUPLICATE, "two probabilities of `a`"),
        ("missing", Invalid, code::COUNT, "no probability of `b`"),
        ("none", Invalid, code::COUNT, "no probability of `a`"),
        ("another", Invalid, code::MALFORMED, "a probability of `b\\u{1b}[2J`, which is no candidate"),
        ("one too many", Invalid, code::LENGTH, "3 probabilities, but at most 2 are allowed"),
        ("a million", Limit, code::FUEL, "too much computing in one call"),
        ("no candidate", Invalid, code::MALFORMED, "the choice `c`, which is no candidate"),
        ("what cannot be drawn", Invalid, code::OUT_OF_RANGE, "the choice `b`, whose probability is 0"),
        ("an error", Plugin, code::PLUGIN_ERROR, "answered `route` with an error: today is a holiday"),
        ("a panic", Trap, code::UNREACHABLE, "no route"),
        ("a loop", Limit, code::FUEL, "too much computing in one call"),
        ("memory", Limit, code::MEMORY, "over the limit of 32768 KiB"),
        // It has no grants, whatever it imports.
        ("notes", Plugin, code::PLUGIN_ERROR, "kv"),
    ];
    for host in [pooled(), host(Limits::default(), Allocation::OnDemand)] {
        let plugin = loaded(&host, &folder, "hostile_route").await;
        for (attack, kind, code, says) in &table {
            let failure = routed(&plugin, &context(1, &[("attack", attack)]), 1.0).await.unwrap_err();
            assert_eq!((failure.kind, failure.code.as_str()), (*kind, *code), "{attack}: {failure}");
            assert!(failure.message.contains(says), "{attack}: {failure}");
            assert!(failure.message.contains("hostile-route"), "{attack} is named: {failure}");
            let next = routed(&plugin, &context(1, &[]), 1.0).await.unwrap();
            assert_eq!(next.propensities, [0.5, 0.5], "the next choice is made, after {attack}");
        }
        assert_eq!(host.guest_memory(), 0, "all guest memory was returned");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_rounding_costs_and_the_order_of_an_answer_are_no_fault() {
    let Some(folder) = folder("what_rounding_costs") else { return };
    let plugin = loaded(&pooled(), &folder, "hostile_route").await;
    let shares = async |attack: &str| routed(&plugin, &context(1, &[("attack", attack)]), 1.0).await.unwrap();
    assert_eq!(shares("rounding").await.propensities, [0.5 + 5e-7, 0.5]);
    assert_eq!(shares("another order").await, shares("no attack").await, "in the order of the candidates");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_chooses_by_the_features_and_draws_with_the_seed() {
    let Some(folder) = folder("a_router_chooses_by_the_features") else { return };
    for host in [pooled(), host(Limits::default(), Allocation::OnDemand)] {
        let plugin = loaded(&host, &folder, "router_length").await;
        assert_eq!((plugin.identity().name.as_str(), plugin.about().options.len()), ("router-length", 2));
        let short = routed(&plugin, &context(1, &[]), 100.0).await.unwrap();
        let long = routed(&plugin, &context(1, &[]), 3_000.0).await.unwrap();
        let near = |found: &RouteChoice, expect: [f64; 2]| {
            found.propensities.iter().zip(expect).all(|(found, expect)| (found - expect).abs() < 1e-9)
        };
        assert!(near(&short, [0.95, 0.05]) && near(&long, [0.05, 0.95]), "{short:?} {long:?}");
        let options = [("floor", "1")];
        let mut chosen = [0; 2];
        for seed in 0..64 {
            let first = routed(&plugin, &context(seed, &options), 100.0).await.unwrap();
            assert_eq!(first, routed(&plugin, &context(seed, &options), 100.0).await.unwrap(), "seed {seed}");
            chosen[first.chosen] += 1;
        }
        assert!(chosen.iter().all(|count| *count > 16), "{chosen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_a_router_are_checked_by_itself_and_other_worlds_are_refused() {
    let Some(folder) = folder("options_of_a_router") else { return };
    let host = pooled();
    let plugin = loaded(&host, &folder, "router_length").await;
    plugin.check_options(&vec![("floor".into(), "0.5".into())]).await.unwrap();
    let refused = plugin.check_options(&vec![("floor".into(), "2".into())]).await.unwrap_err().to_string();
    assert!(refused.contains("router-length") && refused.contains("floor=2; 0 to 1"), "{refused}");
    let found = host.router("env_guess", &guests::bytes(&folder, "env_guess")).await.unwrap_err().to_string();
    assert_eq!(found, "env_guess: is an environment, but a router is needed here");
    let bytes = guests::bytes(&folder, "router_length");
    let found = host.reward("r", &bytes, ModelGrants::default()).await.unwrap_err().to_string();
    assert_eq!(found, "r: is a router, but a reward is needed here");
    let inspected = host.inspect("router_length", &bytes).await.unwrap();
    assert_eq!((inspected.world, inspected.interface.as_str()), ("router", "clawhost:router/router@0.1.0"));
    let imports: Vec<&str> = inspected.permissions.iter().map(|one| one.import.as_str()).collect();
    assert!(imports.iter().all(|import| import.starts_with("clawhost:log/") || import.starts_with("clawhost:types/")));
}
