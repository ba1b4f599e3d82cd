//! `/compute_reward`: what the rewards of this gateway say about an answer, or about a captured trajectory. Nothing is recorded.

use super::body;
use super::native::reply;
use super::party::{caught_up, owner, read};
use crate::http::{Inner, Refusal, body_of, json, text_of};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use axum::routing::post;
use clawhost_capture::{Answer, ClientSession, EXCHANGE_FORMAT, Evidence, Exchange, Relation, assemble};
use clawhost_core::{
    Digest, Episode, EpisodeId, LiveSession, LlmIdentity, Message, ModelResponse, Origin, Role, RunId, Sampling, Usage,
    Verdict, escaped,
};
use clawhost_wire::{ErrorKind, openai};
use serde::Deserialize;
use serde_json::{Map, Value, json as value};
use std::pin::Pin;
use std::sync::Arc;

/// Judges an episode: adds verdicts, and the reward that follows from them.
pub type EpisodeJudge = Arc<dyn Fn(Episode) -> Pin<Box<dyn Future<Output = Arc<Episode>> + Send>> + Send + Sync>;

/// The name of what is judged and not recorded.
const UNRECORDED: &str = "unrecorded";
/// Bytes of the reason of a reward in an error.
const REASON_BYTES: usize = 500;
/// Fields of a data set that have a reference answer, the first one first.
const REFERENCES: [&str; 4] = ["/reward_model/ground_truth", "/ground_truth", "/reference", "/answer"];

pub(crate) fn routes() -> Router<Arc<Inner>> {
    Router::new().route("/compute_reward", post(compute)).route("/v1/compute_reward", post(compute))
}

#[derive(Deserialize)]
struct Question {
    #[serde(default)]
    prompt_ids: Vec<u32>,
    #[serde(default)]
    response_ids: Vec<u32>,
    /// The model whose tokens they are.
    #[serde(default)]
    model: Option<String>,
    /// The conversation as messages, in place of its tokens.
    #[serde(default)]
    messages: Vec<Value>,
    #[serde(default)]
    response: Option<Value>,
    /// A captured trajectory, in place of both.
    #[serde(default)]
    trajectory_uid: Option<String>,
    #[serde(default)]
    dataset_fields: Map<String, Value>,
}

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(ErrorKind::Unprocessable, why)
}

async fn compute(State(gateway): State<Arc<Inner>>, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let owner = owner(&gateway, &headers)?;
        let question: Question = body::parse(&bytes)?;
        let Some(judge) = gateway.judge.clone() else {
            return Err(Refusal::new(ErrorKind::Unavailable, "this gateway has no reward"));
        };
        let mut episode = match question.trajectory_uid.clone() {
            Some(id) => captured(&gateway, owner, id).await?,
            None => question.episode(&gateway, Digest::of(&bytes)).await?,
        };
        question.add_task(&mut episode);
        let episode = judge(episode).await;
        Ok(json(200, &judged(&episode)?))
    };
    reply(answer.await)
}

/// The episode of a captured trajectory.
async fn captured(gateway: &Arc<Inner>, owner: String, id: String) -> Result<Episode, Refusal> {
    caught_up(gateway).await?;
    let named = id.clone();
    let found = read(gateway, move |reader| match reader.trajectory(&owner, &named)?.map(|row| row.episode) {
        None => Ok(None),
        Some(None) => Ok(Some(None)),
        Some(Some((run, episode))) => Ok(Some(reader.episode(&format!("{run}/{episode}"))?)),
    });
    match found.await? {
        None => Err(Refusal::new(ErrorKind::NotFound, format!("there is no trajectory `{id}`"))),
        Some(None) => Err(Refusal::new(ErrorKind::Conflict, format!("the trajectory `{id}` has no episode yet"))),
        Some(Some(episode)) => Ok(episode),
    }
}

impl Question {
    /// An episode of one turn.
    async fn episode(&self, gateway: &Arc<Inner>, digest: Digest) -> Result<Episode, Refusal> {
        let (messages, response) = if self.response_ids.is_empty() {
            self.said()?
        } else {
            let model = self.model.as_deref();
            let prompt = text_of(gateway, model, &self.prompt_ids).await?;
            let answer = text_of(gateway, model, &self.response_ids).await?;
            let answer = Message::text(Role::Assistant, Origin::Policy, answer);
            let response = ModelResponse::new(answer, Usage::default(), "stop");
            (vec![Message::text(Role::User, Origin::User, prompt)], response)
        };
        let exchange = exchange(messages, response, digest);
        let limit = gateway.config.limits.episode_bytes;
        assemble(&[exchange], limit, gateway.now_ms()).map_err(|error| invalid(error.to_string()))
    }

