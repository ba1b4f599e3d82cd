//! The text of a local model: `local:FOLDER`, with options behind the folder, as plugins have them.

/// What every text of a local model begins with.
const PREFIX: &str = "local:";
/// The number format of the weights in memory.
const DTYPE: &str = "dtype";
/// What the names of arguments of the chat template begin with.
const ARGUMENT: &str = "arg.";

/// A local model: `local:FOLDER?dtype=int8&arg.enable_thinking=false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModelText<'a> {
    /// The folder, or a GGUF file.
    pub folder: &'a str,
    /// The number format of its weights in memory. `None`: as they are stored.
    pub dtype: Option<&'a str>,
    /// Arguments of its chat template: JSON, or else texts.
    pub arguments: Vec<(&'a str, &'a str)>,
    /// The options as they were written, with the mark before them.
    pub options: &'a str,
}

impl<'a> LocalModelText<'a> {
    /// Reads a text. `None`: it is no local model. What follows the last `?` is options if all of it is, and else a part of the folder's name.
    pub fn of(text: &'a str) -> Option<Self> {
        let whole = text.strip_prefix(PREFIX).filter(|folder| !folder.is_empty())?;
        let plain = Self { folder: whole, dtype: None, arguments: Vec::new(), options: "" };
        let Some((folder, query)) = whole.rsplit_once('?').filter(|(folder, _)| !folder.is_empty()) else {
            return Some(plain);
        };
        let options = whole.get(folder.len()..).unwrap_or_default();
        let mut found = Self { folder, options, ..plain.clone() };
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some((DTYPE, value)) => found.dtype = Some(value),
                Some((name, value)) if name.len() > ARGUMENT.len() && name.starts_with(ARGUMENT) => {
                    found.arguments.extend(name.strip_prefix(ARGUMENT).map(|name| (name, value)));
                }
                _ => return Some(plain),
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_folder() {
        let check = |text: &str, folder: &str, dtype: Option<&str>, arguments: &[(&str, &str)]| {
            let found = LocalModelText::of(text).unwrap();
            assert_eq!((found.folder, found.dtype, &found.arguments[..]), (folder, dtype, arguments), "{text}");
            assert_eq!(format!("local:{folder}{}", found.options), text);
        };
        check("local:qwen", "qwen", None, &[]);
        check("local:qwen?dtype=int8", "qwen", Some("int8"), &[]);
        let both = "local:/a b/qwen?dtype=bf16&arg.enable_thinking=false&arg.now=2026-11-29";
        check(both, "/a b/qwen", Some("bf16"), &[("enable_thinking", "false"), ("now", "2026-11-29")]);
        check("local:what?/qwen?dtype=f32", "what?/qwen", Some("f32"), &[]);
        // No options: a folder may have such a name.
        check("local:qwen?dtyp=int8", "qwen?dtyp=int8", None, &[]);
        check("local:qwen?dtype", "qwen?dtype", None, &[]);
        check("local:?dtype=int8", "?dtype=int8", None, &[]);
        for none in ["openai:gpt", "local:", "qwen"] {
            assert_eq!(LocalModelText::of(none), None, "{none}");
        }
    }
}
