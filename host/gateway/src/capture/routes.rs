//! The models that routers chose for a session. They are chosen once: a change of model loses the prompt cache and changes the tone.

use crate::routing::{Choosing, Chosen, Routing};
use clawhost_capture::{Exchange, Routed};
use clawhost_core::ModelRequest;
use std::collections::BTreeMap;
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
pub(crate) struct Routes(Arc<Mutex<BTreeMap<String, Route>>>);

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
}

impl RoutedRequest<'_> {
    /// Asks the router. `None`: it has no choice, so the candidates are asked in their order.
    fn choose(&self) -> Option<Route> {
        let Self { routing, request, session, at_ms, is_logged } = *self;
        let Chosen { model, then, decision } = match routing.chooser.choose(&Choosing { request, session, at_ms }) {
            Ok(chosen) => chosen,
            Err(why) => {
                tracing::error!("router {} chooses no model: {why}", routing.chooser.router());
                return None;
            }
        };
        let router = routing.chooser.router().to_owned();
        let failures = routing.chooser.failures(request);
        let routed = Routed { router, model, then, is_escalated: false, failures };
        Some(Route { routed, decision: Some(decision).filter(|_| is_logged) })
    }

    /// What the router chose for a request without a session.
    pub(crate) fn alone(&self) -> Option<Routed> {
        self.choose().map(|route| route.routed)
    }
}

impl Routes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Route>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The choices of a session that comes from this one. The decisions stay those of this one.
    pub(crate) fn inherited(&self) -> Self {
        let undecided =
            |(router, route): (&String, &Route)| (router.clone(), Route { decision: None, ..route.clone() });
        Self(Arc::new(Mutex::new(self.lock().iter().map(undecided).collect())))
    }

    /// The choices that records of a session have.
    pub(crate) fn recorded(exchanges: &[Exchange]) -> Self {
        let mut routes: BTreeMap<String, Route> = BTreeMap::new();
        for routed in exchanges.iter().filter_map(|exchange| exchange.routed.as_ref()) {
            let known = routes.get(&routed.router).is_some_and(|known| known.routed.is_escalated);
            let routed = Routed { is_escalated: known || routed.is_escalated, ..routed.clone() };
            routes.insert(routed.router.clone(), Route { routed, decision: None });
        }
        Self(Arc::new(Mutex::new(routes)))
    }

    /// What was chosen for the session of a request, with the decision if no record holds it yet. A session whose model has left the
    /// table gets another one, and the decision about it stays the first.
    pub(crate) fn of(&self, asked: &RoutedRequest<'_>) -> Option<(Routed, Option<String>)> {
        let Routing { chooser, names } = asked.routing;
        let mut routes = self.lock();
        let known = routes.get(chooser.router()).cloned();
        let is_there = |name: &String| names.contains(name);
        let mut route = match known {
            Some(route) if is_there(&route.routed.model) => route,
            Some(gone) => Route { decision: gone.decision, ..asked.choose()? },
            None => asked.choose()?,
        };
        let Routed { then, is_escalated, failures, .. } = &mut route.routed;
        if then.as_ref().is_some_and(|then| !is_there(then)) {
            (*then, *is_escalated) = (None, false);
        }
        *is_escalated |= then.is_some() && chooser.failures(asked.request) > *failures;
        routes.insert(chooser.router().to_owned(), route.clone());
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
