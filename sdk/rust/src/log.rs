//! Log lines for debugging a plugin. Always available; stored with the episode.

#[cfg(target_arch = "wasm32")]
use crate::bindings::observer::clawhost::log::log as host;

macro_rules! level {
    ($(#[$doc:meta])* $name:ident, $variant:ident) => {
        $(#[$doc])*
        pub fn $name(text: &str) {
            #[cfg(target_arch = "wasm32")]
            host::write(host::Level::$variant, text);
            #[cfg(not(target_arch = "wasm32"))]
            crate::testing::record_log(stringify!($name), text);
        }
    };
}

level!(
    /// Debugging information.
    debug, Debug
);
level!(
    /// Useful information.
    info, Info
);
level!(
    /// A possible problem.
    warn, Warn
);
level!(
    /// A problem. A trap report shows the last line of this level.
    error, Error
);
