//! What teaches weights that learn while they serve: corrections alone, a teacher behind an endpoint, those who have agreed; and what becomes of it when
//! somebody is forgotten.

use super::*;
use crate::client::{chat, request, send, user};
use crate::live_weights::{listed, next, tries};
use crate::serving::Served;
use clawhost_model::{TinyModel, Vocabulary};
use serde_json::json;

/// What users want.
const LESSON: &str = "use metric units.";

/// A model that reads letters.
fn letters(seed: u64) -> TinyModel {
    let characters = "0123456789+=?.:, \nabcdefghijklmnopqrstuvwxyzHU#";
    TinyModel {
        vocabulary: Vocabulary::Characters(characters.to_owned()),
        width: 16,
        layers: 1,
        heads: 2,
        context: 128,
        seed,
        ..TinyModel::default()
    }
}

fn empty() -> Bench {
    Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() }
}

/// A folder with a model, and the configuration of a gateway that trains it. `mode` may have more sections.
fn configured(bench: &Bench, mode: &str, weights: &str) -> String {
    let path = bench.data.path().join("tiny");
    if !path.exists() {
        letters(5).make().unwrap().write(&path).unwrap();
    }
    let text =
        format!("{mode}\n[weights]\nmodel = \"m\"\ndeadline_seconds = 5\nadapter_rank = 0\nrate = 0.001\n{weights}");
    std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    format!("m=local:{}", path.display())
}

const RL: &str = "[gateway]\nmode = \"rl\"";

/// A session of one question with feedback.
fn session(served: &Served, name: &str, who: &str, mut feedback: Value) {
    let headers = [("x-clawhost-session", name), ("x-clawhost-user", who)];
    let mut body = chat(&[user("how far?")]);
    (body["model"], body["max_tokens"]) = ("m".into(), 4.into());
    let answer = send(&served.address, "/v1/chat/completions", &headers, body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    feedback["session"] = name.into();
    for (path, body) in [("/v1/feedback".to_owned(), feedback), (format!("/s/{name}/end"), json!({}))] {
        let given = request("POST", &served.address, &path, &headers, body.to_string().as_bytes()).answer();
        assert_eq!(given.status, 200, "{path}: {given:?}");
    }
}

/// Four sessions of a user with thumbs in both directions.
fn thumbs(served: &Served, who: &str) {
    for number in 0..4 {
        let thumb = if number % 2 == 0 { "up" } else { "down" };
        session(served, &format!("{who}-{number}"), who, json!({"thumb": thumb}));
    }
}

fn read(bench: &Bench, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(bench.data.path().join("live-weights/m").join(file)).unwrap()).unwrap()
}

#[test]
fn corrections_without_a_score_become_new_weights() {
    let bench = empty();
    let upstream = configured(&bench, RL, "from = \"all\"\nbatch = 4\nsignal = \"hint\"\n");
    let served = Served::start(&bench, &[&upstream]);
    let first = listed(&served);
    // A thumb alone is no correction.
    session(&served, "thumb", "ada", json!({"thumb": "up"}));
    for number in 0..4 {
        session(&served, &format!("s-{number}"), "ada", json!({"correction": LESSON}));
    }
    next(&bench, &served, &first);
    let output = served.terminate();
    assert!(!stderr(&output).contains("is not learned from"), "{}", stderr(&output));
    let learned = read(&bench, "learned.json");
    let version = &learned["versions"][1];
    assert_eq!((&learned["serves"], &version["sessions"], &version["is_kept"]), (&json!(1), &json!(4), &json!(true)));
    assert_eq!(read(&bench, "steps/1.json")["taught"].as_object().unwrap().len(), 4);
}

#[test]
fn a_teacher_behind_an_endpoint_says_what_a_correction_changes() {
    let bench = empty();
    // More sessions than there are, so that the gateway itself takes no step.
    let plan = "from = \"all\"\nbatch = 64\nsignal = \"hint\"\n";
    let upstream = configured(&bench, RL, plan);
    let served = Served::start(&bench, &[&upstream]);
    for number in 0..3 {
        session(&served, &format!("s-{number}"), "ada", json!({"correction": LESSON}));
    }
    served.terminate();
    let learned = |weights: &str| {
        configured(&bench, RL, &format!("{plan}{weights}"));
        // Learning begins anew each time, until the deadlines of all sessions have passed.
        let mut steps = tries(|| {
            let _ = std::fs::remove_dir_all(bench.data.path().join("live-weights"));
            bench.json(&["train-step", "--upstream", &upstream])["train_step"].clone()
        });
        let step = steps.find(|step| step["sessions"] == json!(3)).expect("three sessions wait");
        assert_eq!(step["version"], json!(1), "{step}");
        read(&bench, "learned.json")["versions"][1]["digest"].clone()
    };
    let teaches = |seed: u64| {
        let gateway = empty();
        let folder = gateway.data.path().join("model");
        letters(seed).make().unwrap().write(&folder).unwrap();
        let served = Served::start(&gateway, &[&format!("big=local:{}", folder.display())]);
        let digest = learned(&format!("teacher = \"openai:big@http://{}/v1\"\n", served.address));
        served.terminate();
        digest
    };
    let own = learned("");
    assert_eq!(teaches(5), own, "the same model behind an endpoint teaches the same, bit for bit");
    assert_ne!(teaches(6), own, "another one teaches something else");
    // A teacher that does not answer fails the step, and takes no session.
    let _ = std::fs::remove_dir_all(bench.data.path().join("live-weights"));
    configured(&bench, RL, &format!("{plan}teacher = \"openai:big@http://127.0.0.1:9/v1\"\n"));
    let output = bench.run(&["train-step", "--upstream", &upstream]);
    assert!(!output.status.success(), "{}", stdout(&output));
    assert_eq!(learned(""), own);
}

