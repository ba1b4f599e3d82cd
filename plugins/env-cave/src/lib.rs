//! A text game: a way through the chambers of a cave, whose dynamics nobody tells.
//!
//! Every chamber has six facts; two of them are seen only after an action of their own. One of six actions opens the way. Which one
//! depends on five hidden rules (two on one fact, an exception to one of them, two on facts that must be shown first); the more specific
//! rule wins, and without one the world's default applies. A wrong action costs the chamber: the way on is a crack. Rules and default are
//! drawn from the run's seed (or the option `world`).
//!
//! The signal `score` is the share of chambers whose way was opened, from 0 to 1. Observations list the possible actions in the form of an
//! order (`one of: ...`), so that a policy that only follows orders makes valid moves.

mod world;

use clawhost_sdk::{
    Action, Context, MessageEnvironment, Opening, OptionSpec, Params, Random, Result, Signals, Split, Status, Step,
    Task, export_environment,
};
use serde::{Deserialize, Serialize};
use world::{ACTIONS, Chamber, FACTS, UNSEEN, World};

/// Default number of chambers.
const DEFAULT_CHAMBERS: u32 = 4;
/// More chambers add turns, not difficulty.
const CHAMBERS: std::ops::RangeInclusive<u32> = 1..=16;
/// Moves per chamber: two looks, the action, and as many mistakes.
const MOVES: u32 = 6;
/// The first action.
const ENTER: &str = "enter";

/// One way through the cave.
#[derive(Debug)]
pub struct Cave {
    chambers: Vec<Chamber>,
    settings: Settings,
    state: State,
}

/// What changes during an episode.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    /// The chamber in which the player is. `None`: before the cave.
    at: Option<usize>,
    /// Facts of this chamber that an action has shown.
    shown: [bool; FACTS.len()],
    opened: u32,
    moves: u32,
}

#[derive(Debug)]
struct Settings {
    world: u64,
    chambers: u32,
    hints: bool,
    each: bool,
    all: bool,
}

fn settings(context: &Context) -> Result<Settings> {
    let chambers = context.option_or("chambers", DEFAULT_CHAMBERS)?;
    if !CHAMBERS.contains(&chambers) {
        return Err("chambers must be 1 to 16".into());
    }
    Ok(Settings {
        world: context.world("world")?,
        chambers,
        hints: context.is_other("hints", ["off", "on"])?,
        each: !context.is_other("score", ["each", "end"])?,
        all: context.is_other("handbook", ["none", "all"])?,
    })
}

/// The chambers at a position of a split.
fn chambers(world: u64, split: &str, position: u64, count: u32) -> Vec<Chamber> {
    let mut random = Random::at(world, split, position);
    let world = World::new(world);
    (0..count).map(|_| world.draw(&mut random)).collect()
}

fn name(action: usize) -> &'static str {
    ACTIONS.get(action).copied().unwrap_or("wait")
}

