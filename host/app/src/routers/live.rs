//! A router that a gateway serves: it chooses a model for every session.

use async_trait::async_trait;
use clawhost_core::{Digest, ModelRequest, RoutingPlugin, derive_seed};
use clawhost_gateway::{Chooser, Choosing, Chosen};
use clawhost_learn::LearnError;
use clawhost_learn::router::{Request, Router, failures, opening, seed_of};
use clawhost_learning::{PluginDecision, decide_by_plugin};
use std::sync::{Arc, PoisonError, RwLock};

/// Milliseconds of a second.
const SECOND_MS: u64 = 1000;

/// A router whose state is replaced when rewards come.
pub(crate) struct LiveRouter {
    name: String,
    deciding: RwLock<Deciding>,
}

/// What decides.
#[derive(Clone)]
struct Deciding {
    router: Arc<Router>,
    /// What decides in the place of the router, which learns nevertheless.
    plugin: Option<RoutingPlugin>,
}

impl LiveRouter {
    pub(crate) fn new(name: &str, router: Router, plugin: Option<RoutingPlugin>) -> Self {
        Self { name: name.to_owned(), deciding: RwLock::new(Deciding { router: Arc::new(router), plugin }) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn deciding(&self) -> Deciding {
        self.deciding.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The state that decides now, or learns beside a plugin that does.
    pub(crate) fn router(&self) -> Arc<Router> {
        self.deciding().router
    }

    /// Another state counts from now on.
    pub(crate) fn replace(&self, router: Router) {
        self.deciding.write().unwrap_or_else(PoisonError::into_inner).router = Arc::new(router);
    }

    /// Another state counts from now on, and another plugin, or none, decides.
    pub(crate) fn replace_both(&self, router: Router, plugin: Option<RoutingPlugin>) {
        *self.deciding.write().unwrap_or_else(PoisonError::into_inner) = Deciding { router: Arc::new(router), plugin };
    }

    async fn decide(&self, choosing: &Choosing<'_>) -> Result<Chosen, LearnError> {
        let Choosing { request: ModelRequest { messages, tools, .. }, session, at_ms } = *choosing;
        // What is not recorded has no session: all of its requests are decided about by their common beginning.
        let (messages, seed) = match session {
            Some(session) => (messages.as_slice(), derive_seed(0, &Digest::of(session.as_bytes()).to_string(), 0)),
            None => (opening(messages), seed_of(opening(messages))),
        };
        let Deciding { router, plugin } = self.deciding();
        let (features, words) = router.request(messages, tools.len())?;
        let (session, time) = (session.unwrap_or_default(), at_ms / SECOND_MS);
        let request = Request { session, time, features: &features, words: &words, seed };
        let (decision, failure) = match &plugin {
            None => (router.decide(&request)?, None),
            Some(plugin) => {
                let PluginDecision { decision, failure } = decide_by_plugin(&router, plugin, &request).await?;
                (decision, failure.map(|failure| failure.to_string()))
            }
        };
        let action = decision.action()?;
        let text = serde_json::to_string(&decision).map_err(|error| LearnError::Router(error.to_string()))?;
        Ok(Chosen { model: action.model.clone(), then: action.then.clone(), decision: text, failure })
    }
}

#[async_trait]
impl Chooser for LiveRouter {
    fn router(&self) -> &str {
        &self.name
    }

    async fn choose(&self, choosing: &Choosing<'_>) -> Result<Chosen, String> {
        self.decide(choosing).await.map_err(|error| error.to_string())
    }

    fn failures(&self, request: &ModelRequest) -> u32 {
        failures(&request.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{
        About, Context, Failure, FailureKind, Message, ModelRouter, Origin, PluginIdentity, Role, RouteCandidate,
        RouteChoice, code,
    };
    use clawhost_learn::router::{Decision, Features, RequestSummary, WorldSettings, simulation};
    use std::sync::Mutex;

    /// Chooses by the seed alone, or fails. Notes what it was shown.
    struct BySeed {
        identity: PluginIdentity,
        about: About,
        fails: bool,
        shown: Mutex<Vec<(Vec<(String, f64)>, Vec<RouteCandidate>)>>,
    }

    impl BySeed {
        fn new(fails: bool) -> Arc<Self> {
            let (identity, about) = (PluginIdentity::native("by-seed"), About::named("by-seed"));
            Arc::new(Self { identity, about, fails, shown: Mutex::default() })
        }
    }

    #[async_trait]
    impl ModelRouter for BySeed {
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
            assert!(context.seed < 1 << 53, "a double has it exactly");
            self.shown.lock().unwrap().push((features.to_vec(), candidates.to_vec()));
            if self.fails {
                return Err(Failure::new(FailureKind::Limit, code::FUEL, "by-seed used up its fuel"));
            }
            let share = 1.0 / candidates.len() as f64;
            let chosen = (context.seed % candidates.len() as u64) as usize;
            Ok(RouteChoice { chosen, propensities: vec![share; candidates.len()] })
        }
    }

    fn live(plugin: &Arc<BySeed>) -> LiveRouter {
        let settings = WorldSettings { decisions: 20, fresh: 1, ..WorldSettings::default() };
        let learned = simulation(&settings, 1).unwrap().router;
        let (settings, table) = (learned.settings().clone(), learned.table().clone());
        let router = Router::new(settings, table, Features::names_of_requests()).unwrap();
        LiveRouter::new("two", router, Some(RoutingPlugin { router: plugin.clone(), options: Vec::new() }))
    }

    async fn chosen(live: &LiveRouter, session: Option<&str>, text: &str) -> (Chosen, Decision) {
        let messages = vec![Message::text(Role::User, Origin::User, text)];
        let request = ModelRequest { messages, ..ModelRequest::default() };
        let chosen = live.choose(&Choosing { request: &request, session, at_ms: 7_000 }).await.unwrap();
        let decision = serde_json::from_str(&chosen.decision).unwrap();
        (chosen, decision)
    }

    #[tokio::test]
    async fn a_recorded_decision_of_a_plugin_can_be_made_again() {
        let plugin = BySeed::new(false);
        let live = live(&plugin);
        let mut models = std::collections::BTreeSet::new();
        for number in 0..32 {
            let session = format!("run-1/ep-{number}");
            let (first, decision) = chosen(&live, Some(&session), "hello").await;
            assert_eq!(first, chosen(&live, Some(&session), "hello").await.0, "{session}");
            assert_eq!((decision.session.as_str(), decision.time, &first.failure), (session.as_str(), 7, &None));
            assert_eq!(decision.plugin.as_ref().unwrap().name, "by-seed");
            models.insert(decision.action().unwrap().to_string());
        }
        assert_eq!(models.len(), live.router().candidates().len(), "{models:?}");
        // What is not recorded has no session: its beginning is its seed.
        assert_eq!(chosen(&live, None, "hello").await.0, chosen(&live, None, "hello").await.0);
    }

    #[tokio::test]
    async fn a_plugin_sees_numbers_and_prices_and_no_text() {
        let plugin = BySeed::new(false);
        let live = live(&plugin);
        let (_, decision) = chosen(&live, Some("run-1/ep-1"), "a secret of 24 letters..").await;
        let (features, candidates) = plugin.shown.lock().unwrap()[0].clone();
        let expect: Vec<(String, f64)> =
            decision.features.names().map(str::to_owned).zip(decision.features.values()).collect();
        assert_eq!((features.len() <= 16, &features), (true, &expect));
        assert_eq!(features[0], ("characters".to_owned(), 24_f64.ln_1p()));
        let names = Features::of(&RequestSummary::default()).unwrap();
        assert!(features.iter().map(|(name, _)| name.as_str()).eq(names.names()));
        assert_eq!(candidates, live.router().candidates());
    }

    #[tokio::test]
    async fn where_a_plugin_fails_the_incumbent_gets_the_session_and_the_cause_is_told() {
        let live = live(&BySeed::new(true));
        let (told, decision) = chosen(&live, Some("run-1/ep-1"), "hello").await;
        let incumbent = live.router().settings().incumbent.clone();
        let expect = incumbent.model(&decision.features, live.router().table()).unwrap().to_owned();
        assert_eq!((told.model, told.then), (expect, None));
        assert_eq!(told.failure.as_deref(), Some("limit(fuel): by-seed used up its fuel"));
        assert_eq!(decision.check().unwrap().propensity, 1.0);
        assert_eq!(decision.plugin.unwrap().failure.as_deref(), Some("limit(fuel)"));
        live.replace_both(live.router().as_ref().clone(), None);
        let (own, decision) = chosen(&live, Some("run-1/ep-1"), "hello").await;
        assert_eq!((own.failure, decision.plugin), (None, None));
    }
}
