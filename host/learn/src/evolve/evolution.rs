//! The state machine: what to do next, and what to make of the answer.

use crate::LearnError;
use crate::evolve::cache::Key;
use crate::evolve::front::{self, Admitted};
use crate::evolve::{Cache, Candidate, Failures, Item, Known, Point, Report, Settings, draw};
use clawhost_core::{Digest, derive_seed};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Times that an item is asked for again after a failure that might pass. Three, so that a hiccup costs no item, and an
/// endpoint that is down does not eat the budget.
pub const RETRIES: u32 = 3;

/// Epochs in a row that may pass without an evaluation or a new child before an evolution ends. Four, so that each
/// training item is met by several parents; without this limit a reflector that has nothing to say would be asked for
/// ever.
const FRUITLESS_EPOCHS: u64 = 4;

/// Of the form in which a snapshot is written.
const FORMAT: u32 = 1;

/// What came of one evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The effective reward, -1 to 1.
    Scored(f64),
    /// It failed, or nothing scored it.
    Failed {
        /// Whether it might go well another time.
        transient: bool,
    },
}

/// Why an evolution is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// What is left of the budget lets no further child in.
    Budget,
    /// The best candidate has the highest reward on every item of the fixed set.
    Perfect,
    /// Nothing new was proposed for long.
    Fruitless,
    /// The seed was scored on less than half of the fixed set: there is nothing to compare with.
    Unscored,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Play a candidate on items, in any order, and answer each with [`Evolution::evaluated`]. Never more items than
    /// the budget allows.
    Evaluate {
        /// Whom to play.
        candidate: Candidate,
        /// On what; at least one, none of them known.
        items: Vec<Item>,
    },
    /// Ask a reflector about a parent's episodes, and answer with [`Evolution::reflected`].
    Reflect {
        /// Whose episodes.
        parent: Candidate,
        /// The items that were scored; at least one.
        items: Vec<Item>,
        /// Their rewards, in the same order.
        scores: Vec<f64>,
    },
    /// Nothing: it is over.
    Done {
        /// A candidate for the gate, no more.
        best: Candidate,
        /// Why it is over.
        why: Why,
    },
}

/// What a candidate is being played for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Purpose {
    /// To join the front: it is played on the fixed set.
    Admission { parent: Option<Digest> },
    /// To be reflected about.
    Parent { minibatch: Vec<Item> },
    /// To be compared with its parent.
    Child { parent: Candidate, minibatch: Vec<Item> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Evaluating { candidate: Candidate, purpose: Purpose },
    Reflecting { parent: Candidate, minibatch: Vec<Item> },
    Done(Why),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    evaluations: u64,
    cached: u64,
    children: u64,
    reflections: u64,
    /// Iterations begun.
    iterations: u64,
    /// Iterations since the last evaluation or new child.
    fruitless: u64,
}

/// An evolution of prompt candidates, between two answers. See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evolution {
    format: u32,
    settings: Settings,
    seed: Candidate,
    fixed: Vec<Item>,
    training: Vec<Item>,
    cache: Cache,
    /// Failures that might have passed, by what failed.
    tries: BTreeMap<Key, u32>,
    /// Candidates that were played on the whole fixed set, in order of admission.
    pool: Vec<Admitted>,
    /// Every candidate there ever was.
    seen: BTreeSet<Digest>,
    curve: Vec<Point>,
    counts: Counts,
    failures: Failures,
    phase: Phase,
}

