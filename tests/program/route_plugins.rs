//! Routers whose plugin decides: in runs, through a gateway, explained, and where it fails.

use super::*;
use crate::client::{Answer, chat, request, send, user};
use crate::router::{TWO, learning, words};
use crate::serving::Served;

/// Copies a guest into the folder of routers.
fn install(bench: &Bench, guest: &str) {
    std::fs::create_dir_all(bench.router_file("")).unwrap();
    std::fs::copy(bench.guest(guest), bench.router_file(&format!("{guest}.wasm"))).unwrap();
}

/// Checks that a command is refused, by whichever code, with these texts.
fn refused(bench: &Bench, arguments: &[&str], says: &[&str]) {
    let output = bench.run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    says.iter().for_each(|part| assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output)));
}

/// A router of two models whose plugin is beside its file.
fn plugged(plugin: &str, models: &str) -> String {
    format!("plugin = \"{plugin}\"\n{models}")
}

#[test]
fn a_run_gets_its_models_from_the_plugin_of_a_router() {
    let Some(bench) = Bench::new("a_run_gets_its_models_from_the_plugin") else { return };
    install(&bench, "router_length");
    let play = || bench.json(&words(&bench.routed("run", &["--policy", "router:two", "--episodes", "40"])));
    // The dear one calculates, the cheap one guesses.
    bench.route("two", &plugged("router_length.wasm?long=0&floor=0", TWO));
    let long = play();
    assert_eq!(long["reward_mean"], 1.0, "{long}");
    let episode = bench.json(&["episodes", "show", long["episodes"][0]["id"].as_str().unwrap()]);
    assert_eq!(episode["turns"][0]["answered_by"]["model"], "calculates");
    bench.route("two", &plugged("router_length.wasm?long=100000&floor=0", TWO));
    let short = play();
    assert!(short["reward_mean"].as_f64().unwrap() < 0.5, "{short}");
    assert_ne!(long["state_id"], short["state_id"], "another option is another policy");
    assert!(!bench.router_file("two.json").exists(), "playing learns nothing");
    let learn = bench.routed("learn", &words(&learning(1, 8, 5)));
    refused(&bench, &words(&learn), &["a plugin decides for router `two`", "names no `plugin`"]);
}

#[test]
fn the_choice_of_a_plugin_is_explained_before_anything_is_learned() {
    let Some(bench) = Bench::new("the_choice_of_a_plugin_is_explained") else { return };
    install(&bench, "router_length");
    bench.route("two", &plugged("router_length.wasm?long=50&floor=0.5", TWO));
    let explain = |text: &str| bench.json(&["router", "explain", text, "--router", "two"]);
    let shares = |told: &Value| {
        let actions = told["actions"].as_array().unwrap().clone();
        let one =
            |action: &Value| (action["model"].as_str().unwrap().to_owned(), action["propensity"].as_f64().unwrap());
        actions.iter().map(one).collect::<Vec<_>>()
    };
    let short = explain("hello");
    assert_eq!(shares(&short), [("calculates".to_owned(), 0.25), ("guesses".to_owned(), 0.75)]);
    assert_eq!((&short["reason"], &short["plugin"]["name"]), (&"plugin".into(), &"router-length".into()), "{short}");
    assert_eq!(shares(&explain(&"hello ".repeat(20)))[0].1, 0.75);
    let text = bench.out(&["router", "explain", "hello", "--router", "two"]);
    assert!(
        text.contains("a plugin decides, and not what was learned") && text.contains("router-length sha256:"),
        "{text}"
    );

    let explains = ["router", "explain", "hello", "--router", "two"];
    bench.route("two", &plugged("router_length.wasm?flor=1", TWO));
    refused(&bench, &explains, &["flor", "did you mean `floor`?"]);
    bench.route("two", &plugged("router_length.wasm?floor=2", TWO));
    refused(&bench, &explains, &["router-length", "floor=2; 0 to 1"]);
    bench.route("two", &plugged("none.wasm", TWO));
    refused(&bench, &explains, &["none.wasm"]);
    install(&bench, "reward_exact");
    bench.route("two", &plugged("reward_exact.wasm", TWO));
    refused(&bench, &explains, &["is a reward, but a router is needed here"]);
}

