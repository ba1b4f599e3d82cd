//! What a client says of its session, in headers and in fields of its request.

use axum::http::{HeaderMap, HeaderValue};
use clawhost_capture::ClientSession;
use clawhost_core::Digest;
use clawhost_wire::splice::TopLevel;
use percent_encoding::percent_decode;
use serde_json::Value;

/// Longest name of a session in bytes.
pub(crate) const NAME_BYTES: usize = 200;

/// Headers that name a session.
const SESSION_HEADERS: [&str; 3] = ["x-clawhost-session", "x-session-id", "x-clawloop-session-id"];
/// Headers in which clients send ids of their own conversations: codex.
const CONVERSATION_HEADERS: [&str; 3] = ["conversation_id", "session_id", "x-codex-conversation-id"];

/// Headers that name the user whom an agent serves.
const USER_HEADERS: [&str; 2] = ["x-clawhost-user", "x-user-id"];
/// Headers that name the project that an agent works on.
const PROJECT_HEADERS: [&str; 2] = ["x-clawhost-project", "x-workspace-id"];
/// Fields of OpenAI's dialect that name the user.
const USER_FIELDS: [&str; 2] = ["user", "safety_identifier"];
/// The header by which a client asks for no guidance (`off`), or asks what it got (`show`); an answer names it there.
pub(crate) const GUIDANCE: &str = "x-clawhost-guidance";

/// What a client says of its request beside the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    pub(crate) client: ClientSession,
    /// Name of the agent.
    pub(crate) agent: Option<String>,
    pub(crate) side: Option<bool>,
    pub(crate) no_train: bool,
    /// The project that it names.
    pub(crate) project: Option<String>,
    pub(crate) guidance: GuidanceWish,
}

/// What a client wants of guidance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum GuidanceWish {
    /// It gets guidance.
    #[default]
    Given,
    /// It gets guidance, and a header of the answer names it.
    Shown,
    /// It gets none.
    Off,
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim).filter(|text| !text.is_empty())
}

/// A name that may be shown and stored: one line of visible characters.
pub(crate) fn plain(name: &str) -> Option<String> {
    let is_plain = !name.is_empty() && name.len() <= NAME_BYTES && name.chars().all(|c| !c.is_control());
    is_plain.then(|| name.to_owned())
}

/// First parts of addresses that other programs have in front of `/v1`. A client with such a base URL means no trajectory.
const FOREIGN: [&str; 9] = ["api", "anthropic", "chat", "inference", "openai", "proxy", "s", "v1", "v1beta"];

/// Why a name cannot be that of a trajectory, which stands first in an address.
pub(crate) fn no_trajectory(name: &str) -> Option<String> {
    let is_foreign = FOREIGN.contains(&name.to_ascii_lowercase().as_str());
    is_foreign.then(|| format!("`{name}` cannot be the name of a trajectory: addresses of other programs begin with it; an OPENAI_BASE_URL is http://HOST:PORT/v1"))
}

impl Hints {
    /// Reads them. `named`: the session that the address names. `owner`: the name of the client's key.
    pub(crate) fn of(headers: &HeaderMap, body: &TopLevel<'_>, named: Option<&str>, owner: &str) -> Self {
        let named = named.or_else(|| SESSION_HEADERS.iter().find_map(|name| header(headers, name)));
        let conversation = CONVERSATION_HEADERS.iter().find_map(|name| header(headers, name)).map(str::to_owned);
        let conversation = conversation.or_else(|| body.read("prompt_cache_key")).or_else(|| of_metadata(body));
        let side = match header(headers, "x-turn-type") {
            Some("side") => Some(true),
            Some("main") => Some(false),
            _ => None,
        };
        Self {
            client: ClientSession {
                owner: owner.to_owned(),
                user: user(headers, body),
                named: named.and_then(plain),
                conversation: conversation.as_deref().and_then(plain),
                group: None,
            },
            agent: agent_in(headers),
            side,
            no_train: wants_no_train(headers),
            project: project_in(headers),
            guidance: match header(headers, GUIDANCE) {
                Some("off") => GuidanceWish::Off,
                Some("show") => GuidanceWish::Shown,
                _ => GuidanceWish::Given,
            },
        }
    }
}

