//! A gateway whose configuration changes while it runs.

use super::*;
use crate::client::{chat, send, user};
use crate::serving::Served;

fn echo() -> stub::Stub {
    stub::Stub::start(|_, request| stub::says(request, &request.conversation().last().unwrap().1, &[]))
}

/// Requests until a gateway that looks at its file each second must have seen it: more than a minute of them.
const LOOKS: u32 = 100_000;

/// The status of an answer of a model.
fn status(served: &Served, alias: &str) -> u16 {
    let mut body = chat(&[user("4")]);
    body["model"] = alias.into();
    send(&served.address, "/v1/chat/completions", &[], body.to_string().as_bytes()).answer().status
}

#[test]
fn a_changed_configuration_is_taken_over_and_an_invalid_one_is_named() {
    let Some(bench) = Bench::new("a_changed_configuration") else { return };
    let stub = echo();
    let configure = |text: &str| std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    let model = |alias: &str| format!("[models.{alias}]\nmodel = \"openai:stub@{}\"\n", stub.base_url());
    configure(&model("one"));
    let served = Served::start(&bench, &[]);
    assert_eq!((status(&served, "one"), status(&served, "two")), (200, 404));

    // The file is looked at every second.
    configure(&model("two"));
    let is_taken_over = (0..LOOKS).any(|_| status(&served, "two") == 200);
    assert!(is_taken_over, "the gateway did not take the changed file over");
    assert_eq!(status(&served, "one"), 404);

    configure(&format!("{}retires = 1\n", model("three")));
    bench.refused(&["reload"], &["goes on with the configuration that it has", "unknown field `retires`"]);
    assert_eq!((status(&served, "two"), status(&served, "three")), (200, 404), "nothing has changed");
    let state = bench.json(&["status"]);
    assert!(state["configuration"]["problem"].as_str().is_some_and(|why| why.contains("retires")), "{state}");
    let state = bench.out(&["status"]);
    assert!(state.contains("gateway.toml was not taken over"), "{state}");

    configure(&format!("[gateway]\nlisten = \"127.0.0.1:1\"\n{}", model("four")));
    let reloaded = bench.json(&["reload"]);
    assert!(reloaded["reloaded"].is_u64(), "{reloaded}");
    assert_eq!(status(&served, "four"), 200);
    assert!(bench.json(&["status"])["configuration"]["problem"].is_null());
    let output = served.terminate();
    assert_eq!(output.status.code(), Some(0), "SIGHUP ends nothing: {}", stderr(&output));
    let none = bench.run(&["reload"]);
    assert_eq!((none.status.code(), stdout(&none).contains("no gateway runs in /")), (Some(1), true));
}

#[test]
fn a_change_that_needs_a_restart_is_named() {
    let Some(bench) = Bench::new("a_change_that_needs_a_restart") else { return };
    let stub = echo();
    let configure = |listen: &str| {
        let text =
            format!("[gateway]\nlisten = \"{listen}\"\n[models.m]\nmodel = \"openai:stub@{}\"\n", stub.base_url());
        std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    };
    configure("127.0.0.1:0");
    bench.json(&["start"]);
    configure("127.0.0.1:1");
    let reloaded = bench.json(&["reload"]);
    let state = bench.out(&["status"]);
    bench.json(&["stop"]);
    assert_eq!(reloaded["waits_for_restart"], serde_json::json!(["gateway.listen"]));
    assert!(state.contains("from the next start: gateway.listen"), "{state}");
}

#[test]
fn a_key_of_the_client_is_passed_on_if_that_is_wanted() {
    let Some(bench) = Bench::new("a_key_of_the_client") else { return };
    let stub = echo();
    let upstream = format!("m=openai:stub@{}", stub.base_url());
    let served = Served::start_with(&bench, &["--upstream", &upstream, "--pass-key"]);
    let headers = [("authorization", "Bearer sk-of-the-client")];
    let body = chat(&[user("4")]).to_string();
    assert_eq!(send(&served.address, "/v1/chat/completions", &headers, body.as_bytes()).answer().status, 200);
    served.terminate();
    let sent = &stub.requests()[0];
    assert!(sent.headers.iter().any(|(_, value)| value == "Bearer sk-of-the-client"), "{:?}", sent.headers);
}

#[test]
fn what_the_file_redacts_is_in_no_record() {
    let Some(bench) = Bench::new("what_the_file_redacts") else { return };
    let stub = echo();
    let text =
        format!("[redaction]\npatterns = ['Project \\w+']\n[models.m]\nmodel = \"openai:stub@{}\"\n", stub.base_url());
    std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    let served = Served::start(&bench, &[]);
    let mut body = chat(&[user("about Project Falcon")]);
    body["model"] = "m".into();
    let answer = send(&served.address, "/v1/chat/completions", &[], body.to_string().as_bytes()).answer();
    served.terminate();
    assert!(answer.body.contains("Project Falcon"), "the client gets what the model said: {answer:?}");
    let episode = bench.json(&["episodes", "list"])[0]["id"].as_str().unwrap().to_owned();
    let shown = bench.json(&["episodes", "show", &episode]).to_string();
    assert!(shown.contains("about [redacted:pattern]") && !shown.contains("Falcon"), "{shown}");
}
