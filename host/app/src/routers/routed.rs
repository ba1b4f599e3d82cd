//! A router as a model of runs: `router:NAME`.

use super::candidate::{NewCandidate, add};
use super::config::RouterFile;
use super::files::{is_name, read_state, router_file, write_served};
use super::log::{add_to_log, decided};
use super::versions::next_number;
use crate::{AppError, EventSink, ModelFactory, RequestError};
use clawhost_core::{Llm, RoutingPlugin, RunId, escaped};
use clawhost_learn::router::{RewardRange, Router};
use clawhost_learning::{LearnedRouter, RoutedModel, RoutedModels, RouterKeeper, RoutingFailures};
use clawhost_run_config::Grant;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of a policy that a router chooses.
pub(crate) const ROUTER: &str = "router";
/// The range of rewards of a router that has learned nothing: that of most rewards, and narrower than any could be.
const REWARDS: RewardRange = RewardRange { low: 0.0, high: 1.0 };
/// Longest part of a name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 80;

/// A router with its models, ready to be asked.
pub(crate) struct OpenRouter {
    pub(crate) name: String,
    pub(crate) router: Router,
    pub(crate) models: Arc<RoutedModels>,
    /// What decides in the place of the router.
    pub(crate) plugin: Option<RoutingPlugin>,
    folder: PathBuf,
}

/// The name of a router, from the text of a policy.
pub(crate) fn router_name(spec: &str) -> Option<&str> {
    spec.split_once(':').filter(|(kind, name)| *kind == ROUTER && !name.is_empty()).map(|(_, name)| name)
}

/// The routers that grants name.
pub(crate) fn granted_routers(grants: &[Grant]) -> impl Iterator<Item = &str> {
    grants.iter().filter_map(|grant| match grant {
        Grant::Model { spec, .. } => router_name(spec),
        Grant::Kv => None,
    })
}

/// The folder of routers and the file of one.
///
/// # Errors
/// There is no such router, or its file cannot be used.
pub(crate) fn described(folder: Option<&Path>, name: &str) -> Result<(PathBuf, RouterFile), AppError> {
    let folder = folder.ok_or_else(|| RequestError::NoRouter { why: "there is no folder of routers".to_owned() })?;
    let path = router_file(folder, name, "toml");
    if !is_name(name) || !path.exists() {
        let shown = escaped(name, SHOWN_BYTES);
        let why = format!("there is no router `{shown}` for a policy; name its models in {}", path.display());
        return Err(RequestError::NoRouter { why }.into());
    }
    let file = RouterFile::read(&path)?;
    if let Some((alias, _)) = file.models.iter().find(|(_, section)| router_name(&section.model).is_some()) {
        let why = format!("{}: the model `{alias}` is a router itself", path.display());
        return Err(RequestError::NoRouter { why }.into());
    }
    Ok((folder.to_owned(), file))
}

impl OpenRouter {
    /// Opens the router of this name with its models, of which one may be open already. `rewards`: the range of rewards, if it has learned
    /// nothing yet.
    ///
    /// # Errors
    /// There is no such router, its files cannot be used, or one of its models cannot.
    pub(crate) fn open(
        folder: Option<&Path>,
        name: &str,
        rewards: Option<RewardRange>,
        (models, known): (&ModelFactory, Option<(&str, Arc<dyn Llm>)>),
        events: &dyn EventSink,
    ) -> Result<Self, AppError> {
        let (folder, file) = described(folder, name)?;
        let plugin = models.router_plugins().of(name, &file)?;
        let learned = read_state(&router_file(&folder, name, "json"))?.map(|stored| stored.router);
        let router = file.router(learned, rewards.unwrap_or(REWARDS))?;
        let mut opened = RoutedModels::new();
        for (alias, section) in &file.models {
            let model = match &known {
                Some((name, model)) if name == alias => model.clone(),
                _ => models.model(&section.model, events)?,
            };
            opened.insert(alias.clone(), model);
        }
        Ok(Self { name: name.to_owned(), router, models: Arc::new(opened), plugin, folder })
    }

    /// The model that it chooses. `failures` counts those of its plugin.
    ///
    /// # Errors
    /// A model of its table is missing.
    pub(crate) fn model(self, failures: &Arc<RoutingFailures>) -> Result<RoutedModel, AppError> {
        let model = RoutedModel::new(&self.name, Arc::new(self.router), self.models)?;
        Ok(match self.plugin {
            Some(plugin) => model.with_plugin(plugin, failures.clone()),
            None => model,
        })
    }

    /// Takes what a run learned.
    pub(crate) fn result(&self) -> Arc<RouterResult> {
        Arc::new(RouterResult { folder: self.folder.clone(), name: self.name.clone(), learned: Mutex::default() })
    }
}

