//! Candidates of routers from the command line: learned, judged on later decisions, promoted, rolled back, dropped.

use super::*;
use crate::router::{TWO, learning, words};

/// The exit code of a promotion, and its document.
fn promoted(bench: &Bench, name: &str) -> (Option<i32>, Value) {
    let output = bench.run(&["router", "promote", name, "--json"]);
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    (output.status.code(), document)
}

fn learn(bench: &Bench, options: &[String]) -> Value {
    bench.json(&words(&bench.routed("learn", &words(options))))["timing"]["router"].clone()
}

#[test]
fn a_candidate_is_promoted_by_decisions_that_came_after_it_and_rolled_back() {
    let Some(bench) = Bench::new("a_candidate_is_promoted") else { return };
    bench.route("two", TWO);
    let served = |key: &str| bench.json(&["router", "show", "two"])[key].clone();
    bench.refused(&["router", "promote", "two"], &["router `two` has learned nothing yet"]);
    assert_eq!(learn(&bench, &learning(1, 16, 5)), "served", "a new router replaces nothing");
    let (first, version) = (served("identity"), served("version"));
    bench
        .refused(&["router", "promote", "two"], &["router two has no candidate; another learning run of it makes one"]);
    assert_eq!(learn(&bench, &learning(8, 64, 6)), "candidate");
    let candidate = served("candidate");
    assert_eq!(
        (&candidate["logged"], &candidate["learned"], served("identity")),
        (&528.into(), &528.into(), first.clone())
    );

    // No decision was logged after the candidate. The 528 before it do not count, because it learned from them.
    let (code, found) = promoted(&bench, "two");
    assert_eq!((code, &found["missing"], &found["evaluation"]), (Some(1), &250.into(), &Value::Null), "{found}");
    let text = bench.run(&["router", "promote", "two"]);
    let advice = "not promoted: an effective sample of 0, below 200; about 250 decisions with a reward are missing";
    assert!(stderr(&text).contains(advice) && stdout(&text).contains("verdict     none"), "{}", stderr(&text));
    // The same run again decides the same about the same tasks: the candidate has learned from that.
    assert_eq!(learn(&bench, &learning(8, 64, 6)), "behind");
    assert_eq!(served("candidate")["later"], 0);

    // The served router decides about other tasks, one state for all: it explores one model in a tenth of them.
    assert_eq!(learn(&bench, &learning(1, 3_000, 7)), "behind");
    assert_eq!((served("candidate")["later"].clone(), served("identity")), (3_000.into(), first.clone()));
    let (code, found) = promoted(&bench, "two");
    assert_eq!((code, &found["verdict"], &found["number"]), (Some(0), &"better".into(), &1.into()), "{found}");
    let evaluation = &found["evaluation"];
    assert!(evaluation["gain"]["interval"][0].as_f64().unwrap() > 0.0, "{evaluation}");
    for side in ["candidate", "served"] {
        assert!(evaluation[side]["effective_sample"].as_f64().unwrap() > 200.0, "{evaluation}");
        assert!(evaluation[side]["snips"].is_number() && evaluation[side]["refusal"].is_null(), "{evaluation}");
    }
    assert_eq!((served("identity"), served("judged")), (candidate["identity"].clone(), 1.into()));
    assert_eq!(served("candidate")["learned"], 3_016, "the result of the last run is the next candidate");

    let versions = bench.json(&["router", "versions", "two"]);
    let number = |at: usize| versions["versions"][at]["version"].as_u64().unwrap();
    assert_eq!((number(0), number(1)), (version.as_u64().unwrap() + 1, version.as_u64().unwrap()), "{versions}");
    assert_eq!((&versions["versions"][0]["served"], &versions["versions"][1]["identity"]), (&true.into(), &first));
    let back = bench.json(&["router", "rollback", "two"]);
    assert_eq!((&back["now"]["identity"], served("identity")), (&first, first.clone()), "{back}");
}

