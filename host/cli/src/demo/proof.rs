//! Checks that a demo proved what it claims, and explains a failed proof.

use clawhost_app::demo::{
    Control, ENOUGH_WORLDS, FullDoubt, HarnessDoubt, ITERATIONS, LIVE_ROUNDS, LiveArm, LiveDoubt, RECOVERED,
    RouterDoubt, RouterTrial, SEED, SLOPE, WORLDS, WeightsDoubt,
};
use clawhost_core::counted;
use clawhost_learn::Status;
use clawhost_learning::Outcome;

/// Describes what is wrong with the test reward or with the planted entry.
fn words(doubt: &HarnessDoubt) -> String {
    match doubt {
        HarnessDoubt::NotImproved(Outcome::Worse) => "the test reward fell".to_owned(),
        HarnessDoubt::NotImproved(Outcome::NotMeasured) => "the test reward could not be measured".to_owned(),
        HarnessDoubt::NotImproved(_) => "the test reward did not measurably improve".to_owned(),
        HarnessDoubt::NothingPlanted => {
            "this shop allows no lesson that looks helpful and harms, so none was planted".to_owned()
        }
        HarnessDoubt::NotRetired { status, groups: number } => {
            let (status, after) = (status.as_str(), counted(*number, "group"));
            let is = |one: &Status| one.name() == status;
            match status {
                _ if is(&Status::Harmful) => {
                    format!("the planted entry was retired after {after}, but its effect may be above 0")
                }
                _ if is(&Status::Expired) => format!("the planted entry expired after {after}: no harm was found"),
                _ => format!("the planted entry is still {status} after {after}"),
            }
        }
    }
}

/// Checks the proof of the harness demo, which ran this many iterations with this seed.
///
/// # Errors
/// The proof failed: the reasons, and advice.
pub(super) fn check(doubts: &[HarnessDoubt], (iterations, seed): (u64, u64)) -> anyhow::Result<()> {
    if doubts.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = doubts.iter().map(words).collect();
    let advice = if iterations < ITERATIONS {
        format!("--iterations {iterations} is few, the default of {ITERATIONS} shows it")
    } else if seed != SEED {
        format!("every --seed is another shop, the default of {SEED} shows it")
    } else {
        "build the plugins and the program again, from one version".to_owned()
    };
    Err(anyhow::anyhow!("the proof failed: {}; {advice}", reasons.join(", and ")))
}

/// Advice for a failure that may be chance.
const CHANCE: &str = "which may be chance; try another --seed, and say so to its authors";

/// Checks the proof of the live demo.
///
/// # Errors
/// The proof failed: the reasons, and advice. `rounds`: how many there were.
pub(super) fn check_live(doubts: &[LiveDoubt], rounds: u64) -> anyhow::Result<()> {
    if doubts.is_empty() {
        return Ok(());
    }
    let words = |doubt: &LiveDoubt| match doubt {
        LiveDoubt::NotImproved => "held-out users are not measurably more satisfied".to_owned(),
        LiveDoubt::ControlAsGood(arm) => {
            let control = match arm {
                LiveArm::Learned => "the gateway itself",
                LiveArm::Shuffled => "shuffled feedback",
                LiveArm::SkillsOff => "a gateway without skills",
                LiveArm::Silent => "a silent reflector",
            };
            format!("{control} did as well")
        }
        LiveDoubt::Refused(requests) => format!("{} refused", counted(*requests, "request")),
    };
    let reasons: Vec<String> = doubts.iter().map(words).collect();
    let advice = match rounds < LIVE_ROUNDS {
        true => format!("--rounds {rounds} is few, the default of {LIVE_ROUNDS} shows it"),
        false => CHANCE.to_owned(),
    };
    Err(anyhow::anyhow!("the proof failed: {}; {advice}", reasons.join(", and ")))
}

