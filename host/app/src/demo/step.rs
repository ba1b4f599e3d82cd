//! The steps of a demonstration, as its events name them.

/// One way to run the loop in the harness demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HarnessArm {
    /// The reflector, credit and the gate: what is to be proved.
    Full,
    /// The reflector proposes nothing.
    SilentReflector,
    /// Proposals say the wrong thing.
    ShuffledProposals,
    /// Everything that is proposed is admitted, without a measurement.
    EverythingAdmitted,
}

impl HarnessArm {
    /// All of them, in the order in which they are played.
    pub const ALL: [Self; 4] = [Self::Full, Self::SilentReflector, Self::ShuffledProposals, Self::EverythingAdmitted];
}

/// What a tiny model learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teacher {
    /// Demonstrations.
    Demonstrations,
    /// Rewards.
    Rewards,
    /// Rewards that were dealt out anew inside their groups.
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
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::MoreDemonstrations => "more demonstrations",
            Self::ShuffledRewards => "shuffled",
        }
    }
}

/// A step of a demonstration that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemoStep {
    /// Training tasks are played without a playbook, to make a harmful lesson of them.
    Scouting {
        /// Episodes.
        episodes: u64,
    },
    /// An arm of the harness demonstration learns.
    Arm {
        /// Which, from 1.
        number: usize,
        /// Of how many.
        of: usize,
        /// What it is.
        arm: HarnessArm,
    },
    /// The test tasks are played by a policy that is told every rule.
    Ceiling,
    /// A tiny model learns.
    Learning {
        /// The game.
        game: &'static str,
        /// What it learns from.
        teacher: Teacher,
    },
    /// A tiny model goes on with demonstrations, as a control.
    MoreDemonstrations {
        /// The game.
        game: &'static str,
        /// Steps.
        steps: u64,
    },
    /// A tiny model plays the test tasks.
    Measuring {
        /// The game.
        game: &'static str,
        /// When.
        measurement: Measurement,
        /// Whether answers are sampled; else the likeliest ones are taken.
        sampled: bool,
    },
}
