//! What is counted since the start. Counting takes no lock: every number is an atomic, and an alias is looked up once for each request.

use super::histogram::Histogram;
use super::route::{Route, StatusClass};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Most aliases that are counted on their own; others share the counts of requests without an alias. Aliases come from the
/// configuration, never from a client; this bounds the memory over many changes of it.
const MOST_ALIASES: usize = 1_000;

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Its value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number of things that are there now.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    /// One more.
    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less. Every call follows a call of [`Gauge::enter`].
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of one alias.
#[derive(Debug, Default)]
pub(crate) struct AliasCounts {
    requests: [[Counter; StatusClass::ALL.len()]; Route::ALL.len()],
    /// Answers that were not whole, whatever status their head had.
    pub(crate) incomplete: Counter,
    pub(crate) input_tokens: Counter,
    pub(crate) output_tokens: Counter,
    /// Millionths of a US dollar, once a model with prices has answered.
    cost: OnceLock<Counter>,
    /// Time that this gateway added.
    pub(crate) added: Histogram,
    /// Time to the first token of a stream.
    pub(crate) first_token: Histogram,
    /// Time of the models.
    pub(crate) upstream: Histogram,
}

impl AliasCounts {
    /// Adds what an answer of a model with prices cost, in millionths of a US dollar.
    pub(crate) fn add_cost(&self, micros: u64) {
        self.cost.get_or_init(Counter::default).add(micros);
    }

    /// What answers of models with prices cost, in millionths of a US dollar. `None`: there was none.
    pub(crate) fn cost_micros(&self) -> Option<u64> {
        self.cost.get().map(Counter::get)
    }

    /// Counts a request.
    pub(crate) fn request(&self, route: Route, class: StatusClass) {
        // Both are enumerations with as many members.
        if let Some(counter) = self.requests.get(route as usize).and_then(|row| row.get(class as usize)) {
            counter.add(1);
        }
    }

    /// The requests by route and status, without those of which there was none.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (Route, StatusClass, u64)> {
        let rows = Route::ALL.into_iter().zip(&self.requests);
        let all = rows.flat_map(|(route, row)| {
            StatusClass::ALL.into_iter().zip(row).map(move |(class, counter)| (route, class, counter.get()))
        });
        all.filter(|(_, _, count)| *count > 0)
    }
}

/// All counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    aliases: RwLock<BTreeMap<String, Arc<AliasCounts>>>,
    /// Of requests that name no alias, or one that is unknown.
    pub(crate) without_alias: Arc<AliasCounts>,
    /// Requests that are under way.
    pub(crate) active_requests: Gauge,
    /// Streams that are under way.
    pub(crate) active_streams: Gauge,
    /// Requests whose key was missing or wrong.
    pub(crate) refused_keys: Counter,
    /// Requests whose spans were not exported.
    pub(crate) lost_spans: Arc<Counter>,
}

impl Counts {
    /// The counts of a served alias.
    pub(crate) fn of(&self, alias: &str) -> Arc<AliasCounts> {
        let known = self.aliases.read().unwrap_or_else(PoisonError::into_inner).get(alias).cloned();
        if let Some(counts) = known {
            return counts;
        }
        let mut aliases = self.aliases.write().unwrap_or_else(PoisonError::into_inner);
        if aliases.len() >= MOST_ALIASES && !aliases.contains_key(alias) {
            return self.without_alias.clone();
        }
        aliases.entry(alias.to_owned()).or_default().clone()
    }

    /// The counts by alias, and first those without an alias under an empty name.
    pub(crate) fn all(&self) -> Vec<(String, Arc<AliasCounts>)> {
        let aliases = self.aliases.read().unwrap_or_else(PoisonError::into_inner);
        let known = aliases.iter().map(|(alias, counts)| (alias.clone(), counts.clone()));
        std::iter::once((String::new(), self.without_alias.clone())).chain(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_counted_aliases_is_bounded() {
        let counts = Counts::default();
        let of = |alias: usize| counts.of(&alias.to_string());
        (0..MOST_ALIASES + 10).for_each(|alias| of(alias).request(Route::Chat, StatusClass::Success));
        assert_eq!(counts.all().len(), MOST_ALIASES + 1);
        let expect = [(Route::Chat, StatusClass::Success, 10)];
        assert_eq!(counts.without_alias.requests().collect::<Vec<_>>(), expect);
        of(3).request(Route::Chat, StatusClass::Success);
        assert_eq!(of(3).requests().map(|(_, _, count)| count).sum::<u64>(), 2);
    }
}