#[test]
fn sessions_of_those_who_have_not_agreed_teach_nothing() {
    let bench = empty();
    let upstream = configured(&bench, RL, "from = [\"user:/ada\"]\nbatch = 4\n");
    let served = Served::start(&bench, &[&upstream]);
    let first = listed(&served);
    thumbs(&served, "ben");
    session(&served, "nobody-else", "cy", json!({"correction": LESSON}));
    thumbs(&served, "ada");
    next(&bench, &served, &first);
    served.terminate();
    let taught = read(&bench, "steps/1.json")["taught"].clone();
    let mut users = Vec::new();
    for name in taught.as_object().unwrap().keys() {
        let episode = bench.json(&["episodes", "show", name]);
        users.push(episode["live"]["user"].clone());
    }
    assert_eq!(users, vec![json!("ada"); 4], "{taught}");
    let none = bench.out(&["train-step", "--upstream", &upstream]);
    assert!(none.contains("fewer than two sessions with feedback wait"), "{none}");
}

#[test]
fn weights_forget_a_user_and_an_operator_may_serve_them_all_the_same() {
    let bench = empty();
    let upstream = configured(&bench, RL, "from = \"all\"\nbatch = 4\n");
    let served = Served::start(&bench, &[&upstream]);
    let base = listed(&served);
    thumbs(&served, "ben");
    let of_ben = next(&bench, &served, &base);
    thumbs(&served, "ada");
    let of_both = next(&bench, &served, &of_ben);
    served.terminate();
    let serves = |bench: &Bench| {
        let log = bench.json(&["model", "log", "m"]);
        log["weights"][0]["serves"].clone()
    };
    let starts_with = |expect: &str| {
        let served = Served::start(&bench, &[&upstream]);
        assert_eq!(listed(&served), expect);
        served.terminate();
    };

    let report = bench.json(&["forget", "user:/ada", "--yes"]);
    assert_eq!(report["forget"]["weights"][0]["versions"], json!([2]), "{report}");
    assert_eq!(serves(&bench), json!(1), "what learned from the others stays");
    starts_with(&of_ben);
    let step = read(&bench, "steps/2.json");
    assert_eq!((&step["taught"], &step["forgotten"]), (&json!({}), &json!(4)));
    assert_eq!(read(&bench, "steps/1.json")["taught"].as_object().unwrap().len(), 4);
    bench.refused(&["model", "rollback", "m", "--to", "2"], &["learned from something that was forgotten since"]);
    bench.out(&["model", "rollback", "m", "--to", "2", "--confirm"]);
    assert_eq!(serves(&bench), json!(2));
    starts_with(&of_both);

    bench.json(&["forget", "user:/ben", "--yes"]);
    assert_eq!(serves(&bench), json!(0), "both versions learned from the second user");
    starts_with(&base);
}

#[test]
fn lessons_and_weights_are_learned_in_one_gateway() {
    let Some(bench) = Bench::new("lessons_and_weights_in_one_gateway") else { return };
    let mode = format!(
        "[gateway]\nmode = \"auto\"\n[learning]\nlive_trials = true\ndeadline_seconds = 5\nreflectors = [\"{}\"]",
        bench.guest("reflector_rules")
    );
    let upstream = configured(&bench, &mode, "from = \"all\"\nbatch = 4\n");
    let served = Served::start(&bench, &[&upstream]);
    let first = listed(&served);
    for (number, who) in ["ada", "ben", "cy", "dan"].into_iter().enumerate() {
        let thumb = if number == 0 { "up" } else { "down" };
        session(&served, who, who, json!({"thumb": thumb, "correction": "Use metric units."}));
    }
    next(&bench, &served, &first);
    let key = std::fs::read_to_string(bench.data.path().join("admin.key")).unwrap();
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = format!("key={}", key.trim());
    let answer = request("POST", &served.address, "/dashboard/login", &form, body.as_bytes()).answer();
    let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
    let page = |path: &str| request("GET", &served.address, path, &[("cookie", &cookie)], &[]).answer().body;
    let has_lesson = |page: &String| page.contains("sessions still needed") && page.contains("Use metric units.");
    tries(|| page("/dashboard/playbook")).find(has_lesson).expect("the lesson is on trial");
    let training = page("/dashboard/training");
    assert!(training.contains("version 1 ") && training.contains("learned from live sessions"), "{training}");
    served.terminate();
}
