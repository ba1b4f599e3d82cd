//! Lessons from live sessions, with a real reflector: users correct, a crowd decides, the page shows it, and its admin takes it back.

use super::*;
use crate::client::{request, user};
use crate::serving::Served;
use crate::stub::{Received, Stub, says};
use serde_json::json;

/// How often a test looks for what a gateway does by itself.
const LOOKS: usize = 3_000;
/// What users want.
const LESSON: &str = "Use metric units.";

/// A model that does what its guidance says.
fn model() -> Stub {
    Stub::start(|_, request: &Received| {
        let is_guided = request.body["messages"].to_string().contains(LESSON);
        says(request, if is_guided { "5 km" } else { "3 miles" }, &[])
    })
}

fn post(served: &Served, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
    let answer = request("POST", &served.address, path, headers, body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

/// A session of a user, who is pleased with kilometres. Returns whether.
fn session(served: &Served, name: &str, who: &str, correction: Option<&str>) -> bool {
    let headers = [("x-clawhost-session", name), ("x-clawhost-user", who)];
    let body = json!({"model": "m", "messages": [user("How far is it?")]});
    let answer = post(served, "/v1/chat/completions", &headers, &body);
    let is_good = answer["choices"][0]["message"]["content"] == "5 km";
    let mut feedback = json!({"response_id": answer["id"], "thumb": if is_good { "up" } else { "down" }});
    if let Some(text) = correction {
        feedback["correction"] = text.into();
    }
    post(served, "/v1/feedback", &headers[1..], &feedback);
    post(served, &format!("/s/{name}/end"), &headers[1..], &json!({}));
    is_good
}

/// A browser that has shown the admin's key.
pub(crate) struct Admin<'s> {
    served: &'s Served,
    cookie: String,
}

impl<'s> Admin<'s> {
    pub(crate) fn new(bench: &Bench, served: &'s Served) -> Self {
        let key = std::fs::read_to_string(bench.data.path().join("admin.key")).unwrap();
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let body = format!("key={}", key.trim());
        let answer = request("POST", &served.address, "/dashboard/login", &form, body.as_bytes()).answer();
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        Self { served, cookie }
    }

    fn page(&self, path: &str) -> String {
        let answer = request("GET", &self.served.address, path, &[("cookie", &self.cookie)], &[]).answer();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// The page of the playbook when it has a text.
    pub(crate) fn playbook(&self, text: &str) -> String {
        let mut last = String::new();
        for _ in 0..LOOKS {
            last = self.page("/dashboard/playbook");
            if last.contains(text) {
                return last;
            }
        }
        panic!("no `{text}` in {last}");
    }

    fn send(&self, path: &str) -> u16 {
        let page = self.page(path);
        let (_, rest) = page.rsplit_once("name=\"proof\" value=\"").unwrap();
        let body = format!("proof={}", rest.split('"').next().unwrap());
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("cookie", self.cookie.as_str())];
        request("POST", &self.served.address, path, &headers, body.as_bytes()).answer().status
    }
}

#[test]
fn corrections_of_three_users_become_a_lesson_for_all_when_a_crowd_is_pleased_with_it() {
    let Some(bench) = Bench::new("corrections_of_three_users_become_a_lesson") else { return };
    let stub = model();
    let config = format!(
        "[gateway]\nmode = \"auto\"\n[learning]\nlive_trials = true\nrehearsal = true\ndeadline_seconds = 5\nreflectors = [\"{}\"]\n",
        bench.guest("reflector_rules")
    );
    std::fs::write(bench.data.path().join("gateway.toml"), config).unwrap();
    let upstream = format!("m=openai:stub@{}", stub.base_url());
    let served = Served::start(&bench, &[&upstream]);
    let admin = Admin::new(&bench, &served);
    assert!(admin.page("/dashboard/playbook").contains("no version yet"));
    for who in ["ada", "ben", "cy"] {
        assert!(!session(&served, who, who, Some(LESSON)), "no guidance yet");
        // A correction changes the next session of its own user alone, at once.
        assert!(session(&served, &format!("{who}-2"), who, None));
    }
    let page = admin.playbook("sessions still needed");
    assert!(page.contains(LESSON) && page.contains("3 users"), "{page}");
    // Users are drawn for: some get the lesson, and the others do not.
    let mut pleased = 0;
    for number in 0..180 {
        pleased += u32::from(session(&served, &format!("s-{number}"), &format!("u{}", number % 60), None));
    }
    assert!((20..160).contains(&pleased), "{pleased}");
    let page = admin.playbook("a live trial found that");
    assert!(page.contains("held out in one of ten sessions") && page.contains("<svg"), "{page}");
    let shown = bench.json(&["playbook", "show", "live"]);
    assert_eq!(shown["version"], json!(1), "{shown}");
    let good = (0..40).filter(|number| session(&served, &format!("n-{number}"), &format!("new{number}"), None));
    assert!(good.count() > 25, "new users get it");
    // The admin takes it back, after a question.
    assert!(admin.page("/dashboard/playbook/versions/0").contains("Serve the empty playbook again?"));
    assert_eq!(admin.send("/dashboard/playbook/versions/0"), 303);
    admin.playbook("rolled back to version 0");
    admin.playbook("the operator changed the playbook");
    let kept = bench.json(&["playbook", "show", "live"]);
    assert_eq!((&kept["version"], kept["deployed"]["entries"].as_array().map_or(0, Vec::len)), (&json!(2), 0));
    served.terminate();
}

#[test]
fn requests_of_real_sessions_are_answered_again_for_a_judge_and_nobody_sees_it() {
    let Some(bench) = Bench::new("requests_are_answered_again") else { return };
    let (stub, judge) = (
        model(),
        Stub::start(|_, request: &Received| {
            let prefers_first = request.body["messages"].to_string().contains("ANSWER A\\n5 km");
            says(request, if prefers_first { "\\boxed{A}" } else { "\\boxed{B}" }, &[])
        }),
    );
    let config = format!(
        "[gateway]\nmode = \"auto\"\n[learning]\nlive_trials = true\nrehearsal = true\ndeadline_seconds = 5\nreflectors = [\"{}\"]\n\
         [shadow]\nbudget_tokens = 10000000\nupstreams = [\"m\"]\njudge = \"judge\"\nscopes = [\"key:\"]\n",
        bench.guest("reflector_rules")
    );
    std::fs::write(bench.data.path().join("gateway.toml"), config).unwrap();
    let upstreams = [format!("m=openai:stub@{}", stub.base_url()), format!("judge=openai:small@{}", judge.base_url())];
    let served = Served::start(&bench, &[&upstreams[0], &upstreams[1]]);
    let admin = Admin::new(&bench, &served);
    for who in ["ada", "ben", "cy"] {
        session(&served, who, who, Some(LESSON));
    }
    assert!(admin.playbook("sessions still needed").contains("none yet"));
    // A lesson is drawn from a moment after it is on trial: sessions until one gets it, and twelve more, of which some do not.
    let mut first = None;
    let mut sessions = 0;
    while sessions < 300 && first.is_none_or(|first| sessions < first + 12) {
        let has_it = session(&served, &format!("s-{sessions}"), &format!("u{sessions}"), None);
        sessions += 1;
        first = first.or(has_it.then_some(sessions));
    }
    assert!(first.is_some(), "{sessions} sessions");
    let episodes = bench.json(&["episodes", "list", "--limit", "1000"]);
    let episodes = episodes.as_array().unwrap();
    assert_eq!(episodes.len(), 3 + sessions, "no shadow answer is in a record");
    let is_held_out = |episode: &&Value| {
        let shown = bench.json(&["episodes", "show", episode["id"].as_str().unwrap()]);
        shown["policy"]["playbook"]["drawn"][0]["shown"] == json!(false)
    };
    let held_out = episodes.iter().filter(is_held_out).count();
    assert!(held_out > 0, "{sessions} sessions");
    // Each of these sessions is answered again, with the lesson and without it.
    let pairs = if held_out == 1 { "1 pair".to_owned() } else { format!("{held_out} pairs") };
    let page = admin.playbook(&format!("{pairs} for it, 0 against, 0 equal"));
    assert!(page.contains("Shadow answers today: "), "{page}");
    let asked = stub.requests().len();
    assert_eq!((asked, judge.requests().len()), (3 + sessions + 2 * held_out, held_out));
    let shadow = std::fs::read_to_string(bench.data.path().join("shadow.json")).unwrap();
    let shadow: Value = serde_json::from_str(&shadow).unwrap();
    assert_eq!(shadow["lessons"].as_object().unwrap().len(), 1, "{shadow}");
    served.terminate();
}
