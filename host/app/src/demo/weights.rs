//! The proof of the weights layer: creates a tiny model from a seed, trains it on demonstrations, and then improves it with rewards
//! alone. Its games are sandboxed components.

use super::game::Game;
use super::game_trial::{GameTrial, Measured};
use super::halted::{DemoOutcome, Part, outcome};
use super::plugins::{DemoPlugins, plugin_folder};
use super::step::Measurement;
use super::{DemoMachine, SEED};
use crate::{AppError, EventSink, ModelSettings, SystemClock};
use clawhost_core::Clock as _;
use clawhost_learning::LearnReport;
use clawhost_model::TinyModel;
use clawhost_model::device::{Chosen, ComputeDevice};
use clawhost_play::Cancel;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The weights demonstration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsDemo {
    /// The seed of everything random: weights, numbers, and draws.
    pub seed: u64,
    /// Fewer iterations, and no controls.
    pub quick: bool,
    /// The folder of the plugins. `None`: see [`plugin_folder`].
    pub plugins: Option<PathBuf>,
}

impl Default for WeightsDemo {
    fn default() -> Self {
        Self { seed: SEED, quick: false, plugins: None }
    }
}

/// The results of one game.
#[derive(Debug)]
pub struct GameProof {
    /// The game.
    pub game: Game,
    /// Learning from demonstrations.
    pub imitation: LearnReport,
    /// Learning from rewards.
    pub rewards: LearnReport,
    /// The model after demonstrations.
    pub before: Measured,
    /// The model after rewards.
    pub after: Measured,
    /// The model after more demonstrations in place of rewards.
    pub more_demonstrations: Option<Measured>,
    /// The model after shuffled rewards in place of rewards.
    pub shuffled_rewards: Option<Measured>,
    /// Seconds it took without the controls.
    pub seconds: f64,
}

/// The results of the weights demonstration.
#[derive(Debug)]
pub struct WeightsProof {
    /// Every game.
    pub games: Vec<GameProof>,
    /// The device of the model.
    pub device: Chosen,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took.
    pub wall: Duration,
}

impl WeightsProof {
    /// The reasons why the proof failed. Empty: it succeeded.
    pub fn doubts(&self) -> Vec<WeightsDoubt> {
        weights_doubts(&self.games)
    }
}

/// A control: what replaces learning from rewards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// More demonstrations.
    MoreDemonstrations,
    /// Shuffled rewards.
    ShuffledRewards,
}

/// A reason why the proof of the weights failed.
#[derive(Debug, Clone, PartialEq)]
pub enum WeightsDoubt {
    /// The reward did not rise, or the intervals before and after overlap.
    NotImproved {
        /// The game.
        game: &'static str,
        /// Sampled reward after demonstrations.
        before: f64,
        /// Sampled reward after rewards.
        after: f64,
    },
    /// A control may be as good as rewards: its interval overlaps with that of rewards, or lies above it.
    ControlAsGood {
        /// The game.
        game: &'static str,
        /// The control.
        control: Control,
        /// Sampled reward after the control.
        reached: f64,
        /// Sampled reward after rewards.
        after: f64,
    },
}

/// The reasons why the proof failed. In each game, the interval after rewards has to lie above the interval before, and above those of
/// the controls. More demonstrations are a control only in games whose demonstrations are not perfect.
pub fn weights_doubts(games: &[GameProof]) -> Vec<WeightsDoubt> {
    games.iter().flat_map(doubts_of).collect()
}

fn doubts_of(proof: &GameProof) -> Vec<WeightsDoubt> {
    let (game, before, after) = (proof.game.name, proof.before, proof.after);
    let mut doubts = Vec::new();
    if after.low <= before.high {
        doubts.push(WeightsDoubt::NotImproved { game, before: before.sampled, after: after.sampled });
    }
    let warm_start = proof.imitation.weights().and_then(|weights| weights.warm_start.as_ref());
    let is_clumsy = warm_start.and_then(|warm| warm.demonstrated).is_some_and(|reward| reward < 1.0);
    let controls = [
        (Control::MoreDemonstrations, proof.more_demonstrations.filter(|_| is_clumsy)),
        (Control::ShuffledRewards, proof.shuffled_rewards),
    ];
    for (control, measured) in controls {
        if let Some(measured) = measured.filter(|measured| measured.high >= after.low) {
            let (reached, after) = (measured.sampled, after.sampled);
            doubts.push(WeightsDoubt::ControlAsGood { game, control, reached, after });
        }
    }
    doubts
}

