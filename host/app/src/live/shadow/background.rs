//! Asks for shadow answers beside a gateway: one session after another, never on the way of a request.

use super::budget::{Cost, Room};
use super::judging::{Order, longest_question, question, vote, written};
use super::page::ShadowPage;
use super::pair::{Pair, pair};
use super::section::ShadowPlan;
use super::state::ShadowState;
use crate::live::guide::LiveGuide;
use crate::live::learning::trials_of;
use crate::{AppError, Workspace};
use clawhost_core::{
    Clock, Digest, EpisodeReader as _, LiveReader as _, Llm, ModelError, ModelRequest, ModelResponse, TrialsReader as _,
};
use clawhost_gateway::ServedModel;
use clawhost_learn::Entry;
use clawhost_learn::live::shadow::Preference;
use clawhost_providers::Prices;
use clawhost_store::Reader;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often it looks for sessions.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after a failure, and while the budget of the day is spent.
const REST: Duration = Duration::from_secs(60);
/// Ended episodes that are looked at at once.
const ENDED: usize = 64;

/// The models that are served now.
type Models = dyn Fn() -> Arc<[Arc<ServedModel>]> + Send + Sync;

/// Shadow answers of a gateway.
pub(crate) struct ShadowAnswers {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    guide: Arc<LiveGuide>,
    plan: ShadowPlan,
    /// Draws the order in which the judge reads the answers.
    secret: [u8; 32],
    models: Box<Models>,
    state: ShadowState,
    page: ShadowPage,
}

/// What was found among ended sessions.
struct Found {
    /// The lessons on trial.
    trials: Vec<Entry>,
    /// Number of the last episode that was looked at.
    through: u64,
    /// The pair of requests of that episode, with its name.
    pair: Option<(String, Pair)>,
    /// Whether there may be more.
    goes_on: bool,
}

/// What a look did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// There may be more to do at once.
    Again,
    /// Nothing waits.
    Idle,
    /// A model failed, or today's budget is spent.
    Rests,
}

/// A model that is asked.
struct Asked {
    model: Arc<dyn Llm>,
    prices: Option<Prices>,
}

impl Asked {
    fn of(served: &ServedModel) -> Self {
        Self { model: served.first.source.model().clone(), prices: served.first.prices }
    }

    /// Asks, and replaces the bound in `cost` by what the answer cost. What a failed call cost is not known, nor what one did whose endpoint counts no tokens: its
    /// bound stays.
    async fn answer(&self, request: &ModelRequest, cost: &mut Cost) -> Result<ModelResponse, ModelError> {
        let bound = Cost::bound(request, self.prices);
        let response = self.model.complete(request).await?;
        let usage = response.usage;
        let is_counted = usage.prompt_tokens > 0 && (usage.completion_tokens > 0 || written(&response).is_empty());
        if is_counted {
            *cost = cost.instead(bound, Cost::of(usage, self.prices));
        }
        Ok(response)
    }
}

impl ShadowAnswers {
    /// Shadow answers by a plan, of sessions that end from now on, or since an earlier start. `models`: those that are served at any time.
    ///
    /// # Errors
    /// The data folder cannot be read or written.
    pub(crate) fn new(
        workspace: &Workspace,
        plan: ShadowPlan,
        guide: Arc<LiveGuide>,
        models: Box<Models>,
    ) -> Result<Self, AppError> {
        let folder = workspace.folder().to_owned();
        let state = ShadowState::open(&folder, || Ok(Reader::open(&folder)?.newest_ended()?))?;
        let page = ShadowPage::new(plan.budget);
        page.update(&state);
        let (clock, secret) = (workspace.clock(), workspace.draw_key()?);
        Ok(Self { folder, clock, guide, plan, secret, models, state, page })
    }

    /// What is known, for the page.
    pub(crate) fn page(&self) -> ShadowPage {
        self.page.clone()
    }

    /// Asks until it is dropped. What was not asked by then is asked after the next start; what was begun is not asked again.
    pub(crate) async fn run(mut self) {
        let mut problem = None;
        loop {
            let looked = self.look().await.unwrap_or_else(|error| {
                let why = Some(error.to_string());
                if why != problem {
                    tracing::error!("there are no shadow answers now: {error}");
                }
                self.page.set_problem(why.clone());
                problem = why;
                Looked::Rests
            });
            match looked {
                Looked::Again => {}
                Looked::Idle => tokio::time::sleep(LOOK).await,
                Looked::Rests => tokio::time::sleep(REST).await,
            }
        }
    }

