//! Suggestions for unknown keys.

use crate::{Key, Scope};
use clawhost_core::nearest;

/// The text after "unknown key": the table of the key, a similar key, or the list of keys.
pub(crate) fn hint(written: &str, scope: Scope) -> String {
    match Key::named(written).map(Key::scope) {
        Some(Scope::Layer(layer)) => return format!("; it belongs to layer {layer}"),
        Some(Scope::Evaluate) => return "; it belongs to the command line of an evaluation".to_owned(),
        Some(Scope::Run) => return "; it belongs at the top, above every [[learn]]".to_owned(),
        None => {}
    }
    let own: &[&str] = if scope == Scope::Run { &["version", "learn"] } else { &["layer"] };
    let known: Vec<&str> = own.iter().copied().chain(Key::within(scope).map(Key::name)).collect();
    match nearest(written, known.iter().copied()) {
        Some("learn") => "; did you mean `[[learn]]`?".to_owned(),
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; known here: {}", known.join(", ")),
    }
}
