//! The learning loop over fakes: what must be true whoever plays, judges, reflects and stores.

mod batches;
mod lessons;
mod shelf;
mod world;
