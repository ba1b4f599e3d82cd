//! Reads the outline of a component before it is compiled: world, release track, imports.

use crate::EngineError;
use clawhost_core::{Digest, Limits};
use clawhost_package::{Kind, MANIFEST_BYTES, MANIFEST_SECTION, Manifest};
use wasmparser::{Encoding, Parser, Payload};

/// The kind of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// A world that a policy acts in.
    Environment,
    /// Scores episodes.
    Reward,
    /// Proposes lessons.
    Reflector,
    /// Chooses models for sessions.
    Router,
}

impl World {
    const ALL: [Self; 4] = [Self::Environment, Self::Reward, Self::Reflector, Self::Router];

    /// The interface it exports, without its version.
    pub fn interface(self) -> &'static str {
        match self {
            Self::Environment => "clawhost:environment/environment",
            Self::Reward => "clawhost:reward/reward",
            Self::Reflector => "clawhost:reflector/reflector",
            Self::Router => "clawhost:router/router",
        }
    }

    /// The kind of plugin, as manifests name it.
    pub fn kind(self) -> Kind {
        match self {
            Self::Environment => Kind::Environment,
            Self::Reward => Kind::Reward,
            Self::Reflector => Kind::Reflector,
            Self::Router => Kind::Router,
        }
    }

    /// Name for people, with article.
    pub fn name(self) -> &'static str {
        match self {
            Self::Environment => "an environment",
            Self::Reward => "a reward",
            Self::Reflector => "a reflector",
            Self::Router => "a router",
        }
    }
}

impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Longest name of an import or export in bytes; ours have under 60.
const NAME_BYTES: usize = 256;

/// Most imports of a component. People read them before they trust it, so a long list could hide one. An interpreter with
/// all of WASI has under 60.
const IMPORTS: usize = 128;

/// Most names that a message lists.
const NAMES_SHOWN: usize = 8;

/// The supported release track. The version of the exported interface tells a plugin's track.
const TRACK: &str = "0.1.";

/// Import packages that a plugin may name. Grants decide whether it may use them.
const OFFERED: [&str; 5] =
    ["clawhost:types/types", "clawhost:log/log", "clawhost:llm/llm", "clawhost:kv/kv", "clawhost:episode/view"];

/// WASI packages that guests with a standard library import. The host provides them without access to anything.
const OFFERED_WASI: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// The outermost import and export sections of a component.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentOutline {
    /// Digest of the file.
    pub digest: Digest,
    /// Length of the file in bytes.
    pub size: usize,
    /// The kind of plugin.
    pub world: World,
    /// The exported interface with its version.
    pub interface: String,
    /// Imported interfaces with their versions.
    pub imports: Vec<String>,
    /// Its manifest, if one was built in.
    pub manifest: Option<Manifest>,
}

/// The outermost sections of a component.
#[derive(Default)]
struct Sections {
    imports: Vec<String>,
    exports: Vec<String>,
    manifest: Option<Manifest>,
}

impl ComponentOutline {
    /// Reads and checks a file. `name` is for messages.
    ///
    /// # Errors
    /// The bytes are not a plugin component.
    pub fn read(name: &str, bytes: &[u8], limits: &Limits, interpreters: bool) -> Result<Self, EngineError> {
        let limit = if interpreters { limits.interpreter_component_bytes } else { limits.component_bytes };
        if bytes.len() > limit {
            return Err(EngineError::TooLarge { name: name.to_owned(), size: bytes.len(), limit });
        }
        let Sections { imports, exports, manifest } = sections(name, bytes)?;
        let world = world(name, &exports)?;
        let interface = exports.iter().find(|export| interface_name(export) == world.interface());
        let interface = interface.cloned().unwrap_or_default();
        if !version(&interface).starts_with(TRACK) {
            return Err(EngineError::WrongTrack { name: name.to_owned(), interface });
        }
        if imports.len() > IMPORTS {
            return Err(EngineError::TooManyImports { name: name.to_owned(), count: imports.len(), limit: IMPORTS });
        }
        for import in &imports {
            if OFFERED.contains(&interface_name(import)) {
                if !version(import).starts_with(TRACK) {
                    return Err(EngineError::WrongTrack { name: name.to_owned(), interface: import.clone() });
                }
            } else if !(OFFERED_WASI.iter().any(|package| import.starts_with(package))
                && version(import).starts_with("0.2."))
            {
                return Err(EngineError::UnknownImport { name: name.to_owned(), import: import.clone() });
            }
        }
        Ok(Self { digest: Digest::of(bytes), size: bytes.len(), world, interface, imports, manifest })
    }

