//! Router plugins. Every call uses a new instance. What a plugin answers is checked as a whole: a probability for each candidate, and a choice
//! that could have been drawn.

use crate::binary::ComponentOutline;
use crate::call;
use crate::check::Check;
use crate::grants::ModelGrants;
use crate::host::{PluginHost, Prepared};
use crate::instance::InstanceLease;
use crate::state::State;
use crate::{EngineError, convert, failure};
use async_trait::async_trait;
use clawhost_bindings::router::exports::clawhost::router::router as wit;
use clawhost_bindings::router::{RouterPlugin as Guest, RouterPluginPre};
use clawhost_core::{
    About, Attributes, CallLimits, Context, Failure, FailureKind, ModelRouter, PROPENSITY_ROUNDING, PluginIdentity,
    RouteCandidate, RouteChoice, code,
};
use std::sync::Arc;
use std::time::Duration;
use wasmtime::Engine;

/// A loaded router plugin.
pub struct RouterPlugin {
    host: PluginHost,
    engine: Engine,
    pre: RouterPluginPre<State>,
    outline: ComponentOutline,
    identity: PluginIdentity,
    about: About,
}

impl std::fmt::Debug for RouterPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterPlugin").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The name of the error case, and its text.
fn case_and_text(error: wit::RouteError) -> (&'static str, String) {
    match error {
        wit::RouteError::InvalidInput(text) => ("invalid-input", text),
        wit::RouteError::InvalidOption(text) => ("invalid-option", text),
        wit::RouteError::Other(text) => ("an error", text),
    }
}

fn route_error(plugin: &PluginIdentity, export: &str, error: wit::RouteError) -> Failure {
    let (case, text) = case_and_text(error);
    failure::plugin_error(plugin, export, case, &text)
}

