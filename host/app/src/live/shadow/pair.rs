//! Makes two requests of a session: the first one that its client sent, with a lesson on trial and without it.
//!
//! Sessions are used for which the lesson was drawn and not shown: what they got is the request without it, word for word, and the other one has the lesson
//! where it would have stood. Both are asked anew: an answer that was given earlier may be of other weights, so that a difference would not be the
//! lesson's.

use super::section::ShadowPlan;
use clawhost_core::{Episode, LlmIdentity, Message, ModelRequest, Origin, Part, Role};
use clawhost_learn::guidance::with_lesson;
use clawhost_learn::{Entry, EntryId};
use clawhost_wire::guidance::guide_request;

/// Most bytes of a conversation with its tools: a judge reads it, and a longer one costs more than it tells.
const REQUEST_BYTES: usize = 64 << 10;
/// Most tokens of an answer. A request that allows more is asked for so many, in both arms.
const ANSWER_TOKENS: u32 = 2_048;
/// What stands in a record in the place of something that was redacted: the request of the client had something else.
const REDACTED: &str = "[redacted:";

/// Two requests that differ by a lesson.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// The lesson.
    pub(super) entry: EntryId,
    /// The model that answered the session.
    pub(super) model: LlmIdentity,
    pub(super) with: ModelRequest,
    pub(super) without: ModelRequest,
}

/// Why a session gets no shadow answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skipped {
    /// It is no conversation of an agent of its own, or its client keeps it out of learning.
    Withheld,
    /// Its scope is not named.
    Scope,
    /// It was not completed.
    Incomplete,
    /// No lesson on trial was held out in it.
    NothingDrawn,
    /// A part of it is missing in the record, because it was a secret.
    Redacted,
    /// It has something else than text.
    NotText,
    /// It is too long.
    TooLong,
}

