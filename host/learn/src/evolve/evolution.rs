//! The state machine of an evolution.

use crate::LearnError;
use crate::evolve::cache::Key;
use crate::evolve::front::{self, Admitted};
use crate::evolve::{Cache, Candidate, Failures, Item, Known, Point, Report, Settings, draw};
use clawhost_core::{Digest, derive_seed};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Retries of an item after transient failures. Three, so that a short outage loses no item and a long one does not consume
/// the budget.
pub const RETRIES: u32 = 3;

/// Consecutive epochs without an evaluation or a new child after which an evolution ends. Four, so that several parents meet
/// each training item. Without this limit, a reflector without proposals would be called forever.
const FRUITLESS_EPOCHS: u64 = 4;

/// Format version of a snapshot.
const FORMAT: u32 = 1;

/// The result of one evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The effective reward, -1 to 1.
    Scored(f64),
    /// The episode failed, or was not scored.
    Failed {
        /// Whether a retry might succeed.
        transient: bool,
    },
}

/// Why an evolution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The remaining budget does not suffice for another child.
    Budget,
    /// The best candidate has reward 1 on every scored item of the fixed set.
    Perfect,
    /// Nothing new was proposed for several epochs.
    Fruitless,
    /// The seed candidate was scored on less than half of the fixed set, so there is no basis for a comparison.
    Unscored,
}

/// The next action of the caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Play a candidate on items, in any order, and report each result with [`Evolution::evaluated`]. Never more items than
    /// the budget allows.
    Evaluate {
        /// The candidate to play.
        candidate: Candidate,
        /// The items: at least one, none of them cached.
        items: Vec<Item>,
    },
    /// Call a reflector about a parent's episodes, and report the proposal with [`Evolution::reflected`].
    Reflect {
        /// The parent.
        parent: Candidate,
        /// The scored items; at least one.
        items: Vec<Item>,
        /// Their rewards, in the same order.
        scores: Vec<f64>,
    },
    /// The evolution has ended.
    Done {
        /// The best candidate; the gate decides about it.
        best: Candidate,
        /// Why it ended.
        why: EndReason,
    },
}

/// The purpose of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Purpose {
    /// Admission to the front, on the fixed set.
    Admission { parent: Option<Digest> },
    /// The scores of a parent, before reflection.
    Parent { minibatch: Vec<Item> },
    /// Comparison of a child with its parent.
    Child { parent: Candidate, minibatch: Vec<Item> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Evaluating { candidate: Candidate, purpose: Purpose },
    Reflecting { parent: Candidate, minibatch: Vec<Item> },
    Done(EndReason),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    evaluations: u64,
    cached: u64,
    children: u64,
    reflections: u64,
    /// Iterations started.
    iterations: u64,
    /// Iterations since the last evaluation or new child.
    fruitless: u64,
}

/// The state of an evolution. See the [module](super).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evolution {
    format: u32,
    settings: Settings,
    seed: Candidate,
    fixed: Vec<Item>,
    training: Vec<Item>,
    cache: Cache,
    /// Number of transient failures per key.
    tries: BTreeMap<Key, u32>,
    /// Candidates that were evaluated on the whole fixed set, in order of admission.
    pool: Vec<Admitted>,
    /// All candidates so far, including rejected ones.
    seen: BTreeSet<Digest>,
    curve: Vec<Point>,
    counts: Counts,
    failures: Failures,
    phase: Phase,
}

