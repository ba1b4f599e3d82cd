//! Adapters of users of a served local model: each learns from its own sessions, and answers them alone.

use super::*;
use crate::client::{chat, request, send, user};
use crate::live_weights::tries;
use crate::serving::Served;
use clawhost_model::TinyModel;
use serde_json::json;

fn configured(bench: &Bench, level: &str) -> String {
    let path = bench.data.path().join("tiny");
    let small = TinyModel { width: 16, layers: 1, heads: 2, seed: 5, ..TinyModel::default() };
    small.make().unwrap().write(&path).unwrap();
    let text = format!(
        "[gateway]\nmode = \"rl\"\n[weights]\nmodel = \"m\"\nfrom = [\"all\"]\nbatch = 4\ndeadline_seconds = 5\nadapter_rank = 2\nrate = 0.01\n\
         adapters = \"{level}\""
    );
    std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    format!("m=local:{}", path.display())
}

/// A session of one question with a thumb. Returns the version that answered.
fn session(served: &Served, name: &str, thumb: &str, headers: &[(&str, &str)]) -> String {
    let headers = [&[("x-clawhost-session", name)], headers].concat();
    let mut body = chat(&[user("1+1=")]);
    (body["model"], body["max_tokens"]) = ("m".into(), 4.into());
    let answer = send(&served.address, "/v1/chat/completions", &headers, body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    let feedback = json!({"session": name, "thumb": thumb}).to_string();
    let given = request("POST", &served.address, "/v1/feedback", &headers, feedback.as_bytes()).answer();
    assert_eq!(given.status, 200, "{given:?}");
    let ended = request("POST", &served.address, &format!("/s/{name}/end"), &headers, b"{}").answer();
    assert_eq!(ended.status, 200, "{ended:?}");
    answer.header("x-clawhost-model").split_once(' ').unwrap().1.to_owned()
}

/// The version that answers a user, in sessions that nobody judges.
fn version(served: &Served, headers: &[(&str, &str)]) -> String {
    let mut body = chat(&[user("2+2=")]);
    (body["model"], body["max_tokens"]) = ("m".into(), 1.into());
    let answer = send(&served.address, "/v1/chat/completions", headers, body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.header("x-clawhost-model").split_once(' ').unwrap().1.to_owned()
}

const ADA: &[(&str, &str)] = &[("x-clawhost-user", "ada")];
const BEN: &[(&str, &str)] = &[("x-clawhost-user", "ben")];

#[test]
fn what_a_user_has_taught_answers_that_user_alone() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let upstream = configured(&bench, "user");
    let served = Served::start(&bench, &[&upstream]);
    let base = version(&served, ADA);
    assert_eq!((version(&served, BEN), version(&served, &[])), (base.clone(), base.clone()));
    for number in 0..4 {
        let thumb = if number % 2 == 0 { "up" } else { "down" };
        session(&served, &format!("ada-{number}"), thumb, ADA);
    }
    // Too few for a batch of their own, and sessions without a user have no adapter.
    session(&served, "ben-0", "up", BEN);
    (0..4).for_each(|number| drop(session(&served, &format!("none-{number}"), "up", &[])));
    let ada =
        served.changes(&bench, || version(&served, ADA)).find(|version| *version != base).expect("an adapter of ada");
    assert_eq!((version(&served, BEN), version(&served, &[])), (base.clone(), base.clone()));

    // Another start serves the same, and a step by hand is one of a user.
    served.terminate();
    let served = Served::start(&bench, &[&upstream]);
    assert_eq!((version(&served, ADA), version(&served, BEN)), (ada.clone(), base.clone()));
    session(&served, "ben-1", "down", BEN);
    let mut steps = tries(|| bench.json(&["train-step", "--upstream", &upstream]));
    let step = steps.find(|step| !step["train_step"].is_null()).expect("two sessions of ben wait");
    assert_eq!(
        (&step["train_step"]["scope"], &step["train_step"]["sessions"], &step["train_step"]["version"]),
        (&json!("user:/ben"), &json!(2), &json!(1)),
        "{step}"
    );
    let ben =
        served.changes(&bench, || version(&served, BEN)).find(|version| *version != base).expect("an adapter of ben");
    assert_eq!((version(&served, ADA), version(&served, &[])), (ada.clone(), base.clone()));
    assert_ne!(ben, ada);

    // The configured weights answer one user again, and the other keeps the adapter.
    let listed = bench.json(&["model", "log", "m"]);
    let scopes: Vec<_> = listed["weights"].as_array().unwrap().iter().map(|one| one["scope"].clone()).collect();
    assert_eq!(scopes, [json!("user:/ada"), json!("user:/ben")], "{listed}");
    bench.refused(&["model", "log", "x"], &["no model x has learned from live sessions; there is m"]);
    bench.refused(&["model", "rollback", "m", "--to", "0"], &["has an adapter for each scope; name the scope"]);
    bench.json(&["model", "rollback", "m", "--to", "0", "--scope", "user:/ada"]);
    served
        .changes(&bench, || version(&served, ADA))
        .find(|version| *version == base)
        .expect("the configured weights answer again");
    assert_eq!(version(&served, BEN), ben);
    bench.json(&["model", "rollback", "m", "--to", "1", "--scope", "user:/ada"]);
    served
        .changes(&bench, || version(&served, ADA))
        .find(|version| *version == ada)
        .expect("the adapter answers again");
    let output = served.terminate();
    assert!(!stderr(&output).contains("do not learn"), "{}", stderr(&output));
}

#[test]
fn adapters_answer_for_their_own_model_alone() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    configured(&bench, "user");
    let other = TinyModel { width: 16, layers: 1, heads: 2, seed: 6, ..TinyModel::default() };
    other.make().unwrap().write(&bench.data.path().join("other")).unwrap();
    let path = bench.data.path().join("gateway.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let serve = |name: &str| {
        let folder = bench.data.path().join(name);
        std::fs::write(&path, format!("{text}\n[models.m]\nmodel = 'local:{}'\n", folder.display())).unwrap();
    };
    serve("tiny");
    let served = Served::start(&bench, &[]);
    let base = version(&served, ADA);
    for number in 0..4 {
        session(&served, &format!("ada-{number}"), if number % 2 == 0 { "up" } else { "down" }, ADA);
    }
    let ada =
        served.changes(&bench, || version(&served, ADA)).find(|version| *version != base).expect("an adapter of ada");
    // The alias is given to another model, and back.
    serve("other");
    let reloaded = bench.out(&["reload"]);
    let of_nobody = version(&served, &[]);
    assert_ne!(of_nobody, base, "{reloaded}");
    assert_eq!(version(&served, ADA), of_nobody);
    serve("tiny");
    bench.out(&["reload"]);
    assert_eq!((version(&served, &[]), version(&served, ADA)), (base, ada));
    served.terminate();
}

