//! Modules in a registry server and in a folder: published, found, pulled, kept; and servers that lie, are slow, or lead elsewhere.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

#[path = "../../../tests/common/registry_server.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod registry_server;

use clawhost_core::Digest;
use clawhost_package::{ModuleKind, ModuleName, ModuleRequest};
use clawhost_registry::{
    Attachment, Content, Facts, FolderRegistry, KeyKind, Location, OciOptions, Policy, PrivateKey, Publication,
    Published, Pushed, Registry, RegistryError, State, Trust, find, find_pinned, pull, push, set_status, versions,
};
use registry_server::{Fault, RegistryServer};
use std::sync::Arc;
use std::time::Duration;

fn module(name: &str, version: &str, bytes: &[u8]) -> Published {
    let facts = Facts {
        name: name.parse().unwrap(),
        version: version.parse().unwrap(),
        kind: ModuleKind::Reward,
        description: Some("a reward".to_owned()),
        license: Some("MIT".to_owned()),
    };
    let content = Content::Component { bytes: bytes.to_vec(), imports: vec!["a".into()], exports: vec!["b".into()] };
    Published::new(facts, content, "2026-01-01T00:00:00Z").unwrap()
}

fn request(text: &str) -> ModuleRequest {
    text.parse().unwrap()
}

async fn published(registry: &dyn Registry, name: &str, version: &str, bytes: &[u8]) -> Result<Pushed, RegistryError> {
    let published = module(name, version, bytes);
    push(registry, &Publication { published: &published, attachments: &[], signer: None }, false).await
}

fn server(server: &RegistryServer) -> Arc<dyn Registry> {
    let location: Location = server.location().parse().unwrap();
    clawhost_registry::open(&location, OciOptions { patience: Duration::from_millis(300) }).unwrap()
}

#[tokio::test]
async fn a_server_and_a_folder_hold_the_same_artefacts() {
    let (running, place) = (RegistryServer::start(), tempfile::tempdir().unwrap());
    let key = PrivateKey::generate(KeyKind::P256).unwrap();
    let mut trust = Trust::new(Policy::Required);
    trust.trust("ours".parse().unwrap(), vec!["shop".parse().unwrap()], &key.public()).unwrap();
    let (remote, folder) = (server(&running), FolderRegistry::new(place.path().to_owned()));
    let one = module("shop/x", "1.0.0", b"component");
    let readme =
        Attachment { artifact_type: "application/x".into(), media_type: "text/markdown".into(), bytes: b"# X".into() };
    for registry in [&*remote, &folder as &dyn Registry] {
        let publication =
            Publication { published: &one, attachments: std::slice::from_ref(&readme), signer: Some((&key, "Shop")) };
        let pushed = push(registry, &publication, true).await.unwrap();
        assert_eq!(
            (pushed.was_there, registry.tags(&one.facts.name).await.unwrap()),
            (false, None),
            "a dry run sends nothing"
        );
        push(registry, &publication, false).await.unwrap();
        assert!(push(registry, &publication, false).await.unwrap().was_there);
        let found = find(registry, &request("shop/x@1"), &trust).await.unwrap();
        assert_eq!((&found.facts, found.manifest), (&one.facts, one.manifest));
        assert_eq!(found.signer.as_ref().unwrap().publisher.as_deref(), Some("Shop"));
        let pulled = pull(registry, found).await.unwrap();
        assert_eq!(pulled.published, one);
        assert_eq!(pulled.attachments, std::slice::from_ref(&readme));
        // What is kept elsewhere has the same digests and signatures.
        let kept = tempfile::tempdir().unwrap();
        let shelf = FolderRegistry::new(kept.path().to_owned());
        pulled.keep(&shelf).await.unwrap();
        pulled.keep(&shelf).await.unwrap();
        let again = find(&shelf, &request("shop/x"), &trust).await.unwrap();
        assert_eq!(pull(&shelf, again).await.unwrap(), pulled);
        assert_eq!(registry.modules().await.unwrap(), ["shop/x".parse::<ModuleName>().unwrap()]);
    }
}

#[tokio::test]
async fn a_version_never_changes_and_names_do_not_look_alike() {
    let running = RegistryServer::start();
    let registry = server(&running);
    published(&*registry, "shop/judge-1", "1.0.0", b"one").await.unwrap();
    let error = published(&*registry, "shop/judge-1", "1.0.0", b"other").await.unwrap_err();
    assert!(matches!(error, RegistryError::Exists { .. }), "{error}");
    let error = published(&*registry, "shop/judgel", "1.0.0", b"one").await.unwrap_err();
    assert!(error.to_string().contains("shop/judgel looks like shop/judge-1"), "{error}");
    published(&*registry, "shop/judge-1", "1.1.0", b"other").await.unwrap();
    let error = published(&*registry, "shop/judge-1", "1.2.0+build", b"other").await.unwrap_err();
    assert!(error.to_string().contains("build metadata"), "{error}");
}

