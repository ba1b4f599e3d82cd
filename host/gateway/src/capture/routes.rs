//! The models that routers chose for a session. They are chosen once: a change of model loses the prompt cache and changes the tone.

use crate::routing::{Choosing, Chosen, Routing};
use clawhost_capture::{Exchange, Routed};
use clawhost_core::ModelRequest;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The choice of one router.
#[derive(Debug, Clone)]
struct Route {
    routed: Routed,
    /// The decision, until a record holds it.
    decision: Option<String>,
}

/// The choices for a session, by router. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    known: Arc<Mutex<BTreeMap<String, Route>>>,
    /// Held while a router is asked, so that requests at the same time get one choice.
    asking: Arc<tokio::sync::Mutex<()>>,
}

/// A request for which a router chooses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoutedRequest<'a> {
    pub(crate) routing: &'a Routing,
    pub(crate) request: &'a ModelRequest,
    /// As `RUN/EPISODE`; `None`: it is not recorded.
    pub(crate) session: Option<&'a str>,
    pub(crate) at_ms: u64,
    /// Whether the decision is recorded, so that the router learns from what comes of it.
    pub(crate) is_logged: bool,
    /// Counts choices that the router, or its plugin, did not make.
    pub(crate) failed: &'a AtomicU64,
}

impl RoutedRequest<'_> {
    /// Asks the router. `None`: it has no choice, so the candidates are asked in their order.
    async fn choose(&self) -> Option<Route> {
        let Self { routing, request, session, at_ms, is_logged, failed } = *self;
        let chosen = routing.chooser.choose(&Choosing { request, session, at_ms }).await;
        let Chosen { model, then, decision, failure } = match chosen {
            Ok(chosen) => chosen,
            Err(why) => {
                failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!("router {} chooses no model: {why}", routing.chooser.router());
                return None;
            }
        };
        if let Some(why) = failure {
            failed.fetch_add(1, Ordering::Relaxed);
            tracing::error!("router {} gives the session to its incumbent: {why}", routing.chooser.router());
        }
        let router = routing.chooser.router().to_owned();
        let failures = routing.chooser.failures(request);
        let routed = Routed { router, model, then, is_escalated: false, failures };
        Some(Route { routed, decision: Some(decision).filter(|_| is_logged) })
    }

    /// What the router chose for a request without a session.
    pub(crate) async fn alone(&self) -> Option<Routed> {
        self.choose().await.map(|route| route.routed)
    }
}

impl Routes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Route>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(known: BTreeMap<String, Route>) -> Self {
        Self { known: Arc::new(Mutex::new(known)), ..Self::default() }
    }

    /// The choices of a session that comes from this one. The decisions stay those of this one.
    pub(crate) fn inherited(&self) -> Self {
        let undecided =
            |(router, route): (&String, &Route)| (router.clone(), Route { decision: None, ..route.clone() });
        Self::with(self.lock().iter().map(undecided).collect())
    }

    /// The choices that records of a session have.
    pub(crate) fn recorded(exchanges: &[Exchange]) -> Self {
        let mut routes: BTreeMap<String, Route> = BTreeMap::new();
        for routed in exchanges.iter().filter_map(|exchange| exchange.routed.as_ref()) {
            let known = routes.get(&routed.router).is_some_and(|known| known.routed.is_escalated);
            let routed = Routed { is_escalated: known || routed.is_escalated, ..routed.clone() };
            routes.insert(routed.router.clone(), Route { routed, decision: None });
        }
        Self::with(routes)
    }

    /// What was chosen for the session of a request, with the decision if no record holds it yet. A session whose model has left the
    /// table gets another one, and the decision about it stays the first.
    pub(crate) async fn of(&self, asked: &RoutedRequest<'_>) -> Option<(Routed, Option<String>)> {
        let Routing { chooser, names } = asked.routing;
        let _asking = self.asking.lock().await;
        let known = self.lock().get(chooser.router()).cloned();
        let is_there = |name: &String| names.contains(name);
        let mut route = match known {
            Some(route) if is_there(&route.routed.model) => route,
            Some(gone) => Route { decision: gone.decision, ..asked.choose().await? },
            None => asked.choose().await?,
        };
        let Routed { then, is_escalated, failures, .. } = &mut route.routed;
        if then.as_ref().is_some_and(|then| !is_there(then)) {
            (*then, *is_escalated) = (None, false);
        }
        *is_escalated |= then.is_some() && chooser.failures(asked.request) > *failures;
        self.lock().insert(chooser.router().to_owned(), route.clone());
        Some((route.routed, route.decision))
    }

    /// A record holds what was chosen, and the decision if it was given with it.
    pub(crate) fn keep(&self, routed: &Routed, with_decision: bool) {
        if let Some(route) = self.lock().get_mut(&routed.router) {
            route.routed.is_escalated |= routed.is_escalated;
            if with_decision {
                route.decision = None;
            }
        }
    }
}