/// What became of what a run learned about a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterUse {
    /// It is served: the router was new.
    Served,
    /// It is a candidate, which a promotion judges.
    Candidate,
    /// It waits behind a candidate, which is judged by the decisions of this run, too.
    Behind,
    /// Nothing was learned.
    Nothing,
    /// It was served or dropped before the run was resumed.
    Settled,
}

/// What a run learned about a router. Its files change when the run is complete: an interrupted one is resumed from the state that it
/// began with.
pub(crate) struct RouterResult {
    folder: PathBuf,
    name: String,
    learned: Mutex<Option<LearnedRouter>>,
}

impl RouterKeeper for RouterResult {
    fn keep(&self, result: LearnedRouter) -> Result<(), String> {
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    }
}

impl RouterResult {
    /// Writes it into the files of the router, which the caller holds: the log, then the state or a candidate. A run that was killed in between
    /// and is resumed does the rest. `now`: Unix time in milliseconds.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub(crate) fn write(&self, run: &RunId, now: u64) -> Result<RouterUse, AppError> {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(LearnedRouter { mut router, log, spent }) = learned else { return Ok(RouterUse::Nothing) };
        let (folder, name, run) = (self.folder.as_path(), self.name.as_str(), run.0.as_str());
        let served = read_state(&router_file(folder, name, "json"))?;
        let is_new = served.is_none();
        let (served, mut book) = served.map(|served| (served.router, served.book)).unzip();
        let mut book = book.take().unwrap_or_default();
        let known = if log.is_empty() { Vec::new() } else { add_to_log(folder, name, &log)? };
        book.spending.add_run(now, run, spent);
        let is_settled = book.gate.settled.as_deref() == Some(run);
        let used = match served {
            _ if log.is_empty() => RouterUse::Nothing,
            None => {
                let number = next_number(folder, name, router.version().saturating_sub(1))?;
                if number != router.version() {
                    // Versions of a router whose served state is gone have lower numbers, or equal ones.
                    router.renumber(number);
                }
                book.gate.settled = Some(run.to_owned());
                RouterUse::Served
            }
            Some(_) if is_settled => RouterUse::Settled,
            Some(_) => {
                let log = (known.len() as u64, known.last().map(decided));
                let new = NewCandidate { run, learned_ms: now, log, router: &router };
                match add(folder, name, book.gate.settled.as_deref(), new)? {
                    true => RouterUse::Candidate,
                    false => RouterUse::Behind,
                }
            }
        };
        if !(is_new && used == RouterUse::Nothing) {
            write_served(folder, name, served.as_ref().unwrap_or(&router), &book)?;
        }
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::{routers_folder, write_version};
    use super::super::log::{append_decisions, read_decisions};
    use super::super::promote::{discard_candidate, waiting_candidates};
    use super::super::versions::{roll_back_router, router_versions};
    use super::*;
    use clawhost_learn::Layer as _;
    use clawhost_learn::router::{Logged, Simulation, WorldSettings, simulation};

    const DAY_MS: u64 = 24 * 60 * 60 * 1000;

    fn world() -> Simulation {
        simulation(&WorldSettings { decisions: 80, fresh: 1, ..WorldSettings::default() }, 1).unwrap()
    }

    /// A data folder, and what runs of its router `r` learned.
    struct Bench {
        data: tempfile::TempDir,
        world: Simulation,
    }

    impl Bench {
        fn new() -> Self {
            let bench = Self { data: tempfile::tempdir().unwrap(), world: world() };
            std::fs::create_dir(bench.folder()).unwrap();
            bench
        }

        fn folder(&self) -> PathBuf {
            routers_folder(self.data.path())
        }

        /// A run ends with this version, and spent a unit of money.
        fn ends(&self, run: &str, version: u64, log: &[Logged]) -> RouterUse {
            let result = RouterResult { folder: self.folder(), name: "r".into(), learned: Mutex::default() };
            let mut router = self.world.router.clone();
            router.renumber(version);
            result.keep(LearnedRouter { router, log: log.to_vec(), spent: 1.0 }).unwrap();
            result.write(&RunId(run.into()), DAY_MS).unwrap()
        }

        fn served(&self) -> super::super::StoredRouter {
            read_state(&router_file(&self.folder(), "r", "json")).unwrap().unwrap()
        }

        /// Candidates with the decisions that were logged since.
        fn waiting(&self) -> Vec<(String, u64)> {
            let waiting = waiting_candidates(&self.served()).unwrap();
            waiting.into_iter().map(|candidate| (candidate.run, candidate.later)).collect()
        }

        fn spent(&self) -> f64 {
            self.served().book.spending.days().map(|(_, day)| day.learning).sum()
        }