#[test]
fn a_run_whose_plugin_fails_is_played_by_the_incumbent_and_says_so() {
    let Some(bench) = Bench::new("a_run_whose_plugin_fails") else { return };
    install(&bench, "hostile_route");
    for (attack, says) in [
        ("a panic", "trap(unreachable): hostile-route"),
        ("a loop", "limit(fuel): hostile-route"),
        ("missing", "no probability of `guesses`"),
    ] {
        let models = TWO.replace("\"guesses\"", "\"calculates\"");
        bench.route("two", &plugged(&format!("hostile_route.wasm?attack={attack}"), &models));
        let play = bench.routed("run", &["--policy", "router:two", "--episodes", "4"]);
        let output = bench.run(&words(&play));
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let told = "the plugin of router two failed 4 times, and its incumbent decided; the first time: ";
        assert!(said.contains(told) && said.contains(says), "{attack}: {said}");
        assert!(stdout(&output).contains("1.000"), "the incumbent calculates: {}", stdout(&output));
        let told = bench.json(&["router", "explain", "hello", "--router", "two"]);
        assert_eq!(told["reason"], "fallback", "{told}");
        assert!(told["failure"].as_str().unwrap().contains(says), "{told}");
    }
}

fn saying(text: &'static str) -> stub::Stub {
    stub::Stub::start(move |_, request| stub::says(request, text, &[]))
}

fn ask(served: &Served, text: &str) -> Answer {
    let mut body = chat(&[user(text)]);
    body["model"] = "two".into();
    send(&served.address, "/v1/chat/completions", &[], body.to_string().as_bytes()).answer()
}

/// A session of one turn that ends. Returns what the router chose, and the episode.
fn session(served: &Served, text: &str) -> (String, String) {
    let answer = ask(served, text);
    assert_eq!(answer.status, 200, "{answer:?}");
    let end = format!("/s/{}/end", answer.header("x-clawhost-session"));
    assert_eq!(send(&served.address, &end, &[], b"").answer().status, 200);
    (answer.header("x-clawhost-route").to_owned(), answer.header("x-clawhost-episode").to_owned())
}

