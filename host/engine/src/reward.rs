//! Reward plugins. Every call uses a new instance.

use crate::binary::ComponentOutline;
use crate::call;
use crate::check::Check;
use crate::grants::ModelGrants;
use crate::host::{PluginHost, Prepared};
use crate::instance::InstanceLease;
use crate::{EngineError, convert, failure};
use async_trait::async_trait;
use clawhost_bindings::Group;
use clawhost_bindings::reward::exports::clawhost::reward::reward as wit;
use clawhost_bindings::reward::{RewardPlugin as Guest, RewardPluginPre};
use clawhost_core::{
    About, CallLimits, Context, Episode, Failure, Grants, JournalEntry, ModelCallSource, PluginIdentity, Reward,
    RewardDescription, RewardScope, RewardSource, ScoreCard, Scoring, Verdict, code,
};
use std::sync::Arc;
use wasmtime::Engine;

/// Rewards are between -1 and 1, so that sources are comparable and statistics know the scale.
const LARGEST_BOUND: f64 = 1.0;

/// A loaded reward plugin.
pub struct RewardPlugin {
    host: PluginHost,
    engine: Engine,
    pre: RewardPluginPre<crate::state::State>,
    outline: ComponentOutline,
    identity: PluginIdentity,
    description: RewardDescription,
    grants: Arc<ModelGrants>,
}

impl std::fmt::Debug for RewardPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RewardPlugin").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The name of the error case, and its text.
fn case_and_text(error: wit::RewardError) -> (&'static str, String) {
    match error {
        wit::RewardError::InvalidInput(text) => ("invalid-input", text),
        wit::RewardError::Judge(text) => ("judge", text),
        wit::RewardError::InvalidOption(text) => ("invalid-option", text),
        wit::RewardError::Other(text) => ("an error", text),
    }
}

fn reward_error(plugin: &PluginIdentity, export: &str, error: wit::RewardError) -> Failure {
    let (case, text) = case_and_text(error);
    failure::plugin_error(plugin, export, case, &text)
}

impl RewardPlugin {
    pub(crate) async fn load(name: &str, prepared: Prepared, grants: ModelGrants) -> Result<Self, EngineError> {
        let misfit = |error| EngineError::misfit(name, &error);
        let pre = RewardPluginPre::new(prepared.pre).map_err(misfit)?;
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
        let description = RewardDescription {
            about,
            minimum: 0.0,
            maximum: 1.0,
            source: RewardSource::Outcome,
            scope: RewardScope::Each,
        };
        let grants = grants.asked_for(&prepared.outline);
        let mut plugin = Self {
            host: prepared.host,
            engine: prepared.engine,
            pre,
            outline: prepared.outline,
            identity,
            description,
            grants: Arc::new(grants),
        };
        let description = plugin.describe().await;
        plugin.description = description.map_err(|failure| EngineError::NoAnswer {
            name: name.to_owned(),
            export: "describe",
            failure,
        })?;
        plugin.identity.name = plugin.description.about.name.clone();
        plugin.identity.version = plugin.description.about.version.clone();
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
            let call = guest.clawhost_reward_reward().call_check(&mut place.store, options);
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
        let memory = self.host.limits.reward_memory_bytes;
        let mut place = InstanceLease::take(&self.host, &self.engine, memory, seed, grants).await?;
        place.store.data_mut().group = group.to_vec();
        // Handles for the group and its episodes are added to the limit.
        let handles = self.host.limits.handles.saturating_add(group.len()).saturating_add(1);
        place.store.data_mut().table.set_max_capacity(handles);
        place.store.data_mut().shows_reference = true;
        call::begin(&mut place.store, export, limits).map_err(failure::host)?;
        let deadline = place.deadline();
        let guest = call::within(deadline, self.pre.instantiate_async(&mut place.store)).await;
        let guest = call::end(&mut place.store, &self.identity, guest)?;
        Ok((place, guest))
    }

