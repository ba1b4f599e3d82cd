//! Free memory: a model that does not fit is refused with an error, before the system would kill the process.

use crate::LocalModelError;
use std::path::Path;

/// More than the system writes into any of its files that are read here.
const SYSTEM_FILE_BYTES: u64 = 1 << 20;

/// Bytes of a weight in memory.
const VALUE: u64 = size_of::<f32>() as u64;

/// Bytes of a model's weights.
pub(crate) fn of_weights(parameters: u64) -> u64 {
    parameters.saturating_mul(VALUE)
}

/// Bytes that learning needs beside the loaded weights: the layouts for inference and training, gradients, and two
/// moments. The values kept per sequence come on top; for large models they are small in comparison.
pub(crate) fn of_learning(parameters: u64, learned: u64) -> u64 {
    of_weights(parameters).saturating_mul(2).saturating_add(of_weights(learned).saturating_mul(3))
}

/// Bytes that a step of weights that learn while they serve needs for states of its optimiser, beside [`of_learning`]: six numbers for each weight that
/// learns. A state is that weight with two moments, and there are two at once: bytes beside the numbers they become or were written from (when the state of
/// the step before is read, when the step makes its snapshot, and when the new state is made for its version), or the snapshot beside the
/// new weights and moments of an optimiser step.
pub(crate) fn of_states(learned: u64) -> u64 {
    of_weights(learned).saturating_mul(6)
}

/// Refuses a need that exceeds the free memory. If the free memory is unknown, everything passes.
///
/// # Errors
/// It does not fit.
pub(crate) fn check(what: &str, needed: u64) -> Result<(), LocalModelError> {
    match free() {
        Some(free) if needed > free => {
            Err(LocalModelError::Memory { what: what.to_owned(), needed: gib(needed), free: gib(free) })
        }
        _ => Ok(()),
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// The memory that is available without swapping, or less if a limit applies to this process.
fn free() -> Option<u64> {
    let read = |path: &str| clawhost_files::read_text(Path::new(path), SYSTEM_FILE_BYTES).ok();
    let machine = read("/proc/meminfo").and_then(|text| of_machine(&text));
    let group = "/sys/fs/cgroup";
    let limited = || {
        let most = read(&format!("{group}/memory.max"))?;
        of_group(&most, &read(&format!("{group}/memory.current"))?, &read(&format!("{group}/memory.stat"))?)
    };
    machine.into_iter().chain(limited()).min()
}

/// `MemAvailable` of `/proc/meminfo`, which counts in KiB.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The rest of a control group's limit (version 2). Inactive file pages are reclaimed when needed.
fn of_group(most: &str, current: &str, stat: &str) -> Option<u64> {
    let idle =
        stat.lines().find_map(|line| line.strip_prefix("inactive_file ")).and_then(|bytes| bytes.trim().parse().ok());
    let used = current.trim().parse::<u64>().ok()?.saturating_sub(idle.unwrap_or(0));
    Some(most.trim().parse::<u64>().ok()?.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_from_the_system() {
        let meminfo = "MemTotal:       24000000 kB\nMemFree:   1 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(of_machine(meminfo), Some(2 << 20));
        assert_eq!(of_machine("MemTotal: 1 kB\n"), None);
        assert_eq!(of_group("1000\n", "700\n", "anon 5\ninactive_file 300\nactive_file 9\n"), Some(600));
        assert_eq!(of_group("1000\n", "1200\n", ""), Some(0));
        assert_eq!(of_group("max\n", "700\n", ""), None);
        #[cfg(target_os = "linux")]
        assert!(free().is_some_and(|free| free > 1 << 20));
    }

    #[test]
    fn a_model_that_does_not_fit_is_refused_with_both_numbers() {
        check("a model", of_weights(1000)).unwrap();
        assert_eq!(of_states(10), 240);
        let error = check("a model", of_learning(1 << 60, 1 << 60)).unwrap_err().to_string();
        #[cfg(target_os = "linux")]
        assert!(error.starts_with("a model needs 17179869184.0 GiB of memory, and "), "{error}");
    }
}
