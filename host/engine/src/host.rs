//! The host: engines, linkers, cache, ticker, and the limit on live instances.

use crate::binary::{ComponentOutline, World};
use crate::cache::Cache;
use crate::capability::clock::VirtualTime;
use crate::compile::Compiler;
use crate::config::{self, Allocation, HostConfig};
use crate::lane::SlowLane;
use crate::state::{HostMemory, State};
use crate::ticker::Ticker;
use crate::walk::{self, Obstacle};
use crate::{EngineError, EnvironmentPlugin, ModelGrants, ReflectorPlugin, RewardPlugin, RouterPlugin};
use clawhost_bindings::environment::clawhost::{kv, llm, log};
use clawhost_bindings::observer::clawhost::episode::view;
use clawhost_core::{Digest, Limits};
use clawhost_files::Refused;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};
use wasmtime::Engine;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

/// Loads and runs components. Cheap to clone; the ticker stops when the last clone and the last plugin are dropped.
#[derive(Clone)]
pub struct Host(pub(crate) Arc<HostInner>);

/// A component that is being compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiling {
    /// Its name, as it was loaded.
    pub name: String,
    /// Its length in bytes.
    pub bytes: usize,
}

/// While it lives, the host reports that it compiles a component.
struct Announcement<'a>(&'a watch::Sender<Option<Compiling>>);

impl<'a> Announcement<'a> {
    fn new(sender: &'a watch::Sender<Option<Compiling>>, name: &str, bytes: usize) -> Self {
        sender.send_replace(Some(Compiling { name: name.to_owned(), bytes }));
        Self(sender)
    }
}

impl Drop for Announcement<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

/// One engine with its linker and fingerprint.
pub(crate) struct ConfiguredEngine {
    pub(crate) engine: Engine,
    allocation: Allocation,
    fingerprint: Digest,
    linker: Linker<State>,
}

pub(crate) struct HostInner {
    limits: Arc<Limits>,
    pooled: Option<ConfiguredEngine>,
    on_demand: ConfiguredEngine,
    cache: Option<Cache>,
    /// What is being compiled now, for those who wait for it.
    compiling: watch::Sender<Option<Compiling>>,
    compiler: Compiler,
    allow_interpreters: bool,
    admission: Arc<Semaphore>,
    memory: Arc<HostMemory>,
    lane: Arc<SlowLane>,
    slots: usize,
    _ticker: Ticker,
}

/// What one plugin has of the host: its limits, which its manifest may have lowered, and a share of memory and processors.
pub(crate) struct PluginHost {
    pub(crate) limits: Arc<Limits>,
    pub(crate) admission: Arc<Semaphore>,
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) lane: Arc<SlowLane>,
}

/// A checked and linked component, ready to be instantiated.
pub(crate) struct Prepared {
    pub(crate) host: PluginHost,
    pub(crate) outline: ComponentOutline,
    pub(crate) pre: InstancePre<State>,
    pub(crate) engine: Engine,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("slots", &self.0.slots).finish_non_exhaustive()
    }
}

impl ConfiguredEngine {
    fn new(limits: &Limits, allocation: Allocation) -> Result<Self, EngineError> {
        let engine = config::engine(limits, allocation)?;
        let linker = linker(&engine).map_err(|error| EngineError::SetUp(format!("{error:#}")))?;
        Ok(Self { allocation, fingerprint: config::fingerprint(&engine), engine, linker })
    }
}

/// A linker with everything a guest may import. Grants are checked at each call.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    // Our virtual clocks replace those of the WASI crate, which use real time.
    linker.allow_shadowing(true);
    wasmtime_wasi::p2::bindings::clocks::wall_clock::add_to_linker::<State, VirtualTime>(&mut linker, |state| state)?;
    wasmtime_wasi::p2::bindings::clocks::monotonic_clock::add_to_linker::<State, VirtualTime>(&mut linker, |s| s)?;
    linker.allow_shadowing(false);
    log::log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    kv::kv::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    llm::llm::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    view::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// wasmtime's messages for a component that does not fit a pool slot.
const POOL_EXCEEDED: [&str; 2] = ["exceeds the configured maximum", "does not fit in pooling allocator requirements"];

