//! A crowd of users with hidden preferences, who talk to a gateway as any client does.

use super::halted::Part;
use super::live::Satisfaction;
use crate::AppError;
use clawhost_providers::GatewayClient;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;

/// What people ask about, and the ways in which it can be answered.
const TOPICS: [(&str, [&str; 3]); 4] = [
    ("distance", ["in kilometres", "in miles", "in metres"]),
    ("temperature", ["in Celsius", "in Fahrenheit", "in kelvins"]),
    ("price", ["in euros", "in dollars", "in francs"]),
    ("date", ["with the year first", "with the day first", "with the month first"]),
];
/// The share of users who want what most want.
const MAJORITY: f64 = 0.85;
/// The share of sessions of the crowd about which somebody gives a thumb.
const THUMBS: f64 = 0.5;
/// The share of bad sessions with a thumb that are corrected, too.
const CORRECTIONS: f64 = 0.2;
/// The share of shuffled thumbs that are up where nothing was good so far.
const LEAST_PLEASED: f64 = 0.3;
/// Users of the crowd.
const USERS: usize = 150;
/// Held-out users. Their satisfaction is measured before and after; they give no feedback.
const HELD_OUT: usize = 60;
/// Sessions at a time.
const AT_ONCE: usize = 8;
/// Most bytes of an answer of the gateway.
const ANSWER_BYTES: usize = 1 << 20;

/// Bits of a derived seed.
const SEED_BITS: u32 = 53;

/// Numbers from a seed.
#[derive(Debug, Clone)]
pub(super) struct Chance {
    seed: u64,
    purpose: &'static str,
    /// Numbers so far.
    drawn: u64,
}

impl Chance {
    /// From a seed, for one purpose.
    pub(super) fn new(seed: u64, purpose: &'static str) -> Self {
        Self { seed, purpose, drawn: 0 }
    }

    /// A number of 53 bits.
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        clawhost_core::derive_seed(self.seed, self.purpose, self.drawn)
    }

    fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> SEED_BITS) as usize
    }

    fn happens(&mut self, probability: f64) -> bool {
        (self.next() as f64 / (1_u64 << SEED_BITS) as f64) < probability
    }
}

/// The users, and what each wants for every topic: the number of a way.
#[derive(Debug, Clone)]
struct Users(Vec<[usize; TOPICS.len()]>);

impl Users {
    fn new(count: usize, most: [usize; TOPICS.len()], chance: &mut Chance) -> Self {
        let mut wants = |topic: usize| {
            let usual = most.get(topic).copied().unwrap_or_default();
            if chance.happens(MAJORITY) { usual } else { (usual + 1 + chance.below(2)) % 3 }
        };
        Self((0..count).map(|_| std::array::from_fn(&mut wants)).collect())
    }

    fn wants(&self, user: usize, topic: usize) -> &'static str {
        let way = self.0.get(user).and_then(|wants| wants.get(topic)).copied().unwrap_or_default();
        TOPICS.get(topic).and_then(|(_, ways)| ways.get(way)).copied().unwrap_or_default()
    }
}

fn name(topic: usize) -> &'static str {
    TOPICS.get(topic).map(|(name, _)| *name).unwrap_or_default()
}

