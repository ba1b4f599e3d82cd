//! The environment of a guest: virtual time, seeded randomness, no outside access, and granted services only.

use super::*;
use clawhost_core::{
    Digest, Llm, LlmIdentity, ModelError, ModelRequest, ModelResponse, Reward as _, Usage, Verdict, code,
};
use std::sync::Mutex;

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_of_sleep_takes_no_time() {
    let Some(folder) = folder("an_hour_of_sleep") else { return };
    let host = pooled();
    assert!(host.limits().step.deadline_ms < 3_600_000, "a step that slept for an hour would reach its deadline");
    let result = one_step(&host, &folder, "hostile_sleep", ModelGrants::default()).await.unwrap();
    assert_eq!(text(&result), "slept 3600 s");
}

/// Two steps of a guest: texts and rolling digests of its host calls.
async fn two_steps(host: &Host, folder: &Path, guest: &str, seed: u64) -> Vec<(String, Digest)> {
    let plugin = host.environment(guest, &guests::bytes(folder, guest), ModelGrants::default()).await.unwrap();
    let (mut live, _) = plugin.start(params(seed)).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let result = live.step(&action("look"), &[]).await.unwrap();
        seen.push((text(&result), live.host_calls()));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn time_and_randomness_follow_from_the_seed_and_there_is_no_outside() {
    let Some(folder) = folder("time_and_chance_follow_from_the_seed") else { return };
    let seen = two_steps(&pooled(), &folder, "odd_wasi", 7).await;
    assert!(seen[0].0.starts_with("time 1577836801."), "a second per turn: {}", seen[0].0);
    assert!(seen[1].0.starts_with("time 1577836802."), "a second per turn: {}", seen[1].0);
    assert!(seen[0].0.ends_with("arguments [] environment [] folders 0"), "{}", seen[0].0);
    assert_eq!(seen, two_steps(&pooled(), &folder, "odd_wasi", 7).await, "another host");
    let on_demand = host(Limits::default(), Allocation::OnDemand);
    assert_eq!(seen, two_steps(&on_demand, &folder, "odd_wasi", 7).await, "without a pool");
    assert_ne!(seen, two_steps(&pooled(), &folder, "odd_wasi", 8).await, "another seed");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_are_limited() {
    let Some(folder) = folder("random_bytes_are_limited") else { return };
    let failure = one_step(&pooled(), &folder, "odd_random", ModelGrants::default()).await.unwrap_err();
    assert_eq!(failure.code, code::TRAP, "{failure}");
}

/// A model that records its requests.
#[derive(Default)]
pub(crate) struct Judge(pub(crate) Mutex<Vec<ModelRequest>>);

#[async_trait::async_trait]
impl Llm for Judge {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "test".into(), model: "judge".into(), version: "1".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.0.lock().unwrap().push(request.clone());
        let message = Message::text(Role::Assistant, Origin::Policy, "four");
        Ok(ModelResponse::new(message, Usage::default(), "stop"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_are_denied_unless_granted() {
    let Some(folder) = folder("services_are_refused_by_name") else { return };
    let host = pooled();
    let denied = text(&one_step(&host, &folder, "odd_services", ModelGrants::default()).await.unwrap());
    assert!(denied.contains("clawhost:kv is not granted"), "{denied}");
    assert!(denied.contains("no model is granted as `judge`"), "{denied}");
    assert!(!denied.contains("--"), "a front end names its own options: {denied}");

    let judge = Arc::new(Judge::default());
    let mut grants = ModelGrants { kv: true, ..ModelGrants::default() };
    grants.models.insert("jury".into(), judge.clone());
    let other = text(&one_step(&host, &folder, "odd_services", grants.clone()).await.unwrap());
    assert!(other.contains("no model is granted as `judge`"), "another alias is no grant: {other}");
    assert!(judge.0.lock().unwrap().is_empty(), "nothing was sent");

    grants.models.insert("judge".into(), judge.clone());
    let bytes = guests::bytes(&folder, "odd_services");
    let plugin = host.environment("odd_services", &bytes, grants).await.unwrap();
    let (mut live, _) = plugin.start(params(1)).await.unwrap();
    let granted = text(&live.step(&action("50"), &[]).await.unwrap());
    assert_eq!(granted, "Ok(()) Ok(Some([53, 48])) Ok(\"four\")");
    let records = live.take_records();
    assert_eq!(records.notes.get("seen"), Some(&Some(b"50".to_vec())));
    assert_eq!(records.journal.len(), 1, "the answer is recorded");
    assert_eq!(records.journal[0].import, "llm");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_reads_the_record_and_the_reference() {
    let Some(folder) = folder("a_reward_reads_what_was_recorded") else { return };
    let host = pooled();
    let bytes = guests::bytes(&folder, "odd_reader");
    let reward = host.reward("odd_reader", &bytes, ModelGrants::default()).await.unwrap();
    let context = Context { seed: 1, options: vec![("strict".into(), "yes".into())] };
    let judged = Arc::new(Episode { reward: Some(0.5), ..(*recorded()).clone() });
    let verdicts = reward.score(&context, &[judged]).await.verdicts.unwrap();
    let Verdict::Scored(card) = &verdicts[0] else { panic!("{verdicts:?}") };
    for part in [
        "env-math task \"Calculate 2 + 2.\" reference Some(\"\\\"4\\\"\")",
        "turns [\"0 [\\\"Calculate 2 + 2.\\\"] -> \\\"4\\\"\"]",
        "closing [\"Noted.\"]",
        "ending Ending::Terminated",
        "reward None",
        "(\"strict\", \"yes\")",
    ] {
        assert!(card.rationale.contains(part), "{part} in {}", card.rationale);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_never_sees_its_reference() {
    let Some(folder) = folder("an_episode_never_sees_its_reference") else { return };
    let host = pooled();
    let bytes = guests::bytes(&folder, "env_math");
    let plugin = host.environment("env_math", &bytes, ModelGrants::default()).await.unwrap();
    let tasks = plugin.tasks(&Context::default(), "train", 0, 4).await.unwrap();
    assert!(tasks.iter().all(|task| task.reference.is_some()));
    // env-math would use a reference if it got one: the host removes it, and the opening contains only the question.
    let task = Task { reference: Some("\"canary-4711\"".into()), ..tasks[0].clone() };
    let (mut live, opening) = plugin.start(StartParams { task, ..params(1) }).await.unwrap();
    let result = live.step(&action("4"), &[]).await.unwrap();
    let shown = format!("{opening:?} {result:?} {:?}", live.take_records());
    assert!(!shown.contains("canary-4711"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_with_a_standard_library_sees_virtual_time() {
    let Some(folder) = folder("a_guest_with_a_standard_library") else { return };
    let without_clock = one_step(&pooled(), &folder, "odd_std", ModelGrants::default()).await.unwrap_err();
    assert_eq!(without_clock.code, code::UNREACHABLE, "{without_clock}");
    assert!(without_clock.message.contains("time not implemented"), "{without_clock}");

    let folder = folder.join("wasip2");
    if !folder.exists() {
        eprintln!("skipped the wasm32-wasip2 half: that target is not installed (rustup target add wasm32-wasip2)");
        return;
    }
    let host = pooled();
    let (result, log) = one_step_logged(&host, &folder, "odd_std", ModelGrants::default()).await;
    let said = text(&result.unwrap());
    assert!(said.starts_with("3600 s, "), "an hour passed for it: {said}");
    assert!(said.ends_with(", 0 files opened, made one: false"), "there is no file: {said}");
    assert_eq!(log, ["stdout: the policy says 50"]);
    let on_demand = super::host(Limits::default(), Allocation::OnDemand);
    let again = one_step(&on_demand, &folder, "odd_std", ModelGrants::default()).await.unwrap();
    assert_eq!(said, text(&again), "time and hash order repeat");
}
