//! Adapters of users and projects that a gateway serves in the place of their model. They share its weights in memory.

use crate::AppError;
use crate::live::LearnedPlace;
use crate::models::{ModelFactory, weights_of};
use crate::watched_folder::WatchedFolder;
use clawhost_gateway::{ModelSource, OwnSources};
use clawhost_model::{AdapterFolder, LocalModel};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Most adapters in memory: those that learned last. An adapter of rank 16 of a model of half a billion weights takes 35 MB, and its cached keys and values
/// some 100 MB while it answers. The sessions of others are answered by the model.
const MOST: usize = 64;

/// The adapters of a model, by their scopes.
pub(crate) struct OwnModels {
    place: LearnedPlace,
    /// The model that they belong to. `None`: it is not served, and none of them answers.
    base: Option<Arc<LocalModel>>,
    /// By the place of each.
    open: BTreeMap<PathBuf, Own>,
    /// Whether more scopes have an adapter than are in memory.
    has_more: bool,
    /// What answered at the last refresh.
    answered: Vec<(String, String)>,
}

/// The adapter of a scope.
struct Own {
    folder: WatchedFolder,
    /// The scope, with what answers it. `None`: it cannot be used, or was not opened yet.
    opened: Option<(String, ModelSource)>,
    /// How often it was opened.
    count: u64,
}

/// Opens the adapter of a scope.
fn open(
    factory: &ModelFactory,
    base: &Arc<LocalModel>,
    place: &LearnedPlace,
    number: u64,
) -> Result<Option<(String, ModelSource)>, AppError> {
    let Some((scope, digest)) = place.scope()? else { return Ok(None) };
    if weights_of(&clawhost_core::Llm::identity(&**base).version) != digest {
        tracing::warn!("the adapter of {} belongs to other weights of its model and does not answer", shown(&scope));
        return Ok(None);
    }
    let adapter = AdapterFolder::read(&place.serving())?;
    Ok(Some((scope.to_string(), factory.adapted(base, number, &adapter)?)))
}

fn shown(scope: &impl ToString) -> String {
    clawhost_core::escaped(&scope.to_string(), clawhost_learn::memory::SCOPE_BYTES)
}

impl OwnModels {
    /// The adapters in a place. None is open yet.
    pub(crate) fn new(place: LearnedPlace) -> Self {
        Self { place, base: None, open: BTreeMap::new(), has_more: false, answered: Vec::new() }
    }

    /// Looks which adapters there are. Returns whether some must be opened, or are no longer there.
    pub(crate) fn look(&mut self, is_asked: bool) -> bool {
        if self.base.is_none() {
            return false;
        }
        let mut places: Vec<(std::time::SystemTime, LearnedPlace)> = Vec::new();
        for place in self.place.scopes() {
            // Without this link the model itself serves.
            if std::fs::symlink_metadata(place.serving()).is_ok() {
                places.extend(place.changed_at().map(|at| (at, place)));
            }
        }
        places.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        if places.len() > MOST && !self.has_more {
            tracing::warn!(
                "{} scopes have an adapter, and {MOST} are in memory: those that learned last",
                places.len()
            );
        }
        self.has_more = places.len() > MOST;
        let wanted: Vec<PathBuf> = places.into_iter().take(MOST).map(|(_, place)| place.serving()).collect();
        let before = self.open.len();
        self.open.retain(|serving, _| wanted.contains(serving));
        let mut changes = self.open.len() < before;
        for serving in wanted {
            match self.open.get_mut(&serving) {
                Some(own) => changes |= own.folder.look(is_asked),
                None => {
                    // The files are opened at the next refresh, whatever they are.
                    let folder = WatchedFolder::unread(serving.clone());
                    self.open.insert(serving, Own { folder, opened: None, count: 0 });
                    changes = true;
                }
            }
        }
        changes
    }

    /// Opens what must be opened, beside the model that is served now: all of them, if it is another one than before. `None`: it is not served. Returns whether
    /// other adapters answer from now on.
    pub(crate) fn refresh(&mut self, factory: &ModelFactory, base: Option<&Arc<LocalModel>>) -> bool {
        let is_same = match (&self.base, base) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !is_same {
            self.base = base.cloned();
            self.open.clear();
            self.look(true);
        }
        if let Some(base) = base {
            self.open_due(factory, base);
        }
        let now = self.identities();
        let before = std::mem::replace(&mut self.answered, now);
        self.answered != before
    }

    fn open_due(&mut self, factory: &ModelFactory, base: &Arc<LocalModel>) {
        let places: BTreeMap<PathBuf, LearnedPlace> =
            self.place.scopes().into_iter().map(|place| (place.serving(), place)).collect();
        for (serving, own) in &mut self.open {
            let Some(place) = places.get(serving) else { continue };
            let Own { folder, opened, count } = own;
            let found = folder.open_if_due(|| open(factory, base, place, *count + 1));
            if let Some(found) = found {
                (*opened, *count) = (found, *count + 1);
            } else if let Some(why) = folder.problem() {
                tracing::warn!("the adapter in {} cannot be used: {why}", serving.display());
            }
        }
    }

    /// What answers which scope.
    pub(crate) fn sources(&self) -> OwnSources {
        Arc::new(self.open.values().filter_map(|own| own.opened.clone()).collect())
    }

    fn identities(&self) -> Vec<(String, String)> {
        let opened = self.open.values().filter_map(|own| own.opened.as_ref());
        opened.map(|(scope, source)| (scope.clone(), source.identity().version)).collect()
    }
}