/// A crowd in front of a gateway.
pub(super) struct Crowd {
    client: Arc<GatewayClient>,
    crowd: Users,
    held_out: Users,
    chance: Chance,
    /// Whether thumbs and corrections are those of other sessions.
    shuffled: bool,
    sessions: usize,
    /// Sessions of the crowd that were as wanted.
    good: usize,
    requests: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

/// A session that is to be held.
struct Planned {
    session: String,
    user: String,
    topic: usize,
    wanted: &'static str,
    /// The feedback of its user. `None`: the user is held out, and the session is kept out of learning.
    feedback: Option<Feedback>,
}

/// What a user says of a session.
struct Feedback {
    /// Whether there is a thumb.
    thumb: bool,
    /// The thumb, whatever the answer was.
    shuffled: Option<bool>,
    /// The correction of an answer that is not as wanted.
    correction: Option<String>,
}

/// How a session went.
struct Held {
    good: bool,
    /// The statuses of its requests.
    statuses: Vec<u16>,
}

/// Holds a session of one question, with what its user says of the answer.
async fn hold(client: &GatewayClient, planned: &Planned) -> Result<Held, AppError> {
    let session = planned.session.as_str();
    let mut headers = vec![("x-clawhost-session", session), ("x-clawhost-user", planned.user.as_str())];
    if planned.feedback.is_none() {
        headers.push(("x-no-train", "1"));
    }
    let send = async |path: &str, body: &Value| {
        client.send_with(&headers, ("POST", path, Some(body)), ANSWER_BYTES).await.map_err(failed)
    };
    let question = format!("topic: {}\nHow do you put it?", name(planned.topic));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": question}]});
    let (status, bytes) = send("/v1/chat/completions", &body).await?;
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let good = text("/choices/0/message/content") == planned.wanted;
    let mut statuses = vec![status];
    if let Some(Feedback { thumb: true, shuffled, correction }) = &planned.feedback {
        let pleased = shuffled.unwrap_or(good);
        let thumb = if pleased { "up" } else { "down" };
        let correction = correction.as_ref().filter(|_| !pleased);
        let feedback = json!({"response_id": text("/id"), "thumb": thumb, "correction": correction});
        statuses.push(send("/v1/feedback", &feedback).await?.0);
    }
    statuses.push(send(&format!("/s/{session}/end"), &json!({})).await?.0);
    Ok(Held { good, statuses })
}

fn failed(error: impl std::fmt::Display) -> AppError {
    AppError::Host(format!("the gateway of the demonstration: {error}"))
}

impl Crowd {
    /// A crowd with the preferences of a seed.
    pub(super) fn new(client: GatewayClient, seed: u64, shuffled: bool) -> Self {
        let mut chance = Chance::new(seed, "preferences");
        let most = std::array::from_fn(|_| chance.below(3));
        let (crowd, held_out) = (Users::new(USERS, most, &mut chance), Users::new(HELD_OUT, most, &mut chance));
        Self {
            client: Arc::new(client),
            crowd,
            held_out,
            chance: Chance::new(seed, "traffic"),
            shuffled,
            sessions: 0,
            good: 0,
            requests: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Requests so far, and those that were refused.
    pub(super) fn requests(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// Holds sessions. Returns whether each was good, in their order.
    async fn hold(&mut self, planned: Vec<Planned>) -> Part<Vec<bool>> {
        let mut good = vec![false; planned.len()];
        let (mut waiting, mut running) = (planned.into_iter().enumerate(), JoinSet::new());
        loop {
            while running.len() < AT_ONCE
                && let Some((place, planned)) = waiting.next()
            {
                let client = self.client.clone();
                running.spawn(async move { (place, hold(&client, &planned).await) });
            }
            let Some(joined) = running.join_next().await else { return Ok(good) };
            let (place, held) = joined.map_err(failed)?;
            let held = held?;
            for status in held.statuses {
                self.requests.fetch_add(1, Ordering::Relaxed);
                self.refused.fetch_add(u64::from(!(200..300).contains(&status)), Ordering::Relaxed);
            }
            good.get_mut(place).into_iter().for_each(|good| *good = held.good);
        }
    }

    /// Sessions of the crowd, with their feedback.
    pub(super) async fn round(&mut self, sessions: usize) -> Part<()> {
        let planned = (0..sessions).map(|_| self.planned()).collect();
        let good = self.hold(planned).await?;
        self.good += good.into_iter().filter(|good| *good).count();
        Ok(())
    }

    fn planned(&mut self) -> Planned {
        let (user, topic) = (self.chance.below(USERS), self.chance.below(TOPICS.len()));
        let wanted = self.crowd.wants(user, topic);
        let pleased = self.good as f64 / self.sessions.max(1) as f64;
        let shuffled = self.shuffled.then(|| self.chance.happens(pleased.max(LEAST_PLEASED)));
        let corrects = self.chance.happens(CORRECTIONS);
        let correction = self.correction(topic, wanted);
        let thumb = self.chance.happens(THUMBS);
        let feedback = Some(Feedback { thumb, shuffled, correction: corrects.then_some(correction) });
        self.sessions += 1;
        let session = format!("crowd-{}", self.sessions);
        Planned { session, user: format!("user-{user}"), topic, wanted, feedback }
    }

    /// What a user says an answer should have been; of shuffled feedback, about something else.
    fn correction(&mut self, topic: usize, wanted: &str) -> String {
        if !self.shuffled {
            return format!("when topic is {}: answer {wanted}", name(topic));
        }
        let other = (topic + 1 + self.chance.below(TOPICS.len() - 1)) % TOPICS.len();
        format!("when topic is {}: answer {wanted}", name(other))
    }

    /// How many of the answers to held-out users are as they want them. `when` tells the sessions apart.
    pub(super) async fn held_out(&mut self, when: &str) -> Part<Satisfaction> {
        let asked = (0..HELD_OUT).flat_map(|user| (0..TOPICS.len()).map(move |topic| (user, topic)));
        let asked: Vec<(usize, usize)> = asked.collect();
        let planned = asked.iter().map(|(user, topic)| Planned {
            session: format!("{when}-{user}-{topic}"),
            user: format!("held-out-{user}"),
            topic: *topic,
            wanted: self.held_out.wants(*user, *topic),
            feedback: None,
        });
        let planned = planned.collect();
        let good = self.hold(planned).await?;
        let mut by_user = vec![0.0; HELD_OUT];
        for ((user, _), good) in asked.into_iter().zip(good) {
            if let Some(share) = by_user.get_mut(user).filter(|_| good) {
                *share += 1.0 / TOPICS.len() as f64;
            }
        }
        Ok(Satisfaction::of(&by_user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly() {
        let mut chance = Chance::new(1, "test");
        let mut counts = [0_u32; 10];
        (0..10_000).for_each(|_| counts[chance.below(10)] += 1);
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        for probability in [0.05, 0.5, 0.95] {
            let share = (0..10_000).filter(|_| chance.happens(probability)).count() as f64 / 10_000.0;
            assert!((share - probability).abs() < 0.02, "{share} of {probability}");
        }
    }
}
