//! Memory of this process.

/// The file in which Linux describes a process.
const FILE: &str = "/proc/self/status";
/// Largest size of this file in bytes: about fifty short lines.
const FILE_BYTES: u64 = 64 << 10;

/// Resident memory in bytes. `None`: the system does not tell.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = clawhost_files::read_text(std::path::Path::new(FILE), FILE_BYTES).ok()?;
    parsed(&text)
}

fn parsed(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_the_description_of_a_process() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(parsed(text), expect, "{text}");
        check("Name:\tx\nVmRSS:\t    1024 kB\nThreads:\t1\n", Some(1 << 20));
        check("VmRSS:\t1024\n", None);
        check("VmRSS:\t99999999999999999999 kB\n", None);
        check("", None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
