//! Warnings in the words of a command line.

use clawhost_app::Warning;
use clawhost_core::escaped;

/// The lines of a warning.
pub(super) fn lines(warning: &Warning) -> Vec<String> {
    if let Warning::Device { chosen, passed_over } = warning {
        let passed_over = passed_over.iter().map(|one| format!("            passed over: {one}"));
        return std::iter::once(format!("device      {chosen}")).chain(passed_over).collect();
    }
    vec![format!("note: {}", text(warning))]
}

fn text(warning: &Warning) -> String {
    match warning {
        Warning::KvNotGranted { plugin } => {
            format!("{plugin} asks for kv, which is not granted: its calls are denied (--grant kv)")
        }
        Warning::NoModelGranted { plugin } => {
            format!("{plugin} asks for models, and none is granted: its calls are denied (--grant llm:ALIAS=SPEC)")
        }
        Warning::SamplingIgnored { folder, settings } => format!(
            "{folder}: generation_config.json asks for {}, which answers here do not follow",
            settings.join(", ")
        ),
        Warning::SamplingWhileLearning => {
            "the model's generation_config.json cuts unlikely tokens off; while it learns it samples from all of them"
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
        Warning::PlaybookFromElsewhere { playbook, learned, now, seed, same_environment } => {
            let advice = match (same_environment, seed) {
                (false, _) => "what it says may not hold here".to_owned(),
                (true, Some(seed)) => format!("where tasks come from the seed, say --seed {seed}"),
                (true, None) => "where tasks come from the options, give it the same".to_owned(),
            };
            let (learned, now) = (escaped(learned, 400), escaped(now, 400));
            format!("playbook {playbook} was learned in {learned}; this is {now}: {advice}")
        }
        Warning::NoLessonFits { playbook, token_budget } => {
            format!("no lesson of playbook {playbook} fits into --token-budget {token_budget}")
        }
        Warning::NothingToResume => "nothing like it was interrupted, so a new run begins".to_owned(),
        Warning::LeftOut { run, teaching, pending, unscored } => format!(
            "{teaching} episodes of {run} teach; {pending} wait for a verdict and {unscored} have no reward, so they are left out"
        ),
        Warning::NotWritten { why } => why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_advise_flags() {
        let check = |warning: Warning, expect: &[&str]| assert_eq!(lines(&warning), expect);
        check(
            Warning::KvNotGranted { plugin: "odd".into() },
            &["note: odd asks for kv, which is not granted: its calls are denied (--grant kv)"],
        );
        let elsewhere = |seed, same_environment| Warning::PlaybookFromElsewhere {
            playbook: "p".into(),
            learned: "env-shop with seed 1".into(),
            now: "env-shop with seed 0".into(),
            seed,
            same_environment,
        };
        let begin = "note: playbook p was learned in env-shop with seed 1; this is env-shop with seed 0: ";
        let told = |advice: &str| format!("{begin}{advice}");
        check(elsewhere(Some(1), true), &[&told("where tasks come from the seed, say --seed 1")]);
        check(elsewhere(None, true), &[&told("where tasks come from the options, give it the same")]);
        check(elsewhere(None, false), &[&told("what it says may not hold here")]);
        let chosen =
            Warning::Device { chosen: "cpu (this processor): small".into(), passed_over: vec!["cuda:0".into()] };
        check(chosen, &["device      cpu (this processor): small", "            passed over: cuda:0"]);
    }
}
