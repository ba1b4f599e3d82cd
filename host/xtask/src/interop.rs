//! `cargo xtask interop`: shares modules through a registry with the library of wkg and with sigstore, both ways.

use crate::{cargo, guests, root, run, target};
use anyhow::Result;

/// Builds the program, a component and the other side, and lets them meet.
pub(crate) fn main() -> Result<()> {
    let guests = guests::build(guests::Which::Plugins)?;
    let target = target()?;
    // As the tests build it, so that nothing is compiled twice.
    let features = ["--features", "clawhost-cli/failpoints"];
    run(cargo().args(["build", "--quiet", "--workspace", "--bin", "clawhost"]).args(features))?;
    let mut other = cargo();
    other.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(root().join("tests/interop/Cargo.toml"));
    other.arg("--target-dir").arg(target.join("interop")).arg("--");
    run(other.arg(target.join("debug/clawhost")).arg(guests.join("reward_exact.wasm")))
}
