//! `cargo xtask adapter`: one iteration of learning an adapter beside random weights in the shape of a model with 0.6 billion weights, within a limit of
//! memory.

use crate::{cargo, run};
use anyhow::{Context as _, Result, bail};

/// The limit in MiB: 4 GB, so that a laptop with 8 GB learns beside other programs.
const LIMIT: u64 = 3_814;

/// `[--limit MIB] [--dtype NAME]`.
fn options(rest: &[String]) -> Result<(u64, String)> {
    let (mut limit, mut dtype) = (LIMIT, "bf16".to_owned());
    let mut rest = rest.iter();
    while let Some(option) = rest.next() {
        let value = rest.next().with_context(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--limit" => limit = value.parse().with_context(|| format!("--limit {value} is no number of MiB"))?,
            "--dtype" => dtype.clone_from(value),
            other => bail!("no option `{other}`: adapter [--limit MIB] [--dtype NAME]"),
        }
    }
    Ok((limit, dtype))
}

pub(crate) fn main(rest: &[String]) -> Result<()> {
    let (limit, dtype) = options(rest)?;
    // The program measures its own peak, and fails above the limit: a limit that the system keeps needs rights that not everybody has.
    run(cargo()
        .args(["bench", "--package", "clawhost-model", "--bench", "adapter", "--"])
        .args([limit.to_string(), dtype]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_and_format_are_options() {
        let read = |text: &str| options(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("").unwrap(), (LIMIT, "bf16".to_owned()));
        assert_eq!(read("--dtype int8 --limit 3000").unwrap(), (3000, "int8".to_owned()));
        for wrong in ["--limit", "--limit much", "--size 3"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