    /// Whether it imports an interface, in any version.
    pub fn wants(&self, interface: &str) -> bool {
        self.imports.iter().any(|import| interface_name(import) == interface)
    }

    /// Whether it imports any WASI interface.
    pub fn wants_wasi(&self) -> bool {
        self.imports.iter().any(|import| import.starts_with("wasi:"))
    }

    /// Checks that it has the wanted world.
    ///
    /// # Errors
    /// It is another kind of plugin.
    pub fn expect(&self, name: &str, wanted: World) -> Result<(), EngineError> {
        if self.world == wanted {
            return Ok(());
        }
        Err(EngineError::WrongWorld { name: name.to_owned(), found: self.world, wanted })
    }
}

fn interface_name(import: &str) -> &str {
    import.split_once('@').map_or(import, |(name, _)| name)
}

fn version(import: &str) -> &str {
    import.split_once('@').map_or("", |(_, version)| version)
}

fn world(name: &str, exports: &[String]) -> Result<World, EngineError> {
    let offers = |world: &World| exports.iter().any(|export| interface_name(export) == world.interface());
    let worlds: Vec<World> = World::ALL.into_iter().filter(offers).collect();
    match worlds.as_slice() {
        [one] => Ok(*one),
        [] => {
            let exports = if exports.is_empty() { "nothing".to_owned() } else { listed(exports) };
            Err(EngineError::NoWorld { name: name.to_owned(), exports })
        }
        _ => Err(EngineError::ManyWorlds { name: name.to_owned(), exports: listed(exports) }),
    }
}

/// Names for a message: the first ones, and the number of the others.
fn listed(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(NAMES_SHOWN).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMES_SHOWN);
    let and = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{and}", first.join(", "))
}

/// The manifest in a custom section.
fn manifest(data: &[u8]) -> Result<Manifest, String> {
    if data.len() as u64 > MANIFEST_BYTES {
        return Err(format!("it has {} bytes, and {MANIFEST_BYTES} at most are read", data.len()));
    }
    let text = std::str::from_utf8(data).map_err(|error| error.to_string())?;
    Manifest::parse(text).map_err(|error| error.to_string())
}

/// The outermost import and export sections, and the manifest. Nested components and modules are skipped.
fn sections(name: &str, bytes: &[u8]) -> Result<Sections, EngineError> {
    if !bytes.starts_with(b"\0asm") {
        let what = match bytes {
            [] => "the file is empty",
            [0x7f, b'E', b'L', b'F', ..] => "it is native code, perhaps a .cwasm; pass the .wasm it was made from",
            [b'P', b'K', ..] => "it is a zip archive",
            [b'(', ..] => "it is WebAssembly text; assemble it first",
            _ => "it does not begin with \\0asm",
        };
        return Err(EngineError::NotWasm { name: name.to_owned(), what: what.to_owned() });
    }
    let mut found = Sections::default();
    let mut depth = 0u32;
    let damaged = |error: wasmparser::BinaryReaderError| EngineError::Damaged {
        name: name.to_owned(),
        offset: error.offset(),
        message: error.message().to_owned(),
    };
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(damaged)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(EngineError::CoreModule { name: name.to_owned() });
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    found.imports.push(clawhost_core::escaped(import.map_err(damaged)?.name.name, NAME_BYTES));
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    found.exports.push(clawhost_core::escaped(export.map_err(damaged)?.name.name, NAME_BYTES));
                }
            }
            Payload::CustomSection(section) if depth == 0 && section.name() == MANIFEST_SECTION => {
                let refused = |why: String| EngineError::Manifest { name: name.to_owned(), why };
                if found.manifest.is_some() {
                    return Err(refused("there are two of them".to_owned()));
                }
                found.manifest = Some(manifest(section.data()).map_err(refused)?);
            }
            _ => {}
        }
    }
    Ok(found)
}
