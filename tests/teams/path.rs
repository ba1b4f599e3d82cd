//! The whole path against a registry server: Debian's `docker-registry` where it is installed, otherwise the one of the tests.

use super::registry_server::RegistryServer;
use super::{Team, guests};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// A server that ends with this value.
pub(crate) enum Server {
    Debian { child: Child, location: String, _place: tempfile::TempDir },
    Own(RegistryServer),
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Self::Debian { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Server {
    fn start() -> Self {
        Self::debian(None).unwrap_or_else(|| {
            eprintln!("docker-registry is not installed: the registry of the tests takes its place");
            Self::Own(RegistryServer::start())
        })
    }

    /// Debian's server. `users`: a file of htpasswd, if it wants passwords. `None`: it is not installed.
    pub(crate) fn debian(users: Option<&str>) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let passwords = place.path().join("htpasswd");
        std::fs::write(&passwords, users.unwrap_or_default()).unwrap();
        let auth = format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", passwords.display());
        let auth = if users.is_some() { auth } else { String::new() };
        // The port may be taken meanwhile: then the server ends, and another port is tried.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let config = format!(
                "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"127.0.0.1:{port}\"}}\n{auth}",
                place.path().join("store").display()
            );
            std::fs::write(place.path().join("config.yml"), config).unwrap();
            let mut command = Command::new("docker-registry");
            command.arg("serve").arg(place.path().join("config.yml"));
            let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
            while child.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(Self::Debian { child, location: format!("oci://127.0.0.1:{port}"), _place: place });
                }
                std::thread::yield_now();
            }
        }
        panic!("docker-registry does not start");
    }

    pub(crate) fn location(&self) -> String {
        match self {
            Self::Debian { location, .. } => location.clone(),
            Self::Own(server) => server.location(),
        }
    }
}

#[test]
fn a_reward_travels_from_one_team_to_another_through_a_server() {
    if guests::folder_or_skip("a_reward_travels_from_one_team_to_another_through_a_server").is_none() {
        return;
    }
    let server = Server::start();
    let (a, b) = (Team::new(), Team::new());
    let registry = server.location();
    // Team A signs and publishes.
    a.json(&["keys", "new", "shop", "--ed25519"]);
    let folder = a.plugin("reward_exact", "reward", "exact", "1.2.0");
    let target = format!("{registry}/shop/exact:1.2.0");
    let published = a.json(&["publish", &target, &folder, "--despite-checks"])["published"].clone();
    // Team B adds it by name, and sees what it may do.
    b.json(&["keys", "trust", &a.path("data/keys/shop.pub").display().to_string(), "--team", "shop"]);
    b.json(&["keys", "policy", "required"]);
    let output = b.run(&["add", "shop/exact@1", "--from", &registry, "--json"]);
    let added: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let added = &added["added"];
    assert_eq!((&added["content"], &added["manifest"]), (&published["content"], &published["manifest"]));
    assert_eq!((&added["signer"]["name"], &added["asks"]), (&"shop".into(), &serde_json::json!([])));
    assert!(
        added["imports"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().starts_with("clawhost:episode/"))
    );
    assert_eq!(b.json(&["search", "exact", "--from", &registry])["modules"][0]["newest"], "1.2.0");
    // It scores old episodes, without the server.
    drop(server);
    let environment = guests::folder().unwrap().join("env_math.wasm");
    b.json(&[
        "run",
        environment.to_str().unwrap(),
        "--reward",
        guests::folder().unwrap().join("reward_format.wasm").to_str().unwrap(),
        "--episodes",
        "4",
    ]);
    let scored = b.json(&["score", "--reward", "shop/exact@1.2"]);
    assert_eq!(scored["rewards"][0]["digest"].as_str().map(str::len), published["content"].as_str().map(str::len));
    assert_eq!(scored["rewards"][0]["digest"], published["content"]);
}
