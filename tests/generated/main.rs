//! Compares the generated files that ship with the WIT: bindings for Rust and C, and the reference.
//!
//! They ship so that plugin authors need no generator. When the WIT changes, run `UPDATE_GENERATED=1 cargo test -p
//! generated` and commit the result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

use std::path::{Path, PathBuf};
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::WithOption;

const PLUGINS: [&str; 4] = ["environment-plugin", "reward-plugin", "reflector-plugin", "router-plugin"];

/// Why the bindings for Rust are longer than other sources.
const LENGTH: &str = "// Longer than 600 lines, because the generator writes one file for each world.\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn world(name: &str) -> (Resolve, WorldId) {
    // Unstable parts ship, too; generators of others leave them out unless they are asked for.
    let mut resolve = Resolve { all_features: true, ..Resolve::default() };
    let (package, _) = resolve.push_dir(root().join("wit")).expect("the WIT parses");
    let id = resolve.select_world(&[package], Some(name)).expect("the world exists");
    (resolve, id)
}

fn generate(mut generator: Box<dyn WorldGenerator>, name: &str) -> Vec<(String, Vec<u8>)> {
    let (mut resolve, id) = world(name);
    let mut files = Files::default();
    generator.generate(&mut resolve, id, &mut files).expect("it is generated");
    files.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect()
}

/// Compares with the shipped file, or writes it.
fn check(path: &str, fresh: &[u8]) {
    let file = root().join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder is made");
        std::fs::write(&file, fresh).expect("it is written");
    }
    let shipped = std::fs::read(&file).unwrap_or_default();
    assert!(shipped == fresh, "{path} differs from the WIT: run `UPDATE_GENERATED=1 cargo test -p generated`");
}

fn module(world: &str) -> String {
    world.trim_end_matches("-plugin").to_owned()
}

#[test]
fn the_rust_bindings_match_the_wit() {
    for world in ["observer"].into_iter().chain(PLUGINS) {
        let mut options = wit_bindgen_rust::Opts {
            format: true,
            pub_export_macro: true,
            export_macro_name: Some(format!("__export_{}", world.replace('-', "_"))),
            default_bindings_module: Some(format!("clawhost_sdk::bindings::{}", module(world))),
            runtime_path: Some("::wit_bindgen::rt".into()),
            generate_unused_types: true,
            // The interfaces are in separate packages; by default the generator expects them elsewhere.
            generate_all: true,
            ..wit_bindgen_rust::Opts::default()
        };
        if world != "observer" {
            for interface in ["types/types", "log/log", "llm/llm", "kv/kv", "episode/view"] {
                // Only interfaces that the world uses may be remapped.
                let is_used = match world {
                    "environment-plugin" => interface != "episode/view",
                    "router-plugin" => ["types/types", "log/log"].contains(&interface),
                    _ => true,
                };
                if !is_used {
                    continue;
                }
                let ours = format!("crate::bindings::observer::clawhost::{}", interface.replace('/', "::"));
                options.with.push((format!("clawhost:{interface}@0.1.0"), WithOption::Path(ours)));
            }
        }
        let files = generate(Box::new(options.build()), world);
        let with_reason = [LENGTH.as_bytes(), &files[0].1].concat();
        check(&format!("sdk/rust/src/bindings/{}.rs", module(world)), &with_reason);
    }
}

#[test]
fn the_c_bindings_match_the_wit() {
    for world in PLUGINS {
        let options = wit_bindgen_c::Opts::default();
        for (name, bytes) in generate(options.build(), world) {
            check(&format!("sdk/c/{name}"), &bytes);
        }
    }
}

#[test]
fn the_reference_matches_the_wit() {
    let mut reference = String::from(
        "# The contract between host and plugins\n\nGenerated from `wit/`; do not edit. A plugin exports one of the four \
         plugin worlds, of which `router-plugin` is unstable. What it imports is what it asks for: `log` is always there, `llm` and `kv` need \
         the operator's grant.\n",
    );
    for world in PLUGINS {
        let options = wit_bindgen_markdown::Opts::default();
        for (name, bytes) in generate(options.build(), world) {
            if name.ends_with(".md") {
                reference.push('\n');
                reference.push_str(&String::from_utf8(bytes).expect("UTF-8"));
            }
        }
    }
    check("wit/REFERENCE.md", reference.as_bytes());
}
