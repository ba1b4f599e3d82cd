//! Limits that a child sets for itself before it reads untrusted data.

/// Seconds after which a process that ignores the signal of its soft limit is killed.
#[cfg(unix)]
const GRACE_SECONDS: u64 = 5;

/// Limits the writable memory of this process in bytes; reserved address space does not count. It writes no core file.
pub fn bound_memory(bytes: u64) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        for (resource, most) in [(Resource::Data, bytes), (Resource::Core, 0)] {
            // If the system refuses, the other limits still apply.
            let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
        }
    }
    #[cfg(not(unix))]
    let _ = bytes;
}

/// Limits the processor time of this process to this number of seconds from now on; seconds of the system are whole ones, so it may end up to one
/// second earlier. A later call sets it anew.
pub fn bound_processor_time(seconds: u64) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let used = u64::try_from(used.tv_sec).unwrap_or(0);
        let mut limit = getrlimit(Resource::Cpu);
        let most = used.saturating_add(seconds);
        // The soft limit sends a signal that the parent recognises. The hard one stays as it is: it cannot be raised again.
        limit.current = Some(limit.maximum.map_or(most, |hard| hard.saturating_sub(GRACE_SECONDS).min(most)));
        // If the system refuses, the clock of the parent still applies.
        let _ = setrlimit(Resource::Cpu, limit);
    }
    #[cfg(not(unix))]
    let _ = seconds;
}