impl Evolution {
    /// Begins: draws the fixed set from the items' tasks, leaves the others to train on, and asks for the seed
    /// candidate to be played. A cache of earlier evolutions saves what it knows.
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: the budget, the minibatch or the items let no child in, or an item is given twice.
    pub fn new(settings: Settings, items: Vec<Item>, seed: Candidate, cache: Cache) -> Result<Self, LearnError> {
        let given = items.len();
        let items: BTreeSet<Item> = items.into_iter().collect();
        if items.len() < given {
            let twice = given - items.len();
            return Err(LearnError::Evolution(format!("{twice} items are given twice: give each task and seed once")));
        }
        let (fixed, training) = draw::split(&items, settings.pareto, settings.seed);
        settings.check(training.len(), fixed.len())?;
        let mut evolution = Self {
            format: FORMAT,
            settings,
            seen: BTreeSet::from([seed.digest()]),
            fixed,
            training,
            cache,
            tries: BTreeMap::new(),
            pool: Vec::new(),
            curve: Vec::new(),
            counts: Counts::default(),
            failures: Failures::default(),
            phase: Phase::Done(Why::Unscored),
            seed: seed.clone(),
        };
        evolution.evaluate(seed, Purpose::Admission { parent: None });
        evolution.advance();
        Ok(evolution)
    }

    /// What to do next. Asking changes nothing.
    pub fn next(&self) -> Next {
        match &self.phase {
            Phase::Evaluating { candidate, purpose } => {
                let mut items = self.open(&candidate.digest(), purpose);
                items.truncate(usize::try_from(self.left()).unwrap_or(usize::MAX));
                Next::Evaluate { candidate: candidate.clone(), items }
            }
            Phase::Reflecting { parent, minibatch } => {
                let scores = self.scores(&parent.digest(), minibatch);
                let scored = minibatch.iter().zip(scores).filter_map(|(item, score)| Some((item.clone(), score?)));
                let (items, scores) = scored.unzip();
                Next::Reflect { parent: parent.clone(), items, scores }
            }
            Phase::Done(why) => Next::Done { best: self.best().clone(), why: *why },
        }
    }

    /// Takes the answer to one item of [`Next::Evaluate`].
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: this was not asked, or the reward is no number between -1 and 1. Nothing has changed
    /// then.
    pub fn evaluated(&mut self, candidate: &Digest, item: &Item, outcome: Outcome) -> Result<(), LearnError> {
        let asked = match &self.phase {
            Phase::Evaluating { candidate: one, purpose } => {
                one.digest() == *candidate && self.open(candidate, purpose).contains(item)
            }
            Phase::Reflecting { .. } | Phase::Done(_) => false,
        };
        if !asked {
            let Item { task, seed } = item;
            return Err(LearnError::Evolution(format!(
                "task {task} with seed {seed} was not asked of candidate {candidate}: answer what `next` asks, once"
            )));
        }
        let key = self.key(candidate, item);
        match outcome {
            Outcome::Scored(reward) if !(-1.0..=1.0).contains(&reward) => {
                return Err(LearnError::Evolution(format!(
                    "a reward of {reward} for task {}: rewards lie between -1 and 1; answer that it failed",
                    item.task
                )));
            }
            Outcome::Scored(reward) => self.cache.insert(key, Known::Scored(reward)),
            Outcome::Failed { transient: false } => {
                self.cache.insert(key, Known::Failed);
                self.failures.permanent += 1;
                self.failures.left_out += 1;
            }
            Outcome::Failed { transient: true } => {
                let tries = self.tries.entry(key).or_default();
                *tries += 1;
                self.failures.transient += 1;
                self.failures.left_out += u64::from(*tries > RETRIES);
            }
        }
        self.counts.evaluations += 1;
        self.counts.fruitless = 0;
        self.advance();
        Ok(())
    }

    /// Takes the answer to [`Next::Reflect`]: the section that changes and its new text, or none if the reflector has
    /// nothing to say. A child that there was before is dropped, and costs nothing.
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: this was not asked, or it is about another section. Nothing has changed then.
    pub fn reflected(&mut self, proposal: Option<(String, String)>) -> Result<(), LearnError> {
        let Phase::Reflecting { parent, minibatch } = &self.phase else {
            return Err(LearnError::Evolution("no reflection was asked for: answer what `next` asks".into()));
        };
        let own = &self.settings.section;
        if let Some((section, _)) = proposal.as_ref().filter(|(section, _)| section != own) {
            return Err(LearnError::Evolution(format!(
                "a text for section {section}, but {own} is the one that changes"
            )));
        }
        let (parent, minibatch) = (parent.clone(), minibatch.clone());
        let child = proposal.map(|(section, text)| parent.with(&section, text));
        match child.filter(|child| self.seen.insert(child.digest())) {
            Some(child) => {
                self.counts.children += 1;
                self.counts.fruitless = 0;
                self.evaluate(child, Purpose::Child { parent, minibatch });
            }
            None => self.iterate(),
        }
        self.advance();
        Ok(())
    }

