//! The generated bindings in `src/bindings` are what the WIT says.
//!
//! They ship with the SDK so that an author's first build does not compile a generator. When the WIT changes,
//! run this test with `UPDATE_BINDINGS=1` and commit the result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

use std::path::Path;
use wit_bindgen_core::{Files, WorldGenerator, wit_parser::Resolve};
use wit_bindgen_rust::{Opts, WithOption};

const IMPORTS: &str = "crate::bindings::observer::clawhost";

fn generate(world: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root.join("../../wit")).expect("the WIT parses");
    let id = resolve.select_world(&[package], Some(world)).expect("the world exists");
    let mut options = Opts {
        format: true,
        pub_export_macro: true,
        export_macro_name: Some(format!("__export_{}", world.replace('-', "_"))),
        default_bindings_module: Some(format!("clawhost_sdk::bindings::{}", module(world))),
        runtime_path: Some("::wit_bindgen::rt".into()),
        generate_unused_types: true,
        // The interfaces live in packages of their own, which the generator would otherwise expect elsewhere.
        generate_all: true,
        ..Opts::default()
    };
    if world != "observer" {
        for interface in ["types/types", "log/log", "llm/llm", "kv/kv", "episode/view"] {
            // Only what the world really mentions may be remapped.
            if world == "environment-plugin" && interface == "episode/view" {
                continue;
            }
            options.with.push((
                format!("clawhost:{interface}@0.1.0"),
                WithOption::Path(format!("{IMPORTS}::{}", interface.replace('/', "::"))),
            ));
        }
    }
    let mut files = Files::default();
    options.build().generate(&mut resolve, id, &mut files).expect("the bindings generate");
    let (_, bytes) = files.iter().next().expect("one file");
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn module(world: &str) -> String {
    world.trim_end_matches("-plugin").to_owned()
}

#[test]
fn generated_bindings_match_the_wit() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bindings");
    for world in ["observer", "environment-plugin", "reward-plugin", "reflector-plugin"] {
        let path = folder.join(module(world)).with_extension("rs");
        let fresh = generate(world);
        if std::env::var_os("UPDATE_BINDINGS").is_some() {
            std::fs::write(&path, &fresh).expect("bindings are written");
        }
        let shipped = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            shipped == fresh,
            "{} differs from the WIT: run `UPDATE_BINDINGS=1 cargo test -p clawhost-sdk --test bindings`",
            path.display()
        );
    }
}
