//! The router layer in a learning run: the model that it chooses for every episode, and what it learns from the rewards.

mod model;
mod plugin;
mod stage;

pub use model::{RoutedModel, RoutedModels};
pub use plugin::{PluginDecision, RoutingFailure, RoutingFailures, decide_by_plugin};
pub use stage::{LearnedRouter, RouterKeeper, RouterPorts, RouterStage};
