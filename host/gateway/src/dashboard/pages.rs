//! What the page shows.

use crate::http::{Inner, Refusal};
use crate::keys::dollars;
use crate::pool::read;
use clawhost_capture::{Exchange, assemble};
use clawhost_core::{
    AnswerPlace, Attributes, CORRECTION, Episode, EpisodeFilter, EpisodeId, EpisodeOrder, EpisodeProgress,
    EpisodeState, Message, RewardRecord, RewardSource, RunId, ScoreCard, StoreError, StoreReader, ToolCall, Usage,
    Verdict, Withheld, counted,
};
use clawhost_wire::ErrorKind;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use std::time::{Duration, UNIX_EPOCH};

/// Ended sessions on one page, and most sessions in progress.
const LISTED: u64 = 200;
/// Most characters of a message on the page. The record has all of it.
const SHOWN: usize = 20_000;

/// A number with its name.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Count {
    pub(super) name: &'static str,
    pub(super) value: u64,
}

/// A session in progress.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OpenRow {
    pub(super) address: String,
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) user: Option<String>,
    pub(super) turns: u64,
    /// Unix time of the last answer in milliseconds.
    pub(super) at: u64,
}

/// A session that has ended.
#[derive(Debug, Clone, Serialize)]
pub(super) struct EndedRow {
    pub(super) address: String,
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) turns: u64,
    /// Unix time in milliseconds.
    pub(super) at: u64,
    pub(super) ending: String,
    /// Where its verdicts are: pending, decided, revised.
    pub(super) verdicts: String,
    pub(super) reward: Option<String>,
}

/// The first page.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Overview {
    pub(super) counts: Vec<Count>,
    pub(super) models: Vec<String>,
    pub(super) open: Vec<OpenRow>,
    pub(super) ended: Vec<EndedRow>,
    /// Ended sessions, on all pages.
    pub(super) all_ended: u64,
    pub(super) listed: u64,
    /// The number of this page, from 1.
    pub(super) page: u64,
    pub(super) pages: u64,
}

/// What was said.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Said {
    pub(super) who: &'static str,
    pub(super) text: String,
    pub(super) calls: Vec<String>,
}

/// A turn.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TurnShown {
    pub(super) number: u32,
    pub(super) said: Vec<Said>,
    /// The thumb that was given last: `up` or `down`.
    pub(super) thumb: Option<&'static str>,
}

/// A verdict.
#[derive(Debug, Clone, Serialize)]
pub(super) struct VerdictShown {
    pub(super) reward: String,
    pub(super) source: &'static str,
    pub(super) about: String,
    pub(super) result: String,
    pub(super) why: String,
    /// Whether it is pending, decided or revised.
    pub(super) state: &'static str,
}

/// A session.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SessionShown {
    pub(super) address: String,
    pub(super) episode: String,
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) user: Option<String>,
    pub(super) project: Option<String>,
    pub(super) model: String,
    pub(super) state: String,
    pub(super) reward: Option<String>,
    /// Where its verdicts are. `None`: it is in progress.
    pub(super) state_of_verdicts: Option<String>,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// In US dollars. `None`: no model of it has prices.
    pub(super) cost: Option<String>,
    pub(super) withheld: Option<&'static str>,
    pub(super) guidance: Option<String>,
    pub(super) guided_by: Vec<String>,
    pub(super) turns: Vec<TurnShown>,
    pub(super) verdicts: Vec<VerdictShown>,
    pub(super) log: Vec<String>,
}

/// A part of an address.
pub(super) fn escaped(part: &str) -> String {
    utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()
}

/// The page of a session.
pub(super) fn address(run: &str, episode: &str) -> String {
    format!("/dashboard/sessions/{}/{}", escaped(run), escaped(episode))
}

/// A Unix time in milliseconds for people, in UTC.
pub(super) fn time(at_ms: u64) -> String {
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(at_ms)).to_string();
    text.trim_end_matches('Z').replace('T', " ")
}

/// The first page.
///
/// # Errors
/// The store cannot be read; likewise below.
pub(super) async fn overview(gateway: &Inner, page: u64) -> Result<Overview, Refusal> {
    // What was answered a moment ago is shown. If the store is busy, the page shows what it has.
    let _ = gateway.recorder.caught_up().await;
    let now = gateway.now_ms();
    let (open, (ended, all_ended)) =
        read(gateway, move |reader| Ok((open(reader)?, ended(reader, page, now)?))).await?;
    let counts = gateway.counts();
    let counts = vec![
        Count { name: "open sessions", value: counts.sessions as u64 },
        Count { name: "episodes since the start", value: counts.episodes },
        Count { name: "exchanges since the start", value: counts.recorded },
        Count { name: "not recorded", value: counts.missed },
    ];
    let pages = all_ended.div_ceil(LISTED).max(1);
    Ok(Overview { counts, models: gateway.models.aliases(), open, ended, all_ended, listed: LISTED, page, pages })
}