#[test]
fn an_adapter_that_cannot_be_read_holds_up_no_other() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let upstream = configured(&bench, "user");
    let served = Served::start(&bench, &[&upstream]);
    let base = version(&served, ADA);
    let teach = |served: &Served, name: &str, headers: &[(&str, &str)]| {
        for number in 0..4 {
            let thumb = if number % 2 == 0 { "up" } else { "down" };
            session(served, &format!("{name}-{number}"), thumb, headers);
        }
    };
    let learns = |served: &Served, headers: &[(&str, &str)]| {
        served.changes(&bench, || version(served, headers)).find(|version| *version != base).expect("an adapter")
    };
    teach(&served, "ada", ADA);
    learns(&served, ADA);
    served.terminate();
    let own = bench.data.path().join("live-weights/m/own");
    let ada = std::fs::read_dir(&own).unwrap().next().unwrap().unwrap().path().join("learned.json");
    std::fs::write(&ada, "{").unwrap();
    let database = rusqlite::Connection::open(bench.data.path().join("clawhost.sqlite")).unwrap();
    let sql = "UPDATE episodes SET document = x'00', dictionary = NULL WHERE number = 2";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    drop(database);
    let served = Served::start(&bench, &[&upstream]);
    // The batch of Ada is complete first.
    teach(&served, "ada-again", ADA);
    teach(&served, "ben", BEN);
    learns(&served, BEN);
    assert_eq!(version(&served, ADA), base);
    let said = stderr(&served.terminate());
    for part in [
        " teaches no weights: ",
        "an adapter does not learn: ",
        "weights of user:/ada do not learn from live sessions now: ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn adapters_of_a_model_that_has_changed_do_not_answer() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let upstream = configured(&bench, "user");
    let served = Served::start(&bench, &[&upstream]);
    let base = version(&served, ADA);
    (0..4).for_each(|number| {
        drop(session(&served, &format!("ada-{number}"), if number % 2 == 0 { "up" } else { "down" }, ADA));
    });
    served.changes(&bench, || version(&served, ADA)).find(|version| *version != base).expect("an adapter of ada");
    let other = TinyModel { width: 16, layers: 1, heads: 2, seed: 6, ..TinyModel::default() };
    other.make().unwrap().write(&bench.data.path().join("tiny")).unwrap();
    let reloaded = bench.out(&["reload"]);
    let of_nobody = version(&served, &[]);
    assert_ne!(of_nobody, base, "{reloaded}");
    assert_eq!(version(&served, ADA), of_nobody);
    served.terminate();
    bench.refused(
        &["serve", "--listen", "127.0.0.1:0", "--upstream", &upstream],
        &["are not those that learning began with"],
    );
}
