//! The data pool over HTTP: agents submit trajectories, or the gateway captures them; trainers outside of this program fetch
//! groups of them, train, acknowledge, and publish the next version of the policy.
//!
//! [`native`] has the routes of trajectories, [`trainers`] those of trainers, [`claw_r1`] those of Claw-R1's clients. [`party`] decides who may do what, [`body`] reads
//! bodies, [`judge`] asks rewards, [`step`] checks submitted steps, [`view`] shows trajectories, [`export`] writes files.

pub(crate) mod body;
mod claw_r1;
mod export;
mod judge;
mod native;
mod parquet;
mod party;
mod step;
mod trainers;
mod view;

pub(crate) use body::parse;
pub(crate) use claw_r1::routes as claw_r1_routes;
pub use judge::EpisodeJudge;
pub(crate) use judge::routes as judge_routes;
pub(crate) use native::routes as native_routes;
pub(crate) use party::{caught_up, read};
pub(crate) use trainers::routes as trainer_routes;