        fn versions(&self) -> Vec<u64> {
            router_versions(self.data.path(), Some("r")).unwrap().1.iter().map(|one| one.version).collect()
        }
    }

    #[test]
    fn the_first_result_is_served_and_later_ones_replace_nothing() {
        let bench = Bench::new();
        let log = bench.world.log.clone();
        assert_eq!(bench.ends("run-1", 3, &log[..20]), RouterUse::Served);
        let served = bench.served().router.digest();
        assert_eq!(bench.ends("run-2", 7, &log[20..40]), RouterUse::Candidate);
        assert_eq!(bench.ends("run-3", 9, &log[40..70]), RouterUse::Behind);
        assert_eq!(bench.waiting(), [("run-2".to_owned(), 30), ("run-3".to_owned(), 0)]);
        assert_eq!((bench.served().router.digest(), bench.versions()), (served, vec![3]));
        assert_eq!(bench.ends("run-4", 7, &[]), RouterUse::Nothing);
        assert_eq!((bench.waiting().len(), bench.spent()), (2, 4.0), "what it cost counts");
        // An equal run logs nothing new.
        assert_eq!(bench.ends("run-5", 7, &log[40..70]), RouterUse::Behind);
        assert_eq!(bench.waiting(), [("run-2".to_owned(), 30), ("run-5".to_owned(), 0)]);
    }

    #[test]
    fn a_run_that_learned_nothing_about_a_new_router_writes_nothing() {
        let bench = Bench::new();
        assert_eq!(bench.ends("run-1", 0, &[]), RouterUse::Nothing);
        assert_eq!(std::fs::read_dir(bench.folder()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_is_killed_at_its_end_and_resumed_writes_everything_once() {
        let log = world().log;
        for first in [true, false] {
            let bench = Bench::new();
            if !first {
                bench.ends("run-0", 1, &log[..20]);
            }
            let (run, own) = ("run-1", &log[20..40]);
            let expect = if first { RouterUse::Served } else { RouterUse::Candidate };
            assert_eq!(bench.ends(run, 5, own), expect);
            let (state, spent) = (bench.served(), bench.spent());
            // A gateway settles a decision before the run is resumed.
            append_decisions(&router_file(&bench.folder(), "r", "jsonl"), &log[60..61]).unwrap();
            let again = bench.ends(run, 5, own);
            assert_eq!(again, if first { RouterUse::Settled } else { RouterUse::Candidate });
            assert_eq!((bench.served().router.digest(), bench.spent()), (state.router.digest(), spent));
            assert_eq!(bench.waiting(), if first { vec![] } else { vec![(run.to_owned(), 1)] });
            let decisions = read_decisions(&router_file(&bench.folder(), "r", "jsonl")).unwrap();
            assert_eq!(decisions.len(), 21 + if first { 0 } else { 20 });
        }
    }

    #[test]
    fn a_result_that_was_settled_before_its_run_is_resumed_does_not_come_again() {
        let bench = Bench::new();
        let log = bench.world.log.clone();
        bench.ends("run-0", 1, &log[..20]);
        bench.ends("run-1", 5, &log[20..40]);
        discard_candidate(bench.data.path(), "r").unwrap();
        assert_eq!(bench.ends("run-1", 5, &log[20..40]), RouterUse::Settled);
        assert!(bench.waiting().is_empty());
    }

    #[test]
    fn no_number_names_two_states_though_a_router_is_rolled_back_while_its_run_is_interrupted() {
        let bench = Bench::new();
        let log = bench.world.log.clone();
        bench.ends("run-0", 8, &log[..20]);
        let mut earlier = bench.world.router.clone();
        earlier.renumber(5);
        write_version(&bench.folder(), "r", &earlier).unwrap();
        // The run began at version 8, and would end at 10. Back and forth, what is served has this number, too.
        for _ in 0..2 {
            roll_back_router(bench.data.path(), "r", None).unwrap();
        }
        let served = bench.served().router.digest();
        assert_eq!(bench.ends("run-1", 10, &log[20..40]), RouterUse::Candidate);
        assert_eq!((bench.served().router.digest(), bench.versions()), (served, vec![10, 9, 8, 5]));
        // A router whose served state is gone, with its versions still there.
        std::fs::remove_file(router_file(&bench.folder(), "r", "json")).unwrap();
        discard(&bench);
        assert_eq!(bench.ends("run-2", 2, &log[40..50]), RouterUse::Served);
        assert_eq!(bench.versions(), [10, 9, 8, 5]);
    }

    fn discard(bench: &Bench) {
        std::fs::remove_file(bench.folder().join("r.run-1.candidate")).unwrap();
    }
}
