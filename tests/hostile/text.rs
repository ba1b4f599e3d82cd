//! Guests in WebAssembly text: code that no compiler generates and the canonical ABI forbids.
//!
//! A file in `tests/guests/wat` contains the hostile part of a core module. The common parts are added here: memory,
//! `cabi_realloc`, an honest `describe`, and stubs. Then it is converted to a component.

use super::*;
use clawhost_core::{FailureKind, code};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Function, Handle, Resolve, Type, TypeDefKind, WorldId};

/// Address of the honest `describe`'s answer; the guests' files use it too.
const ANSWER: u32 = 1024;
const NAME: u32 = 512;
const SPLIT_NAME: u32 = 768;
const SPLIT: u32 = 1280;

/// The exports of an environment, with core signature and default body.
const EXPORTS: [(&str, &str, &str); 9] = [
    (
        "cabi_realloc",
        "(param i32 i32 i32 i32) (result i32)",
        "(global.set $free (i32.add (global.get $free) (i32.add (local.get 3) (i32.const 16)))) (i32.and (i32.sub (global.get $free) (local.get 3)) (i32.const -16))",
    ),
    ("clawhost:environment/environment@0.1.0#describe", "(result i32)", "(i32.const 1024)"),
    // An answer of zeros is "ok".
    ("clawhost:environment/environment@0.1.0#check", "(param i32 i32) (result i32)", "(i32.const 2048)"),
    (
        "clawhost:environment/environment@0.1.0#tasks",
        "(param i64 i32 i32 i32 i32 i32 i32 i64 i32) (result i32)",
        "(unreachable)",
    ),
    ("clawhost:environment/environment@0.1.0#[static]episode.start", "(param i32) (result i32)", "(unreachable)"),
    ("clawhost:environment/environment@0.1.0#[static]episode.restore", "(param i32) (result i32)", "(unreachable)"),
    (
        "clawhost:environment/environment@0.1.0#[method]episode.step",
        "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)",
        "(unreachable)",
    ),
    ("clawhost:environment/environment@0.1.0#[method]episode.snapshot", "(param i32) (result i32)", "(unreachable)"),
    ("memory", "", ""),
];

fn text_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests/wat")
}

/// Names of the text guests.
pub(crate) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(text_folder()).unwrap().flatten();
    entries.map(|entry| entry.path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

/// Words in memory order, in the text format.
fn words(numbers: &[u32]) -> String {
    numbers.iter().flat_map(|number| number.to_le_bytes()).map(|byte| format!("\\{byte:02x}")).collect()
}

/// The complete core module of a guest.
fn module(guest: &str) -> String {
    let own = std::fs::read_to_string(text_folder().join(format!("{guest}.wat"))).unwrap();
    let name = guest.replace('_', "-");
    let mut module = format!("(module\n{own}\n(global $free (mut i32) (i32.const 8192))\n");
    for (export, signature, body) in EXPORTS {
        if own.contains(&format!("(export \"{export}\")")) {
            continue;
        }
        module.push_str(&match export {
            "memory" => "(memory (export \"memory\") 4)\n".to_owned(),
            _ => format!("(func (export \"{export}\") {signature} {body})\n"),
        });
    }
    let none = [0, 0];
    let about = [[NAME, name.len() as u32], none, none, none, none, none].concat();
    let answer = [&[0][..], &about, &[SPLIT, 1], &none].concat();
    let split = [SPLIT_NAME, 5, 1000, 0, 0, 0];
    module.push_str(&format!("(data (i32.const {NAME}) \"{name}\") (data (i32.const {SPLIT_NAME}) \"train\")\n"));
    module.push_str(&format!("(data (i32.const {ANSWER}) \"{}\")\n", words(&answer)));
    module.push_str(&format!("(data (i32.const {SPLIT}) \"{}\"))", words(&split)));
    module
}

/// The contract, and the worlds of plugins.
pub(crate) fn contract() -> (Resolve, [WorldId; 3]) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")).unwrap();
    let worlds = ["environment-plugin", "reward-plugin", "reflector-plugin"];
    let worlds = worlds.map(|world| resolve.select_world(&[package], Some(world)).unwrap());
    (resolve, worlds)
}

/// The types of a function's parameters and result, recursively.
pub(crate) fn kinds(resolve: &Resolve, function: &Function) -> Vec<String> {
    let mut waiting: Vec<Type> = function.params.iter().map(|param| param.ty).chain(function.result).collect();
    let mut found = Vec::new();
    while let Some(one) = waiting.pop() {
        let Type::Id(id) = one else { continue };
        let kind = &resolve.types[id].kind;
        found.push(kind.as_str().to_owned());
        match kind {
            TypeDefKind::Type(inner) | TypeDefKind::List(inner) | TypeDefKind::Option(inner) => waiting.push(*inner),
            TypeDefKind::Handle(Handle::Borrow(id)) => {
                found.push(format!("borrow of {}", resolve.types[*id].name.clone().unwrap()));
            }
            TypeDefKind::Record(record) => waiting.extend(record.fields.iter().map(|field| field.ty)),
            TypeDefKind::Tuple(tuple) => waiting.extend(&tuple.types),
            TypeDefKind::Variant(variant) => waiting.extend(variant.cases.iter().filter_map(|case| case.ty)),
            TypeDefKind::Result(result) => waiting.extend(result.ok.into_iter().chain(result.err)),
            _ => {}
        }
    }
    found
}

