//! The page of the gateway in Chromium, if there is one, driven by Puppeteer. Each script checks one side of it.

use super::{Upstream, bench, installed, script};
use crate::bench::Bench;
use crate::client::{chat, request, send, user};
use crate::guests;
use crate::serving::Served;
use clawhost_model::TinyModel;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The names under which systems have the browser.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// The router of the page.
const ROUTER: &str = include_str!("../../host/gateway/src/dashboard/mod.rs");
/// Weights that learn by steps by hand alone: a batch is never complete.
const WEIGHTS: &str = "[weights]\nmodel = \"tutor\"\nfrom = [\"all\"]\nbatch = 64\ndeadline_seconds = 5\nrate = 0.001\nadapter_rank = 0\n";

/// It has no form by which it is known.
const KEY_OF_UPSTREAM: &str = "the.key.of.the.upstream";

/// The path of a browser, or a printed reason for skipping.
fn browser(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped {test}: there is no chromium; install the package of your system");
    }
    found
}

/// The addresses of pages, as the router has them.
fn routes() -> Vec<String> {
    let routes = ROUTER.lines().filter_map(|line| line.trim().strip_prefix(".route("));
    let pages = routes.filter_map(|route| route.split_once(", get(").map(|(address, _)| address.trim_matches('"')));
    let pages = pages.map(|address| if address == "HOME" { "/dashboard".to_owned() } else { address.to_owned() });
    pages.filter(|address| !address.contains('.')).collect()
}

