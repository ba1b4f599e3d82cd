//! The harness layer in a learning run: reflection, the gate, evolution of a section.

mod allowance;
mod evolve;
mod gate;
mod gate_again;
mod reflect;
mod reward_scale;
mod served;
mod stage;
mod waiting;

pub use allowance::Allowance;
pub use evolve::{EvolutionReport, ReflectorAnswers};
pub use gate::{GateReport, GateUse};
pub use gate_again::{GateAgain, GateNumbers};
pub use reflect::{Reflections, shown_entry};
pub use served::ServedPlaybooks;
pub use stage::{EvolvePlan, GatePlan, HarnessPlan, HarnessPorts, HarnessStage, Ledger, Reflecting};
