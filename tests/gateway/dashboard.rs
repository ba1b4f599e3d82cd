//! The page: who sees it, what it shows, what it takes, and that nothing of a client becomes a part of it.

use crate::client::{Answer, post, request, user};
use crate::stub::{Received, Reply, Stub, says};
use crate::{ADMIN, Bench, served, served_with};
use clawhost_core::{Digest, KnownSecrets, Secret};
use clawhost_gateway::{
    ClientKey, ClientKeys, EntryView, LearnedBook, LearnedView, LessonView, Lift, Redaction, RedactionSettings,
    ShadowDayView, ShadowView, TrialView, VersionReward, VersionView, WeightsStepView, WeightsView,
};
use clawhost_providers::{Dialect, Prices};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a browser may load and do on the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// What a client says to break out of the page.
const ATTACK: &str = "</pre><script>alert(1)</script><img src=x onerror=\"alert('x')\">";

async fn bench() -> (Stub, Bench) {
    let stub = Stub::start(|_, request: &Received| says(request, ATTACK, &[]));
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let body = json!({"model": "m", "messages": [user(ATTACK)]});
    let headers = [("x-clawhost-session", "<b>s"), ("x-clawhost-user", "\"><i>ada")];
    assert_eq!(post(&bench.address, "/v1/chat/completions", &headers, &body).await.status, 200);
    (stub, bench)
}

async fn get(bench: &Bench, path: &str, headers: &[(&str, &str)]) -> Answer {
    let (address, path) = (bench.address.clone(), path.to_owned());
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    tokio::task::spawn_blocking(move || {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        request("GET", &address, &path, &headers, &[]).answer()
    })
    .await
    .unwrap()
}

async fn send_form(bench: &Bench, path: &str, cookie: &str, form: &str) -> Answer {
    let (address, path, cookie, form) = (bench.address.clone(), path.to_owned(), cookie.to_owned(), form.to_owned());
    tokio::task::spawn_blocking(move || {
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("cookie", cookie.as_str())];
        request("POST", &address, &path, &headers, form.as_bytes()).answer()
    })
    .await
    .unwrap()
}

