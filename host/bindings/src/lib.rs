//! Generated host bindings of the clawhost worlds (floor 2).
//!
//! Invariant: this crate holds generated code only. Generating and compiling it takes tens of seconds, so
//! nothing that changes often lives here. Every interface is bound once, in [`environment`] and [`observer`]; the
//! other worlds refer to the same Rust types, so that there is one `Message` on the host, not four.
#![allow(missing_docs, reason = "the documentation of generated items is the WIT they come from")]
#![allow(clippy::all, unreachable_pub, unused_qualifications, reason = "generated code")]

/// The world of environment plugins, and the types and imports that all worlds share.
pub mod environment {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "clawhost:worlds/environment-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        require_store_data_send: true,
    });
}

/// Recorded episodes as guests read them: the host-owned resources.
pub mod observer {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "clawhost:worlds/observer",
        imports: { default: trappable },
        require_store_data_send: true,
        with: {
            "clawhost:types/types": crate::environment::clawhost::types::types,
            "clawhost:log/log": crate::environment::clawhost::log::log,
            "clawhost:llm/llm": crate::environment::clawhost::llm::llm,
            "clawhost:kv/kv": crate::environment::clawhost::kv::kv,
            "clawhost:episode/view.episode-view": crate::EpisodeView,
            "clawhost:episode/view.group": crate::Group,
        },
    });
}

/// The world of reward plugins.
pub mod reward {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "clawhost:worlds/reward-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        require_store_data_send: true,
        with: {
            "clawhost:types/types": crate::environment::clawhost::types::types,
            "clawhost:log/log": crate::environment::clawhost::log::log,
            "clawhost:llm/llm": crate::environment::clawhost::llm::llm,
            "clawhost:kv/kv": crate::environment::clawhost::kv::kv,
            "clawhost:episode/view": crate::observer::clawhost::episode::view,
        },
    });
}

/// The world of reflector plugins.
pub mod reflector {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "clawhost:worlds/reflector-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        require_store_data_send: true,
        with: {
            "clawhost:types/types": crate::environment::clawhost::types::types,
            "clawhost:log/log": crate::environment::clawhost::log::log,
            "clawhost:llm/llm": crate::environment::clawhost::llm::llm,
            "clawhost:kv/kv": crate::environment::clawhost::kv::kv,
            "clawhost:episode/view": crate::observer::clawhost::episode::view,
        },
    });
}

/// The world of router plugins, which is unstable.
pub mod router {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "clawhost:worlds/router-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        require_store_data_send: true,
        with: {
            "clawhost:types/types": crate::environment::clawhost::types::types,
            "clawhost:log/log": crate::environment::clawhost::log::log,
        },
    });
}

/// What an `episode-view` handle stands for on the host: a position in the group the call was given.
#[derive(Debug, Clone, Copy)]
pub struct EpisodeView {
    /// Index into the group.
    pub index: usize,
}

/// What a `group` handle stands for on the host: the group of the call in progress.
#[derive(Debug, Clone, Copy)]
pub struct Group;
