//! Episodes like those of `env-guess` with its default options, played by the built-in model and scored by
//! `reward-signal`. Everything that differs between real episodes differs here: tasks, seeds, secrets, guesses, digests
//! of requests, tokens, fuel and times.

use clawhost_core::{
    Digest, EPISODE_FORMAT, Ending, Episode, EpisodeId, EpisodeOrigin, Grants, LlmIdentity, Message, Origin,
    PluginIdentity, PolicyRecord, Recorded, RewardRecord, RewardSource, Role, RunId, RunKind, RunRecord, Sampling,
    ScoreCard, Signal, Simulated, SpecDocument, StateId, Task, Turn, TurnTiming, Usage, Verdict, derive_seed,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tasks of the environment's training split.
const TASKS: u64 = 1_000;
/// Episodes of one task.
const GROUP: u64 = 4;

/// A pseudo-random stream from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = derive_seed(self.0, "benchmark", 0);
        self.0 % end.max(1)
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).unsigned_abs()).cast_signed()
    }
}

fn plugin(name: &str) -> PluginIdentity {
    PluginIdentity { name: name.into(), version: "0.1.0".into(), digest: Digest::of(name.as_bytes()) }
}

/// The run that the episodes belong to.
pub(crate) fn run(number: u64) -> RunRecord {
    RunRecord {
        labels: clawhost_core::RunLabels::default(),
        id: RunId(format!("run-2026010100000{}-{:04x}", number % 10, derive_seed(number, "run", 0) % 0x1_0000)),
        parent: None,
        kind: RunKind::Play,
        environment: "env-guess".into(),
        state_id: state_id(number),
        config: SpecDocument(serde_json::json!({"seed": number})),
        basis: serde_json::json!(number),
        planned: 0,
        created_at: 1_767_225_600_000,
    }
}

fn state_id(number: u64) -> StateId {
    let text = Digest::of(format!("state {number}").as_bytes()).to_string();
    serde_json::from_value(serde_json::Value::String(text)).unwrap()
}

/// The messages and turns of one episode.
struct Game {
    turns: Vec<Turn>,
    closing: Vec<Message>,
    signals: Vec<Signal>,
}

fn user(text: String) -> Message {
    Message::text(Role::User, Origin::Environment, text)
}

fn ask(low: i64, high: i64) -> String {
    format!("Reply with a whole number between {low} and {high}.")
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn play(chance: &mut Chance, secret: i64, policy_seed: u64) -> Game {
    let (mut low, mut high) = (0, 99);
    let mut pending = vec![user(format!("I picked a number. {}", ask(low, high)))];
    let mut request = Digest::of(&policy_seed.to_be_bytes());
    let mut read = 15;
    let mut turns = Vec::new();
    let mut signals: Vec<Signal>;
    loop {
        for message in &pending {
            request = request.extended(message.plain_text().as_bytes());
            read += words(&message.plain_text());
        }
        let guess = chance.between(low, high);
        let action = Message::text(Role::Assistant, Origin::Policy, guess.to_string());
        signals = vec![
            Signal { name: "guesses".into(), value: turns.len() as f64 + 1.0 },
            Signal { name: "distance".into(), value: guess.abs_diff(secret) as f64 },
        ];
        let said = match guess.cmp(&secret) {
            std::cmp::Ordering::Equal => format!("Correct: it was {secret}."),
            std::cmp::Ordering::Less => {
                low = guess + 1;
                format!("It is higher than {guess}. {}", ask(low, high))
            }
            std::cmp::Ordering::Greater => {
                high = guess - 1;
                format!("It is lower than {guess}. {}", ask(low, high))
            }
        };
        turns.push(Turn {
            observation: std::mem::replace(&mut pending, vec![user(said)]),
            request,
            action,
            finish: "stop".into(),
            tool_results: Vec::new(),
            signals: signals.clone(),
            usage: Usage { prompt_tokens: read, completion_tokens: 1, ..Usage::default() },
            tokens: None,
            answered_by: None,
            logprobs: Vec::new(),
            ignored: Vec::new(),
            others: Vec::new(),
            fuel: Some(28_000 + chance.below(9_000)),
            host_calls: Digest::of(b""),
            extra: Vec::new(),
            timing: TurnTiming { policy_us: 3 + chance.below(60), environment_us: 15 + chance.below(400) },
        });
        read += 1;
        if guess == secret {
            return Game { turns, closing: pending, signals };
        }
    }
}

fn verdict(seed: u64, index: u64) -> RewardRecord {
    let options = vec![("name".to_owned(), "distance".to_owned()), ("equals".to_owned(), "0".to_owned())];
    let card = ScoreCard { rationale: "distance is 0, wanted 0".into(), ..ScoreCard::plain(1.0) };
    RewardRecord {
        reward: plugin("reward-signal"),
        options_digest: Digest::of_json(&serde_json::json!(options)),
        options,
        judge: None,
        grants: Grants::default(),
        group_digest: None,
        seed: derive_seed(seed, "reward", index),
        source: RewardSource::Outcome,
        weight: 1.0,
        post_hoc: false,
        verdict: Verdict::Scored(card),
        later: None,
        log: Vec::new(),
        journal: Vec::new(),
    }
}

/// One episode of a run.
pub(crate) fn episode(run: &RunRecord, index: u64) -> Episode {
    let group = index / GROUP;
    let run_seed = run.digest().prefix_u64() >> 11;
    let seed = derive_seed(run_seed, "environment/train", group);
    let policy_seed = derive_seed(run_seed, "policy", index);
    let mut chance = Chance(policy_seed);
    let task = Task { tags: vec!["size-100".into()], ..Task::new("train", format!("train-{}", group % TASKS)) };
    let Game { turns, closing, signals } =
        play(&mut chance, (derive_seed(seed, "secret", 0) % 100).cast_signed(), policy_seed);
    let hint = "You play a guessing game. Answer every message with one whole number and nothing else.";
    Episode {
        format: EPISODE_FORMAT,
        id: EpisodeId::new(&run.digest(), index),
        run: run.id.clone(),
        index,
        task_hash: task.digest(),
        task,
        origin: EpisodeOrigin::Simulated(Simulated {
            group,
            environment: plugin("env-guess"),
            seed,
            options: Vec::new(),
            max_turns: 64,
            grants: Grants::default(),
            branch: None,
        }),
        expects: Vec::new(),
        state_id: run.state_id,
        policy: PolicyRecord {
            model: LlmIdentity { provider: "follower".into(), model: "follower".into(), version: "1".into() },
            seed: policy_seed,
            system_prompt: Some(hint.into()),
            sampling: Sampling::default(),
            playbook: None,
        },
        system_hint: Some(hint.into()),
        tools: Vec::new(),
        turns,
        closing,
        untaken: None,
        ending: Ending::Terminated,
        signals,
        artefacts: Vec::new(),
        verdicts: vec![verdict(seed, index)],
        reward: Some(1.0),
        log: Vec::new(),
        journal: Vec::new(),
        created_at: run.created_at + index / 6,
    }
}

/// The same in the form that a store accepts.
pub(crate) fn recorded(run: &RunRecord, index: u64) -> Recorded {
    Recorded { episode: Arc::new(episode(run, index)), notes: BTreeMap::new(), replaces_existing: false }
}