fn failures(served: &Served) -> u64 {
    let page = request("GET", &served.address, "/metrics", &[], b"").answer().body;
    let line = page.lines().find(|line| line.starts_with("clawhost_router_failures_total ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_gateway_asks_the_plugin_of_its_router_and_learns_beside_it() {
    let Some(bench) = Bench::new("a_gateway_asks_the_plugin") else { return };
    let (small, large) = (saying("s"), saying("l"));
    install(&bench, "router_length");
    install(&bench, "hostile_route");
    let model = |name: &str, stub: &stub::Stub, price: u32| {
        format!("[models.{name}]\nmodel = \"openai:stub@{}\"\nprice = {price}\n", stub.base_url())
    };
    let models = format!("{}{}", model("large", &large, 10), model("small", &small, 1));
    bench.route("two", &plugged("router_length.wasm?long=100&floor=0.02", &models));
    let served = Served::start(&bench, &["router:two"]);
    let long = "a long request ".repeat(20);
    let sessions: Vec<(String, String)> =
        (0..12).map(|number| session(&served, if number % 2 == 0 { "short" } else { long.as_str() })).collect();
    let routes: Vec<&str> = sessions.iter().map(|(route, _)| route.as_str()).collect();
    let as_expected =
        routes.iter().enumerate().filter(|(at, route)| **route == ["two small", "two large"][at % 2]).count();
    assert!(as_expected >= 10, "{routes:?}");
    assert_eq!(failures(&served), 0);

    // Its decisions are logged with their probabilities, like those of what is learned.
    sessions.iter().for_each(|(_, episode)| bench.judge(episode, "1"));
    bench.json(&["reload"]);
    let log = bench.router_file("two.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let logged: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(logged.len(), 12);
    for (at, one) in logged.iter().enumerate() {
        let decision = &one["decision"];
        assert_eq!(decision["plugin"]["name"], "router-length", "{decision}");
        assert_eq!(decision["plugin"].get("failure"), None);
        let shares: Vec<f64> =
            decision["choices"].as_array().unwrap().iter().map(|one| one["propensity"].as_f64().unwrap()).collect();
        let expect = if at % 2 == 0 { [0.01, 0.99] } else { [0.99, 0.01] };
        assert!(shares.iter().zip(expect).all(|(share, expect)| (share - expect).abs() < 1e-9), "{at}: {shares:?}");
    }
    let replayed = bench.json(&["router", "replay", log.to_str().unwrap()]);
    assert_eq!(replayed["outcomes"], 12);
    let shown = bench.json(&["router", "show", "two"]);
    assert_eq!((&shown["learned"], &shown["fallbacks"]), (&12.into(), &0.into()), "{shown}");
    assert!(shown["plugin"].as_str().unwrap().ends_with("router_length.wasm?long=100&floor=0.02"), "{shown}");
    assert!(bench.out(&["router", "show", "two"]).contains("; the router learns beside it"));

    // A plugin that fails refuses no request: the incumbent, here the dearest model, gets the session.
    bench.route("two", &plugged("hostile_route.wasm?attack=a loop", &models));
    bench.json(&["reload"]);
    let sessions: Vec<(String, String)> = (0..3).map(|_| session(&served, "short")).collect();
    assert!(sessions.iter().all(|(route, _)| route == "two large"), "{sessions:?}");
    assert_eq!(failures(&served), 3);
    sessions.iter().for_each(|(_, episode)| bench.judge(episode, "1"));
    bench.json(&["reload"]);
    assert_eq!(bench.json(&["router", "show", "two"])["fallbacks"], 3);
    let text = std::fs::read_to_string(&log).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["decision"]["plugin"]["failure"], "limit(fuel)", "{last}");
    assert!(bench.out(&["router", "show", "two"]).contains("3 outcomes of sessions that the incumbent got"));

    // A plugin that cannot be loaded changes nothing.
    bench.route("two", &plugged("none.wasm", &models));
    refused(&bench, &["reload"], &["none.wasm"]);
    assert_eq!(session(&served, "short").0, "two large");
    bench.route("two", &models);
    bench.json(&["reload"]);
    assert!(["two large", "two small"].contains(&session(&served, "short").0.as_str()));
    assert_eq!(failures(&served), 4, "without a plugin the router decides");
    let said = stderr(&served.terminate());
    assert!(said.contains("router two gives the session to its incumbent: limit(fuel): hostile-route"), "{said}");
}

#[test]
fn a_gateway_whose_router_has_no_usable_plugin_does_not_start() {
    let Some(bench) = Bench::new("a_gateway_whose_router_has_no_usable_plugin") else { return };
    install(&bench, "env_guess");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--upstream", "router:two"];
    bench.route("two", &plugged("env_guess.wasm", TWO));
    refused(&bench, &serve, &["env_guess.wasm: is an environment, but a router is needed here"]);
}

#[test]
fn a_script_of_a_router_lies_beside_its_file() {
    let Some(bench) = Bench::new("a_script_of_a_router_lies_beside") else { return };
    bench.route("two", "[models.only]\nmodel = \"script:guesses.txt\"\nprice = 1\n");
    std::fs::write(bench.router_file("guesses.txt"), "a guess from the folder of routers\n").unwrap();
    let guess = std::fs::canonicalize(bench.guest("env_guess")).unwrap().display().to_string();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("guesses.txt"), "a guess from the folder of the process\n").unwrap();
    let run = ["run", &guess, "--policy", "router:two", "--episodes", "1", "--max-turns", "1", "--json"];
    let output = bench.command(&run).current_dir(elsewhere.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let id = bench.json(&["episodes", "list"])[0]["id"].as_str().unwrap().to_owned();
    let shown = bench.out(&["episodes", "show", &id]);
    assert!(shown.contains("a guess from the folder of routers"), "{shown}");
}
