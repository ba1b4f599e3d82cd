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

#[cfg(test)]
mod tests {
    use super::super::tests::session;
    use super::*;
    use clawhost_core::{Digest, Episode, ModelResponse, Origin, PlaybookRecord, TokenRecord, Turn, Usage};
    use clawhost_learn::policy::Generated;
    use std::sync::Arc;

    fn said(role: Role, text: &str) -> Message {
        Message::text(role, Origin::User, text)
    }

    fn record(prompt: &[u32], tokens: &[u32], shared: usize) -> TokenRecord {
        TokenRecord {
            version: 0,
            shared,
            prompt: prompt.to_vec(),
            tokens: tokens.to_vec(),
            logprob_model: vec![-0.5; tokens.len()],
            logprob_sampled: vec![-0.5; tokens.len()],
            temperature: 1.0,
            restricted: false,
            grammar: None,
        }
    }

    /// A session whose turns have observations, an answer, and results of tools.
    fn talked(system: Option<&str>, guidance: Option<&str>, turns: &[(&[Message], &str, &[Message])]) -> LiveSession {
        let tokens = Some(Box::new(record(&[1], &[2, 3], 0)));
        let answered =
            ModelResponse { tokens, ..ModelResponse::new(said(Role::Assistant, "a"), Usage::default(), "stop") };
        let mut session = session(0, answered, "combined");
        let mut episode: Episode = (*session.episode).clone();
        episode.policy.system_prompt = system.map(str::to_owned);
        let guided = |text: &str| -> PlaybookRecord {
            let digest = Digest::of(text.as_bytes()).to_string();
            serde_json::from_value(serde_json::json!({ "digest": digest, "text": text })).unwrap()
        };
        episode.policy.playbook = guidance.map(guided);
        let turn = episode.turns[0].clone();
        let one = |(number, (observed, answer, results)): (usize, &(&[Message], &str, &[Message]))| Turn {
            observation: observed.to_vec(),
            action: said(Role::Assistant, answer),
            tool_results: results.to_vec(),
            // Each turn has one token more than the one before.
            tokens: Some(Box::new(record(&[1], &vec![2; number + 1], 0))),
            ..turn.clone()
        };
        episode.turns = turns.iter().enumerate().map(one).collect();
        session.generated = Generated::of(&episode).unwrap();
        session.episode = Arc::new(episode);
        session
    }

    /// Each message with the texts of its parts, one after the other.
    fn shown(messages: &[Message]) -> Vec<(Role, String)> {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        messages.iter().map(|message| (message.role, message.parts.iter().map(text).collect())).collect()
    }

    #[test]
    fn a_conversation_has_the_system_prompt_with_the_guidance_behind_it_once() {
        let turns: &[(&[Message], &str, &[Message])] = &[(&[said(Role::User, "q")], "a", &[])];
        let check = |system: Option<&str>, guidance: Option<&str>, expect: Option<&str>| {
            let found = shown(&conversation(&talked(system, guidance, turns), 0));
            let system = expect.map(|text| (Role::System, text.to_owned()));
            let expect: Vec<_> = system.into_iter().chain([(Role::User, "q".to_owned())]).collect();
            assert_eq!(found, expect);
        };
        check(None, None, None);
        check(Some(""), Some(""), None);
        check(Some("Be brief."), None, Some("Be brief."));
        check(None, Some("Use metres."), Some("Use metres."));
        check(Some("Be brief."), Some("Use metres."), Some("Be brief.\n\nUse metres."));
    }

    /// Three turns, of which the second one reads what a tool said.
    fn with_a_tool() -> LiveSession {
        let result = said(Role::Tool, "result");
        let first = said(Role::User, "first");
        let last = said(Role::User, "last");
        talked(
            None,
            None,
            &[
                (std::slice::from_ref(&first), "call", std::slice::from_ref(&result)),
                (&[], "answer", &[]),
                (std::slice::from_ref(&last), "end", &[]),
            ],
        )
    }

    #[test]
    fn a_conversation_ends_before_the_answer_that_is_taught() {
        let session = with_a_tool();
        let texts = |turn| shown(&conversation(&session, turn)).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(0), ["first"]);
        assert_eq!(texts(1), ["first", "call", "result"]);
        assert_eq!(texts(2), ["first", "call", "result", "answer", "last"]);
    }

    #[test]
    fn a_hint_stands_at_the_end_of_the_last_message_of_the_user_also_before_results_of_tools() {
        let session = with_a_tool();
        let texts = |turn| shown(&hinted(conversation(&session, turn), "Be kind.").unwrap());
        let hint = "\n\nHint: Be kind.";
        assert_eq!(texts(0), [(Role::User, format!("first{hint}"))]);
        assert_eq!(
            texts(1),
            [
                (Role::User, format!("first{hint}")),
                (Role::Assistant, "call".to_owned()),
                (Role::Tool, "result".to_owned())
            ]
        );
        let third = texts(2);
        assert_eq!((third[0].1.as_str(), third[4].1.clone()), ("first", format!("last{hint}")));
        assert_eq!(hinted(vec![said(Role::System, "s"), said(Role::Tool, "t")], "h"), None, "nobody said anything");
    }

    #[test]
    fn the_tokens_of_each_turn_follow_those_of_the_turn_before() {
        assert_eq!(ranges(&with_a_tool()).collect::<Vec<_>>(), [0..1, 1..3, 3..6]);
    }
}
