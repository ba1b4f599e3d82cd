//! Reflectors: they propose lessons from episodes.

use crate::{Context, Group, OptionSpec, Result};

pub use crate::bindings::reflector::exports::clawhost::reflector::reflector::{
    Change, Entry, Evidence, Playbook, Proposal,
};

/// A reflector. Its proposals must still pass a trial and the gate.
pub trait Reflector: 'static {
    /// Short name.
    const NAME: &'static str;
    /// Your version.
    const VERSION: &'static str = "0.1.0";
    /// One line for people.
    const SUMMARY: &'static str = "";

    /// All options that this reflector reads. The host refuses others.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Checks the operator's options. Called once per run, before anything is played.
    ///
    /// # Errors
    /// The options are invalid. The text says which, and what is expected.
    fn check(context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Proposals from these episodes, at most 64.
    ///
    /// # Errors
    /// No proposals are possible. If a model is the cause, use [`Error::model`](crate::Error::model).
    fn reflect(group: &Group, playbook: &Playbook, context: &Context) -> Result<Vec<Proposal>>;
}

impl Proposal {
    /// A change without evidence. `expected_effect` describes the expected improvement for people.
    pub fn new(change: Change, expected_effect: impl Into<String>) -> Self {
        Self { change, evidence: Vec::new(), expected_effect: expected_effect.into(), extra: Vec::new() }
    }

    /// A new entry with this text.
    pub fn add(text: impl Into<String>, expected_effect: impl Into<String>) -> Self {
        Self::add_entry(Entry::new(text), expected_effect)
    }

    /// A new entry.
    pub fn add_entry(entry: Entry, expected_effect: impl Into<String>) -> Self {
        Self::new(Change::Add(entry), expected_effect)
    }

    /// Replaces the entry with this id.
    pub fn update(id: impl Into<String>, entry: Entry, expected_effect: impl Into<String>) -> Self {
        Self::new(Change::Update(Entry { id: id.into(), ..entry }), expected_effect)
    }

    /// Removes the entry with this id.
    pub fn retire(id: impl Into<String>, expected_effect: impl Into<String>) -> Self {
        Self::new(Change::Retire(id.into()), expected_effect)
    }

    /// Puts one entry in the place of several deployed ones. The host compares the playbook with and without it.
    pub fn merge(
        ids: impl IntoIterator<Item = impl Into<String>>,
        entry: Entry,
        expected_effect: impl Into<String>,
    ) -> Self {
        let ids = ids.into_iter().map(Into::into).collect();
        Self::new(Change::Merge((ids, entry)), expected_effect)
    }

    /// Replaces the text of the section with this name.
    pub fn rewrite_section(
        name: impl Into<String>,
        text: impl Into<String>,
        expected_effect: impl Into<String>,
    ) -> Self {
        Self::new(Change::RewriteSection((name.into(), text.into())), expected_effect)
    }

    /// Adds an episode as evidence, at most 64.
    pub fn seen_in(mut self, episode: impl Into<String>, turns: Vec<u32>) -> Self {
        self.evidence.push(Evidence { episode: episode.into(), turns, extra: Vec::new() });
        self
    }
}

impl Entry {
    /// A lesson with this text, without tags. The host chooses its id.
    pub fn new(text: impl Into<String>) -> Self {
        Self { id: String::new(), text: text.into(), tags: Vec::new(), needs: Vec::new(), extra: Vec::new() }
    }

    /// Adds a tag for retrieval, at most 128 bytes.
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Names a new entry, so that others of the same answer can need it.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.id = name.into();
        self
    }

    /// Adds an entry that this one needs: its id, or its name in the same answer. At most 8. The host shows, tries and deploys both together
    /// or not at all.
    pub fn needing(mut self, entry: impl Into<String>) -> Self {
        self.needs.push(entry.into());
        self
    }

    /// Adds a name-value pair; the name has at most 128 bytes. A lesson that is a skill declares it with the pairs
    /// `name` (for people), `when` (empty: always), `do` and `avoid`.
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
    /// A playbook with these entries and no sections, for tests.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { version: String::new(), entries, sections: Vec::new(), attempt: 0, tried: Vec::new(), extra: Vec::new() }
    }

    /// Adds a section, for tests.
    pub fn with_section(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.sections.push((name.into(), text.into()));
        self
    }

    /// As after this many changes of the approach, with lessons that were tried in vain, for tests.
    pub fn at_attempt(mut self, attempt: u32, tried: Vec<Entry>) -> Self {
        (self.attempt, self.tried) = (attempt, tried);
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

/// Exports a [`Reflector`] as a plugin. Outside wasm it only checks that the type is one.
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
