//! Reflectors: what could be learned from episodes.

use crate::{Context, Group, OptionSpec, Result};

pub use crate::bindings::reflector::exports::clawhost::reflector::reflector::{
    Change, Entry, Evidence, Playbook, Proposal,
};

/// A reflector. What it proposes still has to pass trial and gate.
pub trait Reflector: 'static {
    /// Short name.
    const NAME: &'static str;
    /// Your version.
    const VERSION: &'static str = "0.1.0";
    /// One line for people.
    const SUMMARY: &'static str = "";

    /// Every option this reflector reads; the host refuses any other.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Whether the operator's options make sense; called once per run, before anything is played.
    ///
    /// # Errors
    /// They do not; the text says which, and what would.
    fn check(context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Suggestions drawn from these episodes; at most 64.
    ///
    /// # Errors
    /// Nothing can be said about them; where a model is to blame, [`Error::model`](crate::Error::model).
    fn reflect(group: &Group, playbook: &Playbook, context: &Context) -> Result<Vec<Proposal>>;
}

impl Proposal {
    /// A change without evidence; `expected_effect` says for people what should get better.
    pub fn new(change: Change, expected_effect: impl Into<String>) -> Self {
        Self { change, evidence: Vec::new(), expected_effect: expected_effect.into(), extra: Vec::new() }
    }

    /// A new entry of this text.
    pub fn add(text: impl Into<String>, expected_effect: impl Into<String>) -> Self {
        Self::add_entry(Entry::new(text), expected_effect)
    }

    /// A new entry.
    pub fn add_entry(entry: Entry, expected_effect: impl Into<String>) -> Self {
        Self::new(Change::Add(entry), expected_effect)
    }

    /// Another entry in the place of the one with this id.
    pub fn update(id: impl Into<String>, entry: Entry, expected_effect: impl Into<String>) -> Self {
        Self::new(Change::Update(Entry { id: id.into(), ..entry }), expected_effect)
    }

    /// Takes the entry with this id out.
    pub fn retire(id: impl Into<String>, expected_effect: impl Into<String>) -> Self {
        Self::new(Change::Retire(id.into()), expected_effect)
    }

    /// Another text for the section of this name.
    pub fn rewrite_section(
        name: impl Into<String>,
        text: impl Into<String>,
        expected_effect: impl Into<String>,
    ) -> Self {
        Self::new(Change::RewriteSection((name.into(), text.into())), expected_effect)
    }

    /// With an episode that shows it; at most 64.
    pub fn seen_in(mut self, episode: impl Into<String>, turns: Vec<u32>) -> Self {
        self.evidence.push(Evidence { episode: episode.into(), turns, extra: Vec::new() });
        self
    }
}

impl Entry {
    /// A lesson of this text, without tags. The host chooses its id.
    pub fn new(text: impl Into<String>) -> Self {
        Self { id: String::new(), text: text.into(), tags: Vec::new(), extra: Vec::new() }
    }

    /// With a tag, for retrieval; at most 128 bytes.
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// With a name-value pair; the name has at most 128 bytes. A lesson that is a skill says so here, in the pairs `name`
    /// (for people), `when` (empty: always), `do` and `avoid`.
    pub fn with_extra(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }

    /// The value of a pair.
    pub fn extra(&self, name: &str) -> Option<&str> {
        self.extra.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Playbook {
    /// These entries, and no section; for tests.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { version: String::new(), entries, sections: Vec::new(), extra: Vec::new() }
    }

    /// With a section; for tests.
    pub fn with_section(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.sections.push((name.into(), text.into()));
        self
    }

    /// The entry with this id.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The text of a section.
    pub fn section(&self, name: &str) -> Option<&str> {
        self.sections.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }
}

/// Exports a [`Reflector`] as a plugin. Outside wasm it expands to nothing but a check that the type is one.
#[macro_export]
macro_rules! export_reflector {
    ($ty:ty) => {
        const _: () = {
            #[cfg(target_arch = "wasm32")]
            type Exported = $crate::guest::ReflectorGuest<$ty>;
            #[cfg(target_arch = "wasm32")]
    $crate::__export_reflector_plugin_impl!(Exported with_types_in $crate::bindings::reflector);
            #[cfg(not(target_arch = "wasm32"))]
            const fn is_a_reflector<R: $crate::Reflector>() {}
            #[cfg(not(target_arch = "wasm32"))]
            is_a_reflector::<$ty>();
        };
    };
}
