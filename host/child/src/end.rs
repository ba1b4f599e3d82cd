//! How a child ended.

use std::process::ExitStatus;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// With this exit code.
    Code(i32),
    /// It reached its limit of processor time.
    OutOfTime,
    /// It aborted. Programs in Rust do so if memory or stack is exhausted.
    Aborted,
    /// Somebody killed it: the system, if memory is short, or a person.
    Killed,
    /// By another signal.
    Signal(i32),
}

/// How a child with this status ended.
pub fn how_it_ended(status: ExitStatus) -> How {
    #[cfg(unix)]
    {
        use rustix::process::Signal;
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return match signal {
                signal if signal == Signal::XCPU.as_raw() => How::OutOfTime,
                signal if signal == Signal::ABORT.as_raw() => How::Aborted,
                signal if signal == Signal::KILL.as_raw() => How::Killed,
                other => How::Signal(other),
            };
        }
    }
    How::Code(status.code().unwrap_or(-1))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn the_end_of_a_child_is_understood() {
        let check = |raw: i32, expect: How| assert_eq!(how_it_ended(ExitStatus::from_raw(raw)), expect);
        check(0, How::Code(0));
        check(3 << 8, How::Code(3));
        check(24, How::OutOfTime);
        check(6, How::Aborted);
        check(9, How::Killed);
        check(11, How::Signal(11));
    }
}
