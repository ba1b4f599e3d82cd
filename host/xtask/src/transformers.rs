//! Compares local models with PyPI's `transformers` and `peft` in both directions: their values are computed again and compared with
//! the committed ones, and they load models that this program wrote. llama.cpp loads its GGUF files.

use crate::{cargo, root, run, say, target};
use anyhow::{Result, bail};
use std::process::Command;

/// `cargo xtask transformers PYTHON`
pub(crate) fn main(rest: &[String]) -> Result<()> {
    let [python] = rest else {
        bail!(
            "name the Python of a virtual environment with torch, transformers, peft, gguf and llama-cpp-python; tests/transformers/make_reference.py says how to make one"
        )
    };
    let script = root().join("tests/transformers/make_reference.py");
    run(Command::new(python).arg(&script).arg("--check"))?;
    let out = target()?.join("transformers");
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    say(&format!("writing models and adapters into {}", out.display()));
    run(cargo()
        .args(["test", "-p", "clawhost-burn", "--test", "transformers"])
        .env("CLAWHOST_TRANSFORMERS_OUT", &out))?;
    run(Command::new(python).arg(&script).arg("--ours").arg(&out))?;
    run(Command::new(python).arg(root().join("tests/transformers/make_gguf.py")).arg("--ours").arg(out.join("gguf")))
}
