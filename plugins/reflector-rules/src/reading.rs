//! What episodes without reviews show: each turn as a decision, with the facts that were known, the action, what became known by it, and how
//! good it was.
//!
//! How good is what a signal says (the option `signal`; more is better). If an environment sets it in several turns of an episode, a turn is
//! as good as the signal's rise in it. If it is set only at the end, every turn is as good as the whole episode. Without the option, every turn
//! is as good as the episode's reward; but if texts name other actions, a turn with such a text was wrong, and all others were right.

use crate::case::is_open;
use crate::deeds::{Did, Stated, Writing};
use clawhost_sdk::review::{Condition, field};
use clawhost_sdk::{Episode, Message, Origin, ToolSpec};
use std::collections::BTreeMap;

/// Largest number of facts of an episode. One that states more is a log.
const MOST_FACTS: usize = 64;
/// Begins a list of possible answers.
const CHOICES: &str = "one of: ";

/// A decision of the policy.
#[derive(Debug)]
pub(crate) struct Decision {
    /// Index of its episode.
    pub(crate) episode: usize,
    /// Its turn.
    pub(crate) turn: u32,
    /// What was known. Facts that the opening does not state are left out: the host shows a lesson by the opening alone.
    pub(crate) known: BTreeMap<String, String>,
    /// The values of facts that were known to be unknown.
    pub(crate) open: BTreeMap<String, String>,
    /// Facts that were open before and known afterwards.
    pub(crate) showed: Vec<String>,
    /// The action.
    pub(crate) deed: String,
    /// Another action that the text after it names.
    pub(crate) hinted: Option<String>,
    /// How good it was, from 0 to 1. `None`: nothing says so.
    pub(crate) worth: Option<f64>,
}

/// All decisions of some episodes.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    /// In order.
    pub(crate) all: Vec<Decision>,
    /// The id of each episode.
    pub(crate) episodes: Vec<String>,
    /// The task of each episode.
    pub(crate) tasks: Vec<String>,
    /// Which texts actions have.
    pub(crate) writing: Writing,
    /// Facts with their values in one opening.
    pub(crate) opening: Stated,
    /// Whether texts named right actions.
    pub(crate) has_hints: bool,
    /// Whether something says after each turn how good it was.
    pub(crate) in_steps: bool,
}

/// A turn before actions have texts.
struct Turn {
    episode: usize,
    turn: u32,
    stated: Stated,
    after: Stated,
    did: Did,
    choices: Vec<String>,
    told: String,
    rise: Option<f64>,
}

fn texts(messages: &[Message]) -> impl Iterator<Item = String> + '_ {
    messages.iter().filter(|message| message.origin == Origin::Environment).map(Message::plain_text)
}

/// The facts of an episode so far, and the possible answers.
#[derive(Default)]
struct Scene {
    /// Facts that the opening states, with their last values.
    stated: Stated,
    choices: Vec<String>,
    has_begun: bool,
}

impl Scene {
    fn read(&mut self, messages: &[Message]) {
        for text in texts(messages) {
            for line in text.lines() {
                if let Some((_, list)) = line.split_once(CHOICES) {
                    let choices = list.trim_end_matches('.').split(',').map(|choice| choice.trim().to_lowercase());
                    self.choices = choices.filter(|choice| !choice.is_empty()).collect();
                } else if let Some((name, value)) = field(line)
                    && (self.stated.contains_key(&name) || (!self.has_begun && self.stated.len() < MOST_FACTS))
                {
                    self.stated.insert(name, value.to_owned());
                }
            }
        }
        self.has_begun = true;
    }

    /// What a text says beside facts and choices.
    fn prose(&self, messages: &[Message]) -> String {
        let is_prose = |line: &&str| {
            !line.contains(CHOICES) && field(line).is_none_or(|(name, _)| !self.stated.contains_key(&name))
        };
        let texts: Vec<String> = texts(messages).collect();
        let lines = texts.iter().flat_map(|text| text.lines()).filter(is_prose);
        lines.flat_map(|line| [line, "\n"]).collect()
    }
}