impl Evolution {
    /// Starts an evolution: draws the fixed set from the tasks, uses the other items for training, and requests the
    /// evaluation of the seed candidate. Results in `cache` are reused.
    /// # Errors
    /// [`LearnError::Evolution`]: budget, minibatch or items do not suffice for one child, or an item is given twice.
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
            phase: Phase::Done(EndReason::Unscored),
            seed: seed.clone(),
        };
        evolution.evaluate(seed, Purpose::Admission { parent: None });
        evolution.advance();
        Ok(evolution)
    }

    /// The next action. Does not change the state.
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

    /// Reports the result of one item of [`Next::Evaluate`].
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: this result was not requested, or the reward is outside -1 to 1. The state is unchanged.
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
                "task {task} with seed {seed} was not requested for candidate {candidate}: report each result that `next` requests, once"
            )));
        }
        let key = self.key(candidate, item);
        match outcome {
            Outcome::Scored(reward) if !(-1.0..=1.0).contains(&reward) => {
                return Err(LearnError::Evolution(format!(
                    "a reward of {reward} for task {}: rewards are between -1 and 1; report a failure instead",
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

    /// Reports the reflector's proposal for [`Next::Reflect`]: a section and its new text, or `None`. A child that equals an
    /// earlier candidate is dropped at no cost.
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: no reflection was requested, or the proposal changes another section. The state is
    /// unchanged.
    pub fn reflected(&mut self, proposal: Option<(String, String)>) -> Result<(), LearnError> {
        let Phase::Reflecting { parent, minibatch } = &self.phase else {
            return Err(LearnError::Evolution("no reflection was requested: report what `next` requests".into()));
        };
        let own = &self.settings.section;
        if let Some((section, _)) = proposal.as_ref().filter(|(section, _)| section != own) {
            return Err(LearnError::Evolution(format!(
                "a text for section {section}; this evolution changes section {own}"
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

    /// The candidate with the highest mean on the fixed set, ties to the earlier one; before any is admitted, the seed
    /// candidate. Two candidates are compared on the items that both were scored on.
    pub fn best(&self) -> &Candidate {
        front::best(&self.pool).map_or(&self.seed, |best| &best.candidate)
    }

    /// Statistics so far.
    pub fn report(&self) -> Report {
        let Counts { evaluations, cached, children, reflections, .. } = self.counts;
        let (curve, candidates, failures) = (self.curve.clone(), self.pool.len() as u64, self.failures);
        Report { curve, candidates, children, reflections, evaluations, cached, failures }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The fixed set. Its tasks and those of the minibatches are training tasks: a gate must not use them.
    pub fn fixed_set(&self) -> &[Item] {
        &self.fixed
    }

    /// All results, for a next evolution.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The state as JSON. Equal states give equal bytes.
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: serialisation failed.
    pub fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        serde_json::to_vec(self).map_err(|error| LearnError::Evolution(format!("no snapshot could be made: {error}")))
    }

    /// Restores a snapshot. The evolution continues as if it had not been interrupted.
    ///
    /// # Errors
    /// [`LearnError::Evolution`]: the bytes are not a snapshot, or one of another format.
    pub fn restore(bytes: &[u8]) -> Result<Self, LearnError> {
        let refuse = |what: String| LearnError::Evolution(format!("{what}; restart the evolution"));
        let evolution: Self =
            serde_json::from_slice(bytes).map_err(|error| refuse(format!("not a snapshot: {error}")))?;
        if evolution.format != FORMAT {
            return Err(refuse(format!("a snapshot of format {}, not {FORMAT}", evolution.format)));
        }
        evolution.settings.check(evolution.training.len(), evolution.fixed.len())?;
        Ok(evolution)
    }

    fn key(&self, candidate: &Digest, item: &Item) -> Key {
        Key::of(&self.settings.policy, candidate, item)
    }

    /// Evaluations left in the budget.
    fn left(&self) -> u64 {
        self.settings.budget.saturating_sub(self.counts.evaluations)
    }

    fn items<'a>(&'a self, purpose: &'a Purpose) -> &'a [Item] {
        match purpose {
            Purpose::Admission { .. } => &self.fixed,
            Purpose::Parent { minibatch } | Purpose::Child { minibatch, .. } => minibatch,
        }
    }

    /// The items that are neither cached nor given up after too many retries.
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

    /// Starts an evaluation; cached items count as hits.
    fn evaluate(&mut self, candidate: Candidate, purpose: Purpose) {
        let digest = candidate.digest();
        let known = self.items(&purpose).iter().filter(|item| self.cache.get(&self.key(&digest, item)).is_some());
        self.counts.cached += known.count() as u64;
        self.phase = Phase::Evaluating { candidate, purpose };
    }

    /// Advances until an evaluation or a reflection is needed.
    fn advance(&mut self) {
        while let Phase::Evaluating { candidate, purpose } = &self.phase {
            if !self.open(&candidate.digest(), purpose).is_empty() {
                if self.left() == 0 {
                    self.phase = Phase::Done(EndReason::Budget);
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

    /// Admits a candidate that was evaluated on the fixed set to the front.
    fn admit(&mut self, candidate: Candidate, parent: Option<Digest>) {
        let scores = self.scores(&candidate.digest(), &self.fixed);
        // A mean over the few items that did not fail would mostly be chance.
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

    /// Requests a reflection, unless the parent has reward 1 on the whole minibatch: then no child can be strictly better.
    fn reflect(&mut self, parent: Candidate, minibatch: Vec<Item>) {
        if self.scores(&parent.digest(), &minibatch).iter().flatten().any(|score| *score < 1.0) {
            self.counts.reflections += 1;
            self.phase = Phase::Reflecting { parent, minibatch };
        } else {
            self.iterate();
        }
    }

    /// Evaluates a child on the fixed set if it is strictly better than its parent, otherwise drops it.
    fn compare(&mut self, child: Candidate, parent: &Candidate, minibatch: &[Item]) {
        let parent = parent.digest();
        let (own, other) = (self.scores(&child.digest(), minibatch), self.scores(&parent, minibatch));
        if front::is_better(&own, &other) {
            self.evaluate(child, Purpose::Admission { parent: Some(parent) });
        } else {
            self.iterate();
        }
    }

    /// Starts the next iteration, or ends the evolution.
    fn iterate(&mut self) {
        let Counts { iterations, fruitless, .. } = self.counts;
        let Settings { seed, minibatch, .. } = self.settings;
        let per_epoch = (self.training.len() / minibatch.max(1)).max(1) as u64;
        let drawn = front::draw(&self.pool, derive_seed(seed, "evolve parent", iterations));
        let Some(parent) = drawn.map(|drawn| drawn.candidate.clone()) else {
            self.phase = Phase::Done(EndReason::Unscored);
            return;
        };
        if front::best(&self.pool).is_some_and(Admitted::is_perfect) {
            self.phase = Phase::Done(EndReason::Perfect);
            return;
        }
        if fruitless >= FRUITLESS_EPOCHS * per_epoch {
            self.phase = Phase::Done(EndReason::Fruitless);
            return;
        }
        let minibatch = draw::minibatch(&self.training, minibatch, seed, iterations);
        let purpose = Purpose::Parent { minibatch: minibatch.clone() };
        // A child is new, so it needs the whole minibatch and the fixed set, except for results cached by an earlier
        // evolution.
        let takes = self.open(&parent.digest(), &purpose).len() + minibatch.len() + self.fixed.len();
        if takes as u64 > self.left() {
            self.phase = Phase::Done(EndReason::Budget);
            return;
        }
        self.counts.iterations += 1;
        self.counts.fruitless += 1;
        self.evaluate(parent, purpose);
    }
}
