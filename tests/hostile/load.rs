//! Files that are not plugins, or of another kind: rejected before anything runs, with a remedy.

use super::*;
use clawhost_core::{FailureKind, Hint};
use clawhost_engine::CacheKey;

/// Loads bytes as an environment and checks the error.
async fn check(host: &Host, name: &str, bytes: &[u8], says: &[&str]) -> EngineError {
    let refused = host.environment(name, bytes, ModelGrants::default()).await.unwrap_err();
    let error = refused.to_string();
    assert!(error.starts_with(name), "{name} is named first: {error}");
    for part in says {
        assert!(error.contains(part), "{name}: `{part}` in {error}");
    }
    assert!(!error.contains(" --") || error.contains("cargo build --release"), "no option of a front end: {error}");
    refused
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_components_are_identified() {
    let host = pooled();
    check(&host, "empty", b"", &["not a WebAssembly component", "the file is empty"]).await;
    check(&host, "text", b"hello", &["does not begin with \\0asm"]).await;
    check(&host, "wat", b"(component)", &["it is WebAssembly text; assemble it first"]).await;
    check(&host, "native", b"\x7fELF....", &["native code", ".cwasm"]).await;
    check(&host, "zip", b"PK\x03\x04", &["zip archive"]).await;
    check(&host, "core", &component("(module)"), &["a core module, not a component", "wasm-component-ld"]).await;
    let huge = vec![0; 17 << 20];
    let error = check(&host, "huge", &huge, &["17825792 bytes, but a component may have 16777216"]).await;
    assert_eq!((error.code(), error.hints()), ("plugin-too-large", vec![Hint::change("allow_interpreters")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn components_that_are_not_plugins_are_identified() {
    let host = pooled();
    check(&host, "foreign", &component("(component)"), &["exports no clawhost plugin world", "nothing"]).await;
    let other = r#"(component (instance $i) (export "acme:other/thing@1.0.0" (instance $i)))"#;
    check(&host, "other", &component(other), &["exports acme:other/thing@1.0.0", "export_environment!"]).await;
    let newer = r#"(component (instance $i) (export "clawhost:environment/environment@0.2.0" (instance $i)))"#;
    check(&host, "newer", &component(newer), &["environment@0.2.0", "speaks the 0.1 track"]).await;
    let missing = r#"(component (instance $i) (export "clawhost:environment/environment@0.1.0" (instance $i)))"#;
    check(&host, "missing", &component(missing), &["does not fit its world", "describe"]).await;
    let two = r#"(component (instance $i) (export "clawhost:environment/environment@0.1.0" (instance $i))
        (instance $j) (export "clawhost:reward/reward@0.1.0" (instance $j)))"#;
    check(&host, "two", &component(two), &["more than one plugin world"]).await;
    let import = r#"(component (import "acme:secret/files@1.0.0" (instance))
        (instance $i) (export "clawhost:environment/environment@0.1.0" (instance $i)))"#;
    check(&host, "import", &component(import), &["imports acme:secret/files@1.0.0", "does not offer"]).await;
    let http = r#"(component (import "wasi:http/outgoing-handler@0.2.0" (instance))
        (instance $i) (export "clawhost:environment/environment@0.1.0" (instance $i)))"#;
    check(&host, "http", &component(http), &["imports wasi:http/outgoing-handler@0.2.0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_contract_is_named_with_the_supported_one() {
    let host = pooled();
    let exports = |names: &[&str]| {
        let exports = names.iter().map(|name| format!("(export \"{name}\" (instance $i))")).collect::<String>();
        component(&format!("(component (instance $i) {exports})"))
    };
    let imports = |name: &str, kind: &str| {
        let ours = "(instance $i) (export \"clawhost:environment/environment@0.1.0\" (instance $i))";
        component(&format!("(component (import \"{name}\" {kind}) {ours})"))
    };
    let track = "speaks the 0.1 track; rebuild it with the SDK of this version";
    let ours = "plugins may import clawhost:{types,log,llm,kv,episode}@0.1 and wasi:{cli,clocks,filesystem,io,random,sockets}@0.2";
    let environment = "clawhost:environment/environment";
    check(&host, "older", &exports(&[&format!("{environment}@0.0.9")]), &["speaks clawhost", "@0.0.9", track]).await;
    check(&host, "unversioned", &exports(&[environment]), &["speaks clawhost:environment/environment,", track]).await;
    let both = [&*format!("{environment}@0.2.0"), &format!("{environment}@0.1.0")];
    check(&host, "both", &exports(&both), &["speaks clawhost:environment/environment@0.2.0", track]).await;
    check(
        &host,
        "unknown",
        &exports(&["clawhost:planner/planner@0.1.0"]),
        &["exports no clawhost plugin world", "planner"],
    )
    .await;
    let twins = ["clawhost:reward/reward@0.1.0", "clawhost:reflector/reflector@0.1.0"];
    check(&host, "twins", &exports(&twins), &["more than one plugin world", "one component for each"]).await;
    for (name, import, kind) in [
        ("unknown-service", "clawhost:secrets/secrets@0.1.0", "(instance)"),
        ("newer-wasi", "wasi:cli/environment@0.3.0", "(instance)"),
        ("unknown-wasi", "wasi:keyvalue/store@0.2.0", "(instance)"),
        ("a-function", "environment", "(func)"),
    ] {
        check(&host, name, &imports(import, kind), &[&format!("imports {import}"), "does not offer", ours]).await;
    }
    check(&host, "newer-service", &imports("clawhost:llm/llm@0.2.0", "(instance)"), &["clawhost:llm/llm@0.2.0", track])
        .await;
    let misfit = "does not fit its world";
    let wanting = "(instance (export \"read-key\" (func)))";
    check(&host, "extra", &imports("clawhost:log/log@0.1.0", wanting), &[misfit, "clawhost:log/log", "read-key"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_inside_a_component_are_escaped() {
    // A name in a core module may contain anything; messages about it must be escaped.
    let twice = r#"(component (core module (func $f) (export "\1b[2J\e2\80\ae" (func $f)) (export "\1b[2J\e2\80\ae" (func $f)))
        (instance $i) (export "clawhost:environment/environment@0.1.0" (instance $i)))"#;
    check(&pooled(), "escape", &component(twice), &["cannot be compiled", "\\u{1b}[2J\\u{202e}"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_names_do_not_make_long_messages() {
    let exports: String = (0..20_000).map(|number| format!("(export \"export-{number}\" (instance $i))")).collect();
    let flood = component(&format!("(component (instance $i) {exports})"));
    let error = pooled().environment("flood", &flood, ModelGrants::default()).await.unwrap_err().to_string();
    assert!(error.contains("exports no clawhost plugin world (it exports export-0, "), "{error}");
    assert!(error.contains("and 19992 more"), "{error}");
    assert!(error.len() < 8192, "a message for people, not {} bytes", error.len());
    // Imports are shown to people before they trust a component: thousands of harmless ones could hide a dangerous one.
    let imports: String = (0..129).map(|number| format!("(import \"wasi:cli/x{number}@0.2.0\" (instance))")).collect();
    let ours = "(instance $i) (export \"clawhost:environment/environment@0.1.0\" (instance $i))";
    let says = ["imports 129 interfaces, but a component may import 128", "leave out"];
    check(&pooled(), "crowd", &component(&format!("(component {imports} {ours})")), &says).await;
}

/// A section of a component in binary form.
fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![id];
    let mut rest = content.len();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes.extend(content);
    bytes
}

fn custom_section(bytes: usize) -> Vec<u8> {
    section(0, &[&b"\x04note"[..], &vec![b'x'; bytes]].concat())
}

/// A plugin with an additional core module and this many instances of it.
fn crowded(plugin: &[u8], module: &str, instances: usize) -> Vec<u8> {
    let (mut depth, mut modules) = (0, 0u8);
    for payload in wasmparser::Parser::new(0).parse_all(plugin) {
        let payload = payload.unwrap();
        match payload {
            wasmparser::Payload::ModuleSection { .. } | wasmparser::Payload::ComponentSection { .. } => {
                let own = depth == 0 && matches!(payload, wasmparser::Payload::ModuleSection { .. });
                modules += u8::from(own);
                depth += 1;
            }
            wasmparser::Payload::End(_) => depth -= 1,
            _ => {}
        }
    }
    let instances: Vec<u8> = std::iter::repeat_n([0, modules, 0], instances).flatten().collect();
    let count = section(0, &vec![0; instances.len() / 3]).split_off(1);
    let count = &count[..count.len() - instances.len() / 3];
    [plugin, &section(1, &component(module)), &section(2, &[count, &instances].concat())].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn core_instances_memories_and_tables_are_limited() {
    let Some(folder) = folder("a_component_has_only_so_many") else { return };
    let hello = guests::bytes(&folder, "hello_guess");
    let module = |item: &str, count: usize| format!("(module {})", item.repeat(count));
    for host in [pooled(), host(Limits::default(), Allocation::OnDemand)] {
        // More than a slot of the pool has, but allowed.
        let ten = crowded(&hello, &module("(memory 0)(table 0 funcref)", 10), 1);
        host.environment("ten", &ten, ModelGrants::default()).await.unwrap();
        for (name, bytes, says) in [
            ("instance", crowded(&hello, "(module)", 70), "limit(instances)"),
            ("memory", crowded(&hello, &module("(memory 0)", 70), 1), "limit(instances)"),
            ("table", crowded(&hello, &module("(table 0 funcref)", 70), 1), "limit(instances)"),
            // The memory limit applies to all memories together.
            ("memories", crowded(&hello, &module("(memory 200)", 10), 1), "limit(memory)"),
        ] {
            check(&host, name, &bytes, &["`describe` gave no usable answer", says]).await;
            assert_eq!(host.guest_memory(), 0, "{name}");
        }
        next_episode_works(&host, &folder).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_beside_the_code_is_rejected_or_has_no_effect() {
    let Some(folder) = folder("what_lies_beside_the_code") else { return };
    let host = pooled();
    let hello = guests::bytes(&folder, "hello_guess");
    let with = |more: &[u8]| [&hello, more].concat();
    // A zip archive is parsed from its end, so one file could be both.
    check(&host, "polyglot", &with(b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), &["damaged at byte"]).await;
    let claim = with(&[0, 0x80, 0x80, 0x80, 0x32, 4, b'n', b'o', b't', b'e']);
    check(&host, "claim", &claim, &["damaged at byte"]).await;
    let huge = with(&custom_section(100 << 20));
    check(&host, "huge", &huge, &["but a component may have 16777216"]).await;
    #[allow(clippy::disallowed_methods, reason = "any engine's native code is refused")]
    let native = wasmtime::Engine::default().precompile_component(&hello).unwrap();
    check(&host, "native", &native, &["native code, perhaps a .cwasm"]).await;
    // Small enough: it is neither compiled nor parsed.
    let noted = host.environment("noted", &with(&custom_section(10 << 20)), ModelGrants::default()).await.unwrap();
    let plain = host.environment("plain", &hello, ModelGrants::default()).await.unwrap();
    assert_eq!(noted.description(), plain.description());
    assert_ne!(noted.outline().digest, plain.outline().digest, "every byte counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_wrong_plugin_is_identified() {
    let Some(folder) = folder("a_damaged_or_wrong_plugin") else { return };
    let host = pooled();
    let whole = guests::bytes(&folder, "env_guess");
    for cut in [9, 100, whole.len() / 2, whole.len() - 1] {
        let error = host.environment("cut", &whole[..cut], ModelGrants::default()).await.unwrap_err().to_string();
        assert!(error.contains("damaged") || error.contains("exports no clawhost"), "{cut}: {error}");
    }
    let reward = guests::bytes(&folder, "reward_exact");
    let error = check(&host, "wrong", &reward, &["is a reward, but an environment is needed"]).await;
    assert_eq!((error.code(), error.hints()), ("plugin-wrong-world", vec![Hint::ChangeThis]));
    let endless = guests::bytes(&folder, "hostile_describe");
    check(&host, "endless", &endless, &["`describe` gave no usable answer", "limit(fuel)"]).await;
    let trap = guests::bytes(&folder, "hostile_describe_trap");
    check(&host, "trap", &trap, &["`describe` gave no usable answer", "I would rather not say"]).await;
    next_episode_works(&host, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bits_are_rejected_or_harmless() {
    let Some(folder) = folder("flipped_bits") else { return };
    let host = pooled();
    let whole = guests::bytes(&folder, "hello_guess");
    let (mut refused, mut failed, mut played) = (0, 0, 0);
    for position in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[position] ^= 0x10;
        let plugin = match host.environment("flipped", &bytes, ModelGrants::default()).await {
            Ok(plugin) => plugin,
            Err(error) => {
                let unfit =
                    !matches!(error, EngineError::SetUp(_) | EngineError::Compiler(_) | EngineError::Read { .. });
                assert!(unfit && error.to_string().starts_with("flipped"), "byte {position}: {error}");
                refused += 1;
                continue;
            }
        };
        // It loads if the bit is in a name or in data; then it plays, or fails by its own fault.
        let ended = match plugin.start(params(1)).await {
            Ok((mut live, _)) => live.step(&action("1"), &[]).await.map(|_| ()),
            Err(failure) => Err(failure),
        };
        match ended {
            Ok(()) => played += 1,
            Err(failure) => {
                let guests = [FailureKind::Trap, FailureKind::Limit, FailureKind::Invalid, FailureKind::Plugin];
                assert!(guests.contains(&failure.kind), "byte {position}: {failure}");
                failed += 1;
            }
        }
        assert_eq!(host.guest_memory(), 0, "byte {position}");
    }
    assert!(refused > 0 && played > 0, "{refused} refused, {failed} failed, {played} played: both ways were met");
    next_episode_works(&host, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_or_missing_cache_loses_nothing() {
    let Some(folder) = folder("a_cache_that_lies") else { return };
    let cache = tempfile::tempdir().unwrap();
    let host = || {
        let limits = Limits { live_instances: 8, ..Limits::default() };
        let cache = Some((cache.path().to_owned(), CacheKey([7; 32])));
        Host::new(HostConfig { limits, cache, ..HostConfig::default() }).unwrap()
    };
    next_episode_works(&host(), &folder).await;
    let entry = std::fs::read_dir(cache.path()).unwrap().next().unwrap().unwrap().path();
    let written = std::fs::read(&entry).unwrap();
    next_episode_works(&host(), &folder).await;
    for lie in [b"".to_vec(), written[..written.len() / 2].to_vec(), vec![0x7f; written.len()]] {
        std::fs::write(&entry, lie).unwrap();
        next_episode_works(&host(), &folder).await;
        assert_eq!(std::fs::read(&entry).unwrap().len(), written.len(), "the cache entry was written again");
    }
    std::fs::remove_dir_all(cache.path()).unwrap();
    next_episode_works(&host(), &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_reports_what_it_compiles_and_not_what_the_cache_holds() {
    let Some(folder) = folder("a_host_reports_what_it_compiles") else { return };
    let cache = tempfile::tempdir().unwrap();
    let check = async |is_compiled: bool| {
        let limits = Limits { live_instances: 8, ..Limits::default() };
        let cache = Some((cache.path().to_owned(), CacheKey([7; 32])));
        let host = Host::new(HostConfig { limits, cache, ..HostConfig::default() }).unwrap();
        let compiling = host.compiling();
        next_episode_works(&host, &folder).await;
        assert_eq!(compiling.has_changed().unwrap(), is_compiled);
        assert_eq!(*compiling.borrow(), None, "it is over");
    };
    check(true).await;
    check(false).await;
    std::fs::remove_dir_all(cache.path()).unwrap();
    check(true).await;
}
