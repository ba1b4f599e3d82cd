//! Signatures: whose count, and what is refused.

use super::{Team, files, guests};

fn registry(team: &Team) -> String {
    format!("file:{}", team.path("registry").display())
}

/// A publisher with a key, and the registry with one signed version.
fn publisher() -> (Team, String) {
    let team = Team::new();
    team.json(&["keys", "new", "shop"]);
    let registry = registry(&team);
    assert!(team.publishes(&registry, "1.0.0", &[])["signed_by"].is_string());
    (team, registry)
}

fn public_key(team: &Team) -> String {
    team.path("data/keys/shop.pub").display().to_string()
}

#[test]
fn a_signature_counts_once_its_key_is_trusted() {
    if guests::folder_or_skip("a_signature_counts_once_its_key_is_trusted").is_none() {
        return;
    }
    let (publisher, registry) = publisher();
    let user = Team::new();
    let added = |user: &Team| user.json(&["add", "shop/exact", "--from", &registry, "--no-check"])["added"].clone();
    assert!(added(&user)["signer"].is_null());
    // A key of another team signs neither modules of this one nor claims about them.
    let other = Team::new();
    other.json(&["keys", "trust", &public_key(&publisher), "--team", "other"]);
    let report = added(&other);
    assert!(report["signer"].is_null() && report["claim"]["is_signed"] == false, "{report:#}");
    user.json(&["keys", "trust", &public_key(&publisher), "--team", "shop"]);
    let report = added(&user);
    assert_eq!((&report["signer"]["name"], &report["claim"]["is_signed"]), (&"shop".into(), &true.into()));
    let lock = clawhost_files::read_text(&user.path("claw.lock"), 1 << 20).unwrap();
    assert!(lock.contains("signed_by = \"sha256:"), "{lock}");
    let inspected = user.json(&["inspect", "shop/exact"])["module"].clone();
    assert_eq!((&inspected["name"], inspected["signed_by"].is_string()), (&"shop/exact".into(), true));
    let keys = user.json(&["keys"]);
    assert_eq!(keys["signing"]["trusted"][0]["teams"][0], "shop");
}

#[test]
fn a_policy_decides_what_must_be_signed() {
    if guests::folder_or_skip("a_policy_decides_what_must_be_signed").is_none() {
        return;
    }
    let (publisher, registry) = publisher();
    publisher.publishes(&registry, "1.1.0", &["--unsigned"]);
    let user = Team::new();
    let add = |version: &str| user.run(&["add", &format!("shop/exact@{version}"), "--from", &registry, "--no-check"]);
    let check = |policy: &str, version: &str, expect: Option<&str>| {
        user.json(&["keys", "policy", policy]);
        let output = add(version);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), expect.is_none(), "{policy} {version}: {message}");
        assert!(message.contains(expect.unwrap_or_default()), "{message}");
    };
    check("required", "1.0.0", Some("none of them by a key that is trusted for shop (policy: required)"));
    check("known", "1.1.0", None);
    user.json(&["keys", "trust", &public_key(&publisher), "--team", "shop"]);
    check("required", "1.0.0", None);
    check("required", "1.1.0", Some("shop/exact 1.1.0 is not signed (policy: required)"));
    check("known", "1.1.0", Some("shop/exact 1.1.0 is not signed (policy: known)"));
    check("unsigned", "1.1.0", None);
}

