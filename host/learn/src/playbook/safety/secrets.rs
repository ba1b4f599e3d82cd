//! Detection of credentials.
//!
//! Lessons are derived from what agents saw, and are shown to other models and to people: a key must not spread through
//! them. Only well-known formats are detected; a password that looks like a word is not.

/// Prefixes of keys of well-known services, and the smallest number of characters after them. Shorter ones are placeholders
/// (`sk-...`).
const KEY_FORMS: [(&str, usize); 22] = [
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("gsk_", 20),
    ("hf_", 20),
    ("npm_", 30),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
];

/// A shorter token after `Bearer` is a placeholder.
const BEARER_CHARACTERS: usize = 20;

/// Each of the first two parts of a JSON web token has more characters than this.
const TOKEN_PART_CHARACTERS: usize = 10;

/// The kind of credential that a text seems to contain.
pub(super) fn quoted(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN ") {
        return Some("a PEM block");
    }
    let is_key_character = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if text.split(|character| !is_key_character(character)).any(is_key) {
        return Some("a key of a well-known service");
    }
    if text.split(|character| !is_key_character(character) && character != '.').any(is_web_token) {
        return Some("a JSON web token");
    }
    bearer(text).then_some("a bearer token")
}

/// Random keys contain digits; names such as `sk-learn-pipelines-and-more` do not.
fn is_random(text: &str) -> bool {
    text.contains(|character: char| character.is_ascii_digit())
}

fn is_key(word: &str) -> bool {
    let follows = |(start, least): &(&str, usize)| {
        word.strip_prefix(start).is_some_and(|rest| rest.len() >= *least && is_random(rest))
    };
    KEY_FORMS.iter().any(follows)
}

/// `HEADER.PAYLOAD.SIGNATURE`, where the header is a JSON object in base64 and therefore begins with `eyJ`.
fn is_web_token(word: &str) -> bool {
    let mut parts = word.split('.');
    let long = |part: Option<&str>| part.is_some_and(|part| part.len() > TOKEN_PART_CHARACTERS);
    word.starts_with("eyJ") && long(parts.next()) && long(parts.next()) && parts.next().is_some()
}

fn bearer(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let marks = |character: char| !character.is_ascii_alphanumeric();
        let is_bearer =
            word.trim_matches(marks).eq_ignore_ascii_case("bearer") || word.to_lowercase().ends_with("bearer");
        let token = words.peek().map(|next| next.trim_matches(marks));
        if is_bearer && token.is_some_and(|token| token.len() >= BEARER_CHARACTERS && is_random(token)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(quoted(text), expect, "{text}");
    }

    #[test]
    fn credentials_of_well_known_formats_are_found() {
        let key = Some("a key of a well-known service");
        check("use sk-proj-abcdefghijklmnop1234 for it", key);
        check("OPENAI_API_KEY=sk-abcdef1234567890abcdef", key);
        check("key:AKIAIOSFODNN7EXAMPLE.", key);
        check("(ghp_1234567890abcdefghij1234567890abcdef)", key);
        check("xoxb-123456789012-abc", key);
        check("-----BEGIN RSA PRIVATE KEY-----\nabc", Some("a PEM block"));
        check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", Some("a JSON web token"));
        check("Authorization: Bearer 0123456789abcdefghijkl", Some("a bearer token"));
        check("{\"auth\":\"bearer 0123456789abcdefghijkl\"}", Some("a bearer token"));
    }

    #[test]
    fn words_and_placeholders_are_not_credentials() {
        check("use scikit-learn, or sk-learn-pipelines-and-more", None);
        check("a task-1234567890123456789 is no key", None);
        check("sk-... and Bearer <token> are placeholders", None);
        check("the bearer of this letter gets 20 coins", None);
        check("the bearer authentication-of-the-service", None);
        check("eyJ is how they begin. Keys follow. So", None);
        check("AKIA is a prefix, as AKIA12 is", None);
    }
}
