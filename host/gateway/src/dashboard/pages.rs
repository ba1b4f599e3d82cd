//! What the page shows.

use crate::http::{Inner, Refusal};
use crate::pool::read;
use clawhost_capture::{Exchange, assemble};
use clawhost_core::{
    AnswerPlace, Episode, EpisodeFilter, EpisodeId, EpisodeOrder, EpisodeProgress, EpisodeState, Message, RewardRecord,
    RunId, StoreError, StoreReader, ToolCall, Verdict, Withheld,
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

/// A session in a list.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SessionRow {
    pub(super) address: String,
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) user: Option<String>,
    pub(super) turns: u64,
    pub(super) at: String,
    pub(super) state: String,
    pub(super) reward: Option<String>,
}

/// The first page.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Overview {
    pub(super) counts: Vec<Count>,
    pub(super) models: Vec<String>,
    pub(super) open: Vec<SessionRow>,
    pub(super) ended: Vec<SessionRow>,
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
}

/// A verdict.
#[derive(Debug, Clone, Serialize)]
pub(super) struct VerdictShown {
    pub(super) reward: String,
    pub(super) source: &'static str,
    pub(super) about: String,
    pub(super) result: String,
    pub(super) why: String,
    /// Whether it counts.
    pub(super) state: &'static str,
}

/// A session.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SessionShown {
    pub(super) address: String,
    pub(super) row: SessionRow,
    pub(super) model: String,
    pub(super) project: Option<String>,
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

fn address(run: &str, episode: &str) -> String {
    format!("/dashboard/sessions/{}/{}", escaped(run), escaped(episode))
}

/// A Unix time in milliseconds for people.
pub(super) fn time(at_ms: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(at_ms)).to_string()
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

fn open(reader: &dyn StoreReader) -> Result<Vec<SessionRow>, StoreError> {
    let mut open = reader.open_episodes(None)?;
    open.sort_by_key(|progress| std::cmp::Reverse(progress.last_at));
    let row = |progress: EpisodeProgress| {
        let episode = progress.episode;
        SessionRow {
            address: address(&episode.run.0, &episode.id.0),
            session: episode.session.session,
            agent: episode.session.agent,
            user: episode.session.user,
            turns: progress.turns,
            at: time(progress.last_at),
            state: "open".to_owned(),
            reward: None,
        }
    };
    Ok(open.into_iter().take(LISTED as usize).map(row).collect())
}

/// The ended sessions of a page, and the number of all.
fn ended(reader: &dyn StoreReader, page: u64, now: u64) -> Result<(Vec<SessionRow>, u64), StoreError> {
    let filter = EpisodeFilter {
        is_live: true,
        order: EpisodeOrder::NewestFirst,
        skip: page.saturating_sub(1).saturating_mul(LISTED),
        limit: Some(LISTED),
        ..EpisodeFilter::default()
    };
    let rows = reader.list_episodes(&filter)?.rows.into_iter();
    let shown = rows.map(|row| {
        let state = match row.state(now) {
            EpisodeState::Pending { until } => format!("pending until {}", time(until)),
            _ if row.revision > 0 => format!("decided, revision {}", row.revision),
            _ => row.ending.clone(),
        };
        SessionRow {
            address: address(&row.run, &row.id),
            session: row.task,
            agent: row.environment,
            user: None,
            turns: row.turns,
            at: time(row.created_at),
            state,
            reward: row.reward.map(number),
        }
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

/// An episode, and whether it is in progress.
async fn episode_of(gateway: &Inner, run: String, id: String) -> Result<(Episode, bool), Refusal> {
    let _ = gateway.recorder.caught_up().await;
    let limit = gateway.config.limits.episode_bytes;
    let found = read(gateway, move |reader| {
        let (run, id) = (RunId(run), EpisodeId(id));
        if let Some(open) = in_progress(reader, &run, &id, limit)? {
            return Ok(Some((open, true)));
        }
        Ok(reader.episode(&format!("{run}/{id}"))?.map(|episode| (episode, false)))
    });
    let missing = || Refusal::new(ErrorKind::NotFound, "There is no such session here; it may have been removed.");
    let (episode, is_open) = found.await?.ok_or_else(missing)?;
    // Simulated episodes have their own commands.
    if episode.origin.session().is_none() { Err(missing()) } else { Ok((episode, is_open)) }
}

/// The place of a turn, for feedback.
pub(super) async fn place(
    gateway: &Inner,
    run: String,
    episode: String,
    turn: Option<u32>,
) -> Result<AnswerPlace, Refusal> {
    let (found, _) = episode_of(gateway, run.clone(), episode).await?;
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

fn turns(episode: &Episode) -> Vec<TurnShown> {
    let mut all = Vec::with_capacity(episode.turns.len());
    for (number, turn) in (0_u32..).zip(&episode.turns) {
        let before = turn.observation.iter().map(|message| said("user", message));
        let answer = std::iter::once(said("model", &turn.action));
        let results = turn.tool_results.iter().map(|message| said("tool", message));
        all.push(TurnShown { number, said: before.chain(answer).chain(results).collect() });
    }
    all
}

/// The verdicts: of one question the last one counts, and those before it are its history.
fn verdicts(records: &[RewardRecord]) -> Vec<VerdictShown> {
    let row = |(at, record): (usize, &RewardRecord)| {
        let is_replaced = records.iter().skip(at + 1).any(|later| later.question() == record.question());
        let (result, why) = match &record.verdict {
            Verdict::Scored(card) => (number(card.value), card.rationale.clone()),
            Verdict::NotApplicable(why) => ("no reward".to_owned(), why.clone()),
            Verdict::Failed(failure) => ("failed".to_owned(), failure.to_string()),
        };
        let about: Vec<String> = record.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
        VerdictShown {
            reward: record.reward.name.clone(),
            source: record.source.name(),
            about: about.join(", "),
            result,
            why: shown(&why),
            state: match (is_replaced, record.post_hoc) {
                (true, _) => "replaced",
                (false, true) => "beside the reward",
                (false, false) => "counts",
            },
        }
    };
    records.iter().enumerate().map(row).collect()
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
    let (episode, is_open) = episode_of(gateway, run, id).await?;
    let session = episode.origin.session();
    let playbook = episode.policy.playbook.as_ref();
    let row = SessionRow {
        address: address(&episode.run.0, &episode.id.0),
        session: session.map(|session| session.session.clone()).unwrap_or_default(),
        agent: session.map(|session| session.agent.clone()).unwrap_or_default(),
        user: session.and_then(|session| session.user.clone()),
        turns: episode.turns.len() as u64,
        at: time(episode.created_at),
        state: if is_open { "open".to_owned() } else { episode.ending.label() },
        reward: episode.reward.map(number),
    };
    Ok(SessionShown {
        address: row.address.clone(),
        model: episode.policy.model.model.clone(),
        project: session.and_then(|session| session.project.clone()),
        withheld: episode.origin.withheld().map(why_withheld),
        guidance: playbook.map(|playbook| playbook.text.clone()),
        guided_by: playbook.map(|playbook| playbook.shown.clone()).unwrap_or_default(),
        turns: turns(&episode),
        verdicts: verdicts(&episode.verdicts),
        log: episode.log.clone(),
        row,
    })
}
