//! `clawhost collect`: a command for every task, each captured as a trajectory of its own.

use super::*;
use crate::client::request;
use crate::serving::Served;

/// A model that names the request by its number.
fn model() -> stub::Stub {
    stub::Stub::start(|_, request| stub::says(request, "50", &[]))
}

/// Plays one turn of a game with the model at the base URL, as an agent would, unless the task says that it fails; then prints a reward.
const AGENT: &str = r#"read task
case "$task" in *fails*) echo "cannot solve it" >&2; exit 3;; *idle*) exit 0;; esac
"$0" run "$1" --policy "openai:m@$OPENAI_BASE_URL" --episodes 1 --max-turns 1 --data "$2/$CLAWHOST_TASK_ID-$CLAWHOST_MEMBER" >/dev/null || exit 4
echo "{\"reward\": 0.$CLAWHOST_MEMBER}""#;

fn tasks(bench: &Bench, text: &str) -> String {
    let path = bench.data.path().join("tasks.jsonl");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The trajectories of the pool as the admin sees them.
fn trajectories(bench: &Bench, served: &Served) -> Vec<Value> {
    let key = std::fs::read_to_string(bench.data.path().join("admin.key")).unwrap();
    let bearer = format!("Bearer {}", key.trim());
    let answer = request("GET", &served.address, "/v1/trajectories", &[("authorization", &bearer)], b"").answer();
    answer.json()["data"].as_array().unwrap().clone()
}

#[test]
fn every_task_is_collected_once_and_failures_teach_nothing() {
    let Some(bench) = Bench::new("every_task_is_collected_once") else { return };
    let stub = model();
    let served = Served::start(&bench, &[&format!("m=openai:stub@{}", stub.base_url())]);
    let file = tasks(&bench, "{\"id\": \"a\"}\n{\"id\": \"b\", \"fails\": true}\n{\"id\": \"c\", \"idle\": true}\n");
    let scratch = tempfile::tempdir().unwrap();
    let (program, guest, folder) =
        (env!("CARGO_BIN_EXE_clawhost"), bench.guest("hello_guess"), scratch.path().display().to_string());
    let call = ["collect", &file, "--members", "2", "--json", "--", "sh", "-c", AGENT, program, &guest, &folder];
    let output = bench.run(&call);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = |report: &Value| {
        ["tasks", "completed", "failed", "skipped"].map(|name| report["collected"][name].as_u64().unwrap())
    };
    assert_eq!(counts(&report), [3, 2, 4, 0], "{report}");
    assert!((report["collected"]["reward_mean"].as_f64().unwrap() - 0.15).abs() < 1e-9, "{report}");
    assert!(stderr(&output).contains("tasks-b-1: failed: exit status: 3: cannot solve it"), "{}", stderr(&output));
    assert!(stderr(&output).contains("the command asked no model"), "{}", stderr(&output));

    let found = trajectories(&bench, &served);
    let shown = |row: &Value| {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        (text("id"), text("group"), text("state"), row["trainable"].as_bool().unwrap(), row["reward"].as_f64())
    };
    let mut shown: Vec<_> = found.iter().map(shown).collect();
    shown.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(shown[0], ("tasks-a-1".into(), "tasks-a".into(), "complete".into(), true, Some(0.1)));
    assert_eq!(shown[1], ("tasks-a-2".into(), "tasks-a".into(), "complete".into(), true, Some(0.2)));
    assert!(shown[2..].iter().all(|row| !row.3 && row.4.is_none()), "{shown:?}");

    let again = bench.run(&call);
    let report: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(counts(&report), [3, 0, 4, 2], "what was collected stays, what failed is tried again: {report}");
}

#[test]
fn a_collection_needs_a_gateway_and_where_that_has_keys_a_key() {
    let Some(bench) = Bench::new("a_collection_needs_a_gateway") else { return };
    let file = tasks(&bench, "{}\n");
    bench.refused(&["collect", &file, "--", "true"], &["no gateway runs in this data folder", "clawhost start"]);
    let wrong = tasks(&bench, "{}\n[1]\n");
    bench.refused(&["collect", &wrong, "--", "true"], &["line 2: a task must be a JSON object"]);
    tasks(&bench, "{}\n");
    bench.out(&["keys", "add", "ci"]);
    let stub = model();
    let _served = Served::start(&bench, &[&format!("m=openai:stub@{}", stub.base_url())]);
    bench.refused(&["collect", &file, "--name", "a/b", "--", "true"], &["`a/b` cannot name a collection"]);
    bench.refused(&["collect", &file, "--", "true"], &["the gateway has keys of clients; set CLAWHOST_KEY"]);
    let output = bench.command(&["collect", &file, "--", "true"]).env("CLAWHOST_KEY", "ch-of-nobody-at-all").output();
    let output = output.unwrap();
    assert!(stderr(&output).contains("the gateway refuses with status 401"), "{}", stderr(&output));
}