    /// Looks at the sessions that have ended, up to the first one that gets shadow answers, and asks for these.
    pub(super) async fn look(&mut self) -> Result<Looked, AppError> {
        let Some(playbook) = self.guide.learned_playbook()? else { return Ok(Looked::Idle) };
        let (folder, plan, through) = (self.folder.clone(), self.plan.clone(), self.state.through);
        let read = tokio::task::spawn_blocking(move || found(&Reader::open(&folder)?, &playbook, &plan, through)).await;
        let Found { trials, through, pair, goes_on } = read.map_err(|error| AppError::Host(error.to_string()))??;
        let idle = if goes_on { Looked::Again } else { Looked::Idle };
        let Some((name, pair)) = pair else {
            // It is written with the next session that gets answers: looking again costs nothing.
            self.state.through = through;
            return Ok(idle);
        };
        let served = (self.models)();
        let named = |alias: &String| served.iter().find(|model| model.alias == *alias && model.routing.is_none());
        let is_it = |served: &&Arc<ServedModel>| served.first.source.identity() == pair.model;
        let model = self.plan.upstreams.iter().filter_map(named).find(is_it).map(|served| Asked::of(served));
        let judge = named(&self.plan.judge).map(|served| Asked::of(served));
        let (Some(model), Some(judge)) = (model, judge) else {
            // Its model is not named, or is served no more.
            self.state.through = through;
            return Ok(Looked::Again);
        };
        let limits_money = self.plan.budget.micros.is_some();
        if limits_money && (model.prices.is_none() || judge.prices.is_none()) {
            self.page.set_problem(Some("a model has no prices any more, so its answers cannot be counted".to_owned()));
            return Ok(Looked::Rests);
        }
        let answers = Cost::bound(&pair.with, model.prices).plus(Cost::bound(&pair.without, model.prices));
        let bound = answers.plus(Cost::bound(&longest_question(&pair), judge.prices));
        match self.state.spending.pay(&self.plan.budget, bound, self.clock.now_ms()) {
            Room::Paid => {}
            Room::Later => {
                self.page.set_problem(Some("today's budget is spent".to_owned()));
                return Ok(Looked::Rests);
            }
            Room::Never => {
                tracing::info!("{name} gets no shadow answers: they may cost more than the budget of a day");
                self.state.through = through;
                return Ok(Looked::Again);
            }
        }
        // Paid and looked at before anything is asked: whatever happens from here on, it is not asked again.
        self.state.through = through;
        self.write()?;
        let mut cost = bound;
        let preferred = self.asked(&name, &pair, (&model, &judge), &mut cost).await;
        self.state.spending.settle(bound, cost);
        let counts = self.state.of_lesson(&pair.entry, &trials);
        let looked = match preferred {
            Ok(Some(preference)) => {
                counts.preferred.observe(preference);
                self.page.set_problem(None);
                Looked::Again
            }
            Ok(None) => {
                counts.without_vote += 1;
                tracing::warn!("the judge of shadow answers gives no vote about {name}");
                Looked::Again
            }
            Err(error) => {
                counts.failed += 1;
                tracing::warn!("{name} gets no shadow answers: {error}");
                self.page.set_problem(Some(error.to_string()));
                Looked::Rests
            }
        };
        self.write()?;
        Ok(looked)
    }

    fn write(&self) -> Result<(), AppError> {
        self.state.write(&self.folder)?;
        self.page.update(&self.state);
        Ok(())
    }

    /// What the judge prefers. `None`: it gives no vote. `cost`: the bound of all calls, and then what they cost.
    async fn asked(
        &self,
        name: &str,
        pair: &Pair,
        (model, judge): (&Asked, &Asked),
        cost: &mut Cost,
    ) -> Result<Option<Preference>, ModelError> {
        let with = written(&model.answer(&pair.with, cost).await?);
        let without = written(&model.answer(&pair.without, cost).await?);
        let longest = Cost::bound(&longest_question(pair), judge.prices);
        if with.is_empty() && without.is_empty() {
            *cost = cost.instead(longest, Cost::default());
            return Err(ModelError::InvalidResponse("both answers are empty".to_owned()));
        }
        if with == without {
            *cost = cost.instead(longest, Cost::default());
            return Ok(Some(Preference::Neither));
        }
        let drawn = Digest::of(&self.secret).extended(b"shadow").extended(name.as_bytes()).prefix_u64();
        let order = if drawn.is_multiple_of(2) { Order::WithFirst } else { Order::WithoutFirst };
        let asked = question(pair, (&with, &without), order);
        // Answers are shorter than their bound: the rest of it is not paid for.
        *cost = cost.instead(longest, Cost::bound(&asked, judge.prices));
        let said = judge.answer(&asked, cost).await?;
        Ok(vote(&said.message.plain_text(), order))
    }
}

/// The first session behind an episode that gets shadow answers.
fn found(reader: &Reader, playbook: &str, plan: &ShadowPlan, through: u64) -> Result<Found, AppError> {
    let stored = trials_of(&reader.trials(playbook)?, playbook)?;
    let trials: Vec<Entry> = stored.on_trial().iter().map(|trial| trial.entry.clone()).collect();
    if trials.is_empty() {
        return Ok(Found { trials, through: reader.newest_ended()?.max(through), pair: None, goes_on: false });
    }
    let ended = reader.ended_after(through, ENDED)?;
    let goes_on = ended.len() == ENDED;
    let last = ended.last().map_or(through, |(number, _)| *number);
    for (number, name) in ended {
        let Some(name) = name else { continue };
        // One damaged record hides no other.
        let episode = match reader.episode(&name) {
            Ok(Some(episode)) => episode,
            Ok(None) => continue,
            Err(error) => {
                tracing::error!("episode {name} gets no shadow answers: {error}");
                continue;
            }
        };
        let Some(run) = reader.run(&episode.run)? else { continue };
        match pair(&episode, run.live_owner(), plan, &trials) {
            Ok(pair) => return Ok(Found { trials, through: number, pair: Some((name, pair)), goes_on: true }),
            Err(why) => tracing::debug!("episode {name} gets no shadow answers: {why:?}"),
        }
    }
    Ok(Found { trials, through: last, pair: None, goes_on })
}

#[cfg(test)]
mod tests;
