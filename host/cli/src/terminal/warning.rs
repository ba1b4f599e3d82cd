//! The texts of warnings, which suggest flags.

use clawhost_app::{TaskDifference, Warning};
use clawhost_core::{Digest, SHORTEST_SCRUBBED, counted, escaped};
use clawhost_play::Unread;

/// The most digests that a warning lists.
const SHOWN_DIGESTS: usize = 3;

/// Bytes of a name that a warning shows.
const SHOWN: usize = 200;

/// What begins a warning.
pub(crate) const NOTE: &str = "note: ";

/// The lines of a warning.
pub(crate) fn lines(warning: &Warning) -> Vec<String> {
    if let Warning::Device { chosen, passed_over } = warning {
        let passed_over = passed_over.iter().map(|one| format!("            passed over: {one}"));
        return std::iter::once(format!("device      {chosen}")).chain(passed_over).collect();
    }
    vec![format!("{NOTE}{}", text(warning))]
}

fn text(warning: &Warning) -> String {
    match warning {
        Warning::KvNotGranted { plugin } => {
            format!("{plugin} asks for kv, which is not granted: its calls are denied (--grant kv)")
        }
        Warning::Grants { plugin, grants } => {
            format!(
                "{} may use {}",
                escaped(plugin, SHOWN),
                grants.iter().map(|one| escaped(one, SHOWN)).collect::<Vec<_>>().join(", ")
            )
        }
        Warning::NoModelGranted { plugin } => {
            format!("{plugin} asks for models, and none is granted: its calls are denied (--grant llm:ALIAS=SPEC)")
        }
        Warning::KeyHeldBack { variable, address } => format!(
            "the key in {variable} is not sent to {address}: confirm the address once (clawhost endpoints confirm {address}), or \
             name the file of a key for it (--api-key-file FILE)"
        ),
        Warning::KeyNotScrubbed { kind } => format!(
            "the key for {kind} is a placeholder or has fewer than {SHORTEST_SCRUBBED} characters: if the endpoint repeats it, it \
             is recorded like any other text"
        ),
        Warning::SamplingIgnored { folder, settings } => format!(
            "{folder}: generation_config.json asks for {}, which answers here do not follow",
            settings.join(", ")
        ),
        Warning::SamplingWhileLearning => {
            "the model's generation_config.json cuts unlikely tokens off or penalises repetition; while it learns it samples from all of them"
                .to_owned()
        }
        Warning::AdapterMerged => {
            "the model's folder has an adapter: it is added to the weights, and all of them learn; --adapter-rank \
             goes on with the adapter alone"
                .to_owned()
        }
        Warning::Device { chosen, .. } => chosen.clone(),
        Warning::FinishedReward => {
            "no --reward: an episode that the environment brings to its end earns 1, one that runs out of turns \
             or room earns 0"
                .to_owned()
        }
        Warning::NothingToRead(Unread { reward, reads, part, episodes }) => {
            let (name, last) = (escaped(&reward.name, 80), if *episodes == 1 { "has" } else { "have" });
            let episodes = counted(*episodes, "episode");
            let of = part.as_ref().map(|part| format!(" of part {}", escaped(part, 80))).unwrap_or_default();
            format!(
                "{name} reads {reads}; none of {episodes}{of} {last} any of it: is it a reward for this environment?"
            )
        }
        Warning::RouterPluginFailed { router, count, first } => {
            let times = counted(*count, "time");
            format!("the plugin of router {router} failed {times}, and its incumbent decided; the first time: {first}")
        }
        Warning::NothingToActOn { policy, answers } => {
            let cause = match policy.as_str() {
                "random" => "this environment lists no tools and no choices",
                _ => {
                    "it needs orders, or rules such as `when FACT is VALUE: answer TEXT` (--system-prompt TEXT, or a playbook)"
                }
            };
            format!(
                "{policy} found nothing to act on in any of {}: {cause}; a model needs neither (--policy \
                 openai:MODEL@ADDRESS)",
                counted(*answers, "answer")
            )
        }
        Warning::SameNameAndVersion { plugin, others } => {
            let shown: Vec<String> = others.iter().take(SHOWN_DIGESTS).map(Digest::short).collect();
            let more = if others.len() > shown.len() { ", ..." } else { "" };
            let (name, version) = (escaped(&plugin.name, 80), escaped(&plugin.version, 80));
            format!(
                "{name} {version} is the component {} here; this data folder also has another build of that name and version ({}{more}), \
                 whose results may not hold for this one; another version number would tell them apart",
                plugin.digest.short(),
                shown.join(", ")
            )
        }
        Warning::PlaybookFromElsewhere { playbook, learned, now, difference } => {
            let advice = match difference {
                TaskDifference::Environment => "what it says may not hold here".to_owned(),
                TaskDifference::Options => "where tasks come from the options, give it the same".to_owned(),
                TaskDifference::Seed { learned } => format!("where tasks come from the seed, use --seed {learned}"),
                TaskDifference::Component => {
                    "another component of that name: what it says may not hold here".to_owned()
                }
            };
            let (learned, now) = (escaped(learned, 400), escaped(now, 400));
            format!("playbook {playbook} was learned in {learned}; this is {now}: {advice}")
        }
        Warning::NoLessonFits { playbook, token_budget } => {
            format!("no lesson of playbook {playbook} fits into --token-budget {token_budget}")
        }
        Warning::NothingToResume => "nothing like it was interrupted, so a new run begins".to_owned(),
        Warning::LeftOut { run, teaching, pending, unscored, withheld } => {
            let [pending, unscored] = [pending, unscored].map(|left_out| counted(*left_out, "episode"));
            let teaching = counted(*teaching, "episode");
            let withheld = match withheld {
                0 => String::new(),
                more => format!(", {} kept out of learning", counted(*more, "episode")),
            };
            format!("{run} teaches with {teaching}; left out: {pending} pending, {unscored} without a reward{withheld}")
        }
        Warning::NothingToCompare { run } => format!(
            "{run} has groups of one episode: reflectors read it, but no lesson is measured; play with --group 2 or more"
        ),
        Warning::WithoutPrices { keys, models } => {
            let shown = |names: &[String]| -> String {
                names.iter().map(|name| escaped(name, 80)).collect::<Vec<_>>().join(", ")
            };
            let (limit, does) = if keys.len() == 1 { ("limit", "does") } else { ("limits", "do") };
            format!(
                "the {limit} of US dollars per day of {} {does} not count models without prices: {}; set price_in_per_million and \
                 price_out_per_million in their sections of gateway.toml (models of --upstream cannot have prices)",
                shown(keys),
                shown(models)
            )
        }
        Warning::NotWritten { why } => why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::PluginIdentity;

    #[test]
    fn warnings_advise_flags() {
        let check = |warning: Warning, expect: &[&str]| assert_eq!(lines(&warning), expect);
        check(
            Warning::KvNotGranted { plugin: "odd".into() },
            &["note: odd asks for kv, which is not granted: its calls are denied (--grant kv)"],
        );
        check(
            Warning::KeyNotScrubbed { kind: "openai".into() },
            &[
                "note: the key for openai is a placeholder or has fewer than 12 characters: if the endpoint repeats it, it is recorded \
               like any other text",
            ],
        );
        let unpriced = |keys: &[&str], models: &[&str]| Warning::WithoutPrices {
            keys: keys.iter().map(|name| (*name).to_owned()).collect(),
            models: models.iter().map(|name| (*name).to_owned()).collect(),
        };
        let advice = "set price_in_per_million and price_out_per_million in their sections of gateway.toml (models of --upstream cannot \
                      have prices)";
        let told =
            format!("note: the limit of US dollars per day of a does not count models without prices: m; {advice}");
        check(unpriced(&["a"], &["m"]), &[&told]);
        let told = format!(
            "note: the limits of US dollars per day of a, b do not count models without prices: m, n; {advice}"
        );
        check(unpriced(&["a", "b"], &["m", "n"]), &[&told]);
        let elsewhere = |difference| Warning::PlaybookFromElsewhere {
            playbook: "p".into(),
            learned: "env-shop with seed 1".into(),
            now: "env-shop with seed 0".into(),
            difference,
        };
        let begin = "note: playbook p was learned in env-shop with seed 1; this is env-shop with seed 0: ";
        let told = |advice: &str| format!("{begin}{advice}");
        let seed = TaskDifference::Seed { learned: 1 };
        check(elsewhere(seed), &[&told("where tasks come from the seed, use --seed 1")]);
        check(elsewhere(TaskDifference::Options), &[&told("where tasks come from the options, give it the same")]);
        check(elsewhere(TaskDifference::Environment), &[&told("what it says may not hold here")]);
        let component = told("another component of that name: what it says may not hold here");
        check(elsewhere(TaskDifference::Component), &[&component]);
        let state = PluginIdentity::native("reward-state");
        let reads = "artefact `records` and a reference with `records`".to_owned();
        check(
            Warning::NothingToRead(Unread { reward: state.clone(), reads: reads.clone(), part: None, episodes: 100 }),
            &[
                "note: reward-state reads artefact `records` and a reference with `records`; none of 100 episodes have any of it: \
               is it a reward for this environment?",
            ],
        );
        check(
            Warning::NothingToRead(Unread { reward: state.clone(), reads, part: Some("math".into()), episodes: 1 }),
            &[
                "note: reward-state reads artefact `records` and a reference with `records`; none of 1 episode of part math has any of \
               it: is it a reward for this environment?",
            ],
        );
        let others: Vec<Digest> = (0..4_u8).map(|number| Digest::of(&[number])).collect();
        let told = lines(&Warning::SameNameAndVersion { plugin: state, others: others.clone() }).join("");
        assert!(
            told.contains(&others[2].short()) && told.contains(", ...") && !told.contains(&others[3].short()),
            "{told}"
        );
        let chosen =
            Warning::Device { chosen: "cpu (this processor): small".into(), passed_over: vec!["cuda:0".into()] };
        check(chosen, &["device      cpu (this processor): small", "            passed over: cuda:0"]);
    }
}
