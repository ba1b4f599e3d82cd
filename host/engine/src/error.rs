//! Why a plugin cannot be used. A message says what is wrong and where; [`EngineError::hints`] says what may mend it.

use crate::World;
use clawhost_core::{Failure, Hint};

/// Why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The file cannot be read.
    #[error("{path}: {reason}; check the path (guests built here lie in target/guests)")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// The file is longer than a component may be.
    #[error(
        "{name}: {size} bytes, but a component may have {limit}; build it in release and strip it, or allow interpreter guests"
    )]
    TooLarge {
        /// The plugin.
        name: String,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The file is not WebAssembly.
    #[error(
        "{name}: not a WebAssembly component ({what}); build one with `cargo build --release --target wasm32-unknown-unknown` and linker = \"wasm-component-ld\""
    )]
    NotWasm {
        /// The plugin.
        name: String,
        /// What it is instead.
        what: String,
    },
    /// The file is a core module.
    #[error(
        "{name}: a core module, not a component; link it with wasm-component-ld (see .cargo/config.toml), or wrap it with `wasm-tools component new`"
    )]
    CoreModule {
        /// The plugin.
        name: String,
    },
    /// The file is damaged.
    #[error("{name}: damaged at byte {offset}: {message}; it may be truncated, so copy or build it again")]
    Damaged {
        /// The plugin.
        name: String,
        /// Where reading stopped.
        offset: usize,
        /// Why.
        message: String,
    },
    /// The component exports no world of ours.
    #[error(
        "{name}: exports no clawhost plugin world (it exports {exports}); use export_environment!, export_reward! or export_reflector! of the SDK"
    )]
    NoWorld {
        /// The plugin.
        name: String,
        /// What it exports.
        exports: String,
    },
    /// The component exports two worlds.
    #[error("{name}: exports more than one plugin world ({exports}); build one component for each")]
    ManyWorlds {
        /// The plugin.
        name: String,
        /// What it exports.
        exports: String,
    },
    /// The component is another kind of plugin.
    #[error("{name}: is {found}, but {wanted} is needed here")]
    WrongWorld {
        /// The plugin.
        name: String,
        /// What it is.
        found: World,
        /// What is needed.
        wanted: World,
    },
    /// The component speaks another version of the interface.
    #[error("{name}: speaks {interface}, but this host speaks the 0.1 track; rebuild it with the SDK of this version")]
    WrongTrack {
        /// The plugin.
        name: String,
        /// The interface with its version.
        interface: String,
    },
    /// The component wants something that no host offers.
    #[error(
        "{name}: imports {import}, which this host does not offer; plugins may import clawhost:{{types,log,llm,kv,episode}}@0.1 and wasi:{{cli,clocks,filesystem,io,random,sockets}}@0.2"
    )]
    UnknownImport {
        /// The plugin.
        name: String,
        /// The import.
        import: String,
    },
    /// The component wants more than people can look through.
    #[error("{name}: imports {count} interfaces, but a component may import {limit}; leave out what it does not use")]
    TooManyImports {
        /// The plugin.
        name: String,
        /// How many it imports.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The component does not fit its world.
    #[error("{name}: does not fit its world: {message}; rebuild it with the SDK of this version")]
    Misfit {
        /// The plugin.
        name: String,
        /// What is missing or different.
        message: String,
    },
    /// The component holds what no toolchain makes.
    #[error(
        "{name}: {found} {what}, but a component may have {limit}; no toolchain makes that many: build it again, or split it"
    )]
    TooMuch {
        /// The plugin.
        name: String,
        /// What there is too much of.
        what: &'static str,
        /// How many were found when counting ended.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Nothing can be compiled here: no fault of the plugin.
    #[error("components cannot be compiled here: {0}; start the program again, or install it again")]
    Compiler(String),
    /// Compiling it was given up.
    #[error("{name}: compiling it was given up: {how}; a plugin compiles in seconds: make it smaller, or split it")]
    CompileLimit {
        /// The plugin.
        name: String,
        /// Which limit was reached, or how the compiler died.
        how: String,
    },
    /// The component cannot be compiled.
    #[error("{name}: cannot be compiled: {message}")]
    Compile {
        /// The plugin.
        name: String,
        /// Why.
        message: String,
    },
    /// It says that the operator's options make no sense.
    #[error("{name} refuses its options: {message}")]
    Options {
        /// The plugin's own name.
        name: String,
        /// What it says.
        message: String,
    },
    /// A call that every plugin must answer failed.
    #[error("{name}: refused, because `{export}` gave no usable answer: {failure}")]
    NoAnswer {
        /// Which call.
        export: &'static str,
        /// The plugin.
        name: String,
        /// Why.
        failure: Failure,
    },
    /// The engine itself cannot be set up.
    #[error("the engine cannot be set up: {0}; the address space may be limited")]
    SetUp(String),
}

