//! A simulated service: users who come back, their tasks, and their feedback.

use crate::EntryId;
use crate::live::*;
use crate::random::Random;

/// Which sessions give feedback.
#[derive(Debug, Clone, Copy)]
pub(super) enum Feedback {
    /// This share of them, at random.
    Share(f64),
    /// Half of the users nearly always and half nearly never, and more often for one kind of task than for the other.
    ByUser,
    /// About this share. In the shown arm, good outcomes are `ratio` times as likely to be told as bad ones.
    Biased { share: f64, ratio: f64 },
    /// This share of the shown sessions, and half of the others.
    ByArm(f64),
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) users: usize,
    /// Standard deviation of the logarithm of users' activity.
    pub(super) activity: f64,
    /// Share of sessions that succeed, on average.
    pub(super) base: f64,
    /// Its standard deviation between users.
    pub(super) spread: f64,
    /// How much it rises from the first to the last session.
    pub(super) drift: f64,
    /// What each entry adds to the probability of success.
    pub(super) effects: Vec<f64>,
    /// What the first two entries add together, besides.
    pub(super) together: f64,
    /// Share of the users for whom the first entry decides the outcome: for the better with one half of them, for the worse with the other.
    pub(super) decides: f64,
    pub(super) propensity: f64,
    /// The propensity of the second half of the sessions, if it is another one.
    pub(super) later: Option<f64>,
    /// Whether draws are per user.
    pub(super) per_user: bool,
    pub(super) feedback: Feedback,
}

impl Default for World {
    fn default() -> Self {
        Self {
            users: 300,
            activity: 1.2,
            base: 0.5,
            spread: 0.1,
            drift: 0.0,
            effects: vec![0.0],
            together: 0.0,
            decides: 0.0,
            propensity: 0.5,
            later: None,
            per_user: false,
            feedback: Feedback::Share(1.0),
        }
    }
}

pub(super) fn entry(number: usize) -> EntryId {
    EntryId(format!("e{number}"))
}

#[derive(Debug)]
struct User {
    /// Share of all sessions up to this user.
    until: f64,
    base: f64,
    /// What the first entry does: 1, -1 or 0.
    decides: i8,
    often: bool,
    draws: Vec<bool>,
}

pub(super) struct Service {
    world: World,
    users: Vec<User>,
    random: Random,
}

impl Service {
    pub(super) fn new(world: &World, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9));
        let mut total = 0.0;
        let mut users: Vec<User> = (0..world.users)
            .map(|_| {
                total += (world.activity * random.normal()).exp();
                let side = random.uniform();
                let decides = i8::from(side < world.decides / 2.0) - i8::from(side > 1.0 - world.decides / 2.0);
                let base = world.base + world.spread * random.normal();
                let draws = world.effects.iter().map(|_| random.uniform() < world.propensity).collect();
                User { until: total, base, decides, often: random.uniform() < 0.5, draws }
            })
            .collect();
        users.iter_mut().for_each(|user| user.until /= total);
        Self { world: world.clone(), users, random }
    }

    /// The next session; `progress` is from 0 to 1 over the life of the service.
    pub(super) fn session(&mut self, progress: f64) -> DrawnSession {
        let Self { world, users, random } = self;
        let at = random.uniform();
        let number = users.partition_point(|user| user.until <= at).min(users.len() - 1);
        let user = &users[number];
        let hard = random.uniform() < 0.5;
        let feature = 2.0 * random.uniform() - 1.0;
        let p = world.later.filter(|_| progress >= 0.5).unwrap_or(world.propensity);
        let shown: Vec<bool> =
            user.draws.iter().map(|fixed| if world.per_user { *fixed } else { random.uniform() < p }).collect();
        let centred = |number: usize| f64::from(u8::from(shown[number])) - p;
        let effect: f64 = world.effects.iter().enumerate().map(|(number, effect)| effect * centred(number)).sum();
        let together = if world.together != 0.0 && shown[0] && shown[1] { world.together } else { 0.0 };
        let kind = if hard { -0.05 } else { 0.05 };
        let chance = user.base + world.drift * (progress - 0.5) + kind + 0.1 * feature + effect + together;
        let good = match user.decides {
            1 => shown[0],
            -1 => !shown[0],
            _ => random.uniform() < chance,
        };
        let told = match world.feedback {
            Feedback::Share(share) => share,
            Feedback::ByUser => match (user.often, hard) {
                (true, false) => 0.9,
                (true, true) => 0.6,
                (false, false) => 0.1,
                (false, true) => 0.02,
            },
            Feedback::Biased { share, ratio } if shown[0] => {
                2.0 * share * if good { ratio / (1.0 + ratio) } else { 1.0 / (1.0 + ratio) }
            }
            Feedback::Biased { share, .. } => share,
            Feedback::ByArm(share) => share * if shown[0] { 1.0 } else { 0.5 },
        };
        let reward = (random.uniform() < told).then(|| f64::from(u8::from(good)));
        let propensity = Propensity::new(p).unwrap();
        let draws = shown.iter().enumerate().map(|(n, shown)| EntryDraw { entry: entry(n), shown: *shown, propensity });
        DrawnSession {
            user: number as u64,
            class: if hard { "hard" } else { "easy" }.into(),
            features: vec![feature],
            draws: draws.collect(),
            reward,
        }
    }
}

