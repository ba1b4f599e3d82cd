//! The document of a run for reports, without values that depend on the machine or change no result.

use crate::{Grant, RunSpec, SpecError};
use serde_json::Value;

/// Fields with paths or with the speed of the run. Names of options are in lists, so they are not affected.
const LEFT_OUT: [&str; 4] = ["path", "system_prompt_file", "out", "concurrency"];

impl RunSpec {
    /// The run as it is without this machine: without paths, addresses, labels and concurrency. It can be read again, and equal runs have
    /// equal documents.
    ///
    /// # Errors
    /// A field of it has a meaning that a run without it lacks.
    pub fn without_places(&self) -> Result<Self, SpecError> {
        let mut shared = self.unlabelled();
        shared.policy.model = without_address(&shared.policy.model).to_owned();
        let mut document = shared.to_document();
        blank(&mut document);
        Self::from_document(document)
    }

    /// Without labels, and without the places of granted models and teachers.
    fn unlabelled(&self) -> Self {
        let mut shared = self.clone();
        (shared.name, shared.tags) = (None, Default::default());
        shared.grants.iter_mut().for_each(without_place);
        if let Some(weights) = shared.weights_mut()
            && weights.teacher_endpoint().is_none()
        {
            weights.teacher = weights.teacher.take().map(|_| "local".to_owned());
        }
        shared
    }

    /// The document without paths, without the text of the policy, without concurrency and without labels: equal runs
    /// from different front ends and folders have equal documents.
    pub fn published(&self) -> Value {
        let shared = self.unlabelled();
        let mut document = shared.to_document();
        strip(&mut document);
        if let Some(policy) = document.get_mut("policy").and_then(Value::as_object_mut) {
            policy.retain(|name, _| name != "model");
        }
        document
    }
}

/// A model without its folder, its file or the address of its endpoint.
fn without_address(spec: &str) -> &str {
    match spec.split_once(':') {
        Some((kind @ ("local" | "script" | "tinker"), _)) => kind,
        _ => spec.split_once('@').map_or(spec, |(model, _)| model),
    }
}

/// As [`strip`], but every field stays, so that the document can be read again.
fn blank(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "path" => *value = Value::String(String::new()),
                    "system_prompt_file" | "out" => *value = Value::Null,
                    "concurrency" => *value = 1.into(),
                    _ => blank(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        _ => {}
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
