//! Reflector plugins. Every call uses a new instance. Tasks' references are hidden, so that a lesson cannot carry a
//! reference answer into a playbook.

use crate::binary::ComponentOutline;
use crate::call;
use crate::check::Check;
use crate::grants::ModelGrants;
use crate::host::{PluginHost, Prepared};
use crate::instance::InstanceLease;
use crate::{EngineError, convert, failure};
use async_trait::async_trait;
use clawhost_bindings::Group;
use clawhost_bindings::reflector::exports::clawhost::reflector::reflector as wit;
use clawhost_bindings::reflector::{ReflectorPlugin as Guest, ReflectorPluginPre};
use clawhost_core::{
    About, CallLimits, Change, Context, Entry, Episode, Evidence, Failure, Grants, Playbook, PluginIdentity, Proposal,
    Reflector, code,
};
use std::sync::Arc;
use wasmtime::Engine;

/// A loaded reflector plugin.
pub struct ReflectorPlugin {
    host: PluginHost,
    engine: Engine,
    pre: ReflectorPluginPre<crate::state::State>,
    outline: ComponentOutline,
    identity: PluginIdentity,
    about: About,
    grants: Arc<ModelGrants>,
}

impl std::fmt::Debug for ReflectorPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReflectorPlugin").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The name of the error case, and its text.
fn case_and_text(error: wit::ReflectError) -> (&'static str, String) {
    match error {
        wit::ReflectError::InvalidInput(text) => ("invalid-input", text),
        wit::ReflectError::Model(text) => ("model", text),
        wit::ReflectError::InvalidOption(text) => ("invalid-option", text),
        wit::ReflectError::Other(text) => ("an error", text),
    }
}

fn reflect_error(plugin: &PluginIdentity, export: &str, error: wit::ReflectError) -> Failure {
    let (case, text) = case_and_text(error);
    failure::plugin_error(plugin, export, case, &text)
}

impl ReflectorPlugin {
    pub(crate) async fn load(name: &str, prepared: Prepared, grants: ModelGrants) -> Result<Self, EngineError> {
        let misfit = |error| EngineError::misfit(name, &error);
        let pre = ReflectorPluginPre::new(prepared.pre).map_err(misfit)?;
        let identity =
            PluginIdentity { name: name.to_owned(), version: "?".to_owned(), digest: prepared.outline.digest };
        let about = About {
            name: name.to_owned(),
            version: String::new(),
            summary: String::new(),
            features: Vec::new(),
            options: Vec::new(),
            extra: Vec::new(),
        };
        let grants = grants.asked_for(&prepared.outline);
        let mut plugin = Self {
            host: prepared.host,
            engine: prepared.engine,
            pre,
            outline: prepared.outline,
            identity,
            about,
            grants: Arc::new(grants),
        };
        let about = plugin.describe().await;
        plugin.about =
            about.map_err(|failure| EngineError::NoAnswer { name: name.to_owned(), export: "describe", failure })?;
        plugin.identity.name = plugin.about.name.clone();
        plugin.identity.version = plugin.about.version.clone();
        Ok(plugin)
    }

    /// Outline of the component.
    pub fn outline(&self) -> &ComponentOutline {
        &self.outline
    }

    /// Asks the plugin to validate these options. Their names have been checked before.
    ///
    /// # Errors
    /// The plugin rejects them, with its own message; or it fails.
    pub async fn check_options(&self, options: &clawhost_core::Attributes) -> Result<(), EngineError> {
        let asked = async {
            let limits = &self.host.limits.describe;
            let (mut place, guest) = self.instance("check", limits, 0, Arc::default(), &[]).await?;
            let deadline = place.deadline();
            let call = guest.clawhost_reflector_reflector().call_check(&mut place.store, options);
            let answer = call::within(deadline, call).await;
            call::end(&mut place.store, &self.identity, answer)
        };
        let answered = asked.await.map(|answer| answer.map_err(|error| case_and_text(error).1));
        EngineError::of_check(&self.identity.name, answered)
    }

    async fn instance(
        &self,
        export: &'static str,
        limits: &CallLimits,
        seed: u64,
        grants: Arc<ModelGrants>,
        group: &[Arc<Episode>],
    ) -> Result<(InstanceLease, Guest), Failure> {
        let memory = self.host.limits.memory_bytes;
        let mut place = InstanceLease::take(&self.host, &self.engine, memory, seed, grants).await?;
        place.store.data_mut().group = group.to_vec();
        // Handles for the group and its episodes are added to the limit.
        let handles = self.host.limits.handles.saturating_add(group.len()).saturating_add(1);
        place.store.data_mut().table.set_max_capacity(handles);
        call::begin(&mut place.store, export, limits).map_err(failure::host)?;
        let deadline = place.deadline();
        let guest = call::within(deadline, self.pre.instantiate_async(&mut place.store)).await;
        let guest = call::end(&mut place.store, &self.identity, guest)?;
        Ok((place, guest))
    }

