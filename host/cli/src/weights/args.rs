//! How weights learn, on the command line.

use clap::Args;
use clawhost_learn::policy::Truncation;
use std::path::PathBuf;

/// Objectives of rewards alone: the others need a teacher, or pairs.
const OBJECTIVES: [&str; 8] = ["grpo", "dapo", "dr_grpo", "rloo", "ppo", "is", "cispo", "gspo"];

/// How weights learn.
#[derive(Debug, Clone, Args)]
pub(crate) struct WeightsOptions {
    /// The folder of the local model that plays: short for --policy local:DIR. With --learn weights its weights learn; the
    /// folder itself stays as it is
    #[arg(long, value_name = "DIR", conflicts_with = "policy", help_heading = "Weights")]
    pub(crate) model: Option<PathBuf>,
    /// What is minimised
    #[arg(long, value_name = "NAME", default_value = "dapo", value_parser = OBJECTIVES, help_heading = "Weights")]
    pub(crate) objective: String,
    /// Highest learning rate; it rises over --warmup steps, then falls to a tenth of it [default: 0.002; of an adapter 0.0002]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, value_parser = rate, help_heading = "Weights")]
    pub(crate) rate: Option<f64>,
    /// Steps until the rate is at its highest
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=100_000), help_heading = "Weights")]
    pub(crate) warmup: u64,
    /// Muon for the matrices inside and AdamW for the rest, or AdamW for all [default: muon; of an adapter adamw]
    #[arg(long, value_name = "RULE", value_parser = ["muon", "adamw"], help_heading = "Weights")]
    pub(crate) optimizer: Option<String>,
    /// Train an adapter of this rank (LoRA) instead of all weights; one that lies in the model's folder goes on learning
    #[arg(long, value_name = "RANK", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Weights")]
    pub(crate) adapter_rank: Option<u16>,
    /// What the adapter learned counts ALPHA / RANK times [default: twice the rank]
    #[arg(long, value_name = "ALPHA", requires = "adapter_rank", value_parser = alpha, help_heading = "Weights")]
    pub(crate) adapter_alpha: Option<f64>,
    /// Projections that have an adapter, as PEFT's target_modules has them: `q_proj,v_proj` [default: all seven]
    #[arg(long, value_name = "NAMES", requires = "adapter_rank", value_delimiter = ',', help_heading = "Weights")]
    pub(crate) adapter_targets: Vec<String>,
    /// Episodes that were cut off, by --max-turns, by their environment or in one of their answers by --max-tokens: `keep` them like
    /// others, `mask` them (they teach nothing), or `penalty=P` (P less reward, 0 to 2)
    #[arg(long, value_name = "RULE", default_value = "keep", value_parser = truncation, help_heading = "Weights")]
    pub(crate) truncated: Truncation,
    /// Weight of the divergence from the model as it was opened, or of an adapter from the model without it: how much it is held
    /// near that; 0: not at all. Not together with --demonstrations
    #[arg(long, value_name = "BETA", default_value_t = 0.0, allow_negative_numbers = true, conflicts_with = "demonstrations", value_parser = kl, help_heading = "Weights")]
    pub(crate) kl: f64,
    /// Times in an iteration, 0 to 3, that groups whose members all earned the same are replaced by others
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=3), help_heading = "Weights")]
    pub(crate) refills: u32,
    /// Pass tasks over whose last two groups were all right or all wrong; each comes back at every eighth turn
    #[arg(long, help_heading = "Weights")]
    pub(crate) difficulty_filter: bool,
    /// Iterations between two looks at the validation tasks, by which the best weights are kept; 0: none
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=100_000), help_heading = "Weights")]
    pub(crate) evaluate_every: u64,
    /// Validation episodes of a look
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Weights")]
    pub(crate) evaluate_episodes: u64,
    /// Options under which the environment demonstrates, as `demonstrate=clumsy`: learn from its demonstrations before rewards
    #[arg(long, value_name = "OPTION=VALUE", help_heading = "Weights")]
    pub(crate) demonstrations: Vec<String>,
    /// Mean reward of sampled episodes at which demonstrations are enough
    #[arg(long, value_name = "REWARD", default_value_t = 0.4, requires = "demonstrations", help_heading = "Weights")]
    pub(crate) demonstrations_until: f64,
    /// Most steps of demonstrations, of 128 each; after every tenth the model is looked at
    #[arg(long, value_name = "N", default_value_t = 400, requires = "demonstrations", value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Weights")]
    pub(crate) demonstrations_steps: u64,
    /// Where models, metrics and curves go, in a folder of the run's name [default: `learned` in the data folder]
    #[arg(long, value_name = "DIR", help_heading = "Weights")]
    pub(crate) out: Option<PathBuf>,
    /// Episodes of an iteration that are written down as text
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(0..=1000), help_heading = "Weights")]
    pub(crate) completions: u16,
}