/// Checks the proof of the weights demo.
///
/// # Errors
/// The proof failed: the reason, and advice.
pub(super) fn check_weights(doubts: &[WeightsDoubt]) -> anyhow::Result<()> {
    let Some(doubt) = doubts.first() else { return Ok(()) };
    Err(match doubt {
        WeightsDoubt::NotImproved { game, before, after } => {
            anyhow::anyhow!("the proof failed: {game} went from {before:.3} to {after:.3}, {CHANCE}")
        }
        WeightsDoubt::ControlAsGood { game, control, reached, after } => {
            let control = match control {
                Control::MoreDemonstrations => "more demonstrations",
                Control::ShuffledRewards => "shuffled rewards",
            };
            anyhow::anyhow!(
                "the proof failed: {game} came to {reached:.3} by {control} and to {after:.3} by rewards, {CHANCE}"
            )
        }
    })
}

/// Checks the proof of the router demo.
///
/// # Errors
/// The proof failed: the reason, and advice.
pub(super) fn check_router(doubts: &[RouterDoubt]) -> anyhow::Result<()> {
    let Some(doubt) = doubts.first() else { return Ok(()) };
    let trial = |trial: &RouterTrial| match trial {
        RouterTrial::Models => "with models alone",
        RouterTrial::Escalation => "with escalation",
        RouterTrial::Regret => "with many decisions",
    };
    Err(match doubt {
        RouterDoubt::Recovered { trial: which, worlds } => anyhow::anyhow!(
            "the proof failed: {} the router earned {RECOVERED} of the gain in {worlds} of {WORLDS} worlds, not in {ENOUGH_WORLDS}, {CHANCE}",
            trial(which)
        ),
        RouterDoubt::Slope { worlds } => anyhow::anyhow!(
            "the proof failed: regret grew with a slope of at most {SLOPE} in {worlds} of {WORLDS} worlds, not in {ENOUGH_WORLDS}, {CHANCE}"
        ),
        RouterDoubt::ControlAsGood { trial: which, control } => {
            anyhow::anyhow!("the proof failed: {} `{control}` earned as much as the router, {CHANCE}", trial(which))
        }
    })
}