impl Host {
    /// Sets up the engines.
    ///
    /// # Errors
    /// The machine cannot reserve the pool's address space, or create a thread.
    pub fn new(config: HostConfig) -> Result<Self, EngineError> {
        let limits = Arc::new(config.limits);
        let pooled = match config.allocation {
            Allocation::Pooled => Some(ConfiguredEngine::new(&limits, Allocation::Pooled)?),
            Allocation::OnDemand => None,
        };
        let on_demand = ConfiguredEngine::new(&limits, Allocation::OnDemand)?;
        let engines = pooled.iter().chain([&on_demand]).map(|bench| bench.engine.clone()).collect();
        let ticker = Ticker::start(engines).map_err(|error| EngineError::SetUp(error.to_string()))?;
        let slots = config::pool_slots(&limits);
        Ok(Self(Arc::new(HostInner {
            pooled,
            on_demand,
            compiling: watch::Sender::new(None),
            cache: config.cache.map(|(folder, key)| Cache::new(folder, key)),
            compiler: config.compiler,
            allow_interpreters: config.allow_interpreters,
            admission: Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS))),
            memory: Arc::new(HostMemory::new(limits.host_memory_bytes)),
            lane: Arc::new(SlowLane::new(std::thread::available_parallelism().map_or(1, usize::from))),
            slots,
            _ticker: ticker,
            limits,
        })))
    }

    /// All limits.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The component that is being compiled now, because the cache does not hold it. Changes when compiling begins and ends.
    pub fn compiling(&self) -> watch::Receiver<Option<Compiling>> {
        self.0.compiling.subscribe()
    }

    /// Most concurrent instances.
    pub fn live_instances(&self) -> usize {
        self.0.slots
    }

    /// Guest memory of live instances, in bytes.
    pub fn guest_memory(&self) -> usize {
        self.0.memory.used()
    }

    /// Reads a component file. Later messages use the path as `name`.
    ///
    /// # Errors
    /// The file cannot be read, or exceeds the size limit.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, EngineError> {
        let name = path.display().to_string();
        let limit = self.0.limits.interpreter_component_bytes;
        clawhost_files::read(path, limit as u64).map_err(|error| match Refused::of(&error) {
            Some(Refused::TooLarge { bytes, .. }) => {
                EngineError::TooLarge { name, size: usize::try_from(bytes).unwrap_or(usize::MAX), limit }
            }
            _ => EngineError::read(path, error.to_string()),
        })
    }

    /// Reads the outline of a component, without compiling it.
    ///
    /// # Errors
    /// It is not a plugin component.
    pub fn outline(&self, name: &str, bytes: &[u8]) -> Result<ComponentOutline, EngineError> {
        ComponentOutline::read(name, bytes, &self.0.limits, self.0.allow_interpreters)
    }

    /// Loads an environment.
    ///
    /// # Errors
    /// It is not an environment, does not match its world, or fails to describe itself.
    pub async fn environment(
        &self,
        name: &str,
        bytes: &[u8],
        grants: ModelGrants,
    ) -> Result<EnvironmentPlugin, EngineError> {
        EnvironmentPlugin::load(name, self.prepare(name, bytes, World::Environment).await?, grants).await
    }

    /// Loads a reward.
    ///
    /// # Errors
    /// It is not a reward, does not match its world, or fails to describe itself.
    pub async fn reward(&self, name: &str, bytes: &[u8], grants: ModelGrants) -> Result<RewardPlugin, EngineError> {
        RewardPlugin::load(name, self.prepare(name, bytes, World::Reward).await?, grants).await
    }

    /// Loads a reflector.
    ///
    /// # Errors
    /// It is not a reflector, does not match its world, or fails to describe itself.
    pub async fn reflector(
        &self,
        name: &str,
        bytes: &[u8],
        grants: ModelGrants,
    ) -> Result<ReflectorPlugin, EngineError> {
        ReflectorPlugin::load(name, self.prepare(name, bytes, World::Reflector).await?, grants).await
    }

    /// Loads a router. It gets no grants.
    ///
    /// # Errors
    /// It is not a router, does not match its world, or fails to describe itself.
    pub async fn router(&self, name: &str, bytes: &[u8]) -> Result<RouterPlugin, EngineError> {
        RouterPlugin::load(name, self.prepare(name, bytes, World::Router).await?).await
    }

    async fn prepare(&self, name: &str, bytes: &[u8], wanted: World) -> Result<Prepared, EngineError> {
        let outline = self.outline(name, bytes)?;
        outline.expect(name, wanted)?;
        let small = bytes.len() <= self.0.limits.pooled_component_bytes;
        let pooled = self.0.pooled.as_ref().filter(|_| small);
        let fits = match pooled {
            Some(pooled) => self.component(pooled, name, &outline, bytes).await?.map(|component| (pooled, component)),
            None => None,
        };
        let (bench, component) = match fits {
            Some(fits) => fits,
            // A component that does not fit a pool slot is instantiated on demand.
            None => {
                let bench = &self.0.on_demand;
                let component = self.component(bench, name, &outline, bytes).await?.ok_or_else(|| {
                    let message = "it wants more memories, tables or instances than any component may have".to_owned();
                    EngineError::Compile { name: name.to_owned(), message }
                })?;
                (bench, component)
            }
        };
        let pre = bench.linker.instantiate_pre(&component).map_err(|error| EngineError::misfit(name, &error))?;
        Ok(Prepared { host: self.plugin_host(&outline), outline, pre, engine: bench.engine.clone() })
    }

    fn plugin_host(&self, outline: &ComponentOutline) -> PluginHost {
        let HostInner { limits, admission, memory, lane, .. } = &*self.0;
        let limits = match &outline.manifest {
            Some(manifest) if !manifest.limits.is_empty() => {
                Arc::new(manifest.limits.lowered(outline.world.kind(), limits))
            }
            _ => limits.clone(),
        };
        PluginHost { limits, admission: admission.clone(), memory: memory.clone(), lane: lane.clone() }
    }

    /// The compiled component, from the cache or newly compiled. `None`: it does not fit the slots of this engine's pool.
    async fn component(
        &self,
        bench: &ConfiguredEngine,
        name: &str,
        outline: &ComponentOutline,
        bytes: &[u8],
    ) -> Result<Option<Component>, EngineError> {
        let kept = self.0.cache.as_ref().and_then(|cache| cache.get(&outline.digest, &bench.fingerprint));
        if let Some(artefact) = kept {
            match loaded(bench, &artefact) {
                Loaded::Ready(component) => return Ok(Some(component)),
                Loaded::DoesNotFit => return Ok(None),
                Loaded::Stale(error) => tracing::debug!(name, %error, "stale artefact; compiling again"),
            }
        }
        walk_through(name, bytes, self.0.allow_interpreters)?;
        tracing::debug!(name, "compiling");
        let _announcement = Announcement::new(&self.0.compiling, name, bytes.len());
        // Both engines use the same native code; the one without a pool has no slots to fit.
        let general = Some(&self.0.on_demand).filter(|general| general.fingerprint == bench.fingerprint);
        let ConfiguredEngine { engine, allocation, fingerprint, .. } = general.unwrap_or(bench);
        let compiling = self.0.compiler.compile(engine, *allocation, *fingerprint, &self.0.limits, name, bytes);
        let artefact = compiling.await?;
        if let Some(cache) = &self.0.cache {
            cache.put(&outline.digest, fingerprint, &artefact);
        }
        match loaded(bench, &artefact) {
            Loaded::Ready(component) => Ok(Some(component)),
            Loaded::DoesNotFit => Ok(None),
            Loaded::Stale(error) => Err(EngineError::compile(name, &error)),
        }
    }
}

