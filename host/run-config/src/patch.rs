//! Options that a front end has collected, as raw values.

use crate::folder::paths;
use crate::problem::Problem;
use crate::value::SHOWN_BYTES;
use crate::{Key, Layer, Problems, Scope, Source, Value};
use clawhost_core::escaped;
use std::collections::BTreeMap;

/// Some options of a run, each with its source, and the layers that learn. Absent options are taken from a lower patch,
/// and finally from the defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunSpecPatch {
    values: BTreeMap<Key, (Value, Source)>,
    layers: Option<(Vec<String>, Source)>,
}

impl RunSpecPatch {
    /// A patch without any option.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option. Replaces an earlier value.
    pub fn set(&mut self, key: Key, value: Value, source: Source) {
        self.values.insert(key, (value, source));
    }

    /// Sets the layers that learn, by name.
    pub fn set_layers(&mut self, layers: Vec<String>, source: Source) {
        self.layers = Some((layers, source));
    }

    /// An option with its source.
    pub fn get(&self, key: Key) -> Option<&(Value, Source)> {
        self.values.get(&key)
    }

    /// Removes an option.
    pub fn remove(&mut self, key: Key) -> Option<(Value, Source)> {
        self.values.remove(&key)
    }

    /// The layers that learn, by name.
    pub fn layers(&self) -> Option<&(Vec<String>, Source)> {
        self.layers.as_ref()
    }

    /// Options that are set, in the order of the table.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.values.keys().copied()
    }

    /// Options that are set with their values, in the order of the table.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Key, &Value, Source)> {
        self.values.iter().map(|(key, (value, source))| (*key, value, *source))
    }

    /// Checks that all files that the options name are where they may be.
    ///
    /// # Errors
    /// All options of which `is_allowed` refuses a path.
    pub fn check_paths(&self, is_allowed: impl Fn(&str) -> bool) -> Result<(), Problems> {
        let mut problems = Vec::new();
        for (key, value, source) in self.values() {
            for path in paths(key, value).into_iter().filter(|path| !path.is_empty() && !is_allowed(path)) {
                let why = format!("`{}` lies outside of the folder of this file", escaped(path, SHOWN_BYTES));
                problems.push(Problem::of(key, Some(source), [why.into()]));
            }
        }
        Problems::of(problems).map_or(Ok(()), Err)
    }

    /// Whether neither options nor layers are set.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.layers.is_none()
    }

    /// Lays this patch over a lower one: if both set an option, this one wins.
    ///
    /// Two options that exclude each other count as one, so `model` here replaces `policy` below. Layers are replaced
    /// as a whole; the lower patch's options of layers that are no longer named are dropped.
    #[must_use]
    pub fn over(self, lower: Self) -> Self {
        let mut merged = lower;
        if let Some((names, source)) = self.layers {
            let is_named = |layer: Layer| names.iter().any(|name| name == layer.name());
            merged.values.retain(|key, _| match key.scope() {
                Scope::Layer(layer) => is_named(layer),
                Scope::Run | Scope::Evaluate => true,
            });
            merged.layers = Some((names, source));
        }
        for rival in self.values.keys().filter_map(|key| key.rival()) {
            merged.values.remove(&rival);
        }
        merged.values.extend(self.values);
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(source: Source, values: &[(Key, &str)], layers: Option<&[&str]>) -> RunSpecPatch {
        let mut patch = RunSpecPatch::new();
        for (key, text) in values {
            patch.set(*key, Value::Text((*text).to_owned()), source);
        }
        if let Some(layers) = layers {
            patch.set_layers(layers.iter().map(|name| (*name).to_owned()).collect(), source);
        }
        patch
    }

    const FILE: Source = Source::File { line: Some(1) };

    #[test]
    fn a_flag_replaces_an_option_of_the_file_that_it_excludes() {
        for (flag, file) in [
            (Key::SystemPrompt, Key::SystemPromptFile),
            (Key::SystemPromptFile, Key::SystemPrompt),
            (Key::Model, Key::Policy),
            (Key::Policy, Key::Model),
        ] {
            let merged = patch(Source::Flag, &[(flag, "a")], None).over(patch(FILE, &[(file, "b")], None));
            assert_eq!(merged.keys().collect::<Vec<_>>(), [flag]);
        }
        // Two options of one source both stay, so that the validator sees them.
        let both = patch(Source::Flag, &[(Key::Policy, "a"), (Key::Model, "b")], None).over(RunSpecPatch::new());
        assert_eq!(both.keys().count(), 2);
    }

    #[test]
    fn layers_of_the_command_line_replace_those_of_the_file_with_their_options() {
        let file =
            patch(FILE, &[(Key::Policy, "p"), (Key::Forbid, "f"), (Key::Out, "o")], Some(&["harness", "weights"]));
        let merged = patch(Source::Flag, &[], Some(&["weights"])).over(file.clone());
        assert_eq!(merged.keys().collect::<Vec<_>>(), [Key::Policy, Key::Out]);
        assert_eq!(merged.layers(), Some(&(vec!["weights".to_owned()], Source::Flag)));
        assert_eq!(patch(Source::Flag, &[], None).over(file.clone()), file);
    }
}
