//! A gateway with a router: it chooses a model for every session, and learns from what people say about the episodes.

use super::*;
use crate::client::{Answer, chat, send, user};
use crate::serving::Served;

fn saying(text: &'static str) -> stub::Stub {
    stub::Stub::start(move |_, request| stub::says(request, text, &[]))
}

/// A data folder in which the gateway serves `auto`: a router chooses between its alias `fast` and a model of its own.
fn bench(name: &str, small: &stub::Stub, large: &stub::Stub) -> Option<Bench> {
    let bench = Bench::new(name)?;
    let gateway =
        format!("[models.auto]\nmodel = \"router:two\"\n[models.fast]\nmodel = \"openai:stub@{}\"\n", small.base_url());
    std::fs::write(bench.data.path().join("gateway.toml"), gateway).unwrap();
    describe(&bench, &table(large));
    Some(bench)
}

fn table(large: &stub::Stub) -> String {
    format!(
        "[models.small]\nmodel = \"fast\"\nprice = 1\n[models.large]\nmodel = \"openai:stub@{}\"\nprice = 10\n",
        large.base_url()
    )
}

fn describe(bench: &Bench, text: &str) {
    let folder = bench.data.path().join("routers");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("two.toml"), text).unwrap();
}

fn ask(served: &Served, alias: &str, text: &str) -> Answer {
    let mut body = chat(&[user(text)]);
    body["model"] = alias.into();
    send(&served.address, "/v1/chat/completions", &[], body.to_string().as_bytes()).answer()
}

/// A session of one turn that ends. Returns what the router chose, and the episode.
fn session(served: &Served, text: &str) -> (String, String) {
    let answer = ask(served, "auto", text);
    assert_eq!(answer.status, 200, "{answer:?}");
    let end = format!("/s/{}/end", answer.header("x-clawhost-session"));
    assert_eq!(send(&served.address, &end, &[], b"").answer().status, 200);
    (answer.header("x-clawhost-route").to_owned(), answer.header("x-clawhost-episode").to_owned())
}

#[test]
fn a_router_of_a_gateway_chooses_and_learns_from_feedback() {
    let (small, large) = (saying("s"), saying("l"));
    let Some(bench) = bench("a_router_of_a_gateway_chooses", &small, &large) else { return };
    let served = Served::start(&bench, &[]);
    let sessions: Vec<(String, String)> = (0..12).map(|number| session(&served, &format!("task {number}"))).collect();
    let by_large = sessions.iter().filter(|(route, _)| route == "two large").count();
    assert!(by_large >= 6 && sessions.iter().all(|(route, _)| ["two large", "two small"].contains(&route.as_str())));
    assert_eq!((large.requests().len(), small.requests().len()), (by_large, 12 - by_large));
    for (_, episode) in &sessions[1..] {
        bench.judge(episode, "1");
    }
    bench.json(&["reload"]);
    let shown = bench.json(&["router", "show", "two"]);
    assert_eq!(
        (&shown["learned"], &shown["waiting"], &shown["expired"]),
        (&11.into(), &1.into(), &0.into()),
        "{shown}"
    );
    assert!(bench.out(&["router", "show", "two"]).contains("1 decisions wait for a reward"));
    let log = bench.data.path().join("routers").join("two.jsonl");
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 11);
    bench.json(&["router", "replay", log.to_str().unwrap()]);

    // What they cost is in the books. Stubs report 5 tokens, some 1e-6 units.
    let spent = shown["spent"].as_array().unwrap();
    let of_day = |key: &str| spent.iter().map(|day| day[key].as_f64().unwrap()).sum::<f64>();
    assert!(of_day("sessions") > 0.0 && of_day("learning") == 0.0, "{shown}");
    assert_eq!((&shown["budget_per_day"], &spent[0]["of_budget"]), (&Value::Null, &Value::Null));
    assert!(bench.out(&["router", "show", "two"]).contains("spent on"));

    // Killed, it learns the rest after its next start, and nothing twice.
    served.kill();
    let served = Served::start(&bench, &[]);
    bench.judge(&sessions[0].1, "0");
    bench.json(&["reload"]);
    let shown = bench.json(&["router", "show", "two"]);
    assert_eq!((&shown["learned"], &shown["waiting"]), (&12.into(), &0.into()), "{shown}");
    served.terminate();
}