    /// The candidate with the highest mean on the fixed set, ties to the earlier; the seed while there is none.
    /// Candidates are compared on the items that both were scored on.
    pub fn best(&self) -> &Candidate {
        front::best(&self.pool).map_or(&self.seed, |best| &best.candidate)
    }

    /// What it came to so far.
    pub fn report(&self) -> Report {
        let Counts { evaluations, cached, children, reflections, .. } = self.counts;
        let (curve, candidates, failures) = (self.curve.clone(), self.pool.len() as u64, self.failures);
        Report { curve, candidates, children, reflections, evaluations, cached, failures }
    }

    /// What it was told at the start.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The fixed set: its tasks, like those of minibatches, teach; no gate may use them.
    pub fn fixed_set(&self) -> &[Item] {
        &self.fixed
    }

    /// All evaluations, for the next evolution.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Everything, as JSON: equal evolutions, equal bytes.
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: it cannot be written down.
    pub fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        serde_json::to_vec(self).map_err(|error| LearnError::Evolution(format!("no snapshot could be made: {error}")))
    }

    /// The evolution that a snapshot holds; it goes on as if it had never stopped.
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: these bytes are no snapshot, or one of another version.
    pub fn restore(bytes: &[u8]) -> Result<Self, LearnError> {
        let refuse = |what: String| LearnError::Evolution(format!("{what}; start the evolution anew"));
        let evolution: Self =
            serde_json::from_slice(bytes).map_err(|error| refuse(format!("this is no snapshot: {error}")))?;
        if evolution.format != FORMAT {
            return Err(refuse(format!("a snapshot of format {}, not {FORMAT}", evolution.format)));
        }
        evolution.settings.check(evolution.training.len(), evolution.fixed.len())?;
        Ok(evolution)
    }

    fn key(&self, candidate: &Digest, item: &Item) -> Key {
        Key::of(&self.settings.policy, candidate, item)
    }

    /// Evaluations that may still be made.
    fn left(&self) -> u64 {
        self.settings.budget.saturating_sub(self.counts.evaluations)
    }

    fn items<'a>(&'a self, purpose: &'a Purpose) -> &'a [Item] {
        match purpose {
            Purpose::Admission { .. } => &self.fixed,
            Purpose::Parent { minibatch } | Purpose::Child { minibatch, .. } => minibatch,
        }
    }

    /// What is neither known nor left out.
    fn open(&self, candidate: &Digest, purpose: &Purpose) -> Vec<Item> {
        let open = |item: &&Item| {
            let key = self.key(candidate, item);
            self.cache.get(&key).is_none() && self.tries.get(&key).is_none_or(|tries| *tries <= RETRIES)
        };
        self.items(purpose).iter().filter(open).cloned().collect()
    }

    fn scores(&self, candidate: &Digest, items: &[Item]) -> Vec<Option<f64>> {
        let score = |item: &Item| match self.cache.get(&self.key(candidate, item)) {
            Some(Known::Scored(reward)) => Some(reward),
            Some(Known::Failed) | None => None,
        };
        items.iter().map(score).collect()
    }

    /// Wants a candidate played; what is known of it already is a hit.
    fn evaluate(&mut self, candidate: Candidate, purpose: Purpose) {
        let digest = candidate.digest();
        let known = self.items(&purpose).iter().filter(|item| self.cache.get(&self.key(&digest, item)).is_some());
        self.counts.cached += known.count() as u64;
        self.phase = Phase::Evaluating { candidate, purpose };
    }

    /// Goes on while nobody has to be asked.
    fn advance(&mut self) {
        while let Phase::Evaluating { candidate, purpose } = &self.phase {
            if !self.open(&candidate.digest(), purpose).is_empty() {
                if self.left() == 0 {
                    self.phase = Phase::Done(Why::Budget);
                }
                return;
            }
            let (candidate, purpose) = (candidate.clone(), purpose.clone());
            match purpose {
                Purpose::Admission { parent } => self.admit(candidate, parent),
                Purpose::Parent { minibatch } => self.reflect(candidate, minibatch),
                Purpose::Child { parent, minibatch } => self.compare(candidate, &parent, &minibatch),
            }
        }
    }

    /// Lets a candidate that was played on the fixed set join the front.
    fn admit(&mut self, candidate: Candidate, parent: Option<Digest>) {
        let scores = self.scores(&candidate.digest(), &self.fixed);
        // A mean over the few items that happened not to fail says more about luck than about the candidate.
        if scores.iter().flatten().count() * 2 >= self.fixed.len() {
            let before = self.best().digest();
            self.pool.push(Admitted { candidate, parent, scores });
            let best =
                front::best(&self.pool).filter(|best| best.parent.is_none() || best.candidate.digest() != before);
            let mean = best.and_then(Admitted::mean);
            self.curve.extend(mean.map(|mean| Point { evaluations: self.counts.evaluations, mean }));
        }
        self.iterate();
    }

    /// Asks about a parent, unless there is nothing to be had: no child could be strictly better than a parent without
    /// a flaw.
    fn reflect(&mut self, parent: Candidate, minibatch: Vec<Item>) {
        if self.scores(&parent.digest(), &minibatch).iter().flatten().any(|score| *score < 1.0) {
            self.counts.reflections += 1;
            self.phase = Phase::Reflecting { parent, minibatch };
        } else {
            self.iterate();
        }
    }

    /// Plays a child on the fixed set if it is strictly better than its parent, and drops it otherwise.
    fn compare(&mut self, child: Candidate, parent: &Candidate, minibatch: &[Item]) {
        let parent = parent.digest();
        let (own, other) = (self.scores(&child.digest(), minibatch), self.scores(&parent, minibatch));
        if front::is_better(&own, &other) {
            self.evaluate(child, Purpose::Admission { parent: Some(parent) });
        } else {
            self.iterate();
        }
    }

    /// Begins the next iteration, or ends.
    fn iterate(&mut self) {
        let Counts { iterations, fruitless, .. } = self.counts;
        let Settings { seed, minibatch, .. } = self.settings;
        let per_epoch = (self.training.len() / minibatch.max(1)).max(1) as u64;
        let drawn = front::draw(&self.pool, derive_seed(seed, "evolve parent", iterations));
        let Some(parent) = drawn.map(|drawn| drawn.candidate.clone()) else {
            self.phase = Phase::Done(Why::Unscored);
            return;
        };
        if front::best(&self.pool).is_some_and(Admitted::is_perfect) {
            self.phase = Phase::Done(Why::Perfect);
            return;
        }
        if fruitless >= FRUITLESS_EPOCHS * per_epoch {
            self.phase = Phase::Done(Why::Fruitless);
            return;
        }
        let minibatch = draw::minibatch(&self.training, minibatch, seed, iterations);
        let purpose = Purpose::Parent { minibatch: minibatch.clone() };
        // A child is new, so it takes the whole minibatch and the fixed set, save for what an earlier evolution left in
        // the cache.
        let takes = self.open(&parent.digest(), &purpose).len() + minibatch.len() + self.fixed.len();
        if takes as u64 > self.left() {
            self.phase = Phase::Done(Why::Budget);
            return;
        }
        self.counts.iterations += 1;
        self.counts.fruitless += 1;
        self.evaluate(parent, purpose);
    }
}