/// A text guest as a component.
fn component(guest: &str) -> Vec<u8> {
    let mut bytes = wat::parse_str(module(guest)).unwrap_or_else(|error| panic!("{guest}: {error}"));
    let (resolve, [world, ..]) = contract();
    embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&bytes).unwrap().encode().unwrap()
}

/// Guests that are rejected at load: how `describe` ends, and the message.
const AT_LOAD: [(&str, &str, &str); 14] = [
    ("hostile_start_function", "limit(fuel)", "too much computing"),
    ("hostile_text_bounds", "trap", "out of bounds"),
    ("hostile_text_utf8", "trap", "utf-8"),
    ("hostile_result_unaligned", "trap", "not aligned"),
    ("hostile_result_outside", "trap", "out of bounds"),
    ("hostile_result_case", "trap", "discriminant"),
    ("hostile_list_unaligned", "trap", "not aligned"),
    ("hostile_list_overflow", "trap", "out of bounds"),
    ("hostile_strings", "limit(transfer)", "larger than may cross"),
    ("hostile_table", "limit(table)", "over the limit of 10000"),
    ("hostile_table_large", "limit(table)", "over the limit of 10000"),
    ("hostile_post_return_traps", "trap(unreachable)", "stopped at `unreachable`"),
    ("hostile_post_return_loops", "limit(fuel)", "too much computing"),
    ("hostile_post_return_calls", "trap", "cannot leave component instance"),
];

/// Guests that load, and misbehave when the host passes them a value. `None`: they damage only themselves.
const WHEN_HANDED: [(&str, Option<(FailureKind, &str, &str)>); 7] = [
    ("hostile_realloc_zero", None),
    ("hostile_realloc_overlaps", None),
    ("hostile_realloc_outside", Some((FailureKind::Trap, code::TRAP, "beyond end of memory"))),
    ("hostile_realloc_unaligned", Some((FailureKind::Trap, code::TRAP, "not aligned"))),
    ("hostile_realloc_traps", Some((FailureKind::Trap, code::UNREACHABLE, "stopped at `unreachable`"))),
    ("hostile_realloc_loops", Some((FailureKind::Limit, code::FUEL, "too much computing"))),
    ("hostile_realloc_calls", Some((FailureKind::Trap, code::TRAP, "cannot leave component instance"))),
];

fn both_allocations() -> [Host; 2] {
    [pooled(), host(Limits::default(), Allocation::OnDemand)]
}

#[tokio::test(flavor = "multi_thread")]
async fn violations_of_the_canonical_abi_are_rejected_at_load() {
    let Some(folder) = folder("what_breaks_the_canonical_abi") else { return };
    for host in both_allocations() {
        for (guest, label, says) in AT_LOAD {
            let loaded = host.environment(guest, &component(guest), ModelGrants::default()).await;
            let error = loaded.expect_err(guest).to_string();
            assert!(
                error.starts_with(&format!("{guest}: refused, because `describe` gave no usable answer: {label}")),
                "{error}"
            );
            assert!(error.contains(says), "{guest}: {error}");
            assert_eq!(host.guest_memory(), 0, "{guest}: all guest memory was returned");
        }
        next_episode_works(&host, &folder).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_with_a_broken_allocator_traps_or_damages_only_itself() {
    let Some(folder) = folder("whoever_has_no_place") else { return };
    let options = vec![("one".to_owned(), "x".repeat(1000)), ("two".to_owned(), "y".repeat(1000))];
    for host in both_allocations() {
        for (guest, ending) in WHEN_HANDED {
            let plugin = host.environment(guest, &component(guest), ModelGrants::default()).await.unwrap();
            let checked = plugin.check_options(&options).await;
            match (ending, checked) {
                (None, Ok(())) => {}
                (Some((kind, code, says)), Err(EngineError::NoAnswer { failure, .. })) => {
                    assert_eq!((failure.kind, failure.code.as_str()), (kind, code), "{guest}: {failure}");
                    assert!(failure.message.contains(says), "{guest}: {failure}");
                    assert!(failure.message.contains(&guest.replace('_', "-")), "{guest} is named: {failure}");
                }
                (_, other) => panic!("{guest}: {other:?}"),
            }
            drop(plugin);
            assert_eq!(host.guest_memory(), 0, "{guest}: all guest memory was returned");
        }
        next_episode_works(&host, &folder).await;
    }
}
