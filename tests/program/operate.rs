//! Setting a gateway up, its configuration, and clients that are connected to it.

use super::*;
use crate::client::{chat, send, user};
use crate::serving::Served;
use serde_json::json;

/// A command of somebody with a home folder of his own.
fn at_home(bench: &Bench, arguments: &[&str]) -> Output {
    bench.command(arguments).env("HOME", bench.data.path()).output().unwrap()
}

fn document(bench: &Bench, arguments: &[&str]) -> Value {
    let output = at_home(bench, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_gateway_is_set_up_by_options() {
    let Some(bench) = Bench::new("a_gateway_is_set_up") else { return };
    let file = bench.data.path().join("gateway.toml");
    bench.refused(&["setup"], &["has no default; give it with --model"]);
    bench.refused(&["setup", "--model", "nonsense"], &["is not a model that a gateway serves"]);
    assert!(!file.exists());
    let setup = ["setup", "--model", "openai:stub@http://127.0.0.1:1/v1", "--alias", "fast", "--key-env", "A_KEY"];
    let said = bench.out(&setup);
    assert!(said.contains("clawhost start") && said.contains("clawhost connect"), "{said}");
    assert!(said.contains("first: set A_KEY to the model's key"), "{said}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "[models.fast]\nmodel = \"openai:stub@http://127.0.0.1:1/v1\"\nkey_env = \"A_KEY\"\n");
    let said = bench.out(&["setup", "--listen", "0.0.0.0:8700", "--record", "no-train", "--key-env", "A_KEY"]);
    assert!(said.contains("clawhost keys add"), "{said}");
    assert_eq!(bench.json(&["config", "get", "gateway"])["keys"]["gateway.record"], "no-train");
}

#[test]
fn the_configuration_is_read_and_changed_key_by_key() {
    let Some(bench) = Bench::new("the_configuration_is_read") else { return };
    assert!(bench.out(&["config", "show"]).contains("no key is set"));
    bench.out(&["config", "set", "models.fast.model", "openai:m@https://me:hunter2@host.example/v1"]);
    assert_eq!(bench.out(&["config", "set", "models.fast.retries", "2"]), "models.fast.retries = 2\n");
    bench.refused(&["config", "set", "models.fast.retires", "2"], &["did you mean `retries`?"]);
    bench.refused(&["config", "get", "models.fast.retrie"], &["is not set", "did you mean `models.fast.retries`?"]);
    assert_eq!(bench.out(&["config", "get", "gateway.listen"]), "127.0.0.1:8700 (the default)\n");
    assert!(
        bench.out(&["config", "set", "gateway.listen", "127.0.0.1:0"]).contains("from the next start: gateway.listen")
    );
    bench.refused(&["config", "set", "redaction.patterns", "[\"(\"]"], &["redaction.patterns[0]"]);
    bench.refused(&["config", "set", "models.fast.key_file", "/nonexistent"], &["/nonexistent"]);
    assert!(bench.out(&["config", "unset", "gateway"]).contains("from the next start: gateway.listen"));
    let shown = bench.out(&["config", "show"]);
    assert!(shown.contains("me:****@host.example") && !shown.contains("hunter2"), "{shown}");
    assert_eq!(bench.out(&["config", "get", "models.fast.retries"]), "2\n");
    bench.out(&["config", "unset", "models.fast.retries"]);
    bench.refused(&["config", "unset", "models.fast.model"], &["either `model` or `first_of`"]);
    assert_eq!(bench.json(&["config", "show"])["keys"].as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn a_client_is_connected_shown_and_disconnected() {
    let Some(bench) = Bench::new("a_client_is_connected") else { return };
    let file = bench.data.path().join(".codex/config.toml");
    let refused = at_home(&bench, &["connect", "codex"]);
    assert!(stderr(&refused).contains("the alias of a model is needed"), "{}", stderr(&refused));
    bench.out(&["config", "set", "models.fast.model", "openai:m@http://127.0.0.1:1/v1"]);
    bench.out(&["config", "set", "gateway.listen", "0.0.0.0:8711"]);
    let shown = document(&bench, &["connect", "codex", "--print"]);
    assert_eq!((&shown["written"], file.exists()), (&json!(false), false));
    let set = |key: &str| {
        shown["changes"].as_array().unwrap().iter().find(|change| change["key"] == key).unwrap()["now"].clone()
    };
    assert_eq!(set("model_providers.clawhost.base_url"), "\"http://127.0.0.1:8711/v1\"");
    assert_eq!(set("model"), "\"fast\"");
    let said =
        at_home(&bench, &["connect", "codex", "--model", "other", "--address", "http://127.0.0.1:9", "--key-env", "K"]);
    assert!(stdout(&said).contains("clawhost connect codex --undo"), "{}", stdout(&said));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("model = \"other\"") && text.contains("env_key = \"K\""), "{text}");
    let undone = document(&bench, &["connect", "codex", "--undo"]);
    assert_eq!((&undone["restored"], file.exists()), (&json!("removed"), false));
    let again = at_home(&bench, &["connect", "codex", "--undo"]);
    assert!(stderr(&again).contains("is not connected by this program"), "{}", stderr(&again));
}

#[test]
fn a_client_is_not_connected_to_a_model_that_the_gateway_lacks() {
    let Some(bench) = Bench::new("a_client_is_not_connected") else { return };
    bench.out(&["config", "set", "models.fast.model", "openai:m@http://127.0.0.1:1/v1"]);
    let refused = at_home(&bench, &["connect", "codex", "--model", "nope"]);
    let says = "the gateway has no model `nope`; the gateway's models: fast";
    assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    assert!(!bench.data.path().join(".codex").exists());
    // A gateway that runs has models of --upstream too.
    bench.json(&["start", "--listen", "127.0.0.1:0", "--upstream", "other=follower"]);
    let shown = at_home(&bench, &["connect", "codex", "--model", "other", "--print"]);
    bench.json(&["stop"]);
    assert!(shown.status.success(), "{}", stderr(&shown));
}

#[test]
fn a_start_notes_keys_that_are_not_sent_and_limits_that_do_not_count() {
    let Some(bench) = Bench::new("a_start_notes") else { return };
    let limits = "the limit of US dollars per day of laptop does not count models without prices: ";
    std::fs::write(bench.data.path().join("gateway.toml"), "[models.a]\nmodel = \"openai:m@http://127.0.0.1:1/v1\"\n")
        .unwrap();
    let added = bench.run(&["keys", "add", "laptop", "--usd-per-day", "5"]);
    assert!(stderr(&added).contains(&format!("{limits}a;")), "{}", stderr(&added));
    let start = ["start", "--listen", "0.0.0.0:0", "--upstream", "b=openai:m@http://127.0.0.1:1/v1"];
    let started = bench.command(&start).env("OPENAI_API_KEY", "sk-of-a-test-0123456789").output().unwrap();
    let reloaded = bench.run(&["reload"]);
    let log = std::fs::read_to_string(bench.data.path().join("gateway.log")).unwrap();
    bench.json(&["stop"]);
    let notes = stderr(&started);
    assert!(stdout(&started).contains("serving on http://127.0.0.1:"), "{}", stdout(&started));
    assert!(notes.contains("clawhost endpoints confirm http://127.0.0.1:1/v1"), "{notes}");
    assert!(notes.contains(&format!("{limits}b, a;")), "{notes}");
    assert!(stderr(&reloaded).contains(&format!("{limits}b, a;")), "{}", stderr(&reloaded));
    assert!(!log.contains("Ctrl-C"), "{log}");
}

#[test]
fn a_model_of_the_request_is_asked_again_if_that_is_wanted() {
    let Some(bench) = Bench::new("a_model_of_the_request_is_asked_again") else { return };
    let asked = |options: &[&str]| {
        let stub = stub::Stub::start(|_, _| stub::Reply::Http(503, vec![], "{}".into()));
        let upstream = format!("m=openai:stub@{}", stub.base_url());
        let served = Served::start_with(&bench, &[&["--upstream", upstream.as_str()][..], options].concat());
        let body = chat(&[user("4")]).to_string();
        assert_eq!(send(&served.address, "/v1/chat/completions", &[], body.as_bytes()).answer().status, 503);
        served.terminate();
        stub.requests().len()
    };
    assert_eq!((asked(&[]), asked(&["--retries", "1"])), (1, 2));
    bench.refused(&["serve", "--retries", "11"], &["--retries"]);
}

#[test]
fn a_gateway_with_a_certificate_is_ready_and_takes_a_renewed_one_over() {
    let Some(bench) = Bench::new("a_gateway_with_a_certificate") else { return };
    let renew = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(bench.data.path().join("chain.pem"), made.cert.pem()).unwrap();
        std::fs::write(bench.data.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    };
    renew();
    let path = |name: &str| bench.data.path().join(name).display().to_string();
    let (certificate, key) = (path("chain.pem"), path("key.pem"));
    bench.refused(
        &["serve", "--upstream", "follower", "--tls-certificate", &key, "--tls-key", &key],
        &["TLS cannot be used: the file has no certificate", "--tls-certificate"],
    );
    let text = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\n[tls]\ncertificate = '{certificate}'\nkey = '{key}'\n[models.m]\nmodel = \"follower\"\n"
    );
    std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    let started = bench.out(&["start"]);
    let first = bench.json(&["status"]);
    let shown = bench.out(&["top"]);
    let by_address = bench.json(&["top", "--address", first["address"].as_str().unwrap()]);
    renew();
    let reloaded = bench.run(&["reload"]);
    let second = bench.json(&["status"]);
    std::fs::write(bench.data.path().join("key.pem"), "no key").unwrap();
    let refused = bench.run(&["reload"]);
    let third = bench.json(&["status"]);
    bench.json(&["stop"]);
    assert!(started.contains("serving on https://127.0.0.1"), "{started}");
    assert!(shown.contains("https://127.0.0.1"), "{shown}");
    assert_eq!(by_address["counts"]["recorded"], 0);
    assert!(reloaded.status.success(), "{}", stderr(&reloaded));
    assert!(stderr(&refused).contains("none that can be read"), "{}", stderr(&refused));
    assert_eq!([&first["ready"], &second["ready"], &third["ready"]], [true, true, true]);
}
