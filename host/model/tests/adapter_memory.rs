//! An iteration of learning an adapter takes the memory that the program says, and little more than its base: one test, because the peak is that of
//! the process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops where it fails")]

mod iteration;

use clawhost_model::Dtype;
use iteration::{Iteration, run, shape};

/// The program, its threads and its test harness.
const PROGRAM: u64 = 48 << 20;

#[test]
fn an_iteration_of_a_shape_of_30_million_weights_takes_the_memory_that_is_stated() {
    let work = Iteration {
        shape: shape(16_384, 384, 14, (6, 3, 64)),
        dtype: Dtype::BF16,
        answers: 16,
        prompt: 32,
        answer: 32,
    };
    assert_eq!(work.shape.parameters() / 1_000_000, 31);
    let took = run(&work);
    assert!(took.mismatch < 1e-3, "{took:?}");
    assert_eq!(took.model / (1 << 20), 59, "two bytes a weight");
    let Some(peak) = took.peak else { return };
    let keys_and_values = 16 * 64 * (14 * 3 * 64 * 2 * 4);
    assert!(peak < took.stated + keys_and_values + PROGRAM, "{took:?}");
}