impl Default for WeightsOptions {
    /// What clap gives where nothing is said.
    fn default() -> Self {
        Self {
            model: None,
            objective: "dapo".into(),
            rate: None,
            warmup: 5,
            optimizer: None,
            adapter_rank: None,
            adapter_alpha: None,
            adapter_targets: Vec::new(),
            truncated: Truncation::Keep,
            kl: 0.0,
            refills: 3,
            difficulty_filter: false,
            evaluate_every: 10,
            evaluate_episodes: 100,
            demonstrations: Vec::new(),
            demonstrations_until: 0.4,
            demonstrations_steps: 400,
            out: None,
            completions: 4,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err("expected a number above 0 and at most 1, as 0.002".into()),
    }
}

fn alpha(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(alpha) if alpha > 0.0 && alpha <= 1e6 => Ok(alpha),
        _ => Err("expected a number above 0, as 32".into()),
    }
}

fn kl(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(weight) if (0.0..=10.0).contains(&weight) => Ok(weight),
        _ => Err("expected a number from 0 to 10, as 0.02".into()),
    }
}

fn truncation(text: &str) -> Result<Truncation, String> {
    match (text, text.strip_prefix("penalty=").map(str::parse::<f64>)) {
        ("keep", _) => Ok(Truncation::Keep),
        ("mask", _) => Ok(Truncation::Mask),
        (_, Some(Ok(penalty))) if (0.0..=2.0).contains(&penalty) => Ok(Truncation::Penalty(penalty)),
        _ => Err("expected keep, mask, or penalty=P with P from 0 to 2".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use clawhost_learn::policy::Objective;

    #[derive(Parser)]
    struct Alone {
        #[arg(long)]
        policy: Option<String>,
        #[command(flatten)]
        weights: WeightsOptions,
    }

    fn parsed(text: &[&str]) -> Result<WeightsOptions, String> {
        let typed = ["clawhost"].iter().chain(text);
        Alone::try_parse_from(typed).map(|alone| alone.weights).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_unsaid_is_the_default() {
        assert_eq!(format!("{:?}", parsed(&[]).unwrap()), format!("{:?}", WeightsOptions::default()));
    }

    #[test]
    fn truncated_episodes_are_kept_masked_or_punished() {
        let check = |text: &str, expect: Option<Truncation>| {
            assert_eq!(parsed(&["--truncated", text]).ok().map(|options| options.truncated), expect, "{text}");
        };
        check("keep", Some(Truncation::Keep));
        check("mask", Some(Truncation::Mask));
        check("penalty=0.5", Some(Truncation::Penalty(0.5)));
        check("penalty=-1", None);
        check("penalty", None);
        check("drop", None);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let check = |text: &[&str], expect: &str| {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check(&["--adapter-alpha", "32"], "--adapter-rank");
        check(&["--adapter-rank", "8", "--adapter-alpha", "0"], "above 0, as 32");
        check(&["--rate", "0"], "above 0 and at most 1");
        check(&["--rate", "-1"], "above 0 and at most 1");
        check(&["--objective", "sft"], "possible values: grpo, dapo");
        check(&["--kl", "-1"], "from 0 to 10");
        check(&["--kl", "0.02", "--demonstrations", "a=b"], "cannot be used with");
        check(&["--model", "m", "--policy", "follower"], "cannot be used with");
        check(&["--demonstrations-until", "0.5"], "--demonstrations");
    }

    #[test]
    fn every_objective_that_is_offered_follows_rewards_alone() {
        for name in OBJECTIVES {
            let Objective::Policy(gradient) = Objective::named(name, std::num::NonZeroU32::MIN).unwrap() else {
                panic!("{name}")
            };
            assert!(gradient.reward.is_some() && gradient.distillation.is_none() && gradient.kl == 0.0, "{name}");
        }
    }
}
