//! Files that are no plugin, or the wrong one: refused before anything runs, with what to do.

use super::*;
use clawhost_engine::CacheKey;

/// Loads bytes as an environment and checks the refusal.
async fn check(host: &Host, name: &str, bytes: &[u8], says: &[&str]) {
    let error = host.environment(name, bytes, ModelGrants::default()).await.unwrap_err().to_string();
    assert!(error.starts_with(name), "{name} is named first: {error}");
    for part in says {
        assert!(error.contains(part), "{name}: `{part}` in {error}");
    }
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_component_is_told_apart() {
    let host = pooled();
    check(&host, "empty", b"", &["not a WebAssembly component", "the file is empty"]).await;
    check(&host, "text", b"hello", &["does not begin with \\0asm"]).await;
    check(&host, "wat", b"(component)", &["it is WebAssembly text; assemble it first"]).await;
    check(&host, "native", b"\x7fELF....", &["native code", ".cwasm"]).await;
    check(&host, "zip", b"PK\x03\x04", &["zip archive"]).await;
    check(&host, "core", &component("(module)"), &["a core module, not a component", "wasm-component-ld"]).await;
    let huge = vec![0; 17 << 20];
    check(&host, "huge", &huge, &["17825792 bytes, but a component may have 16777216", "--allow-interpreters"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_plugin_of_ours_is_told_apart() {
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
async fn a_damaged_or_wrong_plugin_is_told_apart() {
    let Some(folder) = folder("a_damaged_or_wrong_plugin") else { return };
    let host = pooled();
    let whole = guests::bytes(&folder, "env_guess");
    for cut in [9, 100, whole.len() / 2, whole.len() - 1] {
        let error = host.environment("cut", &whole[..cut], ModelGrants::default()).await.unwrap_err().to_string();
        assert!(error.contains("damaged") || error.contains("exports no clawhost"), "{cut}: {error}");
    }
    let reward = guests::bytes(&folder, "reward_exact");
    check(&host, "wrong", &reward, &["is a reward, but an environment is needed", "--reward"]).await;
    let endless = guests::bytes(&folder, "hostile_describe");
    check(&host, "endless", &endless, &["`describe` did not answer", "limit(fuel)"]).await;
    let trap = guests::bytes(&folder, "hostile_describe_trap");
    check(&host, "trap", &trap, &["`describe` did not answer", "I would rather not say"]).await;
    next_episode_works(&host, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bits_are_refused_or_harmless() {
    let Some(folder) = folder("flipped_bits") else { return };
    let host = pooled();
    let whole = guests::bytes(&folder, "hello_guess");
    for position in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[position] ^= 0x10;
        // Loading may succeed where the bit was in a name; it must never panic or hang.
        if let Ok(plugin) = host.environment("flipped", &bytes, ModelGrants::default()).await
            && let Ok((mut live, _)) = plugin.start(params(1)).await
        {
            let _ = live.step(&action("1"), &[]).await;
        }
    }
    next_episode_works(&host, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_lies_or_vanishes_loses_nothing() {
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
        assert_eq!(std::fs::read(&entry).unwrap().len(), written.len(), "written anew");
    }
    std::fs::remove_dir_all(cache.path()).unwrap();
    next_episode_works(&host(), &folder).await;
}
