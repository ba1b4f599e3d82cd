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

/// Bytes that learning all weights needs beside the loaded ones: the layout for inference, two for training (one for each direction), gradients, and two
/// moments. The values kept per sequence come on top; for large models they are small in comparison.
pub(crate) fn of_learning(parameters: u64) -> u64 {
    of_weights(parameters).saturating_mul(6)
}

/// Bytes that learning an adapter needs beside the loaded base, which both passes read as it is kept. `learned` weights of the adapter: their numbers, the
/// layout for inference, two for training, gradients, and two moments. `merged` weights of matrices in f32, which answer with the adapter inside of them:
/// those of the version that answers, those of the next one, and the rows that they are laid out from.
pub(crate) fn of_learning_an_adapter(merged: u64, learned: u64) -> u64 {
    of_weights(merged).saturating_mul(3).saturating_add(of_weights(learned).saturating_mul(7))
}

/// Bytes that a step of weights that learn while they serve needs for states of its optimiser, beside learning itself: six numbers for each weight that
/// learns. A state is that weight with two moments, and there are two at once: written bytes and the same numbers in memory (when the state of
/// the step before is read, when the step makes its snapshot, and when the new state is made for its version), or the snapshot and the
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

/// The memory that is available without swapping, or less if limits apply to this process.
pub(crate) fn free() -> Option<u64> {
    let read = |path: &str| clawhost_files::read_text(Path::new(path), SYSTEM_FILE_BYTES).ok();
    let machine = read("/proc/meminfo").and_then(|text| of_machine(&text));
    let groups = read("/proc/self/cgroup").map(|text| groups(&text)).unwrap_or_default();
    machine.into_iter().chain(groups.iter().filter_map(|group| of_group(group, &read))).min()
}

/// `MemAvailable` of `/proc/meminfo`, which counts in KiB.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A control group of this process that may limit its memory.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    folder: String,
    /// Of version 1, whose files have other names.
    older: bool,
}

/// Where the control groups are mounted.
const MOUNTED: &str = "/sys/fs/cgroup";

/// The group of the process and all around it, by `/proc/self/cgroup`: a limit of any of them holds. Inside a container the path may be that outside,
/// of which the mounted tree has the last part, or nothing; so its root is always among them.
fn groups(cgroup: &str) -> Vec<Group> {
    let mut all = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let older = match controllers {
            "" => false,
            names if names.split(',').any(|name| name == "memory") => true,
            _ => continue,
        };
        let root = if older { format!("{MOUNTED}/memory") } else { MOUNTED.to_owned() };
        let mut inner = path.trim_end_matches('/');
        // Paths outside of the mounted tree begin with `/..`.
        while !inner.is_empty() && !inner.contains("/..") {
            all.push(Group { folder: format!("{root}{inner}"), older });
            inner = inner.rsplit_once('/').map_or("", |(outer, _)| outer);
        }
        all.push(Group { folder: root, older });
    }
    all
}

/// The rest of a group's limit. File pages that are not in use are reclaimed when needed. `None`: it has no limit.
fn of_group(group: &Group, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let (most, used, idle) = match group.older {
        false => ("memory.max", "memory.current", "inactive_file "),
        true => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    };
    let file = |name: &str| read(&format!("{}/{name}", group.folder));
    let most: u64 = file(most)?.trim().parse().ok()?;
    let used: u64 = file(used)?.trim().parse().ok()?;
    let stat = file("memory.stat").unwrap_or_default();
    let idle: Option<u64> =
        stat.lines().find_map(|line| line.strip_prefix(idle)).and_then(|bytes| bytes.trim().parse().ok());
    Some(most.saturating_sub(used.saturating_sub(idle.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_from_the_system() {
        let meminfo = "MemTotal:       24000000 kB\nMemFree:   1 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(of_machine(meminfo), Some(2 << 20));
        assert_eq!(of_machine("MemTotal: 1 kB\n"), None);
        #[cfg(target_os = "linux")]
        assert!(free().is_some_and(|free| free > 1 << 20));
    }

    #[test]
    fn a_limit_of_any_group_around_the_process_counts() {
        let check = |cgroup: &str, files: &[(&str, &str)], expect: Option<u64>| {
            let read = |path: &str| {
                let path = path.strip_prefix(MOUNTED)?;
                files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
            };
            let rest = groups(cgroup).iter().filter_map(|group| of_group(group, &read)).min();
            assert_eq!(rest, expect, "{cgroup} {files:?}");
        };
        let stat = "anon 5\ninactive_file 300\nactive_file 9\n";
        let own = [("/memory.max", "1000\n"), ("/memory.current", "700\n"), ("/memory.stat", stat)];
        check("0::/\n", &own, Some(600));
        check("0::/\n", &[("/memory.max", "1000\n"), ("/memory.current", "1200\n")], Some(0));
        check("0::/\n", &[("/memory.max", "max\n"), ("/memory.current", "700\n")], None);
        // The limit of an outer group, and a path from outside of a container.
        let outer = [
            ("/a/b/memory.max", "max\n"),
            ("/a/b/memory.current", "1\n"),
            ("/a/memory.max", "50\n"),
            ("/a/memory.current", "10\n"),
        ];
        check("0::/a/b\n", &outer, Some(40));
        check("0::/../../other\n", &own, Some(600));
        check("0::/kubepods/pod1\n", &own, Some(600));
        // Version 1.
        let older = [
            ("/memory/user/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/memory/user/memory.usage_in_bytes", "10\n"),
            ("/memory/memory.limit_in_bytes", "1000\n"),
            ("/memory/memory.usage_in_bytes", "700\n"),
            ("/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n"),
        ];
        check("12:cpu,cpuacct:/x\n5:memory:/user\n0::/\n", &older, Some(400));
        check("nonsense\n", &own, None);
    }

    #[test]
    fn a_model_that_does_not_fit_is_refused_with_both_numbers() {
        check("a model", of_weights(1000)).unwrap();
        assert_eq!(of_states(10), 240);
        let error = check("a model", of_learning(1 << 60)).unwrap_err().to_string();
        #[cfg(target_os = "linux")]
        assert!(error.starts_with("a model needs 17179869184.0 GiB of memory, and "), "{error}");
    }
}
