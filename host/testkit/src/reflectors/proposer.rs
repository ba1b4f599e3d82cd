//! A reflector whose proposals are a function of its input.

use crate::identity::{about, identity};
use async_trait::async_trait;
use clawhost_core::{
    About, Change, Context, Entry, Episode, Failure, Playbook, PluginIdentity, Proposal, Reflector, RunId,
};
use std::sync::{Arc, Mutex};

/// The input of a reflector.
#[derive(Clone)]
pub struct Shown {
    /// Its seed and options.
    pub context: Context,
    /// The current playbook.
    pub playbook: Playbook,
    /// The group.
    pub group: Vec<Arc<Episode>>,
}

type Proposes = Box<dyn Fn(&Shown) -> Result<Vec<Proposal>, Failure> + Send + Sync>;

/// Proposes the results of a function, and keeps its inputs.
pub struct Proposer {
    identity: PluginIdentity,
    about: About,
    propose: Proposes,
    /// Its inputs, in order.
    pub shown: Mutex<Vec<Shown>>,
}

/// A proposal of a new lesson.
pub fn lesson(text: &str) -> Proposal {
    let entry = Entry { id: String::new(), text: text.into(), tags: vec![], needs: vec![], extra: vec![] };
    Proposal { change: Change::Add(entry), evidence: vec![], expected_effect: String::new() }
}

impl Proposer {
    /// A reflector that proposes the results of this function.
    pub fn by(propose: impl Fn(&Shown) -> Result<Vec<Proposal>, Failure> + Send + Sync + 'static) -> Arc<Self> {
        let (identity, about) = (identity("proposer"), about("proposer"));
        Arc::new(Self { identity, about, propose: Box::new(propose), shown: Mutex::default() })
    }

    /// A reflector that always proposes these lessons.
    pub fn of(lessons: &'static [&'static str]) -> Arc<Self> {
        Self::by(|_| Ok(lessons.iter().map(|text| lesson(text)).collect()))
    }

    /// Run and group number of all inputs, sorted.
    pub fn groups(&self) -> Vec<(RunId, u64)> {
        let shown = self.shown.lock().unwrap();
        let mut groups: Vec<_> = shown.iter().map(|one| (one.group[0].run.clone(), one.group[0].group())).collect();
        groups.sort();
        groups
    }
}

#[async_trait]
impl Reflector for Proposer {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn about(&self) -> &About {
        &self.about
    }

    async fn reflect(
        &self,
        context: &Context,
        playbook: &Playbook,
        group: &[Arc<Episode>],
    ) -> Result<Vec<Proposal>, Failure> {
        let shown = Shown { context: context.clone(), playbook: playbook.clone(), group: group.to_vec() };
        self.shown.lock().unwrap().push(shown.clone());
        tokio::task::yield_now().await;
        (self.propose)(&shown)
    }
}
