//! Checks of the machine: whether instances can be pooled, how many, and how they are reset.

use crate::doctor::Finding;
use clawhost_core::Hint;
use clawhost_engine::{Allocation, Host, HostConfig, kernel_scans_pages, pool_slots};

const POOL: &str = "instance pool";
const MAPS: &str = "memory maps";
const KERNEL: &str = "kernel";

pub(crate) fn examine() -> Vec<Finding> {
    vec![pool(), maps(), kernel()]
}

fn pool() -> Finding {
    let config = HostConfig { allocation: Allocation::Pooled, ..HostConfig::default() };
    match Host::new(config) {
        Ok(_) => Finding::good(POOL, "instances start from reserved memory"),
        Err(error) => Finding::missing(
            POOL,
            error.to_string(),
            "instances have to be made on demand, and episodes begin about four times as slowly",
            "raise the limit on address space (ulimit -v unlimited)",
        )
        .with_hints([Hint::set("on_demand", "true")]),
    }
}

fn maps() -> Finding {
    let limits = clawhost_core::Limits::default();
    let (slots, wanted) = (pool_slots(&limits), limits.live_instances);
    if slots >= wanted {
        return Finding::good(MAPS, format!("room for {slots} instances at once"));
    }
    Finding::missing(
        MAPS,
        format!("a low limit: room for {slots} instances at once, of {wanted} that one host may hold"),
        "fewer episodes at once; more of them wait for a place",
        "sysctl -w vm.max_map_count=262144 (as root; in /etc/sysctl.d to keep it)",
    )
}

fn kernel() -> Finding {
    if kernel_scans_pages() {
        return Finding::good(KERNEL, "tells touched pages, so instances are reset in place");
    }
    Finding::missing(
        KERNEL,
        "cannot tell which pages were touched (PAGEMAP_SCAN)",
        "an episode begins about a third more slowly",
        "Linux 6.7 or later",
    )
}
