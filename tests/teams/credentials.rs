//! Credentials of registries: those of docker, and never for another host.

use super::path::Server;
use super::registry_server::{Fault, RegistryServer};
use super::{Team, guests};
use base64::Engine as _;

/// Stores credentials as `docker login` does.
fn logs_in(team: &Team, host: &str, user: &str, key: &str) {
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{key}"));
    std::fs::create_dir_all(team.path("docker")).unwrap();
    let config = serde_json::json!({ "auths": { host: { "auth": auth } } });
    std::fs::write(team.path("docker/config.json"), config.to_string()).unwrap();
}

fn target(server: &RegistryServer) -> String {
    format!("{}/shop/exact", server.location())
}

fn publish(team: &Team, server: &RegistryServer) -> std::process::Output {
    let folder = team.plugin("reward_exact", "reward", "exact", "1.0.0");
    team.run(&["publish", &target(server), &folder, "--despite-checks"])
}

#[test]
fn a_registry_gets_the_credentials_that_docker_stored_for_it() {
    if guests::folder_or_skip("a_registry_gets_the_credentials_that_docker_stored_for_it").is_none() {
        return;
    }
    let (server, team) = (RegistryServer::start(), Team::new());
    server.want_basic("alice", "s3cret-key");
    let output = publish(&team, &server);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("it wants credentials") && message.contains("docker login"), "{message}");
    logs_in(&team, &server.host(), "alice", "wrong-key");
    let message = String::from_utf8_lossy(&publish(&team, &server).stderr).into_owned();
    assert!(message.contains("its credentials are not sufficient") && !message.contains("wrong-key"), "{message}");
    logs_in(&team, &server.host(), "alice", "s3cret-key");
    let output = publish(&team, &server);
    assert_eq!(output.status.code(), Some(0), "{}", super::said(&output));
    team.json(&["pull", "shop/exact", "--from", &server.location()]);
}

/// `alice` with the password `s3cret-key`, as `htpasswd -B` writes it.
const USERS: &str = "alice:$2b$05$.rrrH/9jnMazGvNuZ15j/OuJQL0Y8/3SERCSKXK8GfqDxWYellqNW\n";

#[test]
fn a_registry_with_htpasswd_gets_a_password_and_refuses_another() {
    const NAME: &str = "a_registry_with_htpasswd_gets_a_password_and_refuses_another";
    if guests::folder_or_skip(NAME).is_none() {
        return;
    }
    let Some(server) = Server::debian(Some(USERS)) else {
        eprintln!("{NAME} is skipped: docker-registry is not installed");
        return;
    };
    let (team, location) = (Team::new(), server.location());
    let host = location.trim_start_matches("oci://").to_owned();
    let folder = team.plugin("reward_exact", "reward", "exact", "1.0.0");
    let publish = ["publish", &format!("{location}/shop/exact"), &folder, "--despite-checks"];
    assert!(team.refused(&publish, 2).contains("it wants credentials"));
    logs_in(&team, &host, "alice", "another");
    assert!(team.refused(&publish, 2).contains("its credentials are not sufficient"));
    logs_in(&team, &host, "alice", "s3cret-key");
    team.json(&publish);
    team.json(&["pull", "shop/exact", "--from", &location]);
}

#[test]
fn a_token_service_on_the_registry_itself_gets_them_and_another_host_does_not() {
    if guests::folder_or_skip("a_token_service_on_the_registry_itself_gets_them_and_another_host_does_not").is_none() {
        return;
    }
    let (server, team) = (RegistryServer::start(), Team::new());
    logs_in(&team, &server.host(), "alice", "s3cret-key");
    server.want_bearer(&format!("http://{}/token", server.host()), "a-token");
    let output = publish(&team, &server);
    assert_eq!(output.status.code(), Some(0), "{}", super::said(&output));
    let asked = |seen: &super::registry_server::Seen| seen.path.starts_with("/token");
    let seen = server.seen();
    let token = seen.iter().find(|seen| asked(seen)).unwrap();
    assert!(token.path.contains("service=test") && token.path.contains("shop%2Fexact%3Apull"), "{}", token.path);
    assert!(token.authorization.as_ref().unwrap().starts_with("Basic "));
    // Another host.
    let thief = RegistryServer::start();
    server.want_bearer(&format!("http://{}/token", thief.host()), "a-token");
    let error = team.refused(&["pull", "shop/exact", "--from", &server.location()], 2);
    assert!(
        error.contains("asks for its credentials to be sent to") && error.contains("which is another host"),
        "{error}"
    );
    assert!(thief.seen().is_empty());
}

#[test]
fn a_redirect_to_another_host_carries_no_credentials() {
    if guests::folder_or_skip("a_redirect_to_another_host_carries_no_credentials").is_none() {
        return;
    }
    let (server, other, team) = (RegistryServer::start(), RegistryServer::start(), Team::new());
    logs_in(&team, &server.host(), "alice", "s3cret-key");
    server.want_basic("alice", "s3cret-key");
    assert_eq!(publish(&team, &server).status.code(), Some(0));
    let to = format!("http://{}/stolen", other.host());
    server.fault("/blobs/", Fault::Answer(307, vec![("location".to_owned(), to)], Vec::new()));
    team.refused(&["pull", "shop/exact", "--from", &server.location()], 2);
    let seen = other.seen();
    assert!(!seen.is_empty() && seen.iter().all(|seen| seen.authorization.is_none()), "{seen:?}");
}

#[test]
fn a_helper_of_docker_is_asked() {
    if guests::folder_or_skip("a_helper_of_docker_is_asked").is_none() {
        return;
    }
    let (server, team) = (RegistryServer::start(), Team::new());
    server.want_basic("bob", "from-helper");
    std::fs::create_dir_all(team.path("docker")).unwrap();
    let config = serde_json::json!({ "credHelpers": { server.host(): "test" } });
    std::fs::write(team.path("docker/config.json"), config.to_string()).unwrap();
    let helper = team.path("docker-credential-test");
    std::fs::write(&helper, "#!/bin/sh\ncat >/dev/null\necho '{\"Username\":\"bob\",\"Secret\":\"from-helper\"}'\n")
        .unwrap();
    std::fs::set_permissions(&helper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", team.path("").display(), std::env::var("PATH").unwrap());
    let folder = team.plugin("reward_exact", "reward", "exact", "1.0.0");
    let mut command = team.command(&["publish", &target(&server), &folder, "--despite-checks"]);
    let output = command.env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", super::said(&output));
}