#[test]
fn a_gateway_goes_on_from_the_version_that_its_router_went_back_to() {
    let (small, large) = (saying("s"), saying("l"));
    let Some(bench) = bench("a_gateway_goes_on_from_the_version", &small, &large) else { return };
    let served = Served::start(&bench, &[]);
    let teach = |text: &str| {
        bench.judge(&session(&served, text).1, "1");
        bench.json(&["reload"]);
        bench.json(&["router", "show", "two"])["learned"].as_u64().unwrap()
    };
    assert_eq!(teach("one"), 1);
    let file = |name: &str| bench.data.path().join("routers").join(name);
    std::fs::copy(file("two.json"), file("two.v1.state")).unwrap();
    assert_eq!([teach("two"), teach("three")], [2, 3]);

    let done = bench.json(&["router", "rollback", "two", "--to", "1"]);
    assert_eq!((&done["before"]["learned"], &done["now"]["learned"]), (&3.into(), &1.into()), "{done}");
    // Nothing is learned twice, no request fails, and the next reward teaches the state that was gone back to.
    bench.json(&["reload"]);
    assert_eq!(bench.json(&["router", "show", "two"])["identity"], done["now"]["identity"]);
    assert_eq!(teach("four"), 2);
    served.terminate();
}

#[test]
fn a_table_that_changes_counts_from_the_next_session_and_a_broken_one_changes_nothing() {
    let (small, large) = (saying("s"), saying("l"));
    let Some(bench) = bench("a_table_that_changes", &small, &large) else { return };
    let served = Served::start(&bench, &[]);
    assert_eq!(ask(&served, "fast", "as before").header("x-clawhost-route"), "", "an alias without a router");
    describe(&bench, "[models.small]\nmodel = \"fast\"\nprice = 1\n");
    bench.json(&["reload"]);
    assert_eq!(session(&served, "one").0, "two small");
    describe(&bench, "[models.small]\nmodel = \"fast\"\nprice = -1\n");
    bench.refused(&["reload"], &["two.toml", "the price of small is -1"]);
    assert_eq!(session(&served, "two").0, "two small");
    describe(&bench, &table(&large).replace("models.small", "models.other"));
    bench.json(&["reload"]);
    assert!(["two other", "two large"].contains(&session(&served, "three").0.as_str()));
    served.terminate();
}

#[test]
fn a_router_that_cannot_be_served_is_refused_before_the_gateway_starts() {
    let (small, large) = (saying("s"), saying("l"));
    let Some(bench) = bench("a_router_that_cannot_be_served", &small, &large) else { return };
    let refused = |upstream: &str, says: &[&str]| {
        bench.refused(&["serve", "--listen", "127.0.0.1:0", "--upstream", upstream], says);
    };
    refused("router:none", &["there is no router `none` for a policy", "none.toml"]);
    describe(&bench, "[models.a]\nmodel = \"router:two\"\nprice = 1\n");
    refused("m=router:two", &["two.toml: the model `a` is a router itself"]);
    describe(&bench, "[models.a]\nmodel = \"slow\"\nprice = 1\n");
    refused("m=router:two", &["`slow` is not a model that a gateway serves", "router:NAME"]);
    describe(&bench, &table(&large));
    // The name of the router is its alias, and a flag is enough.
    let served = Served::start(&bench, &["router:two"]);
    assert!(ask(&served, "two", "hi").header("x-clawhost-route").starts_with("two "));
    served.terminate();
}
