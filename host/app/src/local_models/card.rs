//! The card of an exported model: `README.md` in the form of the Hugging Face hub, and the proof beside it.

use crate::proof::ProofSummary;
use crate::{AppError, RequestError};
use clawhost_core::{Digest, RunKind, escaped, thousands};
use clawhost_learning::{Evaluation, Mean};
use clawhost_model::AdapterSettings;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The name of a card.
const CARD: &str = "README.md";
/// The name of a proof without its ending, and its ending if the file has none.
const PROOF: (&str, &str) = ("proof", "bundle");
/// Longest ending of a proof.
const ENDING_BYTES: usize = 16;
/// What a signature's file has behind the name of its bundle.
const SIGNATURE: &str = ".sig";
/// Bytes of a text of others that a card repeats.
const SHOWN: usize = 200;

/// What a card says of a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Card<'a> {
    pub(super) name: &'a str,
    /// The name of the base model on the hub, if it is known.
    pub(super) base: Option<String>,
    pub(super) architecture: &'static str,
    pub(super) parameters: u64,
    pub(super) numbers: &'static str,
    /// The digest of the weights, with the adapter if it is beside them.
    pub(super) weights: Digest,
    /// The adapter beside the weights.
    pub(super) adapter: Option<AdapterSettings>,
    /// The digest before the adapter was merged.
    pub(super) merged_from: Option<Digest>,
    /// The proof, with the name of its file.
    pub(super) proof: Option<(String, &'a ProofSummary)>,
}

/// A text of others as plain text in Markdown.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for character in escaped(text, SHOWN).chars() {
        if character.is_ascii_punctuation() && !"/:,;".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// A text as a value of the card's YAML: every JSON string is one.
fn quoted(text: &str) -> String {
    serde_json::Value::from(escaped(text, SHOWN)).to_string()
}

fn range(Mean { mean, low, high }: &Mean, sign: bool) -> String {
    match sign {
        true => format!("{mean:+.3} ({low:+.3} to {high:+.3})"),
        false => format!("{mean:.3} ({low:.3} to {high:.3})"),
    }
}

impl Card<'_> {
    /// The whole document.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a text cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let library = if self.adapter.is_some() { "peft" } else { "transformers" };
        writeln!(out, "---\nlibrary_name: {library}\npipeline_tag: text-generation")?;
        if let Some(base) = &self.base {
            writeln!(out, "base_model: {}", quoted(base))?;
        }
        writeln!(out, "tags:\n- clawhost\n- {}\n---\n", self.architecture)?;
        writeln!(out, "# {}\n", plain(self.name))?;
        writeln!(out, "Written by `clawhost model export`.\n\n| | |\n|---|---|")?;
        writeln!(out, "| architecture | {} |", self.architecture)?;
        writeln!(out, "| parameters | {} |", thousands(self.parameters))?;
        writeln!(out, "| numbers | {} |", self.numbers)?;
        writeln!(out, "| digest of the weights | `{}` |", self.weights)?;
        if let Some(adapter) = self.adapter {
            let AdapterSettings { rank, alpha, targets, .. } = adapter;
            let targets: Vec<&str> = targets.names().collect();
            let targets = targets.join(", ");
            writeln!(
                out,
                "| adapter | LoRA of rank {rank} with alpha {alpha} on {targets}, in the folder `adapter` |"
            )?;
        }
        if let Some(digest) = self.merged_from {
            writeln!(out, "| digest before the adapter was merged | `{digest}` |")?;
        }
        writeln!(out, "\n## What it learned from\n")?;
        match &self.proof {
            None => writeln!(out, "The export had no proof, so this card does not say it."),
            Some((file, proof)) => proved(out, file, proof, self.weights),
        }
    }
}

/// `exported`: the digest of the weights of the export.
fn proved(out: &mut String, file: &str, proof: &ProofSummary, exported: Digest) -> std::fmt::Result {
    let ProofSummary { bundle, run, kind, environment, episodes, iterations, evaluation, outcome, weights } = proof;
    writeln!(out, "| | |\n|---|---|")?;
    writeln!(out, "| proof | `{file}`, `{bundle}` |")?;
    writeln!(out, "| run | {} ({}) |", plain(&run.0), kind.name())?;
    writeln!(out, "| environment | {} |", plain(environment))?;
    writeln!(out, "| episodes | {} |", thousands(*episodes))?;
    if *kind == RunKind::Learn {
        writeln!(out, "| iterations | {} |", thousands(*iterations))?;
    }
    if let Some(Evaluation { split, pairs, tasks, before, after, lift, .. }) = evaluation {
        let (pairs, tasks) = (thousands(*pairs), thousands(*tasks));
        writeln!(out, "| test | {pairs} pairs of {tasks} tasks of the split {} |", plain(split))?;
        for (what, mean, sign) in [("before", before, false), ("after", after, false), ("lift", lift, true)] {
            if let Some(mean) = mean {
                writeln!(out, "| {what}, with its 95 % interval | {} |", range(mean, sign))?;
            }
        }
    }
    if let Some(outcome) = outcome {
        writeln!(out, "| verdict | {} |", outcome.words())?;
    }
    writeln!(out)?;
    match weights {
        Some(learned) if *learned == exported => {
            writeln!(out, "The proof names the weights after learning, and they are those of this export.")?
        }
        Some(learned) => writeln!(
            out,
            "The proof names the weights after learning, `{learned}`. This export was written from them: with the adapter merged, or in other numbers, so it has another digest."
        )?,
        None => {
            writeln!(out, "The proof does not name the weights after learning: nothing shows that they are these.")?
        }
    }
    writeln!(
        out,
        "The numbers are what the proof claims. Its entries were compared with its manifest; nothing was played again for this card. This plays it again, and computes every number from its episodes:\n"
    )?;
    writeln!(out, "```sh\nclawhost verify {file}\n```")
}

