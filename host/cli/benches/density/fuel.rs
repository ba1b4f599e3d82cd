//! The cost of fuel and bounds checks in wasmtime alone: the host has a fixed configuration.

use crate::figures::{ROUNDS, line, micros, shown, spread, table};
use crate::plugins::guest;
use clawhost_bindings::environment::clawhost::types::types::{Message, Origin, Part, Role};
use clawhost_bindings::environment::exports::clawhost::environment::environment::{Action, Context, Params};
use clawhost_bindings::environment::{EnvironmentPlugin, EnvironmentPluginPre};
use std::time::Instant;
use wasmtime::component::{Component, Linker, ResourceAny};
use wasmtime::{Config, Engine, Store};

/// More than any guest here uses.
const FUEL: u64 = 1 << 60;
/// The host's reservation between two memories: see its `config`.
const RESERVATION: u64 = 128 << 20;

struct Setting {
    name: &'static str,
    fuel: bool,
    guards: bool,
}

const SETTINGS: [Setting; 4] = [
    Setting { name: "fuel, bounds checked (the host's)", fuel: true, guards: false },
    Setting { name: "no fuel, bounds checked", fuel: false, guards: false },
    Setting { name: "fuel, guard pages", fuel: true, guards: true },
    Setting { name: "no fuel, guard pages", fuel: false, guards: true },
];

struct Live {
    store: Store<()>,
    plugin: EnvironmentPlugin,
    episode: ResourceAny,
}

fn engine(setting: &Setting) -> Engine {
    let mut config = Config::new();
    config
        .consume_fuel(setting.fuel)
        .epoch_interruption(true)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    if !setting.guards {
        config.signals_based_traps(false).memory_guard_size(0).memory_reservation(RESERVATION).memory_may_move(false);
    }
    Engine::new(&config).unwrap()
}

fn store(engine: &Engine, setting: &Setting) -> Store<()> {
    let mut store = Store::new(engine, ());
    store.set_epoch_deadline(u64::MAX / 2);
    if setting.fuel {
        store.set_fuel(FUEL).unwrap();
    }
    store
}

async fn instance(setting: &Setting, name: &str) -> (Store<()>, EnvironmentPlugin) {
    let engine = engine(setting);
    let component = Component::from_binary(&engine, &guest(name)).unwrap();
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&component).unwrap();
    let pre = EnvironmentPluginPre::new(linker.instantiate_pre(&component).unwrap()).unwrap();
    let mut store = store(&engine, setting);
    let plugin = pre.instantiate_async(&mut store).await.unwrap();
    (store, plugin)
}

async fn live(setting: &Setting, name: &str) -> Live {
    let (mut store, plugin) = instance(setting, name).await;
    let interface = plugin.clawhost_environment_environment();
    let context = Context { seed: 1, options: vec![], extra: vec![] };
    let task = interface.call_tasks(&mut store, &context, "train", 0, 1).await.unwrap().unwrap().pop();
    let task = task.unwrap();
    let params = Params { task, context, max_turns: u32::MAX, extra: vec![] };
    let (episode, _) = interface.episode().call_start(&mut store, &params).await.unwrap().unwrap();
    Live { store, plugin, episode }
}

fn action(text: &str) -> Action {
    let message = Message {
        role: Role::Assistant,
        parts: vec![Part::Text(text.to_owned())],
        tool_calls: vec![],
        tool_call_id: None,
        origin: Origin::Policy,
        extra: vec![],
    };
    Action { message, tool_results: vec![], extra: vec![] }
}

impl Live {
    async fn steps(&mut self, action: &Action, count: usize) {
        let episodes = self.plugin.clawhost_environment_environment().episode();
        for _ in 0..count {
            episodes.call_step(&mut self.store, self.episode, action).await.unwrap().unwrap();
        }
    }
}

/// Creates a table of the shop's tasks repeatedly: the guest with the most computation.
async fn tasks(store: &mut Store<()>, plugin: &EnvironmentPlugin, count: usize) {
    let context = Context { seed: 1, options: vec![], extra: vec![] };
    for _ in 0..count {
        let interface = plugin.clawhost_environment_environment();
        interface.call_tasks(&mut *store, &context, "train", 0, 64).await.unwrap().unwrap();
    }
}

/// Steps and computation under every setting, alternating within each round.
pub(crate) async fn measure() {
    table(
        "Fuel and bounds, wasmtime alone (instances on demand; medians of alternating rounds)",
        &["setting", "step, 1 KiB (odd_echo)", "step, 1 KiB (env_guess)", "64 tasks (env_shop)"],
    );
    let say = action(&crate::plugins::kibibyte());
    let (mut echoes, mut guesses, mut shops) = (Vec::new(), Vec::new(), Vec::new());
    for setting in &SETTINGS {
        echoes.push(live(setting, "odd_echo").await);
        guesses.push(live(setting, "env_guess").await);
        shops.push(instance(setting, "env_shop").await);
    }
    let mut rounds = vec![[Vec::new(), Vec::new(), Vec::new()]; SETTINGS.len()];
    for _ in 0..ROUNDS {
        for (index, times) in rounds.iter_mut().enumerate() {
            let began = Instant::now();
            echoes[index].steps(&say, 5_000).await;
            times[0].push(began.elapsed() / 5_000);
            let began = Instant::now();
            guesses[index].steps(&say, 2_000).await;
            times[1].push(began.elapsed() / 2_000);
            let began = Instant::now();
            let (store, plugin) = &mut shops[index];
            tasks(store, plugin, 50).await;
            times[2].push(began.elapsed() / 50);
        }
    }
    for (setting, times) in SETTINGS.iter().zip(rounds) {
        let mut cells = vec![setting.name.to_owned()];
        cells.extend(times.map(|times| format!("{} us", shown(spread(micros(&times, 1)).1))));
        line(&cells);
    }
}