impl RouterPlugin {
    pub(crate) async fn load(name: &str, prepared: Prepared) -> Result<Self, EngineError> {
        let pre = RouterPluginPre::new(prepared.pre.clone()).map_err(|error| EngineError::misfit(name, &error))?;
        let identity =
            PluginIdentity { name: name.to_owned(), version: "?".to_owned(), digest: prepared.outline.digest };
        let Prepared { host, outline, engine, .. } = prepared;
        let mut plugin = Self { host, engine, pre, outline, identity, about: About::named(name) };
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
    pub async fn check_options(&self, options: &Attributes) -> Result<(), EngineError> {
        let asked = async {
            let (mut place, guest) = self.instance("check", &self.host.limits.describe, 0).await?;
            let deadline = place.deadline();
            let call = guest.clawhost_router_router().call_check(&mut place.store, options);
            let answer = call::within(deadline, call).await;
            call::end(&mut place.store, &self.identity, answer)
        };
        let answered = asked.await.map(|answer| answer.map_err(|error| case_and_text(error).1));
        EngineError::of_check(&self.identity.name, answered)
    }

    /// A router has no grants: it asks no model and keeps nothing.
    async fn instance(
        &self,
        export: &'static str,
        limits: &CallLimits,
        seed: u64,
    ) -> Result<(InstanceLease, Guest), Failure> {
        let (memory, grants) = (self.host.limits.reward_memory_bytes, Arc::<ModelGrants>::default());
        let place = InstanceLease::take(&self.host, &self.engine, memory, seed, grants);
        // An episode that waits for this choice has an instance itself: if all of them wait, none becomes free.
        let within = Duration::from_millis(limits.deadline_ms);
        let mut place = tokio::time::timeout(within, place).await.unwrap_or_else(|_| {
            let what = format!("{} waited too long in `{export}` for an instance", self.identity.name);
            Err(Failure::new(FailureKind::Limit, code::DEADLINE, what))
        })?;
        call::begin(&mut place.store, export, limits).map_err(failure::host)?;
        let deadline = place.deadline();
        let guest = call::within(deadline, self.pre.instantiate_async(&mut place.store)).await;
        let guest = call::end(&mut place.store, &self.identity, guest)?;
        Ok((place, guest))
    }

    async fn describe(&self) -> Result<About, Failure> {
        let (mut place, guest) = self.instance("describe", &self.host.limits.describe, 0).await?;
        let deadline = place.deadline();
        let call = guest.clawhost_router_router().call_describe(&mut place.store);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let about = convert::about_from(answer.map_err(|error| route_error(&self.identity, "describe", error))?);
        self.check("describe").about(&about)?;
        Ok(about)
    }

    fn check(&self, export: &'static str) -> Check<'_> {
        Check { plugin: &self.identity, export, limits: &self.host.limits }
    }
}

/// Checks a choice, and brings its probabilities into the order of the candidates.
fn choice(check: &Check<'_>, choice: wit::Choice, candidates: &[RouteCandidate]) -> Result<RouteChoice, Failure> {
    let wit::Choice { candidate, propensities, extra } = choice;
    let shown = |name: &str| clawhost_core::escaped(name, check.limits.name_bytes);
    let at = |name: &str| candidates.iter().position(|known| known.name == name);
    check.attributes(&extra)?;
    check.at_most("probabilities", propensities.len(), candidates.len())?;
    let mut given: Vec<Option<f64>> = vec![None; candidates.len()];
    for wit::Propensity { candidate, probability } in propensities {
        let place = at(&candidate).and_then(|at| given.get_mut(at));
        let Some(place) = place else {
            let what = format!("a probability of `{}`, which is no candidate", shown(&candidate));
            return check.refuse(code::MALFORMED, what);
        };
        if place.is_some() {
            let what = format!("two probabilities of `{}`", shown(&candidate));
            return check.refuse(code::DUPLICATE, what);
        }
        check.finite(&format!("the probability of {candidate}"), probability)?;
        if !(0.0..=1.0).contains(&probability) {
            let what = format!("the probability {probability} of `{}`, outside 0 to 1", shown(&candidate));
            return check.refuse(code::OUT_OF_RANGE, what);
        }
        *place = Some(probability);
    }
    let mut propensities = Vec::with_capacity(given.len());
    for (known, probability) in candidates.iter().zip(given) {
        let Some(probability) = probability else {
            return check.refuse(code::COUNT, format!("no probability of `{}`", shown(&known.name)));
        };
        propensities.push(probability);
    }
    let sum: f64 = propensities.iter().sum();
    if (sum - 1.0).abs() > PROPENSITY_ROUNDING {
        let what = format!("probabilities that add up to {sum}, not to 1 within {PROPENSITY_ROUNDING}");
        return check.refuse(code::OUT_OF_RANGE, what);
    }
    let Some(chosen) = at(&candidate) else {
        return check.refuse(code::MALFORMED, format!("the choice `{}`, which is no candidate", shown(&candidate)));
    };
    if propensities.get(chosen).is_none_or(|probability| *probability <= 0.0) {
        let what = format!("the choice `{}`, whose probability is 0", shown(&candidate));
        return check.refuse(code::OUT_OF_RANGE, what);
    }
    Ok(RouteChoice { chosen, propensities })
}

#[async_trait]
impl ModelRouter for RouterPlugin {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn about(&self) -> &About {
        &self.about
    }

    async fn route(
        &self,
        context: &Context,
        features: &[(String, f64)],
        candidates: &[RouteCandidate],
    ) -> Result<RouteChoice, Failure> {
        let (mut place, guest) = self.instance("route", &self.host.limits.route, context.seed).await?;
        let feature = |(name, value): &(String, f64)| wit::Feature { name: name.clone(), value: *value };
        let request = wit::Request { features: features.iter().map(feature).collect(), extra: Vec::new() };
        let candidate = |known: &RouteCandidate| wit::Candidate {
            name: known.name.clone(),
            price: known.price,
            then_price: known.then_price,
            extra: Vec::new(),
        };
        let offered: Vec<wit::Candidate> = candidates.iter().map(candidate).collect();
        let context = convert::context_to(context);
        let deadline = place.deadline();
        let call = guest.clawhost_router_router().call_route(&mut place.store, &context, &request, &offered);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let answer = answer.map_err(|error| route_error(&self.identity, "route", error))?;
        choice(&self.check("route"), answer, candidates)
    }
}
