//! How texts are split before their parts become tokens: the table that reading and writing GGUF files share.

use serde_json::{Value, json};

/// How a text is split before its parts become tokens.
pub(super) struct Splitting {
    /// The value of `tokenizer.ggml.pre`.
    pub(super) names: &'static [&'static str],
    /// Patterns that split one after the other.
    pub(super) patterns: &'static [&'static str],
    /// Whether letters with accents are composed first.
    pub(super) composes: bool,
    /// Whether a part that is a token as a whole is not merged from its bytes.
    pub(super) whole_first: bool,
    /// Whether the token for the beginning is put first, unless the file says it.
    pub(super) begins: bool,
}

const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(super) const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
pub(super) const DIGITS: &str = r"\p{N}";

/// The known names, of families that run here: from `llama-vocab.cpp` of llama.cpp, and from the tokenizers that its converter names so.
static SPLITTINGS: [Splitting; 4] = [
    Splitting {
        names: &["llama-bpe", "llama3", "llama-v3"],
        patterns: &[LLAMA_3],
        composes: false,
        whole_first: true,
        begins: true,
    },
    Splitting {
        names: &["qwen2", "deepseek-r1-qwen"],
        patterns: &[QWEN_2],
        composes: true,
        whole_first: false,
        begins: false,
    },
    Splitting { names: &["gpt-2"], patterns: &[GPT_2], composes: false, whole_first: false, begins: false },
    Splitting { names: &["smollm"], patterns: &[DIGITS, GPT_2], composes: false, whole_first: false, begins: false },
];

impl Splitting {
    /// The one that `tokenizer.ggml.pre` names.
    pub(super) fn named(pre: &str) -> Option<&'static Self> {
        SPLITTINGS.iter().find(|one| one.names.contains(&pre))
    }

    /// The one with these patterns and settings of a `tokenizer.json`.
    pub(super) fn with(patterns: &[String], composes: bool, whole_first: bool) -> Option<&'static Self> {
        SPLITTINGS
            .iter()
            .find(|one| one.patterns == patterns && one.composes == composes && one.whole_first == whole_first)
    }

    /// All known names.
    pub(super) fn names() -> Vec<&'static str> {
        SPLITTINGS.iter().flat_map(|one| one.names).copied().collect()
    }

    /// The steps of a `tokenizer.json`: the patterns, then the bytes of each part as characters.
    pub(super) fn steps(&self) -> Vec<Value> {
        let split = |pattern: &&str| json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false });
        let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
        self.patterns.iter().map(split).chain([bytes]).collect()
    }
}