    /// The messages of the question and the answer.
    fn said(&self) -> Result<(Vec<Message>, ModelResponse), Refusal> {
        let Some(response) = self.response.clone().filter(Value::is_object) else {
            return Err(invalid("response_ids, `response` as a message, or trajectory_uid must be there"));
        };
        let request = value!({"model": UNRECORDED, "messages": self.messages});
        let read = openai::read_request(&request.to_string(), 1).map_err(|error| invalid(error.to_string()))?;
        let body =
            value!({"model": UNRECORDED, "choices": [{"index": 0, "message": response, "finish_reason": "stop"}]});
        let answer = openai::response(&body.to_string()).map_err(|error| invalid(format!("response: {error}")))?;
        Ok((read.request.messages, answer))
    }

    /// Adds what the data set says of the task: its reference answer, which only rewards see, and all of its fields.
    fn add_task(&self, episode: &mut Episode) {
        if self.dataset_fields.is_empty() {
            return;
        }
        let fields = Value::Object(self.dataset_fields.clone());
        let reference = REFERENCES.iter().find_map(|place| fields.pointer(place));
        if let Some(reference) = reference {
            episode.task.reference = Some(reference.to_string());
        }
        episode.task.extra.push(("dataset_fields".to_owned(), fields.to_string()));
        episode.task_hash = episode.task.digest();
    }
}

fn exchange(messages: Vec<Message>, response: ModelResponse, request: Digest) -> Exchange {
    let system: Vec<String> =
        messages.iter().filter(|message| message.role == Role::System).map(Message::plain_text).collect();
    Exchange {
        format: EXCHANGE_FORMAT,
        run: RunId(UNRECORDED.to_owned()),
        episode: EpisodeId(UNRECORDED.to_owned()),
        index: 0,
        session: LiveSession::new(UNRECORDED, UNRECORDED, UNRECORDED),
        client: ClientSession::default(),
        position: 0,
        at: 0,
        relation: Relation::Opens,
        evidence: Evidence::Nothing,
        candidates: 1,
        parent: None,
        no_train: true,
        context_changed: false,
        dialect: UNRECORDED.to_owned(),
        system: Some(system.join("\n\n")),
        tools: None,
        messages: messages.into_iter().filter(|message| message.role != Role::System).collect(),
        request,
        model: LlmIdentity { provider: String::new(), model: UNRECORDED.to_owned(), version: String::new() },
        sampling: Sampling::default(),
        policy_version: None,
        answer: Answer::Complete(Box::new(response)),
        response_id: None,
        answered_us: 0,
        first_us: None,
        marks: None,
        redacted: None,
        cut: 0,
        routed: None,
        guided: None,
    }
}

/// The answer for a judged episode.
fn judged(episode: &Episode) -> Result<Value, Refusal> {
    let verdicts: Vec<Value> = episode
        .verdicts
        .iter()
        .map(|record| value!({"reward": record.reward.name, "source": record.source.name(), "verdict": record.verdict}))
        .collect();
    match episode.reward {
        Some(reward) => Ok(value!({"reward_score": reward, "reward_extra_info": {"verdicts": verdicts}})),
        // A reward that failed or does not apply is no reward of 0.
        None => {
            let failed = episode.verdicts.iter().find_map(|record| match &record.verdict {
                Verdict::Failed(failure) => Some(format!("{} failed: {failure}", record.reward.name)),
                Verdict::Scored(_) | Verdict::NotApplicable(_) => None,
            });
            match failed {
                Some(why) => Err(Refusal::new(ErrorKind::Internal, why)),
                None => Err(invalid(none_applies(episode))),
            }
        }
    }
}

/// Why no reward applies, in the words of each.
fn none_applies(episode: &Episode) -> String {
    let why = episode.verdicts.iter().filter_map(|record| match &record.verdict {
        Verdict::NotApplicable(why) => Some(format!("{}: {}", record.reward.name, escaped(why, REASON_BYTES))),
        Verdict::Scored(_) | Verdict::Failed(_) => None,
    });
    let why: Vec<String> = why.collect();
    let all = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
    format!("no reward applies to this answer{all}")
}