    async fn describe(&self) -> Result<RewardDescription, Failure> {
        let limits = &self.host.limits.describe;
        let (mut place, guest) = self.instance("describe", limits, 0, Arc::default(), &[]).await?;
        let deadline = place.deadline();
        let call = guest.clawhost_reward_reward().call_describe(&mut place.store);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let wit = answer.map_err(|error| reward_error(&self.identity, "describe", error))?;
        let check = Check { plugin: &self.identity, export: "describe", limits: &self.host.limits };
        let about = convert::about_from(wit.about);
        check.about(&about)?;
        check.attributes(&wit.extra)?;
        check.finite("minimum", wit.minimum)?;
        check.finite("maximum", wit.maximum)?;
        if wit.minimum.abs().max(wit.maximum.abs()) > LARGEST_BOUND {
            let (low, high) = (wit.minimum, wit.maximum);
            let what = format!("a range from {low} to {high}; rewards lie between -1 and 1: divide by the largest");
            return check.refuse(code::OUT_OF_RANGE, what);
        }
        if wit.minimum >= wit.maximum {
            let (low, high) = (wit.minimum, wit.maximum);
            return check.refuse(code::OUT_OF_RANGE, format!("a range from {low} to {high}, which holds no values"));
        }
        let source = match wit.source {
            wit::Source::Outcome => RewardSource::Outcome,
            wit::Source::Execution => RewardSource::Execution,
            wit::Source::Judge => RewardSource::Judge,
            wit::Source::Other(text) => {
                let text = clawhost_core::escaped(&text, check.limits.name_bytes);
                return check.refuse(code::UNKNOWN_CASE, format!("source `{text}`, which this host does not know"));
            }
        };
        let scope = match wit.scope {
            wit::Scope::Each => RewardScope::Each,
            wit::Scope::Group => RewardScope::Group,
        };
        Ok(RewardDescription { about, minimum: wit.minimum, maximum: wit.maximum, source, scope })
    }

    fn score_limits(&self, episodes: usize) -> CallLimits {
        let limits = &self.host.limits;
        let mut call = limits.score;
        let more = limits.score_fuel_per_episode.saturating_mul(episodes as u64);
        // The time limits grow with the fuel budget.
        let share = 1 + more / call.fuel.max(1);
        call.fuel = call.fuel.saturating_add(more);
        call.busy_ms = call.busy_ms.saturating_mul(share);
        call.deadline_ms = call.deadline_ms.saturating_mul(share);
        if !self.grants.models.is_empty() {
            call.deadline_ms = call.deadline_ms.max(limits.llm_batch_deadline_ms);
        }
        call
    }

    fn verdict(&self, verdict: wit::Verdict, episode: &Episode) -> Result<Verdict, Failure> {
        let check = Check { plugin: &self.identity, export: "score", limits: &self.host.limits };
        match verdict {
            wit::Verdict::Scored(card) => {
                check.finite("the value", card.value)?;
                let (low, high) = (self.description.minimum, self.description.maximum);
                if !(low..=high).contains(&card.value) {
                    let what = format!("the value {} is outside the declared range {low} to {high}", card.value);
                    return check.refuse(code::OUT_OF_RANGE, what);
                }
                if !(0.0..=1.0).contains(&card.confidence) {
                    let what = format!("the confidence {} is outside 0 to 1", card.confidence);
                    return check.refuse(code::OUT_OF_RANGE, what);
                }
                check.at_most("parts of a score", card.parts.len(), check.limits.signals)?;
                let parts: Vec<_> = card.parts.into_iter().map(convert::signal_from).collect();
                check.signals("parts of a score", &parts)?;
                check.text("the rationale", &card.rationale)?;
                check.attributes(&card.extra)?;
                if !card.per_turn.is_empty() && card.per_turn.len() != episode.turns.len() {
                    let (given, turns) = (card.per_turn.len(), episode.turns.len());
                    return check.refuse(code::COUNT, format!("{given} values per turn for {turns} turns"));
                }
                card.per_turn.iter().try_for_each(|value| check.finite("a value per turn", *value))?;
                let card = ScoreCard {
                    value: card.value,
                    confidence: card.confidence,
                    parts,
                    rationale: card.rationale,
                    per_turn: card.per_turn,
                    extra: card.extra,
                };
                check.at_most("bytes of a verdict", card.bytes(), check.limits.verdict_bytes)?;
                Ok(Verdict::Scored(card))
            }
            wit::Verdict::NotApplicable(why) => {
                check.text("the reason", &why)?;
                Ok(Verdict::NotApplicable(why))
            }
            wit::Verdict::Failed(why) => Err(failure::plugin_error(&self.identity, "score", "failed", &why)),
            wit::Verdict::Other(text) => {
                let text = clawhost_core::escaped(&text, check.limits.name_bytes);
                check.refuse(code::UNKNOWN_CASE, format!("verdict `{text}`, which this host does not know"))
            }
        }
    }
}