/// The agent's name, by a header or as its program names itself.
pub(crate) fn agent_in(headers: &HeaderMap) -> Option<String> {
    header(headers, "x-clawhost-agent").and_then(plain).or_else(|| of_user_agent(headers))
}

/// The program's name in `User-Agent`, as in `OpenAI/Python 1.2`.
fn of_user_agent(headers: &HeaderMap) -> Option<String> {
    let text = header(headers, "user-agent")?;
    let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let name: String = text.chars().take_while(is_part).take(40).collect();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '/'));
    plain(name).map(|name| name.replace('/', "-"))
}

/// The user whom an agent serves: by a header, or by a field of its dialect.
fn user(headers: &HeaderMap, body: &TopLevel<'_>) -> Option<String> {
    let in_body = || USER_FIELDS.iter().find_map(|name| field(body, name)).or_else(|| person_of_metadata(body));
    user_in(headers).or_else(|| in_body().map(|name| somebody(&name)))
}

/// A field that names somebody: a text or a number.
fn field(body: &TopLevel<'_>, name: &str) -> Option<String> {
    match body.read::<Value>(name)? {
        Value::String(text) if !text.is_empty() => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A name of a user or a project as it is stored. One that cannot be shown or is too long becomes its digest: two names never become one, and
/// none becomes nobody.
fn somebody(name: &str) -> String {
    plain(name).unwrap_or_else(|| format!("sha256-{}", Digest::of(name.as_bytes()).hex()))
}

/// A name in one of some headers: in UTF-8, as many clients write it, or escaped as in an address.
fn named_in(headers: &HeaderMap, names: &[&str]) -> Option<String> {
    let bytes = names.iter().find_map(|name| headers.get(*name)).map(HeaderValue::as_bytes)?;
    let name = percent_decode(bytes).decode_utf8_lossy();
    let name = name.trim();
    (!name.is_empty()).then(|| somebody(name))
}

/// The user that headers name.
pub(crate) fn user_in(headers: &HeaderMap) -> Option<String> {
    named_in(headers, &USER_HEADERS)
}

/// The project that headers name.
pub(crate) fn project_in(headers: &HeaderMap) -> Option<String> {
    named_in(headers, &PROJECT_HEADERS)
}

/// Whether headers keep a request out of learning.
pub(crate) fn wants_no_train(headers: &HeaderMap) -> bool {
    let is_set = |name| header(headers, name).is_some_and(|value| matches!(value, "1" | "true"));
    is_set("x-no-train") || is_set("x-clawloop-no-train")
}

/// The person in Anthropic's `metadata.user_id`, unless it is the form in which Claude Code writes a session.
fn person_of_metadata(body: &TopLevel<'_>) -> Option<String> {
    let metadata: Value = body.read("metadata")?;
    let id = metadata.get("user_id")?.as_str()?;
    let is_person = !id.contains("_session_") && !id.starts_with('{');
    is_person.then(|| id.to_owned())
}

/// The session in Anthropic's `metadata.user_id`: Claude Code writes `user_..._session_ID`, or an object with `session_id`. A plain id
/// of a person is no session.
fn of_metadata(body: &TopLevel<'_>) -> Option<String> {
    let metadata: Value = body.read("metadata")?;
    let id = metadata.get("user_id")?.as_str()?;
    if let Some((_, session)) = id.rsplit_once("_session_") {
        return Some(session.to_owned());
    }
    let object: Value = serde_json::from_str(id).ok()?;
    Some(object.get("session_id")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn hints(headers: &[(&'static str, &'static str)], body: &str, named: Option<&str>) -> Hints {
        let pairs =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Hints::of(&pairs.collect(), &TopLevel::of(body, &[]).unwrap(), named, "key")
    }

    #[test]
    fn sessions_and_conversations_of_known_clients_are_read() {
        let check = |headers: &[(&'static str, &'static str)], body: &str, expect: (Option<&str>, Option<&str>)| {
            let client = hints(headers, body, None).client;
            assert_eq!((client.named.as_deref(), client.conversation.as_deref()), expect, "{headers:?} {body}");
        };
        check(&[], "{}", (None, None));
        check(&[("x-clawhost-session", "a")], "{}", (Some("a"), None));
        check(&[("x-session-id", " a ")], "{}", (Some("a"), None));
        check(&[("x-session-id", "")], "{}", (None, None));
        check(&[("conversation_id", "c")], r#"{"prompt_cache_key":"k"}"#, (None, Some("c")));
        check(&[], r#"{"prompt_cache_key":"k"}"#, (None, Some("k")));
        check(&[], r#"{"prompt_cache_key":7}"#, (None, None));
        check(&[], r#"{"metadata":{"user_id":"user_1f_account__session_0a-b"}}"#, (None, Some("0a-b")));
        check(&[], r#"{"metadata":{"user_id":"{\"session_id\":\"s\"}"}}"#, (None, Some("s")));
        check(&[], r#"{"metadata":{"user_id":"bob"}}"#, (None, None));
        assert_eq!(hints(&[("x-session-id", "a")], "{}", Some("path")).client.named.as_deref(), Some("path"));
        assert_eq!(hints(&[], "{}", Some(&"x".repeat(201))).client.named, None);
        assert_eq!(hints(&[], "{}", Some("a\u{7}")).client.named, None);
    }

    #[test]
    fn every_user_has_a_name_of_its_own() {
        let of_body = |body: &str| hints(&[], body, None).client.user;
        assert_eq!(of_body(r#"{"user":"Zoë"}"#).as_deref(), Some("Zoë"));
        assert_eq!(of_body(r#"{"safety_identifier":"a"}"#).as_deref(), Some("a"));
        assert_eq!(of_body(r#"{"user":7}"#).as_deref(), Some("7"));
        assert_eq!(of_body(r#"{"user":""}"#), None);
        assert_eq!(of_body(r#"{"metadata":{"user_id":"bob"}}"#).as_deref(), Some("bob"));
        assert_eq!(of_body(r#"{"metadata":{"user_id":"user_1f_account__session_0a-b"}}"#), None);
        let of_header = |name: &[u8]| {
            let value = HeaderValue::from_bytes(name).unwrap();
            user_in(&HeaderMap::from_iter([(HeaderName::from_static("x-clawhost-user"), value)]))
        };
        assert_eq!(of_header("Zoë".as_bytes()).as_deref(), Some("Zoë"));
        assert_eq!(of_header(b"Zo%C3%AB").as_deref(), Some("Zoë"));
        // Names that cannot be shown stay different, and are not nobody.
        let (long, longer) = ("x".repeat(300), "x".repeat(301));
        let odd = [of_header(long.as_bytes()), of_header(longer.as_bytes()), of_body(r#"{"user":"a\nb"}"#)];
        assert!(odd.iter().flatten().all(|name| name.starts_with("sha256-")), "{odd:?}");
        assert_eq!(odd.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn agents_and_kinds_of_turns_are_read() {
        let agent = |agent: &'static str| hints(&[("user-agent", agent)], "{}", None).agent;
        assert_eq!(agent("OpenAI/Python 3.52.0").as_deref(), Some("OpenAI-Python"));
        assert_eq!(agent("codex_cli_rs/0.1.2 (Linux)").as_deref(), Some("codex_cli_rs"));
        assert_eq!(agent("(odd)"), None);
        let all = hints(&[("x-clawhost-agent", "bot"), ("x-turn-type", "side"), ("x-no-train", "1")], "{}", None);
        assert_eq!((all.agent.as_deref(), all.side, all.no_train), (Some("bot"), Some(true), true));
        let none = hints(&[("x-turn-type", "other"), ("x-no-train", "0")], "{}", None);
        assert_eq!((none.side, none.no_train), (None, false));
    }
}
