//! The forms of keys and tokens that are known. Each begins with a fixed text, by which the search finds candidates quickly.

use super::Kind;

/// Keys and tokens.
pub(super) const KEYS: [(Kind, &str); 15] = [
    // OpenAI, Anthropic, OpenRouter, DeepSeek.
    (Kind::Key, r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}"),
    // Stripe.
    (Kind::Key, r"(?-u:\b)[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    // GitHub: classic, fine-grained.
    (Kind::Key, r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{36,}"),
    (Kind::Key, r"(?-u:\b)github_pat_[A-Za-z0-9_]{22,}"),
    // GitLab.
    (Kind::Key, r"(?-u:\b)glpat-[A-Za-z0-9_-]{20,}"),
    // AWS: the id of a key, and a secret key behind its name.
    (Kind::Key, r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)"),
    (Kind::Key, r#"(?:aws_secret_access_key|AWS_SECRET_ACCESS_KEY)["' ]{0,3}[=:]["' ]{0,3}[A-Za-z0-9/+]{40}"#),
    // Google: keys, access tokens.
    (Kind::Key, r"(?-u:\b)(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,})"),
    // Slack.
    (Kind::Key, r"(?-u:\b)(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    // Hugging Face, npm, PyPI.
    (Kind::Key, r"(?-u:\b)(?:hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|pypi-AgEI[A-Za-z0-9_-]{50,})"),
    // Groq, xAI, SendGrid, DigitalOcean.
    (
        Kind::Key,
        r"(?-u:\b)(?:gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}|dop_v1_[a-f0-9]{64})",
    ),
    // This program.
    (Kind::Key, r"(?-u:\b)ch-(?:admin-)?[0-9a-f]{64}"),
    // JSON Web Tokens.
    (Kind::Token, r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
    // What stands in an HTTP header.
    (Kind::Token, r"(?-u:\b)(?:Bearer|bearer|BEARER)[ \t]+[A-Za-z0-9._~+/-]{20,}=*"),
    // PEM. One that was cut off goes to the end of the text.
    (
        Kind::PrivateKey,
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
];

/// E-mail addresses.
pub(super) const EMAILS: &str = r"(?-u:\b)[A-Za-z0-9][A-Za-z0-9._%+'-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?-u:\b)";
