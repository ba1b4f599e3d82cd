//! Each client with a file as its users have it: connected, connected again, changed by hand, and disconnected.

use super::*;
use std::fs;

const OPENCLAW: &str = r#"// ~/.openclaw/openclaw.json
{
  gateway: { port: 18789, mode: "local", }, // loopback
  agents: {
    defaults: {
      workspace: "~/.openclaw/workspace",
      model: { primary: "anthropic/claude-opus-4-6", fallbacks: ['minimax/MiniMax-M2.7'] },
    },
  },
  channels: { whatsapp: { allowFrom: ["+15555550123"] } },
}
"#;

const CODEX: &str = r#"# My settings.
model = "gpt-5.2" # the default
approval_policy = "on-request"

[mcp_servers.docs]
command = "docs-server"
args = ["--stdio"]

[tui]
notifications = true
"#;

const CLAUDE_CODE: &str = r#"{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "permissions": {
    "allow": ["Bash(npm run lint)"],
    "deny": []
  },
  "env": {
    "ANTHROPIC_MODEL": "claude-opus-5",
    "BASH_DEFAULT_TIMEOUT_MS": "60000"
  }
}
"#;

const OPENCODE: &str = r#"{
  "$schema": "https://opencode.ai/config.json",
  // by hand
  "theme": "opencode",
  "model": "anthropic/claude-sonnet-5",
  "provider": {
    "anthropic": { "options": { "timeout": 600000 } }
  }
}
"#;

const HERMES: &str = r#"# Hermes
model:
  default: anthropic/claude-opus-4.6   # the best
  provider: openrouter
toolsets:
  - all
agent:
  max_turns: 60
terminal:
  backend: local
"#;

/// A client's file in a folder of its own.
struct Place {
    folder: tempfile::TempDir,
    client: Client,
}

fn surroundings(home: &Path) -> Surroundings {
    Surroundings { home: home.to_owned(), variable: Box::new(|_| None) }
}

impl Place {
    fn new(client: Client, text: Option<&str>) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), client };
        if let Some(text) = text {
            fs::create_dir_all(place.file().parent().unwrap()).unwrap();
            fs::write(place.file(), text).unwrap();
        }
        place
    }

    fn file(&self) -> PathBuf {
        self.client.file(&surroundings(self.folder.path()))
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn connect(&self, request: &ConnectRequest) -> Result<Connection, String> {
        connect(self.client, request, &surroundings(self.folder.path()), false).map_err(|error| error.to_string())
    }

    fn disconnect(&self) -> Result<Restored, String> {
        let done = disconnect(self.client, None, &surroundings(self.folder.path()));
        done.map(|(_, restored)| restored).map_err(|error| error.to_string())
    }

    /// The names in the folder of the file.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.file().parent().unwrap()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn values(&self) -> Document {
        Document::parse(self.client.format(), &self.text()).unwrap()
    }
}

fn request() -> ConnectRequest {
    ConnectRequest {
        file: None,
        address: "http://127.0.0.1:8700".into(),
        model: "fast".into(),
        key: None,
        has_responses: false,
    }
}

fn with_key() -> ConnectRequest {
    ConnectRequest { key: Some("GATEWAY_KEY".parse().unwrap()), ..request() }
}