/// The cookie of somebody who has shown the admin's key.
async fn log_in(bench: &Bench) -> String {
    let answer = send_form(bench, "/dashboard/login", "", &format!("key={ADMIN}")).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/dashboard"), "{answer:?}");
    let cookie = answer.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

/// The text behind another one, up to a quotation mark.
fn behind(page: &str, text: &str) -> String {
    let (_, rest) = page.split_once(text).unwrap_or_else(|| panic!("no `{text}` in {page}"));
    rest.split('"').next().unwrap().replace("&#x2f;", "/")
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_without_the_admins_key_sees_a_session() {
    let (_stub, bench) = bench().await;
    let cookie = log_in(&bench).await;
    let shown = get(&bench, "/dashboard", &[("cookie", &cookie)]).await;
    let session = behind(&shown.body, "<th scope=\"row\"><a href=\"");
    assert_eq!(get(&bench, &session, &[("cookie", &cookie)]).await.status, 200);
    for path in ["/dashboard", &session] {
        for cookie in ["", "clawhost_admin=", "clawhost_admin=0000"] {
            let answer = get(&bench, path, &[("cookie", cookie)]).await;
            assert_eq!(answer.status, 401, "{path} {cookie}");
            assert!(answer.body.contains("name=\"key\"") && !answer.body.contains("ada"), "{answer:?}");
        }
    }
    assert_eq!(send_form(&bench, "/dashboard/login", "", "key=ch-wrong").await.status, 401);
    let sent = send_form(&bench, &format!("{session}/feedback"), "", "turn=0&thumb=up").await;
    assert_eq!(sent.status, 401);
    // A page of another site, through its own name for this machine.
    let foreign = get(&bench, "/dashboard", &[("host", "evil.example")]).await;
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let proof = behind(&get(&bench, "/dashboard", &[("cookie", &cookie)]).await.body, "name=\"proof\" value=\"");
    assert_eq!(send_form(&bench, "/dashboard/logout", &cookie, &format!("proof={proof}")).await.status, 303);
    assert_eq!(get(&bench, "/dashboard", &[("cookie", &cookie)]).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_sessions_have_pages_with_addresses() {
    let (_stub, bench) = bench().await;
    let cookie = log_in(&bench).await;
    let shown = async |page: &str| get(&bench, &format!("/dashboard{page}"), &[("cookie", &cookie)]).await;
    let (first, second) = (shown("?page=1").await, shown("?page=2").await);
    assert_eq!((first.status, second.status), (200, 200));
    assert!(first.body.contains("0 sessions have ended") && !first.body.contains("pages of ended"), "{}", first.body);
    assert!(second.body.contains("0 sessions have ended"), "{}", second.body);
    for page in ["?page=0", "?page=-1", "?page=x", "?page=99999999999999999999"] {
        let refused = shown(page).await;
        assert_eq!(refused.status, 422, "{page}");
        assert!(refused.body.contains("page: must be a number from 1"), "{}", refused.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_and_models_say_is_text_of_the_page() {
    let (_stub, bench) = bench().await;
    let cookie = log_in(&bench).await;
    let overview = get(&bench, "/dashboard", &[("cookie", &cookie)]).await;
    let session = get(&bench, &behind(&overview.body, "<th scope=\"row\"><a href=\""), &[("cookie", &cookie)]).await;
    for page in [&overview, &session] {
        assert_eq!(page.header("content-security-policy"), POLICY);
        assert_eq!((page.header("cache-control"), page.header("x-content-type-options")), ("no-store", "nosniff"));
        for tag in ["<script>", "<img", "<b>s", "<i>", "http://", "https://"] {
            assert!(!page.body.contains(tag), "{tag} in {}", page.body);
        }
        assert_eq!(page.body.matches("<script").count(), 1, "its own file alone: {}", page.body);
        assert!(page.body.contains("&lt;b&gt;s"), "{}", page.body);
        assert!(!page.body.contains(ADMIN) && !page.body.contains(cookie.split('=').nth(1).unwrap()));
    }
    assert_eq!(session.body.matches("&lt;script&gt;alert(1)").count(), 2, "asked and answered: {}", session.body);
    let style = get(&bench, "/dashboard/style.css", &[]).await;
    assert!(style.header("content-type").starts_with("text/css") && !style.body.contains("url("), "{style:?}");
    let script = get(&bench, "/dashboard/live.js", &[]).await;
    assert!(script.header("content-type").starts_with("text/javascript"), "{script:?}");
    assert_eq!(
        (script.header("content-security-policy"), script.header("x-content-type-options")),
        (POLICY, "nosniff")
    );
    assert!(!script.body.contains("://") && !script.body.contains("innerHTML"), "{}", script.body);
    assert_eq!(get(&bench, "/dashboard/sessions/run-1/ep-1", &[("cookie", &cookie)]).await.status, 404);
}

/// The addresses of pages, as the router has them.
fn routes() -> Vec<&'static str> {
    const ROUTER: &str = include_str!("../../host/gateway/src/dashboard/mod.rs");
    let routes = ROUTER.lines().filter_map(|line| line.trim().strip_prefix(".route("));
    let pages = routes.filter_map(|route| route.split_once(", get(").map(|(address, _)| address.trim_matches('"')));
    pages.map(|address| if address == "HOME" { "/dashboard" } else { address }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_shows_a_key() {
    const OF_CLIENT: &str = "ch-0123456789abcdef-of-the-client";
    // It has no form by which it is known.
    const OF_UPSTREAM: &str = "the.key.of.the.upstream";
    const SAID: [&str; 4] = [
        "sk-proj-AbCdEfGh1234567890asked",
        "sk-proj-AbCdEfGh1234567890answered",
        "sk-proj-AbCdEfGh1234567890commented",
        "sk-proj-AbCdEfGh1234567890corrected",
    ];
    let [asked, answered, commented, corrected] = SAID;
    let stub = Stub::start(move |number, request: &Received| match number {
        0 => Reply::Http(401, vec![], json!({"error": {"message": format!("no {OF_UPSTREAM} {asked}")}}).to_string()),
        _ => says(request, &format!("take {answered}"), &[("t1", "note", &json!({"text": answered}).to_string())]),
    });
    let secrets = KnownSecrets::default();
    secrets.add(&Secret::new(OF_UPSTREAM).unwrap());
    let models = vec![served_with(Dialect::OpenAi, &stub.base_url(), Some(OF_UPSTREAM), &secrets)];
    let keys = ClientKeys::new(vec![ClientKey::new("shop", Digest::of(OF_CLIENT.as_bytes()), 0)]);
    let learned: Arc<dyn LearnedBook> = Arc::new(Known(AtomicU64::new(0)));
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench { learned: Some(learned), keys, ..Bench::idle(folder) };
    let redaction = Arc::new(Redaction::new(&RedactionSettings::default()).unwrap());
    bench.start(models, secrets, |config| config.redaction = redaction).await;
    let bearer = format!("Bearer {OF_CLIENT}");
    let headers = [("authorization", bearer.as_str()), ("x-clawhost-session", "one")];
    let body = json!({
        "model": "m", "tools": [{"type": "function", "function": {"name": "note", "description": asked, "parameters": {}}}],
        "messages": [{"role": "system", "content": asked}, user(&format!("the key is {asked}"))],
    });
    assert_eq!(post(&bench.address, "/v1/chat/completions", &headers, &body).await.status, 401);
    let answer = post(&bench.address, "/v1/chat/completions", &headers, &body).await;
    assert!(answer.status == 200 && answer.body.contains(answered), "clients get it as it is: {answer:?}");
    let given = json!({"session": "one", "thumb": "down", "text": commented, "correction": format!("say {corrected}")});
    assert_eq!(post(&bench.address, "/v1/feedback", &headers, &given).await.status, 200);

    let cookie = log_in(&bench).await;
    let cookies = [("cookie", cookie.as_str())];
    let session = behind(&get(&bench, "/dashboard", &cookies).await.body, "<th scope=\"row\"><a href=\"");
    // A correction of the admin has one, too.
    let proof = behind(&get(&bench, &session, &cookies).await.body, "name=\"proof\" value=\"");
    let form = format!("proof={proof}&turn=0&correction=say+{corrected}");
    assert_eq!(send_form(&bench, &format!("{session}/feedback"), &cookie, &form).await.status, 303);
    let check = async |route: &str, address: &str| {
        let page = get(&bench, address, &cookies).await;
        assert_eq!(page.status, 200, "{route}: {page:?}");
        for secret in [&SAID[..], &[OF_CLIENT, OF_UPSTREAM, ADMIN, cookie.split_once('=').unwrap().1]].concat() {
            assert!(!page.body.contains(secret), "{secret} on {route}: {}", page.body);
        }
        page.body
    };
    let all = async || {
        for route in routes() {
            let address = match route {
                "/dashboard/sessions/{run}/{episode}" => session.clone(),
                "/dashboard/playbook/versions/{number}" => "/dashboard/playbook/versions/1".to_owned(),
                "/dashboard/training/versions/{number}" => "/dashboard/training/versions/6".to_owned(),
                fixed => fixed.to_owned(),
            };
            check(route, &address).await;
        }
        check("the session", &session).await
    };
    let open = all().await;
    // The page has what was said, without the keys.
    for part in ["the key is [redacted:key]", "take [redacted:key]", "say [redacted:key]", "401"] {
        assert!(open.contains(part), "no `{part}` in {open}");
    }
    assert_eq!(post(&bench.address, "/s/one/end", &headers, &json!({})).await.status, 200);
    let ended = all().await;
    assert!(ended.contains("say [redacted:key]") && !ended.contains("in progress"), "{ended}");
    assert!(routes().len() > 7, "{:?}", routes());
    let wrong = send_form(&bench, "/dashboard/login", "", &format!("key={OF_CLIENT}")).await;
    assert!(wrong.status == 401 && !wrong.body.contains(OF_CLIENT), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thumb_and_a_correction_of_the_page_are_verdicts_and_other_forms_are_refused() {
    let (_stub, mut bench) = bench().await;
    let cookie = log_in(&bench).await;
    let overview = get(&bench, "/dashboard", &[("cookie", &cookie)]).await.body;
    let address = behind(&overview, "<th scope=\"row\"><a href=\"");
    let page = get(&bench, &address, &[("cookie", &cookie)]).await.body;
    let (proof, target) = (behind(&page, "name=\"proof\" value=\""), format!("{address}/feedback"));
    let status = async |form: &str| send_form(&bench, &target, &cookie, form).await.status;
    assert_eq!(status("turn=0&thumb=up").await, 403, "a form of another site");
    assert_eq!(status(&format!("proof={}&turn=0&thumb=up", "0".repeat(64))).await, 403);
    assert_eq!(status(&format!("proof={proof}&turn=x&thumb=up")).await, 422);
    assert_eq!(status(&format!("proof={proof}&turn=0")).await, 422);
    assert_eq!(status(&format!("proof={proof}&turn=0&thumb=down")).await, 303);
    assert_eq!(status(&format!("proof={proof}&turn=0&correction=use+metres")).await, 303);
    let [episode] = bench.episodes().await.try_into().unwrap();
    assert_eq!((episode.reward, episode.verdicts.len()), (Some(-1.0), 2));
}

/// A playbook with one entry that says what clients say.
struct Known(AtomicU64);

#[async_trait::async_trait]
impl LearnedBook for Known {
    async fn learned(&self) -> Result<LearnedView, String> {
        let lift =
            Some(Lift { effect: 0.25, low: 0.1, high: 0.4, sessions: 80, flip_point: Some(2.31), is_blocked: false });
        let entry = EntryView {
            id: "e-1".into(),
            text: ATTACK.into(),
            tokens: 7,
            sources: vec![ATTACK.into()],
            by: "r".into(),
            lift,
            held_out: true,
        };
        let shadow = ShadowView {
            with: 12,
            without: 3,
            neither: 5,
            without_vote: 1,
            failed: 2,
            preference: Some(0.45),
            interval: Some((0.1, 0.8)),
            better: Some(1e9),
            worse: Some(0.125),
        };
        let trial = TrialView {
            text: ATTACK.into(),
            teachers: 3,
            planned: 550,
            rewarded: 55,
            remaining: Some(990),
            lift,
            shadow: Some(shadow),
        };
        let lesson = LessonView { text: ATTACK.into(), note: "it harms, effect -0.30".into() };
        let version = |number| VersionView { number, at: 0, why: ATTACK.into(), differences: vec![ATTACK.into()] };
        Ok(LearnedView {
            playbook: Some("shop".into()),
            version: 2 + self.0.load(Ordering::Relaxed),
            tries: true,
            entries: vec![entry],
            trials: vec![trial],
            candidates: vec![lesson.clone()],
            dropped: vec![lesson],
            refused: vec![LessonView { text: "Ask for a thumb.".into(), note: "it asks for praise".into() }],
            previous: Some((1, lift)),
            versions: vec![version(2), version(1)],
            rewards: vec![VersionReward { version: 2, sessions: 9, rewarded: 8, mean: Some(0.5), margin: Some(0.1) }],
            shadow: Some(ShadowDayView { spent: "700 of 1000 tokens".into(), problem: Some(ATTACK.into()) }),
            waiting: 4,
            problem: Some(ATTACK.into()),
        })
    }

    async fn weights(&self) -> Result<Option<WeightsView>, String> {
        let step = |number, is_kept| WeightsStepView {
            scope: None,
            number,
            at: 0,
            sessions: 16,
            metrics: vec![("tokens_per_second".into(), "812.5".into())],
            note: ATTACK.into(),
            is_kept,
            is_on_disk: is_kept && number != 4,
            serves: number == 7,
            is_withdrawn: number == 5,
        };
        let own = WeightsStepView { scope: Some(ATTACK.into()), ..step(1, true) };
        Ok(Some(WeightsView {
            model: ATTACK.into(),
            signal: "rewards".into(),
            serves: Some(7),
            batch: 16,
            waiting: 5,
            trains: true,
            problem: None,
            steps: vec![step(8, false), step(7, true), step(6, true), step(5, true), step(4, true), own],
        }))
    }

    async fn serve_weights(&self, scope: Option<&str>, number: u64) -> Result<(), String> {
        match (scope, number) {
            (None, 6) => Ok(()),
            (Some(ATTACK), 1) => Ok(()),
            other => Err(format!("another process trains {other:?}")),
        }
    }

    async fn serve_version(&self, number: u64) -> Result<u64, String> {
        if number > 1 {
            return Err("another program changes the playbook".into());
        }
        Ok(3 + self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_playbook_is_shown_with_its_evidence_and_an_older_version_is_served_after_a_question() {
    let stub = Stub::start(|_, request: &Received| says(request, "ok", &[]));
    let bench = Bench::learning(&stub.base_url(), Arc::new(Known(AtomicU64::new(0)))).await;
    let path = "/dashboard/playbook";
    assert_eq!(get(&bench, path, &[]).await.status, 401);
    let cookie = log_in(&bench).await;
    let cookies = [("cookie", cookie.as_str())];
    let page = get(&bench, path, &cookies).await.body;
    assert!(!page.contains("<script>") && !page.contains("<img"), "{page}");
    for text in [
        "Playbook shop, version 2",
        "55 of 550",
        "about 990",
        "+0.25 (+0.10 to +0.40), 80 sessions",
        "held out in one of ten sessions",
        "it harms, effect -0.30",
        "version 2: 0.50",
        "<polyline",
        "4 sessions wait until they count",
        "+0.45 (+0.10 to +0.80), 12 pairs for it, 3 against, 5 equal; e-value over 1000000 for it, 0.125 against; 1 without a vote, 2 failed",
        "Shadow answers today: 700 of 1000 tokens.",
    ] {
        assert!(page.contains(text), "no `{text}` in {page}");
    }
    let ask = format!("{path}/versions/1");
    let question = get(&bench, &ask, &cookies).await.body;
    assert!(question.contains("Serve version 1 again?"), "{question}");
    assert_eq!(get(&bench, &format!("{path}/versions/2"), &cookies).await.status, 404, "it is served");
    assert_eq!(get(&bench, &format!("{path}/versions/9"), &cookies).await.status, 404, "there is none");
    assert_eq!(send_form(&bench, &ask, &cookie, "proof=wrong").await.status, 403);
    assert_eq!(send_form(&bench, &ask, "", "proof=wrong").await.status, 401);
    assert!(get(&bench, path, &cookies).await.body.contains("version 2<"), "a look changes nothing");
    let proof = behind(question.rsplit_once("<form").unwrap().1, "name=\"proof\" value=\"");
    let sent = send_form(&bench, &ask, &cookie, &format!("proof={proof}")).await;
    assert_eq!((sent.status, sent.header("location")), (303, path));
    assert!(get(&bench, path, &cookies).await.body.contains("Playbook shop, version 3"));
    let busy = send_form(&bench, &format!("{path}/versions/2"), &cookie, &format!("proof={proof}")).await;
    assert_eq!(busy.status, 409, "{busy:?}");
    assert!(busy.body.contains("another program changes the playbook"));
}

#[tokio::test(flavor = "multi_thread")]
async fn training_is_shown_with_weights_and_the_data_pool() {
    let stub = Stub::start(|_, request: &Received| says(request, "ok", &[]));
    let bench = Bench::learning(&stub.base_url(), Arc::new(Known(AtomicU64::new(0)))).await;
    let path = "/dashboard/training";
    assert_eq!(get(&bench, path, &[]).await.status, 401);
    let cookie = log_in(&bench).await;
    let empty = get(&bench, path, &[("cookie", &cookie)]).await.body;
    assert!(empty.contains("It is empty."), "{empty}");
    let body = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(post(&bench.address, "/run-1/task-1/v1/chat/completions", &[], &body).await.status, 200);
    let page = get(&bench, path, &[("cookie", &cookie)]).await.body;
    assert!(!page.contains("<script>") && !page.contains("<img"), "{page}");
    for text in [
        "version 7",
        "5 of 16",
        ">trains<",
        "tokens_per_second 812.5",
        "<th scope=\"row\">none</th>",
        "<th scope=\"row\">train</th><td class=\"number\">1</td>",
    ] {
        assert!(page.contains(text), "no `{text}` in {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_version_of_weights_is_served_after_a_question() {
    let stub = Stub::start(|_, request: &Received| says(request, "ok", &[]));
    let bench = Bench::learning(&stub.base_url(), Arc::new(Known(AtomicU64::new(0)))).await;
    let cookie = log_in(&bench).await;
    let cookies = [("cookie", cookie.as_str())];
    let place = |number: u64| format!("/dashboard/training/versions/{number}");
    let page = get(&bench, "/dashboard/training", &cookies).await.body;
    assert!(page.contains(&format!("{}\">serve again", place(6))) && page.contains("withdrawn: it learned"), "{page}");
    for (number, why) in [(7, "it serves"), (4, "its weights are not on disk any more")] {
        assert!(!page.contains(&format!("{}\"", place(number))), "{why}");
    }
    assert_eq!(get(&bench, &place(6), &[]).await.status, 401);
    for number in [4, 5, 7, 8, 9] {
        let asked = get(&bench, &place(number), &cookies).await;
        assert_eq!(asked.status, 404, "not on disk, withdrawn, serving, taken back or unknown: {number}");
    }
    let question = get(&bench, &place(6), &cookies).await.body;
    assert!(question.contains("Serve version 6 again?") && question.contains("all sessions"), "{question}");
    let proof = behind(question.rsplit_once("<form").unwrap().1, "name=\"proof\" value=\"");
    assert_eq!(send_form(&bench, &place(6), &cookie, "proof=wrong").await.status, 403);
    assert_eq!(send_form(&bench, &place(6), "", &format!("proof={proof}")).await.status, 401);
    let sent = send_form(&bench, &place(6), &cookie, &format!("proof={proof}")).await;
    assert_eq!((sent.status, sent.header("location")), (303, "/dashboard/training"));
    let busy = send_form(&bench, &place(4), &cookie, &format!("proof={proof}")).await;
    assert_eq!(busy.status, 409, "{busy:?}");
    // The adapter of a scope, whose name is what a client says: the link on the page leads to it.
    let link = behind(&page, &format!("{}?scope=", place(1)));
    let own = format!("{}?scope={link}", place(1));
    let question = get(&bench, &own, &cookies).await.body;
    assert!(question.contains("the sessions of") && !question.contains("<script>alert"), "{question}");
    let scope: String = ATTACK.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let sent = send_form(&bench, &place(1), &cookie, &format!("proof={proof}&scope={scope}")).await;
    assert_eq!(sent.status, 303, "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_is_shown_by_model_key_and_session() {
    let stub = Stub::start(|_, request: &Received| says(request, "ok", &[]));
    let key = ClientKey { tokens_per_day: Some(1_500), ..ClientKey::new("shop", Digest::of(b"ch-shop"), 0) };
    let keys = ClientKeys::new(vec![key, ClientKey::new("idle", Digest::of(b"ch-idle"), 0)]);
    let mut model = served(Dialect::OpenAi, &stub.base_url());
    model.first = model.first.priced(Some(Prices { input: 2.0, output: 10.0 }));
    let bench = Bench::keyed(vec![model], keys, "127.0.0.1:0").await;
    let path = "/dashboard/cost";
    assert_eq!(get(&bench, path, &[]).await.status, 401);
    let cookie = log_in(&bench).await;
    let shown = async |path: &str| get(&bench, path, &[("cookie", &cookie)]).await.body;
    assert!(shown(path).await.contains("Nothing was asked yet."));
    let body = json!({"model": "m", "messages": [user("hello")]});
    assert_eq!(post(&bench.address, "/v1/chat/completions", &[("x-api-key", "ch-shop")], &body).await.status, 200);
    let page = shown(path).await;
    let cell = |text: &str| format!("<td class=\"number\">{text}</td>");
    let row = |name: &str, cells: &[&str]| {
        let cells: String = cells.iter().map(|text| cell(text)).collect();
        format!("<th scope=\"row\">{name}</th>{cells}")
    };
    for row in [
        row("m", &["1", "10", "2", "0.00004"]),
        row("shop", &["12", "1,500", "0.00004", "no limit"]),
        row("idle", &["0", "no limit", "0", "no limit"]),
    ] {
        assert!(page.contains(&row), "no `{row}` in {page}");
    }
    let session = shown(&behind(&shown("/dashboard").await, "<th scope=\"row\"><a href=\"")).await;
    for (name, value) in [("tokens read", "10"), ("tokens written", "2"), ("cost (US dollars)", "0.00004")] {
        assert!(session.contains(&format!("<dt>{name}</dt><dd>{value}</dd>")), "no {name} in {session}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_are_pending_decided_or_revised() {
    let (_stub, bench) = bench().await;
    let cookie = log_in(&bench).await;
    let shown = async |path: &str| get(&bench, path, &[("cookie", &cookie)]).await.body;
    let address = behind(&shown("/dashboard").await, "<th scope=\"row\"><a href=\"");
    let proof = behind(&shown(&address).await, "name=\"proof\" value=\"");
    let judge = async |thumb: &str| {
        let form = format!("proof={proof}&turn=0&thumb={thumb}");
        assert_eq!(send_form(&bench, &format!("{address}/feedback"), &cookie, &form).await.status, 303);
        shown(&address).await
    };
    let pressed = |page: &str, thumb: &str| page.contains(&format!("value=\"{thumb}\" aria-pressed=\"true\""));
    let open = judge("down").await;
    assert!(open.contains("<td>pending until the session ends</td>") && open.contains("<td>turn 1</td>"), "{open}");
    assert!(pressed(&open, "down") && !pressed(&open, "up"), "{open}");
    let headers = [("x-clawhost-user", "\"><i>ada")];
    assert_eq!(post(&bench.address, "/s/%3Cb%3Es/end", &headers, &json!({})).await.status, 200);
    let ended = shown(&address).await;
    assert!(ended.contains("<td>decided</td>") && ended.contains("<dt>verdicts</dt><dd>decided</dd>"), "{ended}");
    let judged = judge("up").await;
    assert!(judged.contains("<td>revised: a later one counts</td>") && judged.contains("<td>decided</td>"), "{judged}");
    assert!(pressed(&judged, "up") && !pressed(&judged, "down"), "{judged}");
    let overview = shown("/dashboard").await;
    assert!(overview.contains("<td class=\"number\">1</td><td>revised 1 time</td>"), "{overview}");
    // A correction that comes with a thumb is shown beside its reason.
    let given = json!({"session": "<b>s", "thumb": "down", "text": "too long", "correction": "use metres"});
    assert_eq!(post(&bench.address, "/v1/feedback", &headers, &given).await.status, 200);
    let corrected = shown(&address).await;
    assert!(corrected.contains("too long; correction: use metres"), "{corrected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_the_page_with_the_cookie_alone_as_long_as_the_login_lasts() {
    let (_stub, mut bench) = bench().await;
    let path = "/dashboard/events";
    for headers in [vec![], vec![("cookie", "clawhost_admin=0000")], vec![("x-api-key", ADMIN)]] {
        let refused = get(&bench, path, &headers).await;
        assert_eq!(refused.status, 401, "{headers:?}");
        assert!(refused.body.contains("name=\"key\"") && !refused.body.contains("ada"), "{refused:?}");
    }
    let cookie = log_in(&bench).await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        assert_eq!(get(&bench, path, &[("cookie", &cookie), (name, value)]).await.status, 403, "{name}");
    }
    let page = get(&bench, "/dashboard", &[("cookie", &cookie)]).await.body;
    let (from, proof) = (behind(&page, "data-from=\""), behind(&page, "name=\"proof\" value=\""));
    let headers = [("cookie", cookie.as_str())];
    // The page shows events up to its rendering. Later events arrive on the stream, also those from before it opened.
    post(&bench.address, "/s/%3Cb%3Es/end", &[("x-clawhost-user", "\"><i>ada")], &json!({})).await;
    let mut reader = request("GET", &bench.address, &format!("{path}?from={from}"), &headers, b"");
    let head = reader.read_until(": clawhost events\n\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream") && head.contains(POLICY), "{head}");
    let text = reader.read_until("event: episode_made\n");
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(kinds, ["session_ended", "episode_made"]);
    let mut all = request("GET", &bench.address, &format!("{path}?from=x"), &headers, b"");
    assert!(all.read_until("event: exchange_recorded\n").contains("event: session_opened\n"), "of no known start");
    let body = json!({"response_id": "unknown", "thumb": "up"});
    assert_eq!(post(&bench.address, "/v1/feedback", &[], &body).await.status, 404);
    let body = json!({"session": "<b>s", "thumb": "up"});
    assert_eq!(post(&bench.address, "/v1/feedback", &[], &body).await.status, 200);
    let body = json!({"model": "m", "messages": [user("something else")]});
    assert_eq!(post(&bench.address, "/v1/chat/completions", &[], &body).await.status, 200);
    let text = reader.read_until("event: exchange_recorded\n");
    assert!(text.contains("event: feedback_given\n"), "{text}");
    assert_eq!(send_form(&bench, "/dashboard/logout", &cookie, &format!("proof={proof}")).await.status, 303);
    let body = json!({"model": "m", "messages": [user("after the end of the login")]});
    assert_eq!(post(&bench.address, "/v1/chat/completions", &[], &body).await.status, 200);
    bench.stop().await;
    let rest = reader.rest();
    assert!(!rest.contains("event: "), "the stream has ended: {rest}");
}
