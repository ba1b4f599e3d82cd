//! Agents as their makers ship them, as black boxes: a conversation with a tool call is one whole episode.

use crate::bench::{Bench, stderr, stdout};
use crate::serving::Served;
use crate::{Upstream, installed};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds for one conversation. An agent that waits for something else is ended.
const SECONDS: &str = "180";
/// What the note says.
const NOTE: &str = "the-word-is-7351";

/// What an agent is started with.
struct Place<'a> {
    /// The folder in which npm installed it.
    folder: &'a Path,
    /// Its home, which is empty.
    home: &'a Path,
    /// The folder that it works in.
    work: &'a Path,
    /// The gateway.
    address: &'a str,
    /// What it is asked to do.
    prompt: &'a str,
}

impl Place<'_> {
    /// A program of the package, on the Node beside it.
    fn command(&self, program: &str) -> Command {
        let node = self.folder.join("../node/node_modules/node/bin");
        let path = format!("{}:{}", node.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("timeout");
        command.arg(SECONDS).arg(self.folder.join("node_modules/.bin").join(program));
        command.env_clear().env("PATH", path).env("HOME", self.home).current_dir(self.work).stdin(Stdio::null());
        command
    }
}

/// Lets an agent read a note, with upstreams of these kinds.
fn check(test: &str, agent: &str, kinds: &[&str], start: impl Fn(&Place<'_>) -> Command) {
    let Some(folder) = installed(test, "agents", agent) else { return };
    for kind in kinds {
        let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let note = work.path().join("note.txt");
        std::fs::write(&note, NOTE).unwrap();
        let upstream = Upstream::start(kind);
        let served = Served::start(&bench, &[&upstream.spec]);
        let prompt = format!("read the note {}", note.display());
        let (folder, address) = (&folder, &served.address);
        let place = Place { folder, home: home.path(), work: work.path(), address, prompt: &prompt };
        let output = start(&place).output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        assert!(output.status.success() && said.contains(NOTE), "an upstream of {kind}:\n{said}");
        let ended = served.terminate();
        assert!(stderr(&ended).contains("missed 0"), "{}", stderr(&ended));
        let rows = bench.json(&["episodes", "list"]);
        let [row] = rows.as_array().unwrap().as_slice() else { panic!("one episode: {rows}") };
        assert_eq!((&row["turns"], &row["complete"]), (&2.into(), &true.into()), "{row}");
        let shown = bench.out(&["episodes", "show", row["id"].as_str().unwrap()]);
        assert!(shown.contains("read the note") && shown.matches(NOTE).count() >= 2, "result and answer: {shown}");
    }
}

#[test]
fn codex_gives_one_whole_episode() {
    check("codex_gives_one_whole_episode", "codex", &["responses", "openai", "anthropic"], |place| {
        let codex = place.home.join("codex");
        std::fs::create_dir(&codex).unwrap();
        let provider = format!(
            "model = \"m\"\nmodel_provider = \"clawhost\"\nweb_search = \"disabled\"\n[model_providers.clawhost]\nname = \"clawhost\"\n\
             base_url = \"http://{}/v1\"\nwire_api = \"responses\"\n",
            place.address
        );
        std::fs::write(codex.join("config.toml"), provider).unwrap();
        let mut command = place.command("codex");
        // The conversation is the suite's own, and the sandbox of an agent inside of a container fails.
        let options = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
        command.args(options).arg(place.prompt).env("CODEX_HOME", codex);
        command
    });
}

#[test]
fn claude_code_gives_one_whole_episode() {
    check("claude_code_gives_one_whole_episode", "claude-code", &["anthropic", "openai"], |place| {
        let mut command = place.command("claude");
        command.args(["-p", place.prompt, "--model", "m", "--allowedTools", "Read"]);
        command.env("ANTHROPIC_BASE_URL", format!("http://{}", place.address)).env("ANTHROPIC_API_KEY", "none");
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_TELEMETRY", "1");
        command
    });
}

#[test]
fn openclaw_gives_one_whole_episode() {
    check("openclaw_gives_one_whole_episode", "openclaw", &["openai", "anthropic"], |place| {
        let folder = place.home.join(".openclaw");
        std::fs::create_dir(&folder).unwrap();
        let cost = serde_json::json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0});
        let model = serde_json::json!({
            "id": "m", "name": "m", "reasoning": false, "input": ["text"], "cost": cost, "contextWindow": 128_000, "maxTokens": 4096,
        });
        let provider = serde_json::json!({
            "baseUrl": format!("http://{}/v1", place.address), "apiKey": "none", "api": "openai-completions", "models": [model],
        });
        let defaults = serde_json::json!({"model": {"primary": "clawhost/m"}, "workspace": place.work});
        let config =
            serde_json::json!({"models": {"providers": {"clawhost": provider}}, "agents": {"defaults": defaults}});
        std::fs::write(folder.join("openclaw.json"), config.to_string()).unwrap();
        let mut command = place.command("openclaw");
        command.args(["agent", "--local", "--session-id", "note", "--message", place.prompt, "--json"]);
        command
    });
}
