//! Lines for people who debug a plugin. Always available; kept with the episode.

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
    /// For the author.
    debug, Debug
);
level!(
    /// Worth knowing.
    info, Info
);
level!(
    /// Something looks wrong.
    warn, Warn
);
level!(
    /// Something is wrong; a trap report shows the last such line.
    error, Error
);
