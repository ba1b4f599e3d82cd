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
    /// Nothing can be said about them.
    fn reflect(group: &Group, playbook: &Playbook, context: &Context) -> Result<Vec<Proposal>>;
}

impl Proposal {
    /// A new entry.
    pub fn add(text: impl Into<String>, expected_effect: impl Into<String>) -> Self {
        let entry = Entry { id: String::new(), text: text.into(), tags: Vec::new(), extra: Vec::new() };
        Self {
            change: Change::Add(entry),
            evidence: Vec::new(),
            expected_effect: expected_effect.into(),
            extra: Vec::new(),
        }
    }

    /// With an episode that shows it.
    pub fn seen_in(mut self, episode: impl Into<String>, turns: Vec<u32>) -> Self {
        self.evidence.push(Evidence { episode: episode.into(), turns, extra: Vec::new() });
        self
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