/// A request of a client of the gateway, which succeeds.
fn ask(served: &Served, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
    let answer = send(&served.address, path, headers, body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// A gateway that learns lessons on live sessions, behind a playbook of two versions, and a browser in front of it.
struct Site {
    bench: Bench,
    served: Served,
    /// The admin's, and the cookie of somebody who has shown it.
    key: String,
    cookie: String,
    modules: PathBuf,
    browser: PathBuf,
    _upstream: Upstream,
}

impl Site {
    /// With three ended sessions and a lesson that all of them ask for, or `None` to skip. `weights`: the section of that name.
    fn new(test: &str, weights: &str) -> Option<Self> {
        let modules = installed(test, "sdks", "node")?;
        let browser = browser(test)?;
        let guests = guests::folder_or_skip(test)?;
        let bench = Bench { guests, data: tempfile::tempdir().unwrap() };
        let tiny = bench.data.path().join("tiny");
        let small = TinyModel { width: 16, layers: 1, heads: 2, seed: 5, ..TinyModel::default() };
        small.make().unwrap().write(&tiny).unwrap();
        let models = if weights.is_empty() {
            String::new()
        } else {
            format!("[models.tutor]\nmodel = \"local:{}\"\n", tiny.display())
        };
        let upstream = Upstream::start("openai");
        let key_file = bench.data.path().join("upstream.key");
        std::fs::write(&key_file, KEY_OF_UPSTREAM).unwrap();
        let stub = upstream.spec.strip_prefix("m=").unwrap();
        let config = format!(
            "[models.m]\nmodel = \"{stub}\"\nkey_file = \"{}\"\n[gateway]\nmode = \"auto\"\n[learning]\nlive_trials = true\ndeadline_seconds = 5\nreflectors = [\"{}\"]\n{models}{weights}",
            key_file.display(),
            bench.guest("reflector_rules")
        );
        std::fs::write(bench.data.path().join("gateway.toml"), config).unwrap();
        let skills = bench.data.path().join("playbook.json");
        for lessons in [&["Be kind."][..], &["Be kind.", "Be brief."]] {
            let entries: Vec<Value> = lessons.iter().map(|text| json!({ "lesson": { "text": text } })).collect();
            let document = json!({ "format": "clawhost-playbook", "version": 1, "entries": entries });
            std::fs::write(&skills, document.to_string()).unwrap();
            bench.out(&["playbook", "import", "live", skills.to_str().unwrap()]);
        }
        let served = Served::start(&bench, &[]);
        for name in ["ada", "ben", "cy"] {
            let headers = [("x-clawhost-user", name), ("x-clawhost-session", name)];
            let answer = ask(&served, "/v1/chat/completions", &headers, &chat(&[user("How far is it?")]));
            let given = json!({"response_id": answer["id"], "thumb": "down", "correction": "Use metric units."});
            ask(&served, "/v1/feedback", &headers, &given);
            ask(&served, &format!("/s/{name}/end"), &headers, &json!({}));
        }
        let key = std::fs::read_to_string(bench.data.path().join("admin.key")).unwrap().trim().to_owned();
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let entered = request("POST", &served.address, "/dashboard/login", &form, format!("key={key}").as_bytes());
        let cookie = entered.answer().header("set-cookie").split(';').next().unwrap().to_owned();
        Some(Self { bench, served, key, cookie, modules, browser, _upstream: upstream })
    }

    /// Runs a script, which checks so many things at least. Returns what it said.
    fn browse(&self, name: &str, checks: usize) -> String {
        let settings = json!({
            "address": self.served.address, "key": self.key, "modules": self.modules, "chromium": self.browser,
            "pictures": self.pictures(), "routes": routes(), "keyOfUpstream": KEY_OF_UPSTREAM,
        });
        let mut command = Command::new("node");
        let output = command.arg(script(name)).arg(settings.to_string()).stdin(Stdio::null()).output().unwrap();
        let said = bench::stdout(&output) + &bench::stderr(&output);
        assert!(output.status.success(), "{said}");
        // A script that checked nothing would succeed, too.
        assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= checks, "{said}");
        said
    }

    /// A page as the admin sees it.
    fn page(&self, path: &str) -> String {
        let shown = request("GET", &self.served.address, path, &[("cookie", &self.cookie)], b"").answer();
        assert_eq!(shown.status, 200, "{shown:?}");
        shown.body
    }

    /// Where scripts leave pictures.
    fn pictures(&self) -> PathBuf {
        std::env::var_os("CLAWHOST_PICTURES").map_or_else(|| self.bench.data.path().to_owned(), PathBuf::from)
    }

    fn has_pictures(&self, names: &[&str]) {
        for name in names {
            let picture = std::fs::metadata(self.pictures().join(format!("{name}.png"))).unwrap();
            assert!(picture.len() > 5_000, "{name}: {} bytes", picture.len());
        }
    }

    /// Four sessions of the model that learns, with thumbs, and a step over them. Returns the version of the weights that answers then.
    fn step(&self, first: &str) -> String {
        let before = self.version();
        for number in 0..4 {
            self.teach(&format!("{first}-{number}"), if number % 2 == 0 { "up" } else { "down" });
        }
        // Sessions count a second after their end. The page says how many do.
        self.becomes(|| self.page("/dashboard/training").contains("> 4 of 64<"));
        let step = self.bench.json(&["train-step"]);
        assert_eq!(step["train_step"]["sessions"], 4, "{step}");
        self.becomes(|| self.version() != before);
        self.version()
    }

    /// A session of the model that learns, with a thumb.
    fn teach(&self, name: &str, thumb: &str) {
        let headers = [("x-clawhost-session", name)];
        let mut body = chat(&[user("1+1=")]);
        (body["model"], body["max_tokens"]) = ("tutor".into(), 4.into());
        ask(&self.served, "/v1/chat/completions", &headers, &body);
        ask(&self.served, "/v1/feedback", &[], &json!({"session": name, "thumb": thumb}));
        ask(&self.served, &format!("/s/{name}/end"), &[], &json!({}));
    }

    /// The version of the weights that answer.
    fn version(&self) -> String {
        let models = request("GET", &self.served.address, "/v1/models", &[], b"").answer().json();
        let tutor = models["data"].as_array().unwrap().iter().find(|model| model["id"] == "tutor");
        tutor.unwrap_or_else(|| panic!("{models}"))["version"].as_str().unwrap().to_owned()
    }

    /// Waits for what the gateway does by itself.
    fn becomes(&self, holds: impl FnMut() -> bool) {
        assert!(self.served.changes(&self.bench, holds).any(|holds| holds), "the gateway has ended");
    }
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(site) = Site::new("the_page_works_in_a_browser", "") else { return };
    let said = site.browse("page.mjs", 38);
    site.has_pictures(&["session", "playbook", "playbook-dark", "playbook-phone"]);
    eprintln!("{}", said.lines().find(|line| line.starts_with("first paint")).unwrap_or_default());
}

#[test]
fn every_page_fits_a_phone_and_can_be_read_in_the_dark_and_in_the_light() {
    let Some(site) = Site::new("every_page_fits_a_phone", WEIGHTS) else { return };
    site.step("one");
    site.step("two");
    site.browse("page_looks.mjs", 200);
}

#[test]
fn the_page_is_operated_by_keys_alone() {
    let Some(site) = Site::new("the_page_is_operated_by_keys_alone", "") else { return };
    site.browse("page_keys.mjs", 38);
}

#[test]
fn the_page_works_without_scripts() {
    let Some(site) = Site::new("the_page_works_without_scripts", "") else { return };
    site.browse("page_bare.mjs", 22);
}

#[test]
fn weights_that_have_learned_are_shown_and_an_earlier_version_answers_again_after_a_question() {
    let Some(site) = Site::new("weights_that_have_learned_are_shown", WEIGHTS) else { return };
    let (first, second) = (site.step("one"), site.step("two"));
    assert_ne!(first, second);
    site.teach("three", "up");
    site.browse("page_weights.mjs", 17);
    site.has_pictures(&["training"]);
    site.becomes(|| site.version() == first);
}
