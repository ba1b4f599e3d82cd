//! A child ends with its parent, however the parent ends: also if it is killed and tells nobody.

use std::process::Command;
use std::time::Duration;

/// The environment variable with the process id of the parent.
pub const PARENT: &str = "CLAWHOST_PARENT";

/// Time between two looks at the parent. The signal that Linux offers instead is bound to a thread of the parent, and threads of a pool
/// end earlier than their process.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Tells a child of this process who its parent is.
pub(crate) fn tie(command: &mut Command) {
    command.env(PARENT, std::process::id().to_string());
}

/// Ends this process when the parent that started it has ended. Without such a parent, nothing happens.
pub fn end_with_parent() {
    #[cfg(unix)]
    if let Some(parent) = std::env::var(PARENT).ok().and_then(|text| text.parse::<u32>().ok()) {
        let watch = move || {
            while std::os::unix::process::parent_id() == parent {
                std::thread::sleep(LOOK_INTERVAL);
            }
            #[allow(clippy::disallowed_methods, reason = "nobody is left who waits for a result")]
            std::process::exit(1);
        };
        // Without the thread, a child of a killed parent ends at its own limits.
        let _ = std::thread::Builder::new().name("parent".to_owned()).spawn(watch);
    }
}