/// Checks the proof of the demo of all layers.
///
/// # Errors
/// The proof failed: the reasons, and advice.
pub(super) fn check_full(doubts: &[FullDoubt]) -> anyhow::Result<()> {
    let words = |doubt: &FullDoubt| match doubt {
        FullDoubt::NotImproved(outcome) => format!("the result is `{}`", outcome.words()),
        FullDoubt::NotBetterThan { layer } => format!("all layers are not measurably better than {layer} alone"),
        FullDoubt::ForeignAsGood => "the playbook of another house is not measurably worse".to_owned(),
        FullDoubt::RandomAsGood { random, router } => {
            format!("random routing has a utility of {random:.3}, and the router of {router:.3}")
        }
    };
    if doubts.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = doubts.iter().map(words).collect();
    Err(anyhow::anyhow!("the proof failed: {}, {CHANCE}", reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_app::demo::harness_doubts;
    use clawhost_learn::harness::EntryRow;
    use clawhost_learn::{Entry, Lesson};

    fn planted(status: &str, groups: u64, high: f64) -> EntryRow {
        let entry = Entry::new(Lesson::read("when a is b: c"), "planted");
        let (status, interval) = (status.to_owned(), Some((-1.0, high)));
        EntryRow { status, groups, interval, ..EntryRow::unmeasured(&entry) }
    }

    fn check(outcome: Outcome, row: Option<EntryRow>, numbers: (u64, u64), expect: Option<&str>) {
        let doubts = harness_doubts(outcome, row.as_ref());
        let said = super::check(&doubts, numbers).err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), expect);
    }

    #[test]
    fn a_proof_needs_a_higher_reward_and_a_retired_planted_entry() {
        check(Outcome::Improved, Some(planted("harmful", 15, -0.1)), (ITERATIONS, SEED), None);
        check(Outcome::Improved, Some(planted("harmful", 15, -0.1)), (1, 7), None);
    }

    #[test]
    fn a_failed_proof_gives_its_reasons_and_advice() {
        check(
            Outcome::NoSignificantChange,
            Some(planted("on trial", 12, 0.8)),
            (2, SEED),
            Some(
                "the proof failed: the test reward did not measurably improve, and the planted entry is still on trial after 12 groups; \
                 --iterations 2 is few, the default of 100 shows it",
            ),
        );
        check(
            Outcome::Improved,
            Some(planted("on trial", 1, 0.8)),
            (1, 7),
            Some(
                "the proof failed: the planted entry is still on trial after 1 group; --iterations 1 is few, the default of 100 shows it",
            ),
        );
        check(
            Outcome::Worse,
            None,
            (ITERATIONS, 7),
            Some(
                "the proof failed: the test reward fell, and this shop allows no lesson that looks helpful and harms, so none was planted; \
                 every --seed is another shop, the default of 1 shows it",
            ),
        );
        check(
            Outcome::NotMeasured,
            Some(planted("harmful", 9, 0.1)),
            (ITERATIONS, SEED),
            Some(
                "the proof failed: the test reward could not be measured, and the planted entry was retired after 9 groups, but its effect may be \
                 above 0; build the plugins and the program again, from one version",
            ),
        );
        check(
            Outcome::Improved,
            Some(planted("expired", 120, 0.1)),
            (ITERATIONS, SEED),
            Some(
                "the proof failed: the planted entry expired after 120 groups: no harm was found; build the plugins and the program again, from one \
                 version",
            ),
        );
    }
    #[test]
    fn a_failed_proof_of_weights_names_the_game_and_the_reason() {
        let check = |doubt: WeightsDoubt, expect: &str| {
            let said = check_weights(&[doubt]).unwrap_err().to_string();
            assert_eq!(said, format!("the proof failed: {expect}, {CHANCE}"));
        };
        check_weights(&[]).unwrap();
        let (game, after) = ("guess", 0.8);
        check(WeightsDoubt::NotImproved { game, before: 0.75, after }, "guess went from 0.750 to 0.800");
        let control = Control::ShuffledRewards;
        check(
            WeightsDoubt::ControlAsGood { game, control, reached: 0.79, after },
            "guess came to 0.790 by shuffled rewards and to 0.800 by rewards",
        );
    }

    #[test]
    fn a_failed_proof_of_all_layers_names_every_reason() {
        check_full(&[]).unwrap();
        let doubts = [
            FullDoubt::NotImproved(Outcome::Worse),
            FullDoubt::NotBetterThan { layer: "router".into() },
            FullDoubt::ForeignAsGood,
            FullDoubt::RandomAsGood { random: 0.8, router: 0.7 },
        ];
        let said = check_full(&doubts).unwrap_err().to_string();
        let reasons = [
            "the result is `worse`",
            "all layers are not measurably better than router alone",
            "the playbook of another house is not measurably worse",
            "random routing has a utility of 0.800, and the router of 0.700",
        ];
        assert_eq!(said, format!("the proof failed: {}, {CHANCE}", reasons.join("; ")));
    }

    #[test]
    fn a_failed_proof_of_the_router_names_the_trial_and_the_number_of_worlds() {
        let check = |doubt: RouterDoubt, expect: &str| {
            let said = check_router(&[doubt]).unwrap_err().to_string();
            assert_eq!(said, format!("the proof failed: {expect}, {CHANCE}"));
        };
        check_router(&[]).unwrap();
        check(
            RouterDoubt::Recovered { trial: RouterTrial::Escalation, worlds: 8 },
            "with escalation the router earned 0.9 of the gain in 8 of 10 worlds, not in 9",
        );
        check(RouterDoubt::Slope { worlds: 7 }, "regret grew with a slope of at most 0.6 in 7 of 10 worlds, not in 9");
        check(
            RouterDoubt::ControlAsGood { trial: RouterTrial::Models, control: "tiers".into() },
            "with models alone `tiers` earned as much as the router",
        );
    }
}