/// Estimates without sessions, for the sessions of a service. Decisions trust the feedback.
pub(super) fn credit() -> LiveCredit {
    trusting(OddsRatio::NONE)
}

/// The same, with decisions that survive this bias of the feedback.
pub(super) fn trusting(odds_ratio: OddsRatio) -> LiveCredit {
    LiveCredit::new(LiveSettings { scale: Scale::Unit, features: 1, odds_ratio }).unwrap()
}

/// Runs of a simulation.
pub(super) const RUNS: u64 = 300;

/// What happened over all runs to the first entry, looked at after every session.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Shares of runs in which the evidence of help ever reached 10, 20, and 160.
    pub(super) help: [f64; 3],
    /// The same for harm.
    pub(super) harm: [f64; 3],
    /// Share of runs in which the interval ever missed the truth.
    pub(super) missed: f64,
    /// Root mean square of the last errors in units of their standard errors.
    pub(super) spread: f64,
    /// Mean of the last errors.
    pub(super) bias: f64,
    /// Share of runs in which help reached 10 and survived a bias of the feedback of 1.5.
    pub(super) survived: f64,
    /// Share of runs that end blocked.
    pub(super) blocked: f64,
    /// Median of the rewarded sessions at which the evidence of help first reached 10; the last one if it never did.
    pub(super) median: u64,
}

const LEVELS: [f64; 3] = [10.0, 20.0, 160.0];

/// Plays a service this long, in many runs.
pub(super) fn simulate(world: &World, sessions: usize, truth: f64) -> Outcome {
    let mut outcome = Outcome::default();
    let one = 1.0 / RUNS as f64;
    let mut found = Vec::new();
    for run in 0..RUNS {
        let (mut service, mut credit) = (Service::new(world, run), credit());
        let (mut help, mut harm, mut missed, mut survived, mut at) = (0.0_f64, 0.0_f64, false, false, None);
        let mut last = None;
        for number in 0..sessions {
            let session = service.session(number as f64 / sessions as f64);
            credit.observe(&session).unwrap();
            if session.reward.is_none() {
                continue;
            }
            let estimate = credit.estimate(&entry(0)).unwrap();
            help = help.max(estimate.help);
            harm = harm.max(estimate.harm);
            missed |= estimate.decidable() && !(estimate.interval.0..=estimate.interval.1).contains(&truth);
            let high = estimate.help >= LEVELS[0];
            survived |= high && estimate.survives(Direction::Helps, OddsRatio::USUAL, LEVELS[0]);
            let rewarded = estimate.shown.rewarded + estimate.hidden.rewarded;
            at = at.or(high.then_some(rewarded));
            last = Some((estimate, rewarded));
        }
        let (estimate, rewarded) = last.unwrap();
        for (level, (helps, harms)) in LEVELS.iter().zip(outcome.help.iter_mut().zip(&mut outcome.harm)) {
            *helps += one * f64::from(u8::from(help >= *level));
            *harms += one * f64::from(u8::from(harm >= *level));
        }
        let error = estimate.effect - truth;
        outcome.missed += one * f64::from(u8::from(missed));
        outcome.survived += one * f64::from(u8::from(survived));
        outcome.blocked += one * f64::from(u8::from(estimate.feedback.blocks()));
        outcome.spread += one * (error / estimate.standard_error).powi(2);
        outcome.bias += one * error;
        found.push(at.unwrap_or(rewarded));
    }
    found.sort_unstable();
    outcome.median = found[found.len() / 2];
    outcome.spread = outcome.spread.sqrt();
    outcome
}

/// The largest share of runs that a promise of this probability allows, with two standard errors of the simulation.
pub(super) fn allowed(promise: f64) -> f64 {
    promise + 2.0 * (promise * (1.0 - promise) / RUNS as f64).sqrt()
}
