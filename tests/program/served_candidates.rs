//! A gateway and a learning run with one router, each in a process of its own: the run writes a candidate, sessions of the gateway judge it, and the
//! gateway serves it once it is promoted.

use super::*;
use crate::client::{chat, send, user};
use crate::router::{TWO, learning, words};
use crate::serving::Served;

/// A session of one turn that ends. Returns what the router chose, and the episode.
fn session(served: &Served, text: &str) -> (String, String) {
    let mut body = chat(&[user(text)]);
    body["model"] = "two".into();
    let answer = send(&served.address, "/v1/chat/completions", &[], body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    let end = format!("/s/{}/end", answer.header("x-clawhost-session"));
    assert_eq!(send(&served.address, &end, &[], b"").answer().status, 200);
    (answer.header("x-clawhost-route").to_owned(), answer.header("x-clawhost-episode").to_owned())
}

fn sessions(served: &Served, count: usize) -> Vec<(String, String)> {
    (0..count).map(|number| session(served, &format!("What is {number} + 2?"))).collect()
}

/// The number of sessions that the model got which calculates.
fn calculated(sessions: &[(String, String)]) -> usize {
    sessions.iter().filter(|(route, _)| route == "two calculates").count()
}

/// Judges sessions: a calculation is right, a guess is wrong.
fn judge(bench: &Bench, sessions: &[(String, String)]) {
    for (route, episode) in sessions {
        bench.judge(episode, if route == "two calculates" { "1" } else { "0" });
    }
    bench.json(&["reload"]);
}

#[test]
fn a_candidate_of_a_served_router_is_judged_by_its_sessions_and_taken_over_while_the_gateway_runs() {
    let Some(bench) = Bench::new("a_candidate_of_a_served_router") else { return };
    bench.route("two", TWO);
    let learn = |iterations, episodes, seed| {
        let options = bench.routed("learn", &words(&learning(iterations, episodes, seed)));
        bench.json(&words(&options))["timing"]["router"].clone()
    };
    let shown = |key: &str| bench.json(&["router", "show", "two"])[key].clone();
    assert_eq!(learn(1, 16, 5), "served", "a new router replaces nothing");
    let served = Served::start(&bench, &["router:two"]);

    // A run learns while the gateway serves. Sessions go on, and the served state stays.
    let first = shown("identity");
    let options = bench.routed("learn", &words(&[learning(8, 64, 6), vec!["--json".into()]].concat()));
    let run = bench.command(&words(&options)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let meanwhile = sessions(&served, 12);
    let output = run.wait_with_output().unwrap();
    let learned: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!((&learned["timing"]["router"], shown("identity")), (&"candidate".into(), first));
    assert!(calculated(&meanwhile) <= 6, "the served state warms up: {meanwhile:?}");
    assert_eq!((&shown("candidate")["learned"], &shown("candidate")["later"]), (&528.into(), &0.into()));

    // What comes of the sessions judges the candidate, and teaches what is served.
    judge(&bench, &meanwhile);
    assert_eq!((&shown("candidate")["later"], shown("learned"), shown("waiting")), (&12.into(), 28.into(), 0.into()));
    let refused = bench.run(&["router", "promote", "two"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("not promoted: an effective sample of"), "{}", stderr(&refused));
    // A few sessions are too few to tell. Decisions of another run, by the served state, come beside them.
    assert_eq!(learn(1, 3_000, 7), "behind");
    assert_eq!(shown("candidate")["later"], 3_012);
    let promoted = bench.json(&["router", "promote", "two"]);
    assert_eq!(promoted["verdict"], "better", "{promoted}");

    // The same process serves it now: before, the other model got nine of ten sessions.
    let now = promoted["promoted"]["now"].clone();
    bench.json(&["reload"]);
    let after = sessions(&served, 20);
    assert!(calculated(&after) >= 15, "{after:?}");
    judge(&bench, &after[..1]);
    let log = std::fs::read_to_string(bench.router_file("two.jsonl")).unwrap();
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let decision = &last["decision"];
    assert_eq!((&decision["parameters"], &decision["version"]), (&now["identity"], &now["version"]), "{decision}");
    assert_eq!(shown("learned"), 529, "it learns on from there");
    served.terminate();
}