fn open(reader: &dyn StoreReader) -> Result<Vec<OpenRow>, StoreError> {
    let row = |progress: EpisodeProgress| {
        let episode = progress.episode;
        OpenRow {
            address: address(&episode.run.0, &episode.id.0),
            session: episode.session.session,
            agent: episode.session.agent,
            user: episode.session.user,
            turns: progress.turns,
            at: progress.last_at,
        }
    };
    Ok(reader.newest_open(LISTED as usize)?.into_iter().map(row).collect())
}

/// Where verdicts are. Those of a live episode come after it was recorded: the first one decides, each later one revises.
fn state_of_verdicts(state: EpisodeState, revision: u32, is_scored: bool) -> String {
    match (state, revision) {
        (EpisodeState::Pending { until }, _) => format!("pending until {}", time(until)),
        (_, 0) if !is_scored => "none yet".to_owned(),
        (_, _) if !is_scored => "without a score".to_owned(),
        (_, 0 | 1) => "decided".to_owned(),
        (_, revision) => format!("revised {}", counted(u64::from(revision) - 1, "time")),
    }
}

/// The ended sessions of a page, and the number of all.
fn ended(reader: &dyn StoreReader, page: u64, now: u64) -> Result<(Vec<EndedRow>, u64), StoreError> {
    let filter = EpisodeFilter {
        is_live: true,
        order: EpisodeOrder::NewestFirst,
        skip: page.saturating_sub(1).saturating_mul(LISTED),
        limit: Some(LISTED),
        ..EpisodeFilter::default()
    };
    let rows = reader.list_episodes(&filter)?.rows.into_iter();
    let shown = rows.map(|row| EndedRow {
        address: address(&row.run, &row.id),
        verdicts: state_of_verdicts(row.state(now), row.revision, row.reward.is_some()),
        session: row.task,
        agent: row.environment,
        turns: row.turns,
        at: row.created_at,
        ending: row.ending,
        reward: row.reward.map(number),
    });
    Ok((shown.collect(), reader.count_episodes(&filter)?))
}

/// A reward for people.
fn number(reward: f64) -> String {
    format!("{reward:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An episode in progress, as it is now.
fn in_progress(
    reader: &dyn StoreReader,
    run: &RunId,
    id: &EpisodeId,
    limit: usize,
) -> Result<Option<Episode>, StoreError> {
    if reader.open_session(run, id)?.is_none() {
        return Ok(None);
    }
    let documents = reader.exchanges(run, id)?;
    let exchanges: Vec<Exchange> = documents.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let at = exchanges.last().map_or(0, |last| last.at);
    Ok(assemble(&exchanges, limit, at).ok())
}

/// An episode.
struct Found {
    episode: Episode,
    is_open: bool,
    /// Feedback that is added when it ends.
    waiting: Vec<RewardRecord>,
}

fn find(reader: &dyn StoreReader, run: &RunId, id: &EpisodeId, limit: usize) -> Result<Option<Found>, StoreError> {
    let waiting = reader.waiting_feedback(run, id)?.into_iter().map(|feedback| feedback.record).collect();
    if let Some(episode) = in_progress(reader, run, id, limit)? {
        return Ok(Some(Found { episode, is_open: true, waiting }));
    }
    let ended = reader.episode(&format!("{run}/{id}"))?;
    Ok(ended.map(|episode| Found { episode, is_open: false, waiting }))
}

/// An episode, in progress or ended.
async fn episode_of(gateway: &Inner, run: String, id: String) -> Result<Found, Refusal> {
    let _ = gateway.recorder.caught_up().await;
    let limit = gateway.config.limits.episode_bytes;
    let found = read(gateway, move |reader| find(reader, &RunId(run), &EpisodeId(id), limit));
    let missing = || Refusal::new(ErrorKind::NotFound, "There is no such session here; it may have been removed.");
    let found = found.await?.ok_or_else(missing)?;
    // Simulated episodes have their own commands.
    if found.episode.origin.session().is_none() { Err(missing()) } else { Ok(found) }
}

/// The place of a turn, for feedback.
pub(super) async fn place(
    gateway: &Inner,
    run: String,
    episode: String,
    turn: Option<u32>,
) -> Result<AnswerPlace, Refusal> {
    let Found { episode: found, .. } = episode_of(gateway, run.clone(), episode).await?;
    let of_run = RunId(run);
    let row = read(gateway, move |reader| reader.run(&of_run)).await?;
    let owner = row.map(|row| row.live_owner().to_owned());
    let user = found.origin.session().and_then(|session| session.user.clone());
    Ok(AnswerPlace { owner: owner.unwrap_or_default(), user, run: found.run, episode: found.id, turn })
}

/// A text of a message as it is shown.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} [...]", text.get(..end).unwrap_or_default()),
    }
}

fn said(who: &'static str, message: &Message) -> Said {
    let call = |call: &ToolCall| format!("{}({})", call.name, shown(&call.arguments));
    Said { who, text: shown(&message.plain_text()), calls: message.tool_calls.iter().map(call).collect() }
}

/// The thumb that a person gave a turn last.
fn thumb(records: &[&RewardRecord], turn: u32) -> Option<&'static str> {
    let turn = turn.to_string();
    let is_about = |options: &Attributes| options.iter().any(|(name, value)| name == "turn" && *value == turn);
    records.iter().rev().find_map(|record| match &record.verdict {
        Verdict::Scored(card) if record.source == RewardSource::User && is_about(&record.options) => {
            Some(if card.value < 0.0 { "down" } else { "up" })
        }
        _ => None,
    })
}

