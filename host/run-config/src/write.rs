//! Writes a patch as a file.

use crate::{Key, Layer, RunSpecPatch, Scope, Value};

impl RunSpecPatch {
    /// The patch as the text of a file that reads back as the same patch.
    ///
    /// Options of an evaluation are omitted: files do not have them. A layer has a table if it is named or has an
    /// option.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        self.write_table(Scope::Run, &mut out);
        let named = self.layers().into_iter().flat_map(|(names, _)| names);
        let mut tables: Vec<&str> = named.map(String::as_str).collect();
        for layer in Layer::ALL {
            let has_options = self.keys().any(|key| key.scope() == Scope::Layer(layer));
            if has_options && !tables.contains(&layer.name()) {
                tables.push(layer.name());
            }
        }
        if tables.is_empty() && self.layers().is_some() {
            out.push_str("learn = []\n");
        }
        for (position, name) in tables.iter().enumerate() {
            out.push_str(&format!("\n[[learn]]\nlayer = {}\n", quoted(name)));
            // A layer that is named twice has its options once.
            let is_first = tables.iter().position(|other| other == name) == Some(position);
            if let Some(layer) = name.parse().ok().filter(|_| is_first) {
                self.write_table(Scope::Layer(layer), &mut out);
            }
        }
        out
    }

    fn write_table(&self, scope: Scope, out: &mut String) {
        for (key, value) in Key::within(scope).filter_map(|key| Some((key, self.get(key)?))) {
            out.push_str(&format!("{} = {}\n", key.name(), written(&value.0)));
        }
    }
}

/// A value in a file's notation.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::Whole(number) => number.to_string(),
        Value::Number(number) if number.is_nan() => "nan".to_owned(),
        // `Debug` always writes a decimal point or an exponent, by which TOML distinguishes floats from integers.
        Value::Number(number) => format!("{number:?}"),
        Value::Text(text) => quoted(text),
        Value::Flag(flag) => flag.to_string(),
        Value::Texts(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", texts.join(", "))
        }
    }
}

/// A basic string of TOML: quotation marks, backslashes and control characters are escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(control))),
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}
