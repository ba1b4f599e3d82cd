//! Live estimates as specifications.

mod comparators;
mod concurrent;
mod sensitivity;
mod simulation;
mod state;
mod table;
mod world;