fn turns(episode: &Episode, waiting: &[RewardRecord]) -> Vec<TurnShown> {
    let records: Vec<&RewardRecord> = episode.verdicts.iter().chain(waiting).collect();
    let mut all = Vec::with_capacity(episode.turns.len());
    for (number, turn) in (0_u32..).zip(&episode.turns) {
        let before = turn.observation.iter().map(|message| said("user", message));
        let answer = std::iter::once(said("model", &turn.action));
        let results = turn.tool_results.iter().map(|message| said("tool", message));
        let said = before.chain(answer).chain(results).collect();
        all.push(TurnShown { number, said, thumb: thumb(&records, number) });
    }
    all
}

/// What a verdict is about. Turns are counted from 1 on the page.
fn about(options: &Attributes) -> String {
    let part = |(name, value): &(String, String)| match (name.as_str(), value.parse::<u64>()) {
        ("turn", Ok(turn)) => format!("turn {}", turn.saturating_add(1)),
        ("kind", _) => value.clone(),
        _ => format!("{name} {value}"),
    };
    options.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// The verdicts: of one question the last one counts, and those before it are its history. Those that wait come last.
fn verdicts(records: &[RewardRecord], waiting: &[RewardRecord]) -> Vec<VerdictShown> {
    let all: Vec<&RewardRecord> = records.iter().chain(waiting).collect();
    let row = |(at, record): (usize, &&RewardRecord)| {
        let is_replaced = all.iter().skip(at + 1).any(|later| later.question() == record.question());
        let (result, why) = match &record.verdict {
            Verdict::Scored(card) => (number(card.value), with_correction(card)),
            Verdict::NotApplicable(why) => ("no reward".to_owned(), why.clone()),
            Verdict::Failed(failure) => ("failed".to_owned(), failure.to_string()),
        };
        VerdictShown {
            reward: record.reward.name.clone(),
            source: record.source.name(),
            about: about(&record.options),
            result,
            why: shown(&why),
            state: match (is_replaced, at >= records.len(), record.post_hoc) {
                (true, ..) => "revised: a later one counts",
                (false, true, _) => "pending until the session ends",
                (false, false, true) => "beside the reward",
                (false, false, false) => "decided",
            },
        }
    };
    all.iter().enumerate().map(row).collect()
}

/// The reason of a score, and the correction that came with it.
fn with_correction(card: &ScoreCard) -> String {
    let correction =
        card.extra.iter().filter(|(name, _)| name == CORRECTION).map(|(name, text)| format!("{name}: {text}"));
    let reason = Some(card.rationale.clone()).filter(|text| !text.is_empty());
    reason.into_iter().chain(correction).collect::<Vec<_>>().join("; ")
}

fn why_withheld(withheld: Withheld) -> &'static str {
    match withheld {
        Withheld::NoTrain => "its client keeps it out of learning",
        Withheld::Ambiguous => "several conversations fitted one of its requests",
        Withheld::Repetition => "it asks again what another session asked",
        Withheld::SideTurn => "it is beside a conversation",
        Withheld::Redacted => "a part of an answer was redacted",
    }
}

/// A session with its turns.
///
/// # Errors
/// There is no such session.
pub(super) async fn session(gateway: &Inner, run: String, id: String) -> Result<SessionShown, Refusal> {
    let Found { episode, is_open, waiting } = episode_of(gateway, run, id).await?;
    let session = episode.origin.session();
    let playbook = episode.policy.playbook.as_ref();
    let is_scored = episode.reward.is_some();
    let judged = || state_of_verdicts(episode.state(gateway.now_ms()), episode.revision(), is_scored);
    let mut usage = Usage::default();
    episode.turns.iter().for_each(|turn| usage += turn.usage);
    Ok(SessionShown {
        address: address(&episode.run.0, &episode.id.0),
        episode: episode.id.0.clone(),
        session: session.map(|session| session.session.clone()).unwrap_or_default(),
        agent: session.map(|session| session.agent.clone()).unwrap_or_default(),
        user: session.and_then(|session| session.user.clone()),
        project: session.and_then(|session| session.project.clone()),
        model: episode.policy.model.model.clone(),
        state: if is_open { "in progress".to_owned() } else { episode.ending.label() },
        reward: episode.reward.map(number),
        state_of_verdicts: (!is_open).then(judged),
        input_tokens: usage.prompt_tokens,
        output_tokens: usage.completion_tokens,
        cost: (usage.cost_micros > 0).then(|| dollars(usage.cost_micros)),
        withheld: episode.origin.withheld().map(why_withheld),
        guidance: playbook.map(|playbook| playbook.text.clone()),
        guided_by: playbook.map(|playbook| playbook.shown.clone()).unwrap_or_default(),
        turns: turns(&episode, &waiting),
        verdicts: verdicts(&episode.verdicts, &waiting),
        log: episode.log.clone(),
    })
}