    async fn describe(&self) -> Result<About, Failure> {
        let limits = &self.host.limits.describe;
        let (mut place, guest) = self.instance("describe", limits, 0, Arc::default(), &[]).await?;
        let deadline = place.deadline();
        let call = guest.clawhost_reflector_reflector().call_describe(&mut place.store);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let about = convert::about_from(answer.map_err(|error| reflect_error(&self.identity, "describe", error))?);
        Check { plugin: &self.identity, export: "describe", limits: &self.host.limits }.about(&about)?;
        Ok(about)
    }

    fn proposal(&self, check: &Check<'_>, proposal: wit::Proposal) -> Result<Proposal, Failure> {
        let entry = |entry: wit::Entry| -> Result<Entry, Failure> {
            check.text("an entry", &entry.text)?;
            check.at_most("bytes in an entry's id", entry.id.len(), check.limits.name_bytes)?;
            check.at_most("tags of an entry", entry.tags.len(), check.limits.attributes)?;
            entry.tags.iter().try_for_each(|tag| check.name("a tag", tag))?;
            check.at_most("needs of an entry", entry.needs.len(), check.limits.attributes)?;
            entry.needs.iter().try_for_each(|need| check.name("a needed entry", need))?;
            check.attributes(&entry.extra)?;
            Ok(Entry { id: entry.id, text: entry.text, tags: entry.tags, needs: entry.needs, extra: entry.extra })
        };
        let change = match proposal.change {
            wit::Change::Add(new) => Change::Add(entry(new)?),
            wit::Change::Update(new) => Change::Update(entry(new)?),
            wit::Change::Retire(id) => {
                check.name("an entry", &id)?;
                Change::Retire(id)
            }
            wit::Change::Merge((ids, new)) => {
                check.at_most("merged entries", ids.len(), check.limits.proposals)?;
                ids.iter().try_for_each(|id| check.name("an entry", id))?;
                Change::Merge(ids, entry(new)?)
            }
            wit::Change::RewriteSection((name, text)) => {
                check.name("a section", &name)?;
                check.text("a section", &text)?;
                Change::RewriteSection(name, text)
            }
            wit::Change::Other(text) => {
                let text = clawhost_core::escaped(&text, check.limits.name_bytes);
                return check.refuse(code::UNKNOWN_CASE, format!("change `{text}`, which this host does not know"));
            }
        };
        check.at_most("evidence", proposal.evidence.len(), check.limits.proposals)?;
        check.text("the expected effect", &proposal.expected_effect)?;
        let mut evidence = Vec::with_capacity(proposal.evidence.len());
        for item in proposal.evidence {
            check.name("an episode", &item.episode)?;
            check.at_most("turns of an evidence", item.turns.len(), check.limits.signals)?;
            evidence.push(Evidence { episode: item.episode, turns: item.turns });
        }
        Ok(Proposal { change, evidence, expected_effect: proposal.expected_effect })
    }
}

#[async_trait]
impl Reflector for ReflectorPlugin {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn grants(&self) -> Grants {
        self.grants.used_by(&self.outline)
    }

    async fn reflect(
        &self,
        context: &Context,
        playbook: &Playbook,
        group: &[Arc<Episode>],
    ) -> Result<Vec<Proposal>, Failure> {
        let mut limits = self.host.limits.reflect;
        if !self.grants.models.is_empty() {
            limits.deadline_ms = limits.deadline_ms.max(self.host.limits.llm_batch_deadline_ms);
        }
        let (mut place, guest) = self.instance("reflect", &limits, context.seed, self.grants.clone(), group).await?;
        let handle = place.store.data_mut().table.push(Group).map_err(failure::host)?;
        let handed = wasmtime::component::Resource::new_own(handle.rep());
        let entry = |entry: &Entry| wit::Entry {
            id: entry.id.clone(),
            text: entry.text.clone(),
            tags: entry.tags.clone(),
            needs: entry.needs.clone(),
            extra: entry.extra.clone(),
        };
        let playbook = wit::Playbook {
            version: playbook.version.clone(),
            entries: playbook.entries.iter().map(entry).collect(),
            sections: playbook.sections.clone(),
            attempt: playbook.attempt,
            tried: playbook.tried.iter().map(entry).collect(),
            extra: Vec::new(),
        };
        let context = convert::context_to(context);
        let reflector = guest.clawhost_reflector_reflector();
        let deadline = place.deadline();
        let call = reflector.call_reflect(&mut place.store, &context, &playbook, handed);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let proposals = answer.map_err(|error| reflect_error(&self.identity, "reflect", error))?;
        let check = Check { plugin: &self.identity, export: "reflect", limits: &self.host.limits };
        check.at_most("proposals", proposals.len(), check.limits.proposals)?;
        proposals.into_iter().map(|proposal| self.proposal(&check, proposal)).collect()
    }
}
