//! The page of the gateway in Chromium, if there is one, driven by Puppeteer.

use super::{Upstream, bench, installed, script};
use crate::bench::Bench;
use crate::guests;
use crate::serving::Served;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The names under which systems have the browser.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

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

/// A request of a client of the gateway.
fn client(address: &str, user: &str, correction: &str) {
    let code = r#"
const [address, user, correction] = process.argv.slice(1);
const send = async (path, body) => {
    const headers = { "content-type": "application/json", "x-clawhost-user": user, "x-clawhost-session": user };
    const answer = await fetch(`http://${address}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
};
const messages = [{ role: "user", content: "How far is it?" }];
const answer = await send("/v1/chat/completions", { model: "m", messages });
await send("/v1/feedback", { response_id: answer.id, thumb: "down", correction });
await send(`/s/${user}/end`, {});
"#;
    let ran = Command::new("node").args(["--input-type=module", "-e", code, "--", address, user, correction]).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", bench::stderr(&ran));
}

#[test]
fn the_page_works_in_a_browser() {
    const TEST: &str = "the_page_works_in_a_browser";
    let Some(modules) = installed(TEST, "sdks", "node") else { return };
    let Some(browser) = browser(TEST) else { return };
    let Some(guests) = guests::folder_or_skip(TEST) else { return };
    let bench = Bench { guests, data: tempfile::tempdir().unwrap() };
    let config = format!(
        "[gateway]\nmode = \"auto\"\n[learning]\nlive_trials = true\ndeadline_seconds = 1\nreflectors = [\"{}\"]\n",
        bench.guest("reflector_rules")
    );
    std::fs::write(bench.data.path().join("gateway.toml"), config).unwrap();
    let skills = bench.data.path().join("playbook.json");
    for lessons in [&["Be kind."][..], &["Be kind.", "Be brief."]] {
        let entries: Vec<serde_json::Value> =
            lessons.iter().map(|text| serde_json::json!({ "lesson": { "text": text } })).collect();
        std::fs::write(
            &skills,
            serde_json::json!({ "format": "clawhost-playbook", "version": 1, "entries": entries }).to_string(),
        )
        .unwrap();
        bench.out(&["playbook", "import", "live", skills.to_str().unwrap()]);
    }
    let upstream = Upstream::start("openai");
    let served = Served::start(&bench, &[&upstream.spec]);
    for user in ["ada", "ben", "cy"] {
        client(&served.address, user, "Use metric units.");
    }
    let key = std::fs::read_to_string(bench.data.path().join("admin.key")).unwrap();
    let pictures = std::env::var_os("CLAWHOST_PICTURES").map_or_else(|| bench.data.path().to_owned(), PathBuf::from);
    let mut command = Command::new("node");
    command.arg(script("page.mjs")).args([served.address.as_str(), key.trim()]).arg(&modules).arg(browser);
    let output = command.arg(&pictures).stdin(Stdio::null()).output().unwrap();
    let said = bench::stdout(&output) + &bench::stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= 42, "{said}");
    for name in ["session", "playbook", "playbook-dark", "playbook-phone"] {
        let picture = std::fs::metadata(pictures.join(format!("{name}.png"))).unwrap();
        assert!(picture.len() > 5_000, "{name}: {} bytes", picture.len());
    }
    eprintln!("{}", said.lines().find(|line| line.starts_with("first paint")).unwrap_or_default());
}
