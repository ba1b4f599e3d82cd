//! Proposes ten thousand lessons.

use clawhost_sdk::{Context, Group, Playbook, Proposal, Reflector, Result, export_reflector};

struct Guest;

impl Reflector for Guest {
    const NAME: &'static str = "hostile-proposals";

    fn reflect(_: &Group, _: &Playbook, _: &Context) -> Result<Vec<Proposal>> {
        Ok((0..5_000).map(|number| Proposal::add(number.to_string(), "more")).collect())
    }
}

export_reflector!(Guest);
