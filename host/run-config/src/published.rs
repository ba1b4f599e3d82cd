//! The document of a run for reports, without values that depend on the machine or change no result.

use crate::{Grant, RunSpec};
use serde_json::Value;

/// Fields with paths or with the speed of the run. Names of options are in lists, so they are not affected.
const LEFT_OUT: [&str; 4] = ["path", "system_prompt_file", "out", "concurrency"];

impl RunSpec {
    /// The document without paths, without the text of the policy, without concurrency and without labels: equal runs
    /// from different front ends and folders have equal documents.
    pub fn published(&self) -> Value {
        let mut shared = self.clone();
        (shared.name, shared.tags) = (None, Default::default());
        shared.grants.iter_mut().for_each(without_place);
        if let Some(weights) = shared.weights_mut()
            && weights.teacher_endpoint().is_none()
        {
            weights.teacher = weights.teacher.take().map(|_| "local".to_owned());
        }
        let mut document = shared.to_document();
        strip(&mut document);
        if let Some(policy) = document.get_mut("policy").and_then(Value::as_object_mut) {
            policy.retain(|name, _| name != "model");
        }
        document
    }
}

/// A granted model may be in a folder or a file: only its kind is kept.
fn without_place(grant: &mut Grant) {
    if let Grant::Model { spec, .. } = grant
        && let Some((kind @ ("local" | "script"), _)) = spec.split_once(':')
    {
        *spec = kind.to_owned();
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
