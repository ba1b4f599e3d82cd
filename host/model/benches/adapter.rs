//! Runs one iteration of learning an adapter of rank 16 beside random weights in the shape of Qwen3 with 0.6 billion weights: 64 answers of 128 tokens after
//! prompts of 128. Prints one line of JSON, and fails if the peak memory of the process is above a limit in MiB. `cargo xtask adapter` runs it.
//!
//! ```text
//! cargo bench -p clawhost-model --bench adapter -- LIMIT [DTYPE [ANSWERS]]
//! ```

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench stops where it fails, and tells")]

#[path = "../tests/iteration/mod.rs"]
mod iteration;

use clawhost_model::Dtype;
use iteration::{Iteration, run, shape};

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(limit) = arguments.next() else {
        return println!("name a limit in MiB: see the comment of this file");
    };
    let limit: u64 = limit.parse().unwrap();
    let dtype = arguments.next().map_or(Dtype::BF16, |name| Dtype::named(&name).unwrap());
    let shape = shape(151_936, 1024, 28, (16, 8, 128));
    let answers = arguments.next().map_or(64, |count| count.parse().unwrap());
    let took = run(&Iteration { shape, dtype, answers, prompt: 128, answer: 128 });
    let mib = |bytes: u64| bytes >> 20;
    let (model, stated, peak) = (mib(took.model), mib(took.stated), took.peak.map(mib));
    println!(
        "{}",
        serde_json::json!({
            "what": "adapter", "dtype": dtype.name(), "answers": answers, "answering_s": took.answering, "learning_s": took.learning,
            "mismatch": took.mismatch, "model_mib": model, "stated_mib": stated, "peak_mib": peak, "limit_mib": limit,
        })
    );
    let peak = peak.unwrap();
    assert!(peak <= limit, "a peak of {peak} MiB is above the limit of {limit} MiB");
}
