//! Misuse of granted services: models and notes. Quotas hold, usage is exact, and rejected requests are never sent.

use super::*;
use clawhost_core::{FailureKind, code};
use world::Judge;

/// The guest's result or the end of its step, with what was sent to the model and written.
struct Seen {
    said: Result<String, Failure>,
    sent: usize,
    journal: usize,
    notes: usize,
}

async fn act(host: &Host, folder: &Path, guest: &str, attack: &str) -> Seen {
    let judge = Arc::new(Judge::default());
    let mut grants = ModelGrants { kv: true, ..ModelGrants::default() };
    grants.models.insert("judge".into(), judge.clone());
    let plugin = host.environment(guest, &guests::bytes(folder, guest), grants).await.unwrap();
    let (mut live, _) = plugin.start(params(7)).await.unwrap();
    let said = live.step(&action(attack), &[]).await.map(|result| text(&result));
    let records = live.take_records();
    Seen { said, sent: judge.0.lock().unwrap().len(), journal: records.journal.len(), notes: records.notes.len() }
}

/// How an attack ends: with an error for the guest, or the end of its step.
enum End {
    Told(&'static str),
    Over(&'static str),
}
use End::{Over, Told};

impl Seen {
    fn check(&self, attack: &str, end: &End) {
        match (end, &self.said) {
            (Told(words), Ok(said)) => assert!(said.contains(words), "{attack}: {said}"),
            (Over(code), Err(failure)) => {
                assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Limit, *code), "{attack}: {failure}");
            }
            (_, said) => panic!("{attack}: {said:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_request_is_never_sent() {
    let Some(folder) = folder("a_request_that_is_refused") else { return };
    let host = pooled();
    for (attack, end) in [
        ("another alias", Told("denied: no model is granted as `../judge`")),
        ("a hidden alias", Told("denied: no model is granted as `\\u{202e}egduj\\u{1b}[2J`")),
        ("NaN", Told("invalid-request: temperature must be between 0 and 2")),
        ("infinite", Told("invalid-request: temperature must be between 0 and 2")),
        ("negative", Told("invalid-request: temperature must be between 0 and 2")),
        ("no tokens", Told("invalid-request: max-tokens must be at least 1")),
        ("no message", Told("invalid-request: a request has at least one message")),
        ("17 stops", Told("invalid-request: a request has at least one message, at most 16 stop texts")),
        ("129 tools", Told("invalid-request: a request has at least one message, at most 16 stop texts and 128 tools")),
        ("100000 tools", Over(code::TRANSFER)),
        ("a prompt of 1 MiB", Told("invalid-request: the messages are longer than 1 MiB")),
        ("a prompt of 10 MiB", Over(code::TRANSFER)),
        ("a batch of 65", Told("invalid-request: a batch has at most 64 requests")),
        ("a batch of 10000", Over(code::TRANSFER)),
    ] {
        let seen = act(&host, &folder, "hostile_llm", attack).await;
        seen.check(attack, &end);
        assert_eq!((seen.sent, seen.journal), (0, 0), "{attack}: nothing was sent");
    }
    next_episode_works(&host, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_model_calls_is_exact_and_every_answer_is_recorded() {
    let Some(folder) = folder("the_budget_of_model_calls") else { return };
    let host = pooled();
    for (attack, says) in [
        ("a plain question", "four"),
        ("1000 calls", "256 answered, 744 refused, budget-exhausted: more than 256 model calls by one instance"),
        (
            "5 batches of 64",
            "64 answered; 64 answered; 64 answered; 64 answered; 0 answered, budget-exhausted: more than 256 model calls",
        ),
    ] {
        let seen = act(&host, &folder, "hostile_llm", attack).await;
        seen.check(attack, &Told(says));
        let asked = if attack == "a plain question" { 1 } else { 256 };
        assert_eq!((seen.sent, seen.journal), (asked, asked), "{attack}: what was sent was answered, and is kept");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_are_limited_and_their_keys_are_not_paths() {
    let Some(folder) = folder("notes_stay_within_their_quota") else { return };
    let host = pooled();
    let rule = "a key has 1 to 256 bytes and no control characters";
    for (attack, end, notes) in [
        ("a million keys", Over(code::HOST_CALLS), 1000),
        (
            "keys until it is full",
            Told("Some((1000, \"notes are limited to 1000 keys and 1048576 bytes\")), 1000 keys"),
            1000,
        ),
        ("a value of 32 MiB", Over(code::TRANSFER), 0),
        ("a value of 1 MiB", Told("Err(\"notes are limited to 1000 keys and 1048576 bytes\")"), 0),
        // Keys are not resolved as paths.
        ("names of files", Told("%2e%2e/x .. ../../etc/passwd /etc/passwd C:\\CON hostile-kv/../other"), 6),
        ("names that are none", Told(rule), 0),
        // Notes of earlier episodes are not visible.
        ("look", Told("[]"), 0),
    ] {
        let seen = act(&host, &folder, "hostile_kv", attack).await;
        seen.check(attack, &end);
        assert_eq!(seen.notes, notes, "{attack}");
        if attack == "names that are none" {
            assert_eq!(seen.said.unwrap().matches(rule).count(), 5);
        }
    }
    next_episode_works(&host, &folder).await;
}