#[test]
fn what_a_revoked_key_signed_is_refused_even_if_it_was_pulled() {
    if guests::folder_or_skip("what_a_revoked_key_signed_is_refused_even_if_it_was_pulled").is_none() {
        return;
    }
    let (publisher, registry) = publisher();
    let user = Team::new();
    user.json(&["keys", "trust", &public_key(&publisher), "--team", "shop"]);
    user.json(&["add", "shop/exact", "--from", &registry, "--no-check"]);
    user.json(&["inspect", "shop/exact"]);
    user.json(&["keys", "revoke", "shop"]);
    let error = user.refused(&["inspect", "shop/exact"], 2);
    assert!(error.contains("shop/exact 1.0.0 is signed by the key shop, which was revoked"), "{error}");
    let error = user.refused(&["keys", "trust", &public_key(&publisher)], 2);
    assert!(error.contains("a revoked key is never trusted again"), "{error}");
    // The next version by another key is compared with the pinned one.
    publisher.json(&["keys", "new", "next"]);
    user.json(&["keys", "trust", &publisher.path("data/keys/next.pub").display().to_string(), "--team", "shop"]);
    publisher.publishes(&registry, "1.1.0", &["--key", "next"]);
    let output = user.run(&["update", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let update = &report["updates"][0];
    assert!(update["version"] == "1.1.0" && update["difference"].is_object(), "{update:#}");
}

#[test]
fn a_signed_list_revokes_keys_for_others() {
    if guests::folder_or_skip("a_signed_list_revokes_keys_for_others").is_none() {
        return;
    }
    let (publisher, registry) = publisher();
    publisher.json(&["keys", "new", "next"]);
    let user = Team::new();
    let trust = |name: &str| {
        let file = publisher.path(&format!("data/keys/{name}.pub")).display().to_string();
        user.json(&["keys", "trust", &file, "--team", "shop"]);
    };
    trust("shop");
    user.json(&["add", "shop/exact", "--from", &registry, "--no-check"]);
    // The key was stolen: its owner revokes it, and signs the list with the next one.
    let list = publisher.path("revoked.json").display().to_string();
    let written = publisher.json(&["keys", "revoke", "shop", "--list", &list, "--sign-with", "next"]);
    assert_eq!((&written["revoked"], &written["list"]["keys"]), (&"shop".into(), &1.into()));
    let error = user.refused(&["keys", "revoke", "--from", &list], 2);
    assert!(error.contains("no key that is trusted here has signed it"), "{error}");
    user.json(&["inspect", "shop/exact"]);
    trust("next");
    let taken = user.json(&["keys", "revoke", "--from", &list])["revocations"].clone();
    assert_eq!((&taken["by"], &taken["revoked"]), (&"next".into(), &serde_json::json!(["shop"])));
    let error = user.refused(&["inspect", "shop/exact"], 2);
    assert!(error.contains("shop/exact 1.0.0 is signed by the key shop, which was revoked"), "{error}");
    let error = publisher.refused(&["keys", "revoke", "--list", &list], 2);
    assert!(error.contains("--sign-with"), "{error}");
}

#[test]
fn a_component_that_was_changed_is_refused_and_leaves_no_trace() {
    if guests::folder_or_skip("a_component_that_was_changed_is_refused_and_leaves_no_trace").is_none() {
        return;
    }
    let (publisher, registry) = publisher();
    let user = Team::new();
    user.json(&["keys", "trust", &public_key(&publisher), "--team", "shop"]);
    // The largest blob is the component.
    let blobs = files(&publisher.path("registry"));
    let component = blobs.iter().max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = clawhost_files::read(component, 1 << 30).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(component, &bytes).unwrap();
    let error = user.refused(&["add", "shop/exact", "--from", &registry], 2);
    assert!(error.contains("was changed: its digest is sha256:"), "{error}");
    assert!(!user.path("claw.lock").exists());
    assert_eq!(files(&user.path("data/modules")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_component_that_was_changed_after_it_was_pulled_is_refused() {
    if guests::folder_or_skip("a_component_that_was_changed_after_it_was_pulled_is_refused").is_none() {
        return;
    }
    let (_publisher, registry) = publisher();
    let user = Team::new();
    user.json(&["add", "shop/exact", "--from", &registry, "--no-check"]);
    let blobs = files(&user.path("data/modules"));
    let component = blobs.iter().max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = clawhost_files::read(component, 1 << 30).unwrap();
    bytes[100] ^= 1;
    std::fs::write(component, &bytes).unwrap();
    let error = user.refused(&["inspect", "shop/exact"], 2);
    assert!(error.contains("was changed: its digest is sha256:"), "{error}");
}

#[test]
fn the_report_of_a_publisher_is_a_claim_and_the_check_is_done_again() {
    if guests::folder_or_skip("the_report_of_a_publisher_is_a_claim_and_the_check_is_done_again").is_none() {
        return;
    }
    let (publisher, registry) = publisher();
    // A plugin whose checks fail is published only on purpose.
    let folder = publisher.plugin("reward_exact", "reward", "other", "1.0.0");
    let error = publisher.refused(&["publish", &registry, &folder, "--as", "shop/other"], 2);
    assert!(error.contains("checks fail: "), "{error}");
    let user = Team::new();
    let output = user.run(&["add", "shop/exact", "--from", &registry, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["added"]["claim"]["passed"], &report["added"]["check"]["passed"]),
        (&false.into(), &false.into())
    );
    assert_eq!(output.status.code(), Some(1), "a check that fails is an error, although the module is pinned");
}

#[test]
fn several_keys_are_named_and_none_is_chosen() {
    if guests::folder_or_skip("several_keys_are_named_and_none_is_chosen").is_none() {
        return;
    }
    let (publisher, registry) = publisher();
    publisher.json(&["keys", "new", "second", "--ed25519"]);
    let folder = publisher.plugin("reward_exact", "reward", "exact", "3.0.0");
    let publish = ["publish", &registry, &folder, "--as", "shop/exact", "--despite-checks"];
    let error = publisher.refused(&publish, 2);
    assert!(
        error.contains("there are several keys (second, shop); name one with --key, or none with --unsigned"),
        "{error}"
    );
    let published = publisher.json(&[&publish[..], &["--key", "second"]].concat());
    assert!(published["published"]["signed_by"].is_string());
    let odd = publisher.path("Odd_Name.pub");
    std::fs::copy(public_key(&publisher), &odd).unwrap();
    let error = publisher.refused(&["keys", "trust", odd.to_str().unwrap()], 2);
    assert!(error.contains("name it with --as"), "{error}");
    let error = publisher.refused(&["keys", "new", "shop"], 2);
    assert!(error.contains("keys are never replaced"), "{error}");
}

#[test]
fn a_signature_is_read_by_openssl() {
    if guests::folder_or_skip("a_signature_is_read_by_openssl").is_none() {
        return;
    }
    let (publisher, registry) = publisher();
    if std::process::Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped a_signature_is_read_by_openssl: it needs openssl");
        return;
    }
    let layout = publisher.path("registry/shop/exact");
    let read = |path: &std::path::Path| -> serde_json::Value {
        serde_json::from_slice(&clawhost_files::read(path, 1 << 20).unwrap()).unwrap()
    };
    let blob =
        |digest: &serde_json::Value| layout.join("blobs/sha256").join(&digest.as_str().unwrap()["sha256:".len()..]);
    let index = read(&layout.join("index.json"));
    let named = |tag: &dyn Fn(&str) -> bool| {
        let manifests = index["manifests"].as_array().unwrap();
        let name = |one: &&serde_json::Value| {
            one["annotations"]["org.opencontainers.image.ref.name"].as_str().is_some_and(tag)
        };
        manifests.iter().find(name).unwrap()["digest"].clone()
    };
    let manifest = named(&|tag| tag == "1.0.0");
    let signed = named(&|tag| tag.ends_with(".sig"));
    let layer = read(&blob(&signed))["layers"][0].clone();
    let payload = blob(&layer["digest"]);
    assert_eq!(read(&payload)["critical"]["image"]["docker-manifest-digest"], manifest);
    use base64::Engine as _;
    let signature = layer["annotations"]["dev.cosignproject.cosign/signature"].as_str().unwrap();
    let signature = base64::engine::general_purpose::STANDARD.decode(signature).unwrap();
    std::fs::write(publisher.path("signature"), signature).unwrap();
    let verify = |payload: &std::path::Path| {
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(["dgst", "-sha256", "-verify", &public_key(&publisher), "-signature"]);
        openssl.arg(publisher.path("signature")).arg(payload).output().unwrap().status.success()
    };
    assert!(verify(&payload));
    std::fs::write(publisher.path("other"), "{}").unwrap();
    assert!(!verify(&publisher.path("other")));
    // The other way round: a key that openssl made signs here.
    let pem = publisher.path("own.pem");
    let made = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out"])
        .arg(&pem)
        .output()
        .unwrap();
    assert!(made.status.success());
    let published = publisher.publishes(&registry, "2.0.0", &["--key", pem.to_str().unwrap()]);
    assert!(published["signed_by"].is_string());
}
