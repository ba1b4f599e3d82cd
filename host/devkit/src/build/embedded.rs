//! What builds in other languages than Rust need, and this program carries: the WIT, and the SDK of the language.

use crate::DevkitError;
use clawhost_package::{GrantsSection, Kind};
use std::path::Path;

/// A file: its path, and its content.
type Embedded = (&'static str, &'static [u8]);

/// Files below a folder of the repository.
macro_rules! embedded {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../../../", $folder, "/", $path)))),+]
    };
}

/// The packages of the WIT.
const WIT: &[Embedded] = embedded!("wit/deps":
    "types/types.wit", "log/log.wit", "llm/llm.wit", "kv/kv.wit", "episode/episode.wit",
    "environment/environment.wit", "reward/reward.wit", "reflector/reflector.wit");

/// The SDK in Python: the package `clawhost`, and a module for each interface.
pub(super) const PYTHON: &[Embedded] = embedded!("sdk/python":
    "clawhost/__init__.py", "clawhost/environment.py", "clawhost/episode.py", "clawhost/error.py", "clawhost/kv.py",
    "clawhost/llm.py", "clawhost/log.py", "clawhost/plugin.py", "clawhost/random.py", "clawhost/reflector.py",
    "clawhost/reward.py", "clawhost/values.py", "environment.py", "reward.py", "reflector.py");

/// The SDK in JavaScript: the package `clawhost`, and a module for each interface.
pub(super) const JAVASCRIPT: &[Embedded] = embedded!("sdk/js":
    "clawhost/index.js", "clawhost/environment.js", "clawhost/episode.js", "clawhost/error.js", "clawhost/kv.js",
    "clawhost/llm.js", "clawhost/log.js", "clawhost/random.js", "clawhost/reflector.js", "clawhost/reward.js",
    "clawhost/values.js", "environment.js", "reward.js", "reflector.js");

/// The SDK in C, and the bindings of the WIT that `wit-bindgen c` generates.
pub(super) const C: &[Embedded] = embedded!("sdk/c":
    "clawhost.h", "clawhost.c", "clawhost_environment.c", "clawhost_reward.c",
    "environment_plugin.h", "environment_plugin.c", "environment_plugin_component_type.o",
    "reward_plugin.h", "reward_plugin.c", "reward_plugin_component_type.o");

/// Writes files below a folder.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn write(files: &[Embedded], folder: &Path) -> Result<(), DevkitError> {
    for (path, content) in files {
        crate::write::replace(&folder.join(path), content)?;
    }
    Ok(())
}

/// Writes the WIT of a plugin: the packages, and a world with what it exports, and what it may import.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn write_wit(kind: Kind, grants: &GrantsSection, folder: &Path) -> Result<(), DevkitError> {
    write(WIT, &folder.join("deps"))?;
    crate::write::replace(&folder.join("world.wit"), world(kind, grants).as_bytes())
}

/// The world of a plugin. Tools for interpreted languages cannot tell which imports a program uses and keep all of them, and importing a
/// service is asking for a permission: so the world imports those that the manifest asks for.
fn world(kind: Kind, grants: &GrantsSection) -> String {
    let mut imports = vec!["log/log"];
    if kind != Kind::Environment {
        imports.push("episode/view");
    }
    if !grants.llm.is_empty() {
        imports.push("llm/llm");
    }
    if grants.kv {
        imports.push("kv/kv");
    }
    let imports: String = imports.iter().map(|name| format!("  import clawhost:{name}@0.1.0;\n")).collect();
    format!("package plugin:plugin;\n\nworld plugin {{\n{imports}  export clawhost:{kind}/{kind}@0.1.0;\n}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_imports_what_the_manifest_asks_for() {
        let check = |kind: Kind, grants: GrantsSection, expect: &[&str]| {
            let world = world(kind, &grants);
            let found: Vec<&str> = world
                .lines()
                .map(str::trim)
                .filter(|line| line.starts_with("import") || line.starts_with("export"))
                .collect();
            assert_eq!(found, expect);
        };
        let log = "import clawhost:log/log@0.1.0;";
        check(Kind::Environment, GrantsSection::default(), &[log, "export clawhost:environment/environment@0.1.0;"]);
        let asks = GrantsSection { kv: true, llm: vec!["judge".to_owned()] };
        check(
            Kind::Reward,
            asks,
            &[
                log,
                "import clawhost:episode/view@0.1.0;",
                "import clawhost:llm/llm@0.1.0;",
                "import clawhost:kv/kv@0.1.0;",
                "export clawhost:reward/reward@0.1.0;",
            ],
        );
    }
}