#[async_trait]
impl Reward for RewardPlugin {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &RewardDescription {
        &self.description
    }

    fn judge(&self) -> Option<String> {
        // A grant that the reward cannot use does not affect its answers.
        if !self.outline.wants("clawhost:llm/llm") {
            return None;
        }
        let model = |(alias, model): (&String, &Arc<dyn clawhost_core::Llm>)| {
            let identity = model.identity();
            format!("{alias}={}:{}@{}", identity.provider, identity.model, identity.version)
        };
        let models: Vec<String> = self.grants.models.iter().map(model).collect();
        (!models.is_empty()).then(|| models.join(","))
    }

    fn grants(&self) -> Grants {
        self.grants.used_by(&self.outline)
    }

    async fn score(&self, context: &Context, group: &[Arc<Episode>]) -> Scoring {
        self.answering(context, group, ModelCallSource::Live).await
    }

    async fn score_again(&self, context: &Context, group: &[Arc<Episode>], journal: Arc<[JournalEntry]>) -> Scoring {
        self.answering(context, group, ModelCallSource::Recorded { journal, through: u32::MAX }).await
    }
}

impl RewardPlugin {
    async fn answering(&self, context: &Context, group: &[Arc<Episode>], answers: ModelCallSource) -> Scoring {
        let limits = self.score_limits(group.len());
        match self.instance("score", &limits, context.seed, self.grants.clone(), group).await {
            Err(failure) => Scoring { verdicts: Err(failure), log: Vec::new(), journal: Vec::new(), fuel: None },
            Ok((mut place, guest)) => {
                place.store.data_mut().answers = answers;
                let mut verdicts = self.ask(&mut place, &guest, context, group).await;
                let fuel = call::fuel_used(&place.store);
                let state = place.store.data_mut();
                if let Some(spent) = &state.budget_spent {
                    blame_the_budget(&mut verdicts, spent);
                }
                let log = state.log().take();
                Scoring { verdicts, log, journal: std::mem::take(&mut state.journal), fuel }
            }
        }
    }
}

/// If the model budget was exhausted during the call, it failed for this reason, however the reward handled it.
fn blame_the_budget(verdicts: &mut Result<Vec<Verdict>, Failure>, spent: &str) {
    let failure = || failure::budget(spent);
    match verdicts {
        Err(of_all) => *of_all = failure(),
        // Also a score that was given without the model's answer: a resumed run would keep it.
        Ok(each) => each.iter_mut().for_each(|verdict| *verdict = Verdict::Failed(failure())),
    }
}

impl RewardPlugin {
    async fn ask(
        &self,
        place: &mut InstanceLease,
        guest: &Guest,
        context: &Context,
        group: &[Arc<Episode>],
    ) -> Result<Vec<Verdict>, Failure> {
        let handle = place.store.data_mut().table.push(Group).map_err(failure::host)?;
        let handed = wasmtime::component::Resource::new_own(handle.rep());
        let context = convert::context_to(context);
        let deadline = place.deadline();
        let call = guest.clawhost_reward_reward().call_score(&mut place.store, &context, handed);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let verdicts = answer.map_err(|error| reward_error(&self.identity, "score", error))?;
        if verdicts.len() != group.len() {
            let check = Check { plugin: &self.identity, export: "score", limits: &self.host.limits };
            let what = format!("{} verdicts for {} episodes", verdicts.len(), group.len());
            return check.refuse(code::COUNT, what);
        }
        let judged = verdicts.into_iter().zip(group);
        // An invalid verdict fails alone.
        Ok(judged.map(|(verdict, episode)| self.verdict(verdict, episode).unwrap_or_else(Verdict::Failed)).collect())
    }
}