/// The name of the copy of a proof.
pub(super) fn proof_name(proof: &Path) -> String {
    let (stem, usual) = PROOF;
    let ending = proof.extension().and_then(|ending| ending.to_str());
    let is_plain = |ending: &&str| {
        ending.len() <= ENDING_BYTES && ending.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !ending.is_empty()
    };
    format!("{stem}.{}", ending.filter(is_plain).unwrap_or(usual))
}

/// Writes the card into a folder, and copies the proof there, with its signature.
pub(super) fn write(folder: &Path, card: &Card<'_>, proof: Option<&Path>) -> Result<(), AppError> {
    let failed = |path: &Path, error: std::io::Error| {
        AppError::from(RequestError::File { path: path.display().to_string(), why: error.to_string() })
    };
    if let (Some(from), Some((name, _))) = (proof, &card.proof) {
        let signature = |path: &Path| PathBuf::from(format!("{}{SIGNATURE}", path.display()));
        let to = folder.join(name);
        for (from, to) in [(from.to_owned(), to.clone()), (signature(from), signature(&to))] {
            if from.exists() {
                std::fs::copy(&from, &to).map_err(|error| failed(&to, error))?;
            }
        }
    }
    let path = folder.join(CARD);
    std::fs::write(&path, card.text()).map_err(|error| failed(&path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::RunId;
    use clawhost_learning::{Missing, Outcome};

    fn card(proof: Option<&ProofSummary>) -> String {
        Card {
            name: "tiny_*model*",
            base: Some("some/base".to_owned()),
            architecture: "qwen3",
            parameters: 99_456,
            numbers: "float32",
            weights: Digest::of(b"weights"),
            adapter: None,
            merged_from: Some(Digest::of(b"before")),
            proof: proof.map(|proof| ("proof.claw".to_owned(), proof)),
        }
        .text()
    }

    fn summary() -> ProofSummary {
        let mean = |mean| Some(Mean { mean, low: mean - 0.1, high: mean + 0.1 });
        let evaluation = Evaluation {
            split: "test".to_owned(),
            pairs: 1200,
            tasks: 300,
            reused: 0,
            missing: Missing::default(),
            before: mean(0.25),
            after: mean(0.5),
            lift: mean(0.25),
            parts: Vec::new(),
            arms: Vec::new(),
            effects: Vec::new(),
            tries: None,
        };
        ProofSummary {
            bundle: Digest::of(b"bundle"),
            run: RunId("r1|[x](http://evil)".to_owned()),
            kind: RunKind::Learn,
            environment: "<script>\n# guess".to_owned(),
            episodes: 2400,
            iterations: 20,
            evaluation: Some(evaluation),
            outcome: Some(Outcome::Improved),
            weights: Some(Digest::of(b"before")),
        }
    }

    #[test]
    fn a_card_says_what_the_model_is_and_what_a_proof_claims() {
        let text = card(None);
        for part in [
            "---\nlibrary_name: transformers\n",
            "base_model: \"some/base\"\ntags:\n- clawhost\n- qwen3\n---\n",
            "# tiny\\_\\*model\\*\n",
            "| parameters | 99,456 |",
            &format!("| digest of the weights | `{}` |", Digest::of(b"weights")),
            "The export had no proof",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let text = card(Some(&summary()));
        for part in [
            "| test | 1,200 pairs of 300 tasks of the split test |",
            "| before, with its 95 % interval | 0.250 (0.150 to 0.350) |",
            "| lift, with its 95 % interval | +0.250 (+0.150 to +0.350) |",
            "| verdict | improved |",
            "This export was written from them",
            "clawhost verify proof.claw",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let with = |weights: Option<Digest>| card(Some(&ProofSummary { weights, ..summary() }));
        assert!(with(None).contains("does not name the weights"));
        assert!(with(Some(Digest::of(b"weights"))).contains("they are those of this export"));
    }

    #[test]
    fn texts_of_a_proof_are_no_markdown() {
        let text = card(Some(&summary()));
        assert!(text.contains(r"| run | r1\|\[x\]\(http://evil\) (learn) |"), "{text}");
        assert!(text.contains(r"| environment | \<script\>\\n\# guess |"), "{text}");
    }

    #[test]
    fn a_copied_proof_keeps_a_plain_ending() {
        let check = |path: &str, expect: &str| assert_eq!(proof_name(Path::new(path)), expect);
        check("runs/a.claw", "proof.claw");
        check("a", "proof.bundle");
        check("a.c`d", "proof.bundle");
    }
}
