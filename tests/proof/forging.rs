//! Changes bundles as somebody would who knows the format: the manifest is written anew, with correct digests.

use clawhost_bundle::{Builder, Bundle, EntryName, Head, Manifest};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The major version of the engine in this program.
const ENGINE: u32 = clawhost_engine::ENGINE_MAJOR;

/// The content of a bundle.
pub(crate) struct Opened {
    pub(crate) manifest: Manifest,
    pub(crate) entries: BTreeMap<EntryName, Vec<u8>>,
}

impl Opened {
    pub(crate) fn read(file: &Path) -> Self {
        let bundle = Bundle::open(file, ENGINE).unwrap();
        let names = bundle.manifest().entries.iter().map(|entry| entry.name);
        let entries = names.map(|name| (name, bundle.read(name).unwrap())).collect();
        Self { manifest: bundle.manifest().clone(), entries }
    }

    pub(crate) fn write(&self, file: &Path) {
        let mut builder = Builder::default();
        self.entries.iter().for_each(|(name, content)| builder.add(*name, content).unwrap());
        let Manifest { program, engine, private, runs, .. } = self.manifest.clone();
        let out = std::fs::File::create(file).unwrap();
        builder.write(Head { program, engine, private, runs }, out).unwrap();
    }

    /// All episodes and all other text of the bundle.
    pub(crate) fn text(&self) -> String {
        let texts = self.entries.iter().filter(|(name, _)| !matches!(name, EntryName::Plugin(_)));
        texts.map(|(_, content)| String::from_utf8_lossy(content).into_owned()).collect()
    }

    /// Changes a document.
    pub(crate) fn document(&mut self, name: EntryName, change: impl FnOnce(&mut Value)) {
        let content = self.entries.get_mut(&name).unwrap();
        let mut value = serde_json::from_slice(content).unwrap();
        change(&mut value);
        *content = serde_json::to_vec(&value).unwrap();
    }

    /// Changes the lines of all episodes, which become one part.
    pub(crate) fn lines(&mut self, change: impl FnOnce(&mut Vec<Value>)) {
        let parts: Vec<EntryName> =
            self.entries.keys().copied().filter(|name| matches!(name, EntryName::Episodes(_))).collect();
        let mut lines = Vec::new();
        for part in parts {
            let content = self.entries.remove(&part).unwrap();
            let text = String::from_utf8(content).unwrap();
            lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        change(&mut lines);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.entries.insert(EntryName::Episodes(0), text.into_bytes());
    }

    /// The component that begins its name so: any of them.
    pub(crate) fn component(&self) -> EntryName {
        *self.entries.keys().find(|name| matches!(name, EntryName::Plugin(_))).unwrap()
    }
}

/// The episode in a line.
pub(crate) fn episode(line: &mut Value) -> &mut Value {
    let form = line.as_object().unwrap().keys().next().unwrap().clone();
    &mut line[form.as_str()]
}

/// Whether a line is an episode of the test.
pub(crate) fn is_test(line: &Value) -> bool {
    let run = line.as_object().unwrap().values().next().unwrap()["run"].as_str().unwrap();
    run.ends_with(".test")
}