#[test]
fn a_candidate_is_shown_and_dropped() {
    let Some(bench) = Bench::new("a_candidate_is_shown_and_dropped") else { return };
    bench.route("two", TWO);
    for seed in 5..8 {
        learn(&bench, &learning(1, 32, seed));
    }
    let shown = bench.json(&["router", "show", "two"]);
    let runs = [&shown["candidate"]["run"], &shown["behind"]["run"]].map(|run| run.as_str().unwrap().to_owned());
    assert_ne!(runs[0], runs[1]);
    let text = bench.out(&["router", "show"]);
    for part in
        [&format!("candidate   {}", runs[0]), "32 decisions logged since", "`clawhost router promote two` judges it"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(&format!("behind it   {}", runs[1])), "{text}");
    let told = bench.out(&["router", "promote", "two", "--discard"]);
    assert!(
        told.contains(&format!("dropped     {}", runs[0])) && told.contains(&format!("candidate   {}", runs[1])),
        "{told}"
    );
    let dropped = bench.json(&["router", "promote", "two", "--discard"]);
    assert_eq!((&dropped["discarded"]["run"], &dropped["candidate"]), (&runs[1].as_str().into(), &Value::Null));
    bench.refused(&["router", "promote", "two", "--discard"], &["router two has no candidate"]);
    let now = bench.json(&["router", "show"]);
    assert_eq!((&now["identity"], &now["candidate"]), (&shown["identity"], &Value::Null));
}

#[test]
fn a_run_counts_what_it_spends_against_the_budget_of_a_day() {
    let Some(bench) = Bench::new("a_run_counts_what_it_spends") else { return };
    bench.route("two", &format!("budget_per_day = 0.02\n{}", TWO.replace("\"guesses\"", "\"calculates\"")));
    let weight = || bench.json(&["router", "show", "two"])["cost_weight"].as_f64().unwrap();
    learn(&bench, &learning(2, 32, 5));
    let shown = bench.json(&["router", "show", "two"]);
    let day = &shown["spent"][0];
    let spent = day["learning"].as_f64().unwrap();
    assert!(spent > 0.0 && day["sessions"] == 0.0 && day["day"].as_str().unwrap().len() == 10, "{shown}");
    assert!((day["of_budget"].as_f64().unwrap() - spent / 0.02).abs() < 1e-9, "{shown}");
    assert_eq!(shown["budget_per_day"], 0.02);
    let raised = 0.1 + 0.1 * spent / 0.02;
    assert!((weight() - raised).abs() < 1e-9, "{} {raised}", weight());
    let text = bench.out(&["router", "show", "two"]);
    for part in ["of the budget", day["day"].as_str().unwrap(), &format!("{:.0} %", spent / 0.02 * 100.0)] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A candidate's run is paid for on the same day, and leaves the weight of what is served as it is.
    learn(&bench, &learning(1, 32, 6));
    let total = bench.json(&["router", "show", "two"])["spent"][0]["learning"].as_f64().unwrap();
    assert!(total > spent && (weight() - raised).abs() < 1e-9, "{total} {spent}");
}

#[test]
fn tiers_decide_before_anything_is_learned_and_are_compared_with() {
    let Some(bench) = Bench::new("tiers_decide_before_anything_is_learned") else { return };
    let models = TWO.replace("incumbent = \"guesses\"\n", "");
    // Arithmetic problems are short: all of them are light.
    bench.route("two", &format!("{models}[tiers]\nlight = \"calculates\"\nfallback = [\"guesses\"]\n"));
    learn(&bench, &learning(1, 104, 5));
    let shown = bench.json(&["router", "show", "two"]);
    let outcomes = |model: &str| {
        let all = shown["actions"].as_array().unwrap();
        all.iter().find(|one| one["model"] == model).unwrap()["outcomes"].as_u64().unwrap()
    };
    assert!(outcomes("calculates") > 70 && outcomes("guesses") > 0, "{shown}");
    let text = bench.out(&["router", "show", "two"]);
    let expect = "warms up for 96 more outcomes: mostly tiers by complexity (light calculates, fallback guesses)";
    assert!(text.contains(expect), "{text}");
    let log = bench.router_file("two.jsonl").display().to_string();
    let found = bench.json(&["router", "replay", &log]);
    assert_eq!(found["compared_with"], "tiers", "{found}");
    assert!(found["policies"].as_array().unwrap().iter().any(|one| one["policy"] == "tiers"), "{found}");
    bench.route("two", &format!("{models}[tiers]\nlight = \"calculates\"\n"));
    let options = learning(1, 8, 5);
    bench.refused(&words(&bench.routed("learn", &words(&options))), &["two.toml: ", "the tier medium has no model"]);
}