impl MessageEnvironment for Cave {
    const NAME: &'static str = "env-cave";
    const SUMMARY: &'static str =
        "find the way through a cave whose hidden dynamics decide which action opens a chamber";
    const SNAPSHOT: bool = true;

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("world", "", "which world: a number that decides the dynamics; empty: from the run's seed"),
            OptionSpec::new("chambers", DEFAULT_CHAMBERS.to_string(), "chambers of a cave, 1 to 16"),
            OptionSpec::new("hints", "off", "off, or on: after a wrong action a text names the right one"),
            OptionSpec::new("score", "each", "when the signal `score` is set: after each chamber, or only at the end"),
            OptionSpec::new(
                "handbook",
                "none",
                "what the policy is told: none, or all the rules, to see what could be learned at best",
            ),
        ]
    }

    fn check(context: &Context) -> Result<()> {
        settings(context).map(|_| ())
    }

    fn splits() -> Vec<Split> {
        vec![Split::new("train", 2000), Split::new("val", 1000), Split::new("test", 1000)]
    }

    fn tasks(context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>> {
        let settings = settings(context)?;
        let world = settings.world;
        let size = Self::splits().iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let end = size.min(offset.saturating_add(u64::from(limit)));
        let task = |position| {
            let opens: Vec<&str> =
                chambers(world, split, position, settings.chambers).iter().map(|chamber| name(chamber.opens)).collect();
            Task::new(split, format!("{split}-{position}"), "")
                .with_reference(serde_json::json!(opens).to_string())
                // The environment finds the world with this attribute. The policy never sees it.
                .with_extra("world", world.to_string())
        };
        Ok((offset..end).map(task).collect())
    }

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let (cave, world) = Self::begin(params)?;
        let facts: String = FACTS.iter().map(|fact| format!("{}: {UNSEEN} yet\n", fact.name)).collect();
        let text = format!("You stand before a cave of {} chambers.\n{facts}Do one of: {ENTER}", cave.chambers.len());
        let mut hint = "You play a text game. Answer with one of the listed actions, in the same words, and nothing else. In every \
                        chamber one action opens the way; a wrong one costs the chamber."
            .to_owned();
        if cave.settings.all {
            hint.push('\n');
            hint.push_str(&World::new(world).all());
        }
        Ok((cave, Opening { system_hint: Some(hint), ..Opening::text(text) }))
    }

    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step> {
        self.state.moves += 1;
        let text = action.plain_text();
        let said = text.trim().trim_end_matches('.').to_lowercase();
        let told = match self.state.at.and_then(|at| self.chambers.get(at)).cloned() {
            None if said == ENTER => {
                self.state.at = Some(0);
                "You enter.".to_owned()
            }
            Some(chamber) if ACTIONS.contains(&said.as_str()) => self.act(&chamber, &said),
            Some(_) if FACTS.iter().any(|fact| fact.shown_by == Some(said.as_str())) => {
                let shown = FACTS.iter().map(|fact| fact.shown_by == Some(said.as_str()));
                self.state.shown.iter_mut().zip(shown).for_each(|(known, now)| *known |= now);
                "You look closely.".to_owned()
            }
            _ => "Nothing happens.".to_owned(),
        };
        let score = f64::from(self.state.opened) / self.chambers.len().max(1) as f64;
        let is_through = self.state.at.is_some_and(|at| at >= self.chambers.len());
        let most = MOVES * self.settings.chambers;
        let is_over = is_through || self.state.moves >= most;
        if self.settings.each || is_over {
            signals.set("score", score);
        }
        signals.set("moves", f64::from(self.state.moves));
        Ok(match is_over {
            true if is_through => Step::done(format!("{told}\nYou are through.")),
            true => Step::done(told).with_status(Status::Truncated(format!("{most} moves"))),
            false => Step::running(format!("{told}\n{}", self.scene())),
        })
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(&self.state)?)
    }

    fn restore(params: &Params, state: &[u8]) -> Result<Self> {
        let state = serde_json::from_slice(state)?;
        Ok(Self { state, ..Self::begin(params)?.0 })
    }
}

impl Cave {
    /// A cave before the first action, and its world: a function of the params alone.
    fn begin(params: &Params) -> Result<(Self, u64)> {
        let Params { task, context, .. } = params;
        let settings = settings(context)?;
        let unknown = || format!("`{}` is no task of this cave", task.id);
        let world = task.extra("world").and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let position = task.id.rsplit('-').next().and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let chambers = chambers(world, &task.split, position, settings.chambers);
        Ok((Self { chambers, settings, state: State::default() }, world))
    }

    /// One of [`ACTIONS`] in a chamber. Right or wrong, the player goes on.
    fn act(&mut self, chamber: &Chamber, said: &str) -> String {
        let opens = name(chamber.opens);
        self.state.at = self.state.at.map(|at| at + 1);
        self.state.shown = [false; FACTS.len()];
        if said == opens {
            self.state.opened += 1;
            return "The way opens.".to_owned();
        }
        let hint = if self.settings.hints { format!(" Marks on the wall say: {opens}.") } else { String::new() };
        format!("The way stays shut; you squeeze through a crack.{hint}")
    }

    /// What is seen, and the possible actions.
    fn scene(&self) -> String {
        let Some((at, chamber)) = self.state.at.and_then(|at| Some((at, self.chambers.get(at)?))) else {
            return format!("Do one of: {ENTER}");
        };
        let mut text = format!("Chamber {} of {}.\n", at + 1, self.chambers.len());
        for ((fact, value), shown) in FACTS.iter().zip(chamber.facts).zip(self.state.shown) {
            let value = if fact.shown_by.is_none() || shown { fact.values.get(value).copied() } else { None };
            text.push_str(&format!("{}: {}\n", fact.name, value.unwrap_or(UNSEEN)));
        }
        let looks = FACTS.iter().filter_map(|fact| fact.shown_by);
        let actions: Vec<&str> = ACTIONS.into_iter().chain(looks).collect();
        text + "Do one of: " + &actions.join(", ")
    }
}

export_environment!(Cave);

#[cfg(test)]
mod tests;
