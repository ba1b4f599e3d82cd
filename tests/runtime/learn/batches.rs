//! Batches and reflections: none is lost.
