//! Values of configurations for people: what is a key, or looks like one, is not shown.

use serde_json::Value;

/// What stands for a secret.
const MASK: &str = "****";
/// Beginnings of keys of well-known providers and of this program.
const PREFIXES: [&str; 10] = ["sk-", "pk-", "rk-", "ghp_", "gho_", "github_pat_", "xoxb-", "AKIA", "AIza", "ch-"];
/// Shortest text after a beginning that is a key.
const KEY_BYTES: usize = 8;
/// Shortest text of letters and digits that looks random.
const RANDOM_BYTES: usize = 20;
/// Words in names of keys whose values are secrets. `key_env` and `key_file` say where a secret is, and are none.
const NAMES: [&str; 5] = ["key", "token", "secret", "password", "authorization"];

/// Whether a word looks like a key.
fn is_key(word: &str) -> bool {
    if PREFIXES.iter().any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= KEY_BYTES)) {
        return word.bytes().any(|byte| byte.is_ascii_digit());
    }
    // Names of models and hosts have short parts.
    word.split(['-', '_', '.', '+']).any(|part| {
        let has = |is: fn(&u8) -> bool| part.bytes().filter(is).count();
        part.len() >= RANDOM_BYTES && has(u8::is_ascii_digit) >= 4 && has(u8::is_ascii_alphabetic) >= 4
    })
}

/// A text without what looks like a key. The password of an address is one, whatever it looks like.
pub(crate) fn text(text: &str) -> String {
    let mut shown = String::new();
    let mut word = String::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    for c in text.chars().chain([' ']) {
        if is_part(c) {
            word.push(c);
            continue;
        }
        let behind_user =
            shown.rsplit_once("://").is_some_and(|(_, rest)| rest.contains(':') && !rest.contains(['/', '@']));
        let is_password = c == '@' && behind_user && shown.ends_with(':');
        shown.push_str(if is_password || is_key(&word) { MASK } else { &word });
        word.clear();
        shown.push(c);
    }
    shown.pop();
    shown
}

/// The value of a key for people.
pub(crate) fn value(key: &str, shown: Value) -> Value {
    let name = key.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_secret = NAMES.iter().any(|secret| name == *secret || name.ends_with(&format!("_{secret}")));
    match shown {
        Value::String(_) if is_secret => MASK.into(),
        Value::String(shown) => text(&shown).into(),
        Value::Array(items) => items.into_iter().map(|item| value(key, item)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, shown)| (key.clone(), value(&key, shown))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_looks_like_a_key_is_masked_and_nothing_else() {
        let check = |shown: &str, expect: &str| assert_eq!(text(shown), expect);
        for plain in [
            "openai:gpt-5-mini@https://api.openai.com/v1",
            "anthropic:claude-sonnet-4-5-20250929",
            "local:/home/me/models/tiny",
            "OPENAI_API_KEY",
            "127.0.0.1:8700",
            "a.example.org",
            "",
        ] {
            check(plain, plain);
        }
        check("sk-live-0123456789", "****");
        check("Bearer sk-ant-api03-abcd1234", "Bearer ****");
        check("openai:m@https://me:hunter2@host.example/v1", "openai:m@https://me:****@host.example/v1");
        check("https://host.example/v1?k=0123456789abcdef0123456789abcdef", "https://host.example/v1?k=****");
    }

    #[test]
    fn values_of_secret_names_are_masked() {
        let check = |key: &str, shown: Value, expect: Value| assert_eq!(value(key, shown), expect, "{key}");
        check("models.a.api_key", json!("x"), json!("****"));
        check("models.a.key_env", json!("A_KEY"), json!("A_KEY"));
        check("models.a.pass_key", json!(true), json!(true));
        check("models.a.max_tokens", json!(5), json!(5));
        check("list", json!(["a", "sk-live-0123456789"]), json!(["a", "****"]));
    }
}
