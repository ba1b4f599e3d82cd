//! Quotes commands for a shell.

/// The name with which this program was called.
pub(crate) fn program() -> String {
    std::env::args_os().next().map_or_else(|| "clawhost".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A word, quoted for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_if_a_shell_needs_it() {
        let check = |word: &str, expect: &str| assert_eq!(quoted(word), expect);
        check("target/guests/env_shop.wasm", "target/guests/env_shop.wasm");
        check("/home/größer/a b", "'/home/größer/a b'");
        check("it's", r"'it'\''s'");
        check("$HOME", "'$HOME'");
        check("~/x", "'~/x'");
        check("", "''");
    }
}
