//! Reads the text of `run.toml` into a patch.
//!
//! If the text is not TOML, only that is reported, because the meaning of its keys is unsure. The same applies to a
//! file of another version. Then every key is looked up in its table. Unknown keys, wrong shapes and values out of
//! range are reported together, so that a person sees all mistakes of single keys at once.

use crate::check::{expected, shape, wrong};
use crate::folder::from_here;
use crate::problem::{Problem, label};
use crate::unknown::hint;
use crate::value::{SHOWN_BYTES, found_text};
use crate::{Key, Kind, Layer, Problems, RunSpecPatch, SPEC_VERSION, Scope, Source, Value};
use clawhost_core::escaped;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest message about TOML in bytes.
const SYNTAX_BYTES: usize = 200;
/// The key of a layer's name in its table.
const LAYER: &str = "layer";
/// The tables of layers.
const LEARN: &str = "learn";
/// The name of those tables in messages.
const TABLES: &str = "[[learn]]";
/// The key of the file's version.
const VERSION: &str = "version";

/// The beginnings of the lines of a text.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    /// The line, from 1, of a byte.
    fn at(&self, byte: usize) -> usize {
        1 + self.0.partition_point(|begin| *begin <= byte)
    }

    pub(crate) fn source(&self, byte: usize) -> Source {
        Source::File { line: Some(self.at(byte)) }
    }
}

impl RunSpecPatch {
    /// Reads the text of a run file. Its paths are relative to `folder`, the file's own; with an empty folder they are
    /// unchanged. Nothing is opened.
    ///
    /// # Errors
    /// All problems of single keys. Rules between keys are checked by [`RunSpecPatch::resolve`].
    pub fn from_toml(text: &str, folder: &str) -> Result<Self, Problems> {
        let lines = Lines::of(text);
        let (root, errors) = DeTable::parse_recoverable(text);
        if let Some(problems) = Problems::of(syntax(&errors, &lines)) {
            return Err(problems);
        }
        let root = root.get_ref();
        if let Some(problems) = Problems::of(other_version(root, &lines).into_iter().collect()) {
            return Err(problems);
        }
        let mut reader = Reader::new(&lines, folder);
        reader.top(root);
        reader.finish()
    }
}

/// Why a text is not TOML: the first error of each line, because others follow from it.
pub(crate) fn syntax(errors: &[toml::de::Error], lines: &Lines) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for error in errors {
        let source = Source::File { line: error.span().map(|span| lines.at(span.start)) };
        if !problems.iter().any(|known| known.source == Some(source)) {
            let message = format!("not TOML: {}", escaped(error.message(), SYNTAX_BYTES));
            problems.push(Problem::at("", Some(source), message));
        }
    }
    problems
}

/// A file of another version: the meaning of its keys is unsure.
pub(crate) fn other_version(root: &DeTable<'_>, lines: &Lines) -> Option<Problem> {
    let (key, value) = root.get_key_value(VERSION)?;
    if whole(value.get_ref()) == Some(u64::from(SPEC_VERSION)) {
        return None;
    }
    let why = format!("found {}; this program reads version {SPEC_VERSION}", found(value.get_ref()));
    Some(Problem::at(VERSION, Some(lines.source(key.span().start)), why))
}

