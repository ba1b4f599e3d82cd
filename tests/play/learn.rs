//! The learning loop over fakes: what must be true whoever plays, judges, reflects and stores.

mod batches;
mod gate;
mod lessons;
mod replay;
mod resume;
mod shelf;
mod splits;
mod weights;
mod world;
