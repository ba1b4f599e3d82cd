//! Errors of loading plugins. Messages say what is wrong and where; [`EngineError::hints`] suggests remedies.

use crate::{World, walk};
use clawhost_core::{Failure, Hint, Limits};

/// Why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The file cannot be read.
    #[error("{path}: {reason}; check the path{}", lies(built.as_deref()))]
    Read {
        /// The file.
        path: String,
        /// The system's message.
        reason: String,
        /// The file of that name among the guests that were built here.
        built: Option<String>,
    },
    /// The file exceeds the size limit.
    #[error(
        "{name}: {size} bytes, but a component may have {limit}; build it in release and strip it, or allow interpreter guests"
    )]
    TooLarge {
        /// The plugin.
        name: String,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The file is not WebAssembly.
    #[error(
        "{name}: not a WebAssembly component ({what}); build one with `cargo build --release --target wasm32-unknown-unknown` and linker = \"wasm-component-ld\""
    )]
    NotWasm {
        /// The plugin.
        name: String,
        /// What it seems to be.
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
        /// Byte offset of the defect.
        offset: usize,
        /// Why.
        message: String,
    },
    /// The component exports no plugin world.
    #[error(
        "{name}: exports no clawhost plugin world (it exports {exports}); use export_environment!, export_reward!, export_reflector! or export_router! of the SDK"
    )]
    NoWorld {
        /// The plugin.
        name: String,
        /// Its exports.
        exports: String,
    },
    /// The component exports two worlds.
    #[error("{name}: exports more than one plugin world ({exports}); build one component for each")]
    ManyWorlds {
        /// The plugin.
        name: String,
        /// Its exports.
        exports: String,
    },
    /// The component is another kind of plugin.
    #[error("{name}: is {found}, but {wanted} is needed here")]
    WrongWorld {
        /// The plugin.
        name: String,
        /// Its world.
        found: World,
        /// The wanted world.
        wanted: World,
    },
    /// The component uses an unsupported version of the interface.
    #[error("{name}: speaks {interface}, but this host speaks the 0.1 track; rebuild it with the SDK of this version")]
    WrongTrack {
        /// The plugin.
        name: String,
        /// The interface with its version.
        interface: String,
    },
    /// The component imports something that no host provides.
    #[error(
        "{name}: imports {import}, which this host does not offer; plugins may import clawhost:{{types,log,llm,kv,episode}}@0.1 and wasi:{{cli,clocks,filesystem,io,random,sockets}}@0.2"
    )]
    UnknownImport {
        /// The plugin.
        name: String,
        /// The import.
        import: String,
    },
    /// The component has too many imports to review.
    #[error("{name}: imports {count} interfaces, but a component may import {limit}; leave out what it does not use")]
    TooManyImports {
        /// The plugin.
        name: String,
        /// Number of imports.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The manifest that was built into the component cannot be used.
    #[error("{name}: the claw.toml in it cannot be used: {why}; mend claw.toml and build the plugin again")]
    Manifest {
        /// The plugin.
        name: String,
        /// Why.
        why: String,
    },
    /// The component does not match its world.
    #[error("{name}: does not fit its world: {message}; rebuild it with the SDK of this version")]
    Misfit {
        /// The plugin.
        name: String,
        /// The mismatch.
        message: String,
    },
    /// The component exceeds a structural limit that no toolchain's output reaches.
    #[error(
        "{name}: {found} {what}, but a component may have {limit}; no toolchain makes that many: build it again, or split it"
    )]
    TooMuch {
        /// The plugin.
        name: String,
        /// What there is too much of.
        what: &'static str,
        /// The count when counting stopped.
        found: usize,
        /// The largest allowed count.
        limit: usize,
    },
    /// Compiling is not possible here; not a fault of the plugin.
    #[error("components cannot be compiled here: {0}; start the program again, or install it again")]
    Compiler(String),
    /// Compiling was aborted.
    #[error("{name}: compiling it was given up: {how}; a plugin compiles in seconds: make it smaller, or split it")]
    CompileLimit {
        /// The plugin.
        name: String,
        /// The limit that was reached, or how the compiler crashed.
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
    /// The plugin rejects the operator's options.
    #[error("{name} refuses its options: {message}")]
    Options {
        /// Name of the plugin.
        name: String,
        /// The plugin's message.
        message: String,
    },
    /// A mandatory call failed.
    #[error("{name}: refused, because `{export}` gave no usable answer: {failure}")]
    NoAnswer {
        /// The call.
        export: &'static str,
        /// The plugin.
        name: String,
        /// Why.
        failure: Failure,
    },
    /// The engine cannot be set up.
    #[error("the engine cannot be set up: {0}; the address space may be limited")]
    SetUp(String),
}

/// Where `cargo xtask guests` puts what it builds.
const GUESTS: &str = "target/guests";
/// Where a file of that name is, if it was built here.
fn lies(built: Option<&str>) -> String {
    built.map(|built| format!(" (guests built here lie in {GUESTS}: {built})")).unwrap_or_default()
}

/// Most bytes of a plugin's text in a message.
const SAID: usize = 2000;

impl EngineError {
    /// A stable identifier, for machines.
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
            Self::Manifest { .. } => "plugin-manifest",
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

    /// Suggested remedies. Empty if the plugin itself must change.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            // The larger of both limits is that of interpreters.
            Self::TooLarge { limit, .. } if *limit < Limits::default().interpreter_component_bytes => {
                vec![Hint::change("allow_interpreters")]
            }
            Self::TooMuch { limit, .. } if [walk::LIMITS.cost, walk::LIMITS.function_cost].contains(limit) => {
                vec![Hint::change("allow_interpreters")]
            }
            Self::WrongWorld { found: World::Environment, .. } => {
                vec![Hint::ChangeThis, Hint::command("run PLUGIN.wasm", "plays an environment")]
            }
            Self::WrongWorld { .. } => vec![Hint::ChangeThis],
            Self::Options { .. } => vec![Hint::command("inspect PLUGIN.wasm", "lists the options")],
            Self::SetUp(_) => vec![Hint::change("on_demand")],
            _ => Vec::new(),
        }
    }

    /// The file cannot be read. Says where a file of that name was built.
    pub(crate) fn read(path: &std::path::Path, reason: String) -> Self {
        let built = path.file_name().map(|name| std::path::Path::new(GUESTS).join(name));
        let built = built.filter(|built| built != path && built.is_file()).map(|built| built.display().to_string());
        Self::Read { path: path.display().to_string(), reason, built }
    }

    /// The component does not match its world. The engine's message quotes names from the component, so it is escaped.
    pub(crate) fn misfit(name: &str, error: &wasmtime::Error) -> Self {
        Self::Misfit { name: name.to_owned(), message: clawhost_core::escaped(&format!("{error:#}"), SAID) }
    }

    /// The component cannot be compiled. Escaped likewise.
    pub(crate) fn compile(name: &str, error: &wasmtime::Error) -> Self {
        Self::Compile { name: name.to_owned(), message: clawhost_core::escaped(&format!("{error:#}"), SAID) }
    }

    /// Converts a plugin's answer to `check`: accepted, rejected with its message, or failed.
    pub(crate) fn of_check(name: &str, answered: Result<Result<(), String>, Failure>) -> Result<(), Self> {
        let name = name.to_owned();
        match answered {
            Ok(Ok(())) => Ok(()),
            Ok(Err(said)) => Err(Self::Options { name, message: clawhost_core::escaped(&said, SAID) }),
            Err(failure) => Err(Self::NoAnswer { name, export: "check", failure }),
        }
    }
}