/// The turns of an episode, and in how many the signal was set.
fn turns(episode: &Episode, number: usize, signal: &str) -> (Vec<Turn>, Stated, usize) {
    let recorded = episode.turns();
    let mut scene = Scene::default();
    let (mut turns, mut opening) = (Vec::new(), Stated::new());
    let (mut before, mut times) = (0.0, 0);
    for (position, turn) in recorded.iter().enumerate() {
        if position == 0 {
            scene.read(&turn.observation);
            opening = scene.stated.clone();
        }
        let (stated, choices) = (scene.stated.clone(), scene.choices.clone());
        let next = recorded.get(position + 1).map_or_else(|| episode.closing(), |next| next.observation.clone());
        let told = scene.prose(&turn.tool_results) + &scene.prose(&next);
        scene.read(&turn.tool_results);
        scene.read(&next);
        let rise = turn.signals.iter().find(|one| one.name == signal).map(|one| {
            times += 1;
            one.value - std::mem::replace(&mut before, one.value)
        });
        if let Some(did) = Did::of(&turn.action) {
            let after = scene.stated.clone();
            turns.push(Turn { episode: number, turn: position as u32, stated, after, did, choices, told, rise });
        }
    }
    // Set once, at the end: the whole episode is as good as that. Without a signal it is as good as its reward.
    let whole = if signal.is_empty() { episode.reward() } else { (times == 1).then_some(before) };
    if whole.is_some() {
        turns.iter_mut().for_each(|turn| turn.rise = whole);
    }
    (turns, opening, times)
}

/// Facts whose values are known, and those whose values are not, in lower case.
fn split(stated: &Stated) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let conditions = stated.iter().filter_map(|(fact, value)| Condition::read(fact, value));
    let pairs = conditions.map(|condition| (condition.fact, condition.value));
    pairs.partition(|(_, value)| !is_open(value))
}

impl Decisions {
    /// Reads episodes. `signal` may be empty.
    pub(crate) fn read(episodes: &[Episode], tools: &[ToolSpec], signal: &str) -> Self {
        let mut decisions = Self::default();
        let mut all = Vec::new();
        for (number, episode) in episodes.iter().enumerate() {
            decisions.episodes.push(episode.id());
            decisions.tasks.push(episode.task().id);
            let (turns, opening, times) = turns(episode, number, signal);
            decisions.in_steps |= times > 1;
            all.extend(turns);
            decisions.opening.extend(opening);
        }
        decisions.writing = Writing::learn(all.iter().map(|turn| (&turn.did, &turn.stated)), tools);
        let most = all.iter().filter_map(|turn| turn.rise).fold(0.0, f64::max);
        for turn in all {
            let deed = decisions.writing.write(&turn.did);
            let (known, open) = split(&turn.stated);
            let after = split(&turn.after).0;
            let showed: Vec<String> = open.keys().filter(|fact| after.contains_key(*fact)).cloned().collect();
            let worth = turn.rise.filter(|_| most > 0.0).map(|rise| (rise / most).clamp(0.0, 1.0));
            let is_right = worth.is_some_and(|worth| worth >= 1.0);
            let hinted = decisions.writing.named(&turn.told, &turn.did, &turn.choices, &turn.stated);
            let hinted = hinted.filter(|_| !is_right && showed.is_empty());
            decisions.has_hints |= hinted.is_some();
            let Turn { episode, turn, .. } = turn;
            decisions.all.push(Decision { episode, turn, known, open, showed, deed, hinted, worth });
        }
        if signal.is_empty() && decisions.has_hints {
            decisions.in_steps = true;
            for one in &mut decisions.all {
                one.worth = Some(if one.hinted.is_some() { 0.0 } else { 1.0 });
            }
        }
        decisions
    }
}