fn walk_through(name: &str, bytes: &[u8], allow_interpreters: bool) -> Result<(), EngineError> {
    let name = name.to_owned();
    let limits = if allow_interpreters { &walk::INTERPRETER_LIMITS } else { &walk::LIMITS };
    match walk::walk(bytes, limits) {
        Ok(_) => Ok(()),
        Err(Obstacle::Damaged(error)) => {
            Err(EngineError::Damaged { name, offset: error.offset(), message: error.message().to_owned() })
        }
        Err(Obstacle::TooMuch { what, found, limit }) => Err(EngineError::TooMuch { name, what, found, limit }),
    }
}

/// All checks before a component is compiled.
///
/// # Errors
/// It is not a plugin component, or exceeds a structural limit.
pub fn examine(
    name: &str,
    bytes: &[u8],
    limits: &Limits,
    allow_interpreters: bool,
) -> Result<ComponentOutline, EngineError> {
    let outline = ComponentOutline::read(name, bytes, limits, allow_interpreters)?;
    walk_through(name, bytes, allow_interpreters)?;
    Ok(outline)
}

/// Native code loaded by an engine.
enum Loaded {
    Ready(Component),
    /// It does not fit a pool slot. Both engines share compiled code, so compiling again would not help.
    DoesNotFit,
    /// It was compiled for another engine.
    Stale(wasmtime::Error),
}

fn loaded(bench: &ConfiguredEngine, artefact: &[u8]) -> Loaded {
    #[allow(unsafe_code, reason = "native code that this program made: just now, or before, as the cache's tag proves")]
    // SAFETY: the bytes are the output of `Engine::precompile_component` of this program, in this process or in one that it
    // started for this purpose, for an engine with this fingerprint. The cache checks a tag that only this host can make.
    let loaded = unsafe { Component::deserialize(&bench.engine, artefact) };
    match loaded {
        Ok(component) => Loaded::Ready(component),
        Err(error) if POOL_EXCEEDED.iter().any(|words| format!("{error:#}").contains(words)) => Loaded::DoesNotFit,
        Err(error) => Loaded::Stale(error),
    }
}