/// The two requests of a session of the client with this key.
pub(super) fn pair(episode: &Episode, owner: &str, plan: &ShadowPlan, trials: &[Entry]) -> Result<Pair, Skipped> {
    let session = episode.origin.session().filter(|_| episode.origin.withheld().is_none()).ok_or(Skipped::Withheld)?;
    if !plan.scopes.has(owner, session) {
        return Err(Skipped::Scope);
    }
    let first = episode.turns.first().filter(|_| episode.ending.is_complete()).ok_or(Skipped::Incomplete)?;
    let playbook = episode.policy.playbook.as_ref().ok_or(Skipped::NothingDrawn)?;
    let held_out = playbook.drawn.iter().filter(|drawn| !drawn.shown);
    let mut tried = held_out.filter_map(|drawn| trials.iter().find(|entry| entry.id.0 == drawn.entry));
    let entry = tried.next().ok_or(Skipped::NothingDrawn)?;
    let system =
        episode.policy.system_prompt.as_ref().map(|text| Message::text(Role::System, Origin::User, text.clone()));
    let messages: Vec<Message> = system.into_iter().chain(first.observation.iter().cloned()).collect();
    if messages.iter().flat_map(|message| &message.parts).any(|part| !matches!(part, Part::Text(_))) {
        return Err(Skipped::NotText);
    }
    let mut texts = messages.iter().flat_map(|message| {
        let calls = message.tool_calls.iter().map(|call| call.arguments.clone());
        std::iter::once(message.plain_text()).chain(calls)
    });
    if texts.any(|text| text.contains(REDACTED)) || playbook.text.contains(REDACTED) {
        return Err(Skipped::Redacted);
    }
    let sampling = episode.policy.sampling;
    let guided = |guidance: &str| {
        let mut messages = messages.clone();
        if !guidance.is_empty() {
            guide_request(&mut messages, guidance);
        }
        ModelRequest {
            messages,
            tools: episode.tools.clone(),
            max_tokens: sampling.max_tokens.clamp(1, ANSWER_TOKENS),
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            ..ModelRequest::default()
        }
    };
    let (with, without) = (guided(&with_lesson(&playbook.text, &entry.lesson)), guided(&playbook.text));
    if with.bytes() > REQUEST_BYTES {
        return Err(Skipped::TooLong);
    }
    Ok(Pair { entry: entry.id.clone(), model: episode.policy.model.clone(), with, without })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::live::shadow::ShadowSection;
    use clawhost_core::{
        Blob, Digest, Drawn, Ending, EpisodeOrigin, Failure, FailureKind, Live, LiveSession, PlaybookRecord, Sampling,
        ToolSpec, Withheld, code,
    };
    use clawhost_learn::Lesson;

    pub(in crate::live::shadow) fn plan(change: impl FnOnce(&mut ShadowSection)) -> ShadowPlan {
        let mut section = ShadowSection {
            budget_tokens: Some(100_000),
            judge: Some("judge".into()),
            upstreams: vec!["m".into()],
            scopes: vec!["key:shop".into()],
            ..ShadowSection::default()
        };
        change(&mut section);
        section.plan().unwrap().unwrap()
    }

    pub(in crate::live::shadow) fn lesson() -> Entry {
        Entry::new(Lesson::read("Answer in German."), "stated")
    }

    /// A session in which a lesson on trial was drawn.
    pub(in crate::live::shadow) fn episode(entry: &Entry, shown: bool) -> Episode {
        let golden = include_str!("../../../../../tests/golden/episode-2.json");
        let mut episode: Episode = serde_json::from_str(golden).unwrap();
        episode.origin = EpisodeOrigin::live(LiveSession::new("s", "codex", "m"));
        episode.policy.model = LlmIdentity { provider: "openai".into(), model: "big".into(), version: "here".into() };
        episode.policy.system_prompt = Some("You help.".into());
        episode.policy.sampling = Sampling { temperature: Some(0.5), top_p: None, max_tokens: 100_000 };
        let drawn = vec![Drawn { entry: entry.id.0.clone(), shown, propensity: Some(0.5) }];
        let (digest, text) = (Digest::of(b""), "Guidance.\n\nLessons from experience:\n- Be kind.".to_owned());
        let playbook = PlaybookRecord { digest, text, shown: Vec::new(), drawn, retrieval: None, propensity: 1.0 };
        episode.policy.playbook = Some(playbook);
        episode.tools = vec![ToolSpec {
            name: "look".into(),
            description: String::new(),
            input_schema: "{}".into(),
            extra: Vec::new(),
        }];
        episode.turns.truncate(1);
        episode.turns[0].observation = vec![Message::text(Role::User, Origin::User, "How far is Bern?")];
        episode.ending = Ending::Terminated;
        episode
    }

    #[test]
    fn the_two_requests_of_a_session_differ_by_the_lesson() {
        let entry = lesson();
        let pair = pair(&episode(&entry, false), "shop", &plan(|_| ()), std::slice::from_ref(&entry)).unwrap();
        let said = |request: &ModelRequest| request.messages.iter().map(Message::plain_text).collect::<Vec<_>>();
        let system = "You help.\n\nGuidance.\n\nLessons from experience:\n- Be kind.";
        assert_eq!(said(&pair.without), [system, "How far is Bern?"]);
        assert_eq!(said(&pair.with), [format!("{system}\n- Answer in German.").as_str(), "How far is Bern?"]);
        let without = ModelRequest { messages: pair.with.messages.clone(), ..pair.without.clone() };
        assert_eq!(without, pair.with, "nothing else differs");
        assert_eq!((pair.with.tools.len(), pair.with.max_tokens, pair.with.temperature), (1, ANSWER_TOKENS, Some(0.5)));
        assert_eq!((pair.entry, pair.model.model.as_str()), (entry.id, "big"));
    }

    #[test]
    fn sessions_that_may_not_or_cannot_be_used_are_skipped() {
        let entry = lesson();
        let all = plan(|_| ());
        let check = |change: &dyn Fn(&mut Episode), expect: Skipped| {
            let mut episode = episode(&entry, false);
            change(&mut episode);
            assert_eq!(pair(&episode, "shop", &all, std::slice::from_ref(&entry)), Err(expect), "{expect:?}");
        };
        for why in
            [Withheld::NoTrain, Withheld::Redacted, Withheld::SideTurn, Withheld::Repetition, Withheld::Ambiguous]
        {
            let live = LiveSession::new("s", "codex", "m");
            let origin = EpisodeOrigin::Live(Live { live, withheld: Some(why) });
            check(&|episode| episode.origin = origin.clone(), Skipped::Withheld);
        }
        let failed = Failure::new(FailureKind::Llm, code::UNAVAILABLE, "out of order");
        check(&|episode| episode.ending = Ending::Failed(failed.clone()), Skipped::Incomplete);
        check(&|episode| episode.turns.clear(), Skipped::Incomplete);
        check(&|episode| episode.policy.playbook = None, Skipped::NothingDrawn);
        check(&|episode| episode.policy.playbook.as_mut().unwrap().drawn[0].shown = true, Skipped::NothingDrawn);
        check(
            &|episode| episode.policy.playbook.as_mut().unwrap().drawn[0].entry = "other".into(),
            Skipped::NothingDrawn,
        );
        let part = |part: Part| move |episode: &mut Episode| episode.turns[0].observation[0].parts.push(part.clone());
        let image = Blob { digest: "sha256:0".into(), media_type: "image/png".into(), size: 1 };
        check(&part(Part::Blob(image)), Skipped::NotText);
        check(&part(Part::Other("{\"openai\":{\"type\":\"input_audio\"}}".into())), Skipped::NotText);
        check(&part(Part::Text("my key is [redacted:key]".into())), Skipped::Redacted);
        check(&|episode| episode.policy.system_prompt = Some("[redacted:email]".into()), Skipped::Redacted);
        check(&part(Part::Text("x".repeat(REQUEST_BYTES))), Skipped::TooLong);
        let own = episode(&entry, false);
        assert_eq!(pair(&own, "other", &all, std::slice::from_ref(&entry)), Err(Skipped::Scope));
        assert_eq!(pair(&own, "shop", &all, &[]), Err(Skipped::NothingDrawn), "its trial is over");
        let users = plan(|plan| plan.scopes = vec!["user:shop/ada".into()]);
        assert_eq!(pair(&own, "shop", &users, &[entry]), Err(Skipped::Scope));
    }
}