/// Bytes of a plugin's own words that a message shows.
const SAID: usize = 2000;

impl EngineError {
    /// A stable name, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "plugin-unreadable",
            Self::TooLarge { .. } => "plugin-too-large",
            Self::NotWasm { .. } => "plugin-not-wasm",
            Self::CoreModule { .. } => "plugin-core-module",
            Self::Damaged { .. } => "plugin-damaged",
            Self::NoWorld { .. } => "plugin-no-world",
            Self::ManyWorlds { .. } => "plugin-many-worlds",
            Self::WrongWorld { .. } => "plugin-wrong-world",
            Self::WrongTrack { .. } => "plugin-wrong-track",
            Self::UnknownImport { .. } => "plugin-unknown-import",
            Self::TooManyImports { .. } => "plugin-too-many-imports",
            Self::Misfit { .. } => "plugin-misfit",
            Self::TooMuch { .. } => "plugin-too-complex",
            Self::Compiler(_) => "compiler",
            Self::CompileLimit { .. } => "compile-limit",
            Self::Compile { .. } => "compile",
            Self::Options { .. } => "plugin-options",
            Self::NoAnswer { .. } => "plugin-no-answer",
            Self::SetUp(_) => "engine",
        }
    }

    /// What may mend it. Empty where the plugin itself has to change.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::TooLarge { .. } => vec![Hint::change("allow_interpreters")],
            Self::WrongWorld { found: World::Environment, .. } => {
                vec![Hint::command("run PLUGIN.wasm", "plays an environment")]
            }
            Self::WrongWorld { found: World::Reward, .. } => vec![Hint::change("rewards")],
            Self::WrongWorld { found: World::Reflector, .. } => vec![Hint::change("reflector")],
            Self::Options { .. } => vec![Hint::command("inspect PLUGIN.wasm", "lists the options")],
            Self::SetUp(_) => vec![Hint::change("on_demand")],
            _ => Vec::new(),
        }
    }

    /// The component does not fit its world. What the engine says quotes names of the component, which may hold anything.
    pub(crate) fn misfit(name: &str, error: &wasmtime::Error) -> Self {
        Self::Misfit { name: name.to_owned(), message: clawhost_core::escaped(&format!("{error:#}"), SAID) }
    }

    /// The component cannot be compiled. As above.
    pub(crate) fn compile(name: &str, error: &wasmtime::Error) -> Self {
        Self::Compile { name: name.to_owned(), message: clawhost_core::escaped(&format!("{error:#}"), SAID) }
    }

    /// A plugin's answer to `check` as a result: accepted, refused in its own words, or no answer.
    pub(crate) fn of_check(name: &str, answered: Result<Result<(), String>, Failure>) -> Result<(), Self> {
        let name = name.to_owned();
        match answered {
            Ok(Ok(())) => Ok(()),
            Ok(Err(said)) => Err(Self::Options { name, message: clawhost_core::escaped(&said, SAID) }),
            Err(failure) => Err(Self::NoAnswer { name, export: "check", failure }),
        }
    }
}
