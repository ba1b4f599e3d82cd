//! The routers that a gateway serves: each chooses between models that have an alias, and models of its own.

use crate::AppError;
use crate::events::EventSink;
use crate::models::ModelFactory;
use crate::routers::{LiveRouter, RouterFile, described};
use crate::served_models::OpenModel;
use clawhost_core::RoutingPlugin;
use clawhost_gateway::{Candidate, Routing, ServedModel};
use clawhost_learn::router::Router;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Routers by their names.
pub(crate) type ServedRouters = BTreeMap<String, ServedRouter>;

/// A router with what it chooses from.
pub(crate) struct ServedRouter {
    live: Arc<LiveRouter>,
    /// What decides when the configuration is accepted, for a router that was open before.
    next: Option<(Router, Option<RoutingPlugin>)>,
    file: RouterFile,
    /// The models that have no alias, by their names in the router's table.
    own: BTreeMap<String, OpenModel>,
}

impl ServedRouter {
    /// Opens a router. What is open of the former one of this name stays open. `has_alias`: whether a text is an alias of the gateway.
    ///
    /// # Errors
    /// Its files or one of its models cannot be used.
    pub(crate) fn open(
        name: &str,
        former: Option<&Self>,
        has_alias: impl Fn(&str) -> bool,
        factory: &ModelFactory,
        events: &dyn EventSink,
    ) -> Result<Self, AppError> {
        let (folder, file) = described(factory.routers(), name)?;
        let mut own = BTreeMap::new();
        for (model, section) in file.models.iter().filter(|(_, section)| !has_alias(&section.model)) {
            let known = former.and_then(|former| former.own.get(model)).filter(|known| known.is(&section.model));
            let opened = match known {
                Some(known) => known.clone(),
                None => OpenModel::new(factory, &section.model, &Default::default(), events)?.1,
            };
            own.insert(model.clone(), opened);
        }
        let (router, plugin) = (file.live(&folder, name)?, factory.router_plugins().of(name, &file)?);
        let (live, next) = match former {
            Some(former) => (former.live.clone(), Some((router, plugin))),
            None => (Arc::new(LiveRouter::new(name, router, plugin)), None),
        };
        Ok(Self { live, next, file, own })
    }

    /// Lets a router that was open before decide as its file says now.
    pub(crate) fn take_over(&mut self) {
        if let Some((router, plugin)) = self.next.take() {
            self.live.replace_both(router, plugin);
        }
    }

    /// What chooses.
    pub(crate) fn live(&self) -> &Arc<LiveRouter> {
        &self.live
    }

    /// The models that it alone has opened.
    pub(crate) fn own(&mut self) -> impl Iterator<Item = (&String, &mut OpenModel)> {
        self.own.iter_mut()
    }

    /// An alias whose model it chooses. `candidate`: that of another alias.
    pub(crate) fn served(&self, alias: &str, candidate: impl Fn(&str) -> Option<Candidate>) -> Option<ServedModel> {
        let candidate = |(name, section): (&String, &crate::routers::RoutedSection)| {
            let own = self.own.get(name).map(|model| model.candidate.clone());
            Some((name.clone(), own.or_else(|| candidate(&section.model))?))
        };
        let (names, candidates): (Vec<String>, Vec<Candidate>) = self.file.models.iter().filter_map(candidate).unzip();
        let mut candidates = candidates.into_iter();
        Some(ServedModel {
            alias: alias.to_owned(),
            first: candidates.next()?,
            then: candidates.collect(),
            routing: Some(Routing { chooser: self.live.clone(), names }),
        })
    }
}
