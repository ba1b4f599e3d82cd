//! The steps of a demonstration, as reported by its events.

use super::full_trial::Routing;

/// An arm of the harness demonstration: one variant of the learning loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HarnessArm {
    /// Reflector, credit and gate: the loop that the demonstration is about.
    Full,
    /// The reflector proposes nothing.
    SilentReflector,
    /// The actions of proposals are exchanged, so that lessons advise the wrong action.
    ShuffledProposals,
    /// Every proposal is admitted without a measurement.
    EverythingAdmitted,
}

impl HarnessArm {
    /// All arms, in the order in which they run.
    pub const ALL: [Self; 4] = [Self::Full, Self::SilentReflector, Self::ShuffledProposals, Self::EverythingAdmitted];
    /// The arms that learn with small budgets.
    pub const SMALL: [Self; 3] = [Self::Full, Self::SilentReflector, Self::ShuffledProposals];
}

/// What a tiny model learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teacher {
    /// Demonstrations.
    Demonstrations,
    /// Rewards.
    Rewards,
    /// Rewards that were shuffled within their groups.
    ShuffledRewards,
}

/// When a tiny model is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measurement {
    /// After demonstrations.
    Before,
    /// After rewards.
    After,
    /// After more demonstrations in place of rewards.
    MoreDemonstrations,
    /// After shuffled rewards in place of rewards.
    ShuffledRewards,
}

impl Measurement {
    /// A short name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::MoreDemonstrations => "more demonstrations",
            Self::ShuffledRewards => "shuffled",
        }
    }
}

/// A trial of the router demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterTrial {
    /// Every model alone is an action.
    Models,
    /// The cheap model may escalate to the dear one.
    Escalation,
    /// Many decisions without floor and forgetting, whose regret is measured.
    Regret,
}

/// A step of the demonstration of all layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullStep {
    /// A tiny model practises in other houses.
    Practice,
    /// All layers learn in one run.
    Learning,
    /// The playbook of another house replaces the learned one.
    Foreign,
    /// Requests are routed in one way.
    Routing(Routing),
}

/// An arm of the demonstration of live learning: a gateway with a crowd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveArm {
    /// It learns from the crowd, which is to be proved.
    Learned,
    /// Thumbs and corrections are those of other sessions.
    Shuffled,
    /// It records alone.
    SkillsOff,
    /// Its reflector proposes nothing.
    Silent,
}

/// A step of a demonstration that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemoStep {
    /// Training tasks are played without a playbook. A harmful lesson is made from these episodes.
    Scouting {
        /// Number of episodes.
        episodes: u64,
    },
    /// An arm of the harness demonstration learns.
    Arm {
        /// The number of the arm, from 1.
        number: usize,
        /// Number of arms.
        of: usize,
        /// The arm.
        arm: HarnessArm,
    },
    /// An arm learns with a small number of episodes.
    Budget {
        /// Episodes of training and gate.
        budget: u64,
        /// The arm.
        arm: HarnessArm,
    },
    /// A policy whose prompt has every rule plays the test tasks.
    Ceiling,
    /// Crowds talk to four gateways, of which one should learn.
    Crowds,
    /// A tiny model learns.
    Learning {
        /// The game.
        game: &'static str,
        /// What it learns from.
        teacher: Teacher,
    },
    /// A tiny model continues to learn from demonstrations, as a control.
    MoreDemonstrations {
        /// The game.
        game: &'static str,
        /// Number of steps.
        steps: u64,
    },
    /// A tiny model plays the test tasks.
    Measuring {
        /// The game.
        game: &'static str,
        /// When it is measured.
        measurement: Measurement,
        /// Whether answers are sampled; otherwise decoding is greedy.
        sampled: bool,
    },
    /// Routers learn in simulated worlds.
    Routing {
        /// The trial.
        trial: RouterTrial,
    },
    /// A step of the demonstration of all layers.
    Full(FullStep),
}