/// Plays the weights demonstration, one game after the other. On the processor equal settings give equal proofs.
///
/// # Errors
/// Plugins are missing or refused, the device cannot be used, or episodes cannot be played.
pub async fn demonstrate_weights(
    demo: &WeightsDemo,
    machine: &DemoMachine,
    models: &ModelSettings,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<DemoOutcome<WeightsProof>, AppError> {
    outcome(play(demo, machine, models, (cancel, events)).await, cancel)
}

async fn play(
    demo: &WeightsDemo,
    machine: &DemoMachine,
    models: &ModelSettings,
    (cancel, events): (&Cancel, &dyn EventSink),
) -> Part<WeightsProof> {
    let folder = plugin_folder(demo.plugins.as_deref(), "env_guess.wasm")?;
    let parameters = TinyModel::default().make()?.config.parameters();
    let (opened, device) = models.choose_device(parameters, events)?;
    let host = machine.host()?;
    let (began, started_ms) = (Instant::now(), SystemClock::default().now_ms());
    let plugins = DemoPlugins { host: &host, folder: &folder };
    let mut games = Vec::new();
    for game in [Game::guess(), Game::addition()] {
        let game = if demo.quick { game.quick() } else { game };
        games.push(play_game(demo, game, &plugins, &opened, (cancel, events)).await?);
    }
    Ok(WeightsProof { games, device, started_ms, wall: began.elapsed() })
}

/// Plays one game to its end.
async fn play_game(
    demo: &WeightsDemo,
    game: Game,
    plugins: &DemoPlugins<'_>,
    device: &ComputeDevice,
    watched: (&Cancel, &dyn EventSink),
) -> Part<GameProof> {
    let began = Instant::now();
    let trial = GameTrial::new(game.clone(), plugins, (demo.seed, device), watched).await?;
    let imitation = trial.imitate().await?;
    let taught = trial.snapshot().await?;
    let before = trial.measure(Measurement::Before).await?;
    let rewards = trial.reinforce().await?;
    let after = trial.measure(Measurement::After).await?;
    let seconds = began.elapsed().as_secs_f64();
    let (mut more_demonstrations, mut shuffled_rewards) = (None, None);
    if !demo.quick {
        trial.restore(&taught).await?;
        trial.imitate_on().await?;
        more_demonstrations = Some(trial.measure(Measurement::MoreDemonstrations).await?);
        trial.restore(&taught).await?;
        trial.reinforce_shuffled().await?;
        shuffled_rewards = Some(trial.measure(Measurement::ShuffledRewards).await?);
    }
    Ok(GameProof { game, imitation, rewards, before, after, more_demonstrations, shuffled_rewards, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Usage;
    use clawhost_learning::{LayerReport, Outcome, WarmStartReport, WeightsReport};

    fn measured(sampled: f64) -> Measured {
        Measured { sampled, greedy: sampled, low: sampled - 0.05, high: sampled + 0.05, turns: 1.0 }
    }

    fn proof(before: f64, after: f64, controls: [f64; 2], demonstrated: f64) -> GameProof {
        let warm_start = Some(WarmStartReport { demonstrated: Some(demonstrated), ..WarmStartReport::default() });
        let layers = vec![LayerReport::Weights(Box::new(WeightsReport { warm_start, ..WeightsReport::default() }))];
        let report = LearnReport {
            outcome: Outcome::NotMeasured,
            evaluation: None,
            iterations: Vec::new(),
            reached: 0,
            learned: 0,
            layers,
            stopped: None,
            failures: Vec::new(),
            usage: Usage::default(),
            content_root: clawhost_core::Digest::of(b"content"),
        };
        let [more_demonstrations, shuffled_rewards] = controls.map(|reward| Some(measured(reward)));
        GameProof {
            game: Game::guess(),
            imitation: report.clone(),
            rewards: report,
            before: measured(before),
            after: measured(after),
            more_demonstrations,
            shuffled_rewards,
            seconds: 1.0,
        }
    }

    #[test]
    fn a_model_must_be_better_than_before_and_than_every_control() {
        let check = |proof: GameProof, expect: &[WeightsDoubt]| assert_eq!(doubts_of(&proof), expect);
        check(proof(0.5, 0.9, [0.6, 0.4], 0.7), &[]);
        let (game, before, after) = ("guess", 0.85, 0.9);
        check(proof(0.85, 0.9, [0.6, 0.4], 0.7), &[WeightsDoubt::NotImproved { game, before, after }]);
        let as_good = |control, reached| WeightsDoubt::ControlAsGood { game, control, reached, after };
        check(proof(0.5, 0.9, [0.9, 0.4], 0.7), &[as_good(Control::MoreDemonstrations, 0.9)]);
        // With perfect demonstrations this control may be as good.
        check(proof(0.5, 0.9, [0.9, 0.4], 1.0), &[]);
        check(proof(0.5, 0.9, [0.9, 0.9], 1.0), &[as_good(Control::ShuffledRewards, 0.9)]);
    }
}