/// Each client with its sample.
fn samples() -> [(Client, &'static str); 5] {
    [
        (Client::OpenClaw, OPENCLAW),
        (Client::Codex, CODEX),
        (Client::ClaudeCode, CLAUDE_CODE),
        (Client::OpenCode, OPENCODE),
        (Client::Hermes, HERMES),
    ]
}

#[test]
fn each_client_asks_the_gateway_and_keeps_everything_else() {
    let check = |client: Client, text: &str, expect: &[(&[&str], &str)], kept: &[&str]| {
        let place = Place::new(client, Some(text));
        place.connect(&with_key()).unwrap();
        let values = place.values();
        for (path, expect) in expect {
            assert_eq!(values.get(path), Some(Value::from(*expect)), "{path:?} in {}", place.text());
        }
        for kept in kept {
            assert!(place.text().contains(kept), "{kept} in {}", place.text());
        }
    };
    check(
        Client::OpenClaw,
        OPENCLAW,
        &[
            (&["models", "providers", "clawhost", "baseUrl"], "http://127.0.0.1:8700/v1"),
            (&["models", "providers", "clawhost", "apiKey"], "${GATEWAY_KEY}"),
            (&["agents", "defaults", "model", "primary"], "clawhost/fast"),
        ],
        &["// ~/.openclaw/openclaw.json", "// loopback", "fallbacks: ['minimax/MiniMax-M2.7']", "port: 18789"],
    );
    check(
        Client::Codex,
        CODEX,
        &[
            (&["model"], "fast"),
            (&["model_provider"], "clawhost"),
            (&["model_providers", "clawhost", "base_url"], "http://127.0.0.1:8700/v1"),
            (&["model_providers", "clawhost", "wire_api"], "responses"),
            (&["model_providers", "clawhost", "env_key"], "GATEWAY_KEY"),
            (&["web_search"], "disabled"),
        ],
        &["# My settings.", "model = \"fast\" # the default", "[mcp_servers.docs]", "notifications = true"],
    );
    check(
        Client::ClaudeCode,
        CLAUDE_CODE,
        &[
            (&["env", "ANTHROPIC_BASE_URL"], "http://127.0.0.1:8700"),
            (&["env", "ANTHROPIC_MODEL"], "fast"),
            (&["env", "ANTHROPIC_DEFAULT_HAIKU_MODEL"], "fast"),
            (&["apiKeyHelper"], "printf %s \"$GATEWAY_KEY\""),
        ],
        &["Bash(npm run lint)", "\"BASH_DEFAULT_TIMEOUT_MS\": \"60000\""],
    );
    check(
        Client::OpenCode,
        OPENCODE,
        &[
            (&["model"], "clawhost/fast"),
            (&["provider", "clawhost", "npm"], "@ai-sdk/openai-compatible"),
            (&["provider", "clawhost", "options", "baseURL"], "http://127.0.0.1:8700/v1"),
            (&["provider", "clawhost", "options", "apiKey"], "{env:GATEWAY_KEY}"),
            (&["provider", "clawhost", "models", "fast", "name"], "fast"),
        ],
        &["// by hand", "\"timeout\": 600000"],
    );
    check(
        Client::Hermes,
        HERMES,
        &[
            (&["model", "default"], "fast"),
            (&["model", "provider"], "custom:clawhost"),
            (&["providers", "clawhost", "base_url"], "http://127.0.0.1:8700/v1"),
            (&["providers", "clawhost", "key_env"], "GATEWAY_KEY"),
        ],
        &["# Hermes", "# the best", "  - all", "max_turns: 60"],
    );
}

#[test]
fn undoing_restores_every_byte_and_leaves_nothing_beside_the_file() {
    for (client, text) in samples() {
        let place = Place::new(client, Some(text));
        let before = place.names();
        let connection = place.connect(&request()).unwrap();
        assert!(!connection.changes.is_empty());
        assert_eq!(fs::read_to_string(connection.backup.unwrap()).unwrap(), text);
        assert_ne!(place.text(), text);
        assert_eq!(place.disconnect(), Ok(Restored::Exactly));
        assert_eq!(place.text(), text);
        assert_eq!(place.names(), before);
        assert!(place.disconnect().unwrap_err().contains("is not connected"));
    }
}

#[test]
fn a_missing_file_is_made_and_removed_again() {
    for (client, _) in samples() {
        let place = Place::new(client, None);
        let connection = place.connect(&request()).unwrap();
        assert_eq!(connection.backup, None);
        assert!(place.text().contains("127.0.0.1:8700"), "{}", place.text());
        assert_eq!(place.disconnect(), Ok(Restored::Removed));
        assert!(place.names().is_empty(), "{:?}", place.names());
    }
}

#[test]
fn connecting_twice_changes_nothing_and_keeps_the_first_copy() {
    for (client, text) in samples() {
        let place = Place::new(client, Some(text));
        place.connect(&request()).unwrap();
        let once = place.text();
        let again = place.connect(&request()).unwrap();
        assert_eq!((again.changes, place.text()), (vec![], once), "{client:?}");
        // Another model and a key: no setting of the first time is left.
        place.connect(&ConnectRequest { model: "slow".into(), ..with_key() }).unwrap();
        assert!(!place.text().contains("fast"), "{}", place.text());
        assert_eq!(place.disconnect(), Ok(Restored::Exactly));
        assert_eq!(place.text(), text);
    }
}

#[test]
fn what_was_changed_since_stays_when_a_connection_is_taken_back() {
    let check = |client: Client, text: &str, replace: (&str, &str), expect: (&str, &str)| {
        let place = Place::new(client, Some(text));
        place.connect(&request()).unwrap();
        let edited = place.text().replacen(replace.0, replace.1, 1);
        assert_ne!(edited, place.text(), "{client:?}");
        fs::write(place.file(), edited).unwrap();
        assert_eq!(place.disconnect(), Ok(Restored::Settings));
        let (kept, restored) = expect;
        let text = place.text();
        assert!(text.contains(kept) && text.contains(restored) && !text.contains("clawhost"), "{text}");
        assert_eq!(place.names().len(), 1);
    };
    check(Client::OpenClaw, OPENCLAW, ("18789", "18790"), ("18790", "anthropic/claude-opus-4-6"));
    check(Client::Codex, CODEX, ("on-request", "never"), ("never", "model = \"gpt-5.2\" # the default"));
    check(Client::ClaudeCode, CLAUDE_CODE, ("60000", "70000"), ("70000", "claude-opus-5"));
    check(Client::OpenCode, OPENCODE, ("600000", "700000"), ("700000", "anthropic/claude-sonnet-5"));
    check(Client::Hermes, HERMES, ("max_turns: 60", "max_turns: 70"), ("max_turns: 70", "anthropic/claude-opus-4.6"));
    // A setting that the user has chosen since is the user's.
    let place = Place::new(Client::Codex, Some(CODEX));
    place.connect(&request()).unwrap();
    fs::write(place.file(), place.text().replace("model = \"fast\"", "model = \"mine\"")).unwrap();
    place.disconnect().unwrap();
    assert!(place.text().contains("model = \"mine\""), "{}", place.text());
}

#[test]
fn only_showing_writes_nothing_and_shows_no_former_key() {
    let text = r#"{"env": {"ANTHROPIC_AUTH_TOKEN": "sk-ant-secret"}}"#;
    let place = Place::new(Client::ClaudeCode, Some(text));
    let shown = connect(Client::ClaudeCode, &request(), &surroundings(place.folder.path()), true).unwrap();
    assert_eq!((place.text().as_str(), place.names().len()), (text, 1));
    let key = |key: &str| shown.changes.iter().find(|change| change.key == key).unwrap();
    assert_eq!(key("env.ANTHROPIC_BASE_URL").before, None);
    assert_eq!(key("env.ANTHROPIC_AUTH_TOKEN").before.as_deref(), Some("(set)"));
    assert!(!format!("{shown:?}").contains("sk-ant-secret"));
}

#[test]
fn short_forms_of_a_model_are_kept_and_restored() {
    let place = Place::new(
        Client::OpenClaw,
        Some(r#"{"agents": {"defaults": {"model": "openai/gpt-5", "models": {"openai/gpt-5": {}}}}}"#),
    );
    place.connect(&request()).unwrap();
    let values = place.values();
    assert_eq!(values.get(&["agents", "defaults", "model"]), Some("clawhost/fast".into()));
    assert!(values.get(&["agents", "defaults", "models", "clawhost/fast"]).is_some(), "{}", place.text());
    let place = Place::new(Client::Hermes, Some("model: gpt-5 # short\nagent:\n  max_turns: 5\n"));
    place.connect(&request()).unwrap();
    assert_eq!(place.values().get(&["model", "provider"]), Some("custom:clawhost".into()), "{}", place.text());
    assert!(place.text().contains("# short"), "{}", place.text());
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_left_as_it_is() {
    let check = |client: Client, text: &str, says: &str| {
        let place = Place::new(client, Some(text));
        let error = place.connect(&request()).unwrap_err();
        assert!(error.contains(says) && error.contains(&place.file().display().to_string()), "{error}");
        assert_eq!((place.text().as_str(), place.names().len()), (text, 1), "{client:?}");
    };
    check(Client::Codex, "model = \n", "line 1");
    check(Client::ClaudeCode, "{\"env\": ", "line 1");
    check(Client::OpenCode, "[]", "no object");
    check(Client::Hermes, "- a\n", "no mapping");
    check(Client::ClaudeCode, "{\"env\": 5}", "env.ANTHROPIC_BASE_URL cannot be set");
    check(Client::Codex, "model_providers = 1\n", "cannot be set");
    let place = Place::new(Client::Codex, None);
    fs::create_dir_all(place.file()).unwrap();
    assert!(place.connect(&request()).unwrap_err().contains("not a regular file"));
}

#[test]
fn a_file_of_another_client_or_without_its_copy_is_not_taken_back() {
    let place = Place::new(Client::ClaudeCode, Some(CLAUDE_CODE));
    let connection = place.connect(&request()).unwrap();
    let other = disconnect(Client::OpenCode, Some(place.file()), &surroundings(place.folder.path()));
    assert!(other.unwrap_err().to_string().contains("as the file of claude-code, not of opencode"));
    fs::remove_file(connection.backup.unwrap()).unwrap();
    assert!(place.disconnect().unwrap_err().contains("copy of the file as it was is missing"));
    assert!(place.text().contains("127.0.0.1:8700"), "it is left as it is");
}

#[cfg(unix)]
#[test]
fn links_and_files_that_may_only_be_read_are_refused_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new(Client::Codex, Some(CODEX));
    let allow = |mode: u32| fs::set_permissions(place.file(), fs::Permissions::from_mode(mode)).unwrap();
    allow(0o400);
    assert!(place.connect(&request()).unwrap_err().contains("may only be read"));
    allow(0o640);
    place.connect(&request()).unwrap();
    let mode = fs::metadata(place.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let linked = Place::new(Client::Codex, None);
    fs::create_dir_all(linked.file().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(place.file(), linked.file()).unwrap();
    let error = linked.connect(&request()).unwrap_err();
    assert!(error.contains("it is a link to") && error.contains(&place.file().display().to_string()), "{error}");
}

#[test]
fn addresses_models_and_variables_are_checked() {
    let place = Place::new(Client::Codex, None);
    let address = |address: &str| place.connect(&ConnectRequest { address: address.into(), ..request() });
    for wrong in ["", "127.0.0.1:8700", "ftp://a", "http://u:p@a", "http://a/?x=1", "http://a/b"] {
        assert!(address(wrong).unwrap_err().contains("is not the address of a gateway"), "{wrong}");
    }
    assert!(!place.file().exists());
    for right in ["http://127.0.0.1:8700/", "http://127.0.0.1:8700/v1", "http://127.0.0.1:8700/v1/"] {
        address(right).unwrap();
        assert!(place.text().contains("base_url = \"http://127.0.0.1:8700/v1\""), "{}", place.text());
    }
    for wrong in ["", "a b", "a\"b", "${HOME}", "a\n"] {
        let error = place.connect(&ConnectRequest { model: wrong.into(), ..request() }).unwrap_err();
        assert!(error.contains("cannot be the name of a model"), "{wrong}: {error}");
    }
    for wrong in ["", "1A", "A-B", "A B", "$(id)"] {
        assert!(wrong.parse::<KeyName>().is_err(), "{wrong}");
    }
}

#[test]
fn files_are_where_the_clients_have_them() {
    let home = Path::new("/home/me");
    let check = |client: Client, variable: Option<(&'static str, &'static str)>, expect: &str| {
        let of = move |name: &str| variable.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
        let surroundings = Surroundings { home: home.to_owned(), variable: Box::new(of) };
        assert_eq!(client.file(&surroundings), Path::new(expect), "{client:?} {variable:?}");
    };
    check(Client::OpenClaw, None, "/home/me/.openclaw/openclaw.json");
    check(Client::OpenClaw, Some(("OPENCLAW_STATE_DIR", "/s")), "/s/openclaw.json");
    check(Client::OpenClaw, Some(("OPENCLAW_CONFIG_PATH", "~/c.json")), "/home/me/c.json");
    check(Client::Codex, None, "/home/me/.codex/config.toml");
    check(Client::Codex, Some(("CODEX_HOME", "/c")), "/c/config.toml");
    check(Client::ClaudeCode, None, "/home/me/.claude/settings.json");
    check(Client::ClaudeCode, Some(("CLAUDE_CONFIG_DIR", "/c")), "/c/settings.json");
    check(Client::OpenCode, None, "/home/me/.config/opencode/opencode.json");
    check(Client::OpenCode, Some(("OPENCODE_CONFIG", "/o.jsonc")), "/o.jsonc");
    check(Client::Hermes, None, "/home/me/.hermes/config.yaml");
    check(Client::Hermes, Some(("HERMES_HOME", "/h")), "/h/config.yaml");
}
