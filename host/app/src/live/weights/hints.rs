//! What a model would have answered with a correction before the answer (on-policy distillation from hindsight hints).
//!
//! The teacher of an answer is the model itself, or another one with the same tokens, after the conversation with the correction at the end of the last
//! message of the user. Training reduces the reverse KL divergence of the model without the correction from this teacher, over the teacher's most likely
//! tokens and one bin with the rest. Answers without a correction have no such term.

use super::material::LiveSession;
use clawhost_core::{Message, ModelError, Part, Role, TaughtToken, Teacher};
use clawhost_learn::policy::HINT_TOP;
use clawhost_model::ChatModel;
use clawhost_model::generate::Generator;

/// What stands before a correction.
const LABEL: &str = "\n\nHint: ";
/// Most likely tokens that a teacher names at every position.
const LIKELY: u8 = HINT_TOP;

/// The conversation up to the answer of a turn, as the model read it: with the guidance of its session.
fn conversation(session: &LiveSession, turn: usize) -> Vec<Message> {
    let episode = &session.episode;
    let guidance = episode.policy.playbook.as_ref().map(|playbook| playbook.text.as_str()).unwrap_or_default();
    let system = [episode.policy.system_prompt.as_deref().unwrap_or_default(), guidance];
    let system = system.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(Message::text(Role::System, clawhost_core::Origin::User, system));
    }
    for (number, one) in episode.turns.iter().enumerate().take(turn + 1) {
        messages.extend(one.observation.iter().cloned());
        if number < turn {
            messages.push(one.action.clone());
            messages.extend(one.tool_results.iter().cloned());
        }
    }
    messages
}

/// The conversation with a hint at the end of the last message of the user. `None`: there is no such message.
fn hinted(mut messages: Vec<Message>, hint: &str) -> Option<Vec<Message>> {
    let last = messages.iter_mut().rev().find(|message| message.role == Role::User)?;
    last.parts.push(Part::Text(format!("{LABEL}{hint}")));
    Some(messages)
}

/// Tokens of turns: the turn, and the places of its tokens among all that the model sampled.
fn ranges(session: &LiveSession) -> impl Iterator<Item = std::ops::Range<usize>> {
    let ends = session.generated.turn_ends.clone();
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends).map(|(start, end)| start..end)
}

/// What a teacher says of the tokens that the model sampled, with the corrections of the session before them: nothing of turns without one. Empty: it
/// was asked about none.
///
/// # Errors
/// A conversation with its hint is longer than the model's context, or the teacher does not answer.
pub(super) async fn taught<G: Generator>(
    model: &ChatModel<G>,
    teacher: &dyn Teacher,
    session: &LiveSession,
) -> Result<Vec<TaughtToken>, ModelError> {
    let generated = &session.generated;
    let known = |logprob: &f32| TaughtToken { logprob: f64::from(*logprob).min(0.0), likely: Vec::new() };
    let mut all: Vec<TaughtToken> = generated.rollout.iter().map(known).collect();
    let vocabulary = model.engine().vocabulary();
    let mut is_taught = false;
    let last = session.episode.turns.len().saturating_sub(1);
    for (turn, range) in ranges(session).enumerate() {
        let own = |about: &Option<u32>| about.map_or(last, |about| about as usize) == turn;
        let hints: Vec<&str> =
            session.hints.iter().filter(|(about, _)| own(about)).map(|(_, text)| text.as_str()).collect();
        let Some(record) = session.episode.turns.get(turn).and_then(|turn| turn.tokens.as_ref()) else { continue };
        let Some(messages) = hinted(conversation(session, turn), &hints.join(" ")).filter(|_| !hints.is_empty()) else {
            continue;
        };
        let tokens = model.tokens_with_answer(&messages, &session.episode.tools, &record.tokens)?;
        let scored = teacher.teach(&tokens, generated.logprob_temperature(), LIKELY).await?;
        if scored.len() + 1 != tokens.len() {
            let (found, given) = (scored.len() + 1, tokens.len());
            return Err(ModelError::InvalidResponse(format!("the teacher scored {found} tokens of {given}")));
        }
        let answer = scored.into_iter().skip(tokens.len() - 1 - record.tokens.len());
        for (token, mut scored) in all.get_mut(range).unwrap_or_default().iter_mut().zip(answer) {
            // A teacher may be padded to more tokens: those count with the rest.
            scored.likely.retain(|(id, _)| (*id as usize) < vocabulary);
            *token = scored;
        }
        is_taught = true;
    }
    // Without a message of the user there is no place for a correction.
    Ok(if is_taught { all } else { Vec::new() })
}