pub(crate) struct Reader<'a> {
    lines: &'a Lines,
    folder: &'a str,
    patch: RunSpecPatch,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(lines: &'a Lines, folder: &'a str) -> Self {
        Self { lines, folder, patch: RunSpecPatch::new(), problems: Vec::new() }
    }

    pub(crate) fn top(&mut self, root: &DeTable<'_>) {
        for (key, value) in root.iter() {
            match key.get_ref().as_ref() {
                VERSION => {}
                LEARN => self.layers(key, value),
                name => self.option(name, key.span().start, value, Scope::Run),
            }
        }
    }

    /// The `[[learn]]` tables.
    fn layers(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let source = self.lines.source(key.span().start);
        let Some(tables) = value.get_ref().as_array() else {
            let why = format!(
                "tables of layers: {TABLES} on one line, layer = \"harness\", \"weights\" or \"router\" below it"
            );
            self.problems.push(Problem::at(LEARN, Some(source), expected(&found(value.get_ref()), &why)));
            return;
        };
        let mut named: Vec<Layer> = Vec::new();
        let mut first = None;
        for table in tables.iter() {
            let line = table.span().start;
            first = first.or(Some(self.lines.source(line)));
            match table.get_ref().as_table() {
                Some(fields) => self.layer(line, fields, &mut named),
                None => {
                    let why = expected(&found(table.get_ref()), "a table, with the name of its layer");
                    self.problems.push(Problem::at(TABLES, Some(self.lines.source(line)), why));
                }
            }
        }
        let names = named.iter().map(|layer| layer.name().to_owned()).collect();
        self.patch.set_layers(names, first.unwrap_or(source));
    }

    /// One `[[learn]]` table. If its layer is unknown, the other keys cannot be read.
    fn layer(&mut self, line: usize, fields: &DeTable<'_>, named: &mut Vec<Layer>) {
        let mut refuse = |at: usize, why: String| {
            let label = format!("{TABLES} {LAYER}");
            self.problems.push(Problem::at(label, Some(self.lines.source(at)), why));
        };
        let Some((key, value)) = fields.get_key_value(LAYER) else {
            return refuse(line, format!("missing; expected a layer: {}", Layer::known()));
        };
        let at = key.span().start;
        let layer = match value.get_ref().as_str().unwrap_or_default().parse::<Layer>() {
            Ok(layer) => layer,
            Err(why) => return refuse(at, expected(&found(value.get_ref()), &why)),
        };
        if named.contains(&layer) {
            return refuse(at, expected(&found(value.get_ref()), "each layer once"));
        }
        named.push(layer);
        for (key, value) in fields.iter().filter(|(key, _)| key.get_ref() != LAYER) {
            self.option(key.get_ref(), key.span().start, value, Scope::Layer(layer));
        }
    }

    /// A key of a table.
    fn option(&mut self, name: &str, at: usize, value: &Spanned<DeValue<'_>>, scope: Scope) {
        let source = self.lines.source(at);
        let Some(key) = Key::within(scope).find(|key| key.name() == name) else {
            return self.unknown(name, source, value.get_ref(), scope);
        };
        match raw(key, value.get_ref()) {
            Ok(value) => self.patch.set(key, from_here(key, value, self.folder), source),
            Err(all) => {
                let of = |why: String| Problem::of(key, Some(source), [why.into()]);
                self.problems.extend(all.into_iter().map(of));
            }
        }
    }

    fn unknown(&mut self, name: &str, source: Source, value: &DeValue<'_>, scope: Scope) {
        let shown = label(scope, &escaped(name, SHOWN_BYTES));
        let is_table =
            value.is_table() || value.as_array().is_some_and(|all| all.iter().any(|one| one.get_ref().is_table()));
        let message = match name.parse::<Layer>() {
            Ok(layer) if is_table => format!("unknown section; write {TABLES}, with layer = \"{layer}\" below it"),
            _ if is_table => format!("unknown section; the only ones are {TABLES}, one for each layer"),
            _ => format!("unknown key{}", hint(name, scope)),
        };
        let shown = if is_table && scope == Scope::Run { format!("[{shown}]") } else { shown };
        self.problems.push(Problem::at(shown, Some(source), message));
    }

    pub(crate) fn finish(mut self) -> Result<RunSpecPatch, Problems> {
        if !self.problems.is_empty() {
            // The reader cannot check which files exist, so the validator reads the texts of plugins.
            for (key, value, source) in self.patch.values() {
                let of = |why: String| Problem::of(key, Some(source), [why.into()]);
                self.problems.extend(wrong(key, value, &|_| true).into_iter().map(of));
            }
        }
        match Problems::of(self.problems) {
            Some(problems) => Err(problems),
            None => Ok(self.patch),
        }
    }
}

/// A value in the shape of its key, or the problems of its shape.
pub(crate) fn raw(key: Key, value: &DeValue<'_>) -> Result<Value, Vec<String>> {
    let kind = key.kind();
    let read = match &kind {
        Kind::Whole { .. } => whole(value).map(Value::Whole),
        Kind::Number { .. } => number(value).map(Value::Number),
        Kind::Text => value.as_str().map(|text| Value::Text(text.to_owned())),
        Kind::Flag => value.as_bool().map(Value::Flag),
        Kind::Texts => return texts(value, &kind),
    };
    read.ok_or_else(|| vec![expected(&found(value), &shape(key))])
}

pub(crate) fn whole(value: &DeValue<'_>) -> Option<u64> {
    value.as_integer().and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok())
}

/// A number, with or without a decimal point.
fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::Integer(number) => {
            let whole = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
            whole.to_string().parse().ok()
        }
        _ => None,
    }
}

fn texts(value: &DeValue<'_>, kind: &Kind) -> Result<Value, Vec<String>> {
    let array = value.as_array().ok_or_else(|| vec![expected(&found(value), &kind.expected())])?;
    let (mut texts, mut problems) = (Vec::new(), Vec::new());
    for element in array.iter() {
        match element.get_ref().as_str() {
            Some(text) => texts.push(text.to_owned()),
            None => problems.push(expected(&found(element.get_ref()), "texts that are not empty")),
        }
    }
    if problems.is_empty() { Ok(Value::Texts(texts)) } else { Err(problems) }
}

/// A value in a message, safe for a terminal.
pub(crate) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => found_text(text),
        DeValue::Integer(number) => escaped(&number.to_string(), SHOWN_BYTES),
        DeValue::Float(number) => escaped(number.as_str(), SHOWN_BYTES),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date or time".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a section".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_end_belongs_to_the_line_that_it_ends() {
        let lines = Lines::of("ab\n\ncd");
        let at: Vec<usize> = (0..=6).map(|byte| lines.at(byte)).collect();
        assert_eq!(at, [1, 1, 1, 2, 3, 3, 3]);
        assert_eq!(Lines::of("").at(0), 1);
    }

    #[test]
    fn all_number_formats_of_toml_are_accepted() {
        let check = |written: &str, key, expected: Value| {
            let patch = RunSpecPatch::from_toml(written, "").unwrap();
            assert_eq!(patch.get(key).map(|(value, _)| value), Some(&expected), "{written}");
        };
        check("seed = 1_000", Key::Seed, Value::Whole(1000));
        check("seed = 0x10", Key::Seed, Value::Whole(16));
        check("seed = +7", Key::Seed, Value::Whole(7));
        check("temperature = 1", Key::Temperature, Value::Number(1.0));
        check("temperature = 0b1", Key::Temperature, Value::Number(1.0));
        check("temperature = 1_0.5e-1", Key::Temperature, Value::Number(1.05));
    }
}