#[tokio::test]
async fn the_newest_version_is_found_that_is_asked_for_and_not_withdrawn() {
    let place = tempfile::tempdir().unwrap();
    let registry = FolderRegistry::new(place.path().to_owned());
    for version in ["1.0.0", "1.2.0", "2.0.0", "3.0.0-beta.1"] {
        published(&registry, "shop/x", version, version.as_bytes()).await.unwrap();
    }
    let check = async |text: &str, expect: Result<&str, &str>| match (
        find(&registry, &request(text), &Trust::default()).await,
        expect,
    ) {
        (Ok(found), Ok(version)) => assert_eq!(found.facts.version.to_string(), version, "{text}"),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
        (found, _) => panic!("{text}: {found:?}"),
    };
    check("shop/x", Ok("2.0.0")).await;
    check("shop/x@1", Ok("1.2.0")).await;
    check("shop/x@1.0.0", Ok("1.0.0")).await;
    check("shop/x@4", Err("has no version of shop/x@^4; it has 3.0.0-beta.1, 2.0.0, 1.2.0, 1.0.0")).await;
    check("shop/y", Err("has no module shop/y; did you mean shop/x?")).await;
    let name = "shop/x".parse().unwrap();
    let why = |why: &str| Some(State::Yanked { why: why.to_owned() });
    let version = "1.2.0".parse().unwrap();
    set_status(&registry, &name, &version, why("scores are wrong")).await.unwrap();
    check("shop/x@1", Ok("1.0.0")).await;
    check("shop/x@1.2.0", Err("shop/x 1.2.0 was withdrawn: scores are wrong")).await;
    // A lock that pins it keeps working.
    let manifest = module("shop/x", "1.2.0", b"1.2.0").manifest;
    let pinned = find_pinned(&registry, (&name, &version), &manifest, &Trust::default()).await.unwrap();
    assert_eq!(pinned.state, why("scores are wrong"));
    set_status(&registry, &name, &version, None).await.unwrap();
    check("shop/x@1", Ok("1.2.0")).await;
    assert_eq!(versions(&registry, &name).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_server_that_lies_is_refused_and_nothing_is_kept() {
    let running = RegistryServer::start();
    let registry = server(&running);
    published(&*registry, "shop/x", "1.0.0", b"component").await.unwrap();
    let digest = Digest::of(b"component").to_string();
    let elsewhere = |to: &str| Fault::Answer(307, vec![("location".into(), to.into())], Vec::new());
    let check = async |path: &str, fault: Fault, code: &str, part: &str| {
        running.heal();
        running.fault(path, fault);
        let pulled = async {
            let found = find(&*registry, &request("shop/x"), &Trust::default()).await?;
            pull(&*registry, found).await
        };
        let error = pulled.await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    check(&digest, Fault::Flip, "changed", "was changed: its digest is").await;
    check(&digest, Fault::Announce(1 << 40), "size", "sends more than 9 bytes").await;
    check(&digest, Fault::Announce(3), "size", "sends 3 bytes, announced were 9").await;
    check(&digest, Fault::Silence, "silent", "has sent nothing for").await;
    check(&digest, Fault::Answer(404, vec![], b"gone".into()), "status", "answers HTTP 404 to").await;
    check(&digest, elsewhere("http://example.com/x"), "redirected", "plain HTTP is used on this machine alone").await;
    check(&digest, elsewhere("/v2/again"), "status", "HTTP 404").await;
    check("manifests/1.0.0", Fault::Flip, "malformed", "the manifest of shop/x 1.0.0").await;
    check("manifests/1.0.0", Fault::Answer(200, vec![], b"{}".into()), "malformed", "missing field").await;
    check("manifests/1.0.0", Fault::Announce(1 << 30), "size", "sends more than 4194304 bytes").await;
    check("tags/list", Fault::Answer(500, vec![], b"\x1b[31mno".into()), "status", "\\u{1b}[31mno").await;
    check("tags/list", Fault::Answer(403, vec![], vec![]), "denied", "it wants credentials").await;
    let loops = format!("/v2/shop/x/blobs/{digest}");
    check(&digest, elsewhere(&loops), "redirected", "it leads from one place to the next").await;
}

#[tokio::test]
async fn a_manifest_of_another_version_is_not_taken() {
    let running = RegistryServer::start();
    let registry = server(&running);
    published(&*registry, "shop/x", "1.0.0", b"old").await.unwrap();
    published(&*registry, "shop/x", "2.0.0", b"new").await.unwrap();
    // The registry gives the old one out as the new one.
    let old = module("shop/x", "1.0.0", b"old").document;
    running.replace_manifest("shop/x:2.0.0", |_| old);
    let error = find(&*registry, &request("shop/x@2"), &Trust::default()).await.unwrap_err().to_string();
    assert!(error.contains("the manifest of shop/x 2.0.0") && error.contains("it is of shop/x 1.0.0"), "{error}");
}

#[tokio::test]
async fn a_publication_that_is_cut_off_leaves_no_version() {
    let running = RegistryServer::start();
    let registry = server(&running);
    running.fault("manifests/", Fault::Silence);
    published(&*registry, "shop/x", "1.0.0", b"component").await.unwrap_err();
    running.heal();
    assert_eq!(registry.tags(&"shop/x".parse().unwrap()).await.unwrap(), None);
    published(&*registry, "shop/x", "1.0.0", b"component").await.unwrap();
    // Content is never sent to another host.
    let to = vec![("location".to_owned(), "http://127.0.0.1:1/upload".to_owned())];
    running.fault("blobs/uploads/", Fault::Answer(202, to, Vec::new()));
    let error = published(&*registry, "shop/x", "1.1.0", b"other").await.unwrap_err().to_string();
    assert!(error.contains("content is sent to the registry itself"), "{error}");
}

#[tokio::test]
async fn a_changed_file_of_a_folder_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let registry = FolderRegistry::new(place.path().to_owned());
    published(&registry, "shop/x", "1.0.0", b"component").await.unwrap();
    let found = find(&registry, &request("shop/x"), &Trust::default()).await.unwrap();
    let path = registry.blob_path(&found.facts.name, &Digest::of(b"component"));
    std::fs::write(&path, b"componenz").unwrap();
    let error = pull(&registry, found.clone()).await.unwrap_err();
    assert!(matches!(error, RegistryError::Changed { .. }), "{error}");
    std::fs::write(&path, b"comp").unwrap();
    let error = pull(&registry, found).await.unwrap_err().to_string();
    assert!(error.contains("it has 4 bytes, announced were 9"), "{error}");
    // A publication replaces what is damaged.
    published(&registry, "shop/y", "1.0.0", b"component").await.unwrap();
}

#[tokio::test]
async fn an_adapter_has_files_of_adapters_alone() {
    let place = tempfile::tempdir().unwrap();
    let registry = FolderRegistry::new(place.path().to_owned());
    let facts = Facts { kind: ModuleKind::Adapter, ..module("shop/a", "1.0.0", b"").facts };
    let adapter = |names: &[&str]| {
        let files = names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect();
        Published::new(facts.clone(), Content::Adapter(files), "2026-01-01T00:00:00Z")
    };
    let one = adapter(&["adapter_config.json", "adapter_model.safetensors"]).unwrap();
    push(&registry, &Publication { published: &one, attachments: &[], signer: None }, false).await.unwrap();
    let pulled = pull(&registry, find(&registry, &request("shop/a"), &Trust::default()).await.unwrap()).await.unwrap();
    let names: Vec<&str> = pulled.published.files().map(|(name, _)| name).collect();
    assert_eq!(names, ["adapter_config.json", "adapter_model.safetensors"]);
    for name in ["../adapter_config.json", "/etc/passwd", "x.sh", ""] {
        let error = adapter(&[name]).unwrap_err().to_string();
        assert!(error.contains("is no file of an adapter"), "{error}");
        // The same name in a manifest that somebody else wrote.
        let text = String::from_utf8(one.document.clone()).unwrap().replacen("adapter_config.json", name, 1);
        let error = Published::read(&registry, &facts.name, text.into_bytes()).await.unwrap_err().to_string();
        assert!(error.contains("is no file of an adapter"), "{error}");
    }
    let twice = String::from_utf8(one.document).unwrap().replace("adapter_model.safetensors", "adapter_config.json");
    let error = Published::read(&registry, &facts.name, twice.into_bytes()).await.unwrap_err().to_string();
    assert!(error.contains("it has adapter_config.json twice"), "{error}");
}

#[tokio::test]
async fn a_component_is_one_layer_in_the_layout_that_other_tools_read() {
    let one = module("shop/x", "1.0.0", b"component");
    let document: serde_json::Value = serde_json::from_slice(&one.document).unwrap();
    assert_eq!(document["mediaType"], "application/vnd.oci.image.manifest.v1+json");
    assert_eq!(document["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(document["layers"].as_array().unwrap().len(), 1);
    assert_eq!(document["layers"][0]["mediaType"], "application/wasm");
    assert!(document.get("artifactType").is_none());
    let config: serde_json::Value = serde_json::from_slice(&one.config).unwrap();
    assert_eq!((&config["architecture"], &config["os"]), (&"wasm".into(), &"wasip2".into()));
    assert_eq!(config["layerDigests"][0], Digest::of(b"component").to_string());
    assert_eq!(config["component"]["imports"][0], "a");
}
