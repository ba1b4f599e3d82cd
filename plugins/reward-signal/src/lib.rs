//! A signal of an environment as a reward: its last value, or whether that equals a given number.
//!
//! `reward_signal.wasm?name=distance&equals=0` is 1 if the last `distance` is 0, else 0. Without `equals` the value
//! itself is the reward, which must be from 0 to 1. An episode in which the signal was never set gets no verdict,
//! unless `absent` gives a value.

use clawhost_sdk::{Context, Ending, Episode, OptionSpec, Reads, Result, Reward, Verdict, export_reward};

/// The reward.
#[derive(Debug)]
pub struct Signal;

/// The settings: the signal, and its value.
#[derive(Debug, PartialEq)]
struct Settings {
    name: String,
    equals: Option<f64>,
    absent: Option<f64>,
}

impl Settings {
    fn of(context: &Context) -> Result<Self> {
        let name = context.option("name").filter(|name| !name.is_empty()).ok_or("name the signal: name=distance")?;
        let number = |option: &str| match context.option(option).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(format!("{option}={text} is no number")),
            },
        };
        let absent = number("absent")?;
        if absent.is_some_and(|worth| !(0.0..=1.0).contains(&worth)) {
            return Err("absent must lie from 0 to 1".into());
        }
        Ok(Self { name: name.to_owned(), equals: number("equals")?, absent })
    }
}

impl Reward for Signal {
    const NAME: &'static str = "reward-signal";
    const SUMMARY: &'static str = "the last value of a signal of the environment, or whether it is a certain number";

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("name", "", "the signal"),
            OptionSpec::new("equals", "", "1 if its last value is this number, else 0; empty: the value, from 0 to 1"),
            OptionSpec::new("absent", "", "the reward where it was never set, from 0 to 1; empty: no verdict"),
        ]
    }

    fn reads() -> Vec<Reads> {
        vec![Reads::signal("<name>")]
    }

    fn check(context: &Context) -> Result<()> {
        Settings::of(context).map(|_| ())
    }

    fn score(episode: &Episode, context: &Context) -> Result<Verdict> {
        let settings = Settings::of(context)?;
        if matches!(episode.ending(), Ending::Failed(_)) {
            return Ok(Verdict::NotApplicable("the episode failed".into()));
        }
        let name = &settings.name;
        let value = episode.signals().into_iter().find(|signal| signal.name == *name).map(|signal| signal.value);
        Ok(match (value, settings.equals, settings.absent) {
            (None, _, None) => Verdict::NotApplicable(format!("the signal {name} was never set")),
            (None, _, Some(worth)) => Verdict::scored(worth).because(format!("the signal {name} was never set")),
            (Some(value), Some(wanted), _) => {
                let worth = f64::from(u8::from(value == wanted));
                Verdict::scored(worth).because(format!("{name} is {value}, wanted {wanted}"))
            }
            (Some(value), None, _) if (0.0..=1.0).contains(&value) => {
                Verdict::scored(value).because(format!("{name} is {value}"))
            }
            (Some(value), None, _) => {
                return Err(format!("{name} is {value}, which is no reward from 0 to 1; say equals=").into());
            }
        })
    }
}

export_reward!(Signal);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::testing::{Recording, judge};
    use clawhost_sdk::{Message, Task};

    fn verdict(signals: &[(&str, f64)], options: &[(&str, &str)]) -> Result<Verdict> {
        let turn = Recording::of(Task::new("train", "t", "")).acted(Message::assistant("5"));
        let episode = signals.iter().fold(turn, |turn, (name, value)| turn.signal(name, *value));
        let verdicts = judge::<Signal>(vec![episode.ended(Ending::Terminated)], options)?;
        Ok(verdicts.into_iter().next().unwrap())
    }

    #[test]
    fn the_last_value_decides() {
        let check = |signals: &[(&str, f64)], options: &[(&str, &str)], expect: Option<f64>| {
            let found = verdict(signals, options).unwrap();
            assert_eq!(found.value(), expect, "{signals:?} {options:?}");
        };
        let distance = [("name", "distance"), ("equals", "0")];
        check(&[("distance", 3.0), ("distance", 0.0), ("guesses", 9.0)], &distance, Some(1.0));
        check(&[("distance", 0.0), ("distance", 3.0)], &distance, Some(0.0));
        check(&[("guesses", 0.0)], &distance, None);
        check(&[], &[distance[0], distance[1], ("absent", "0")], Some(0.0));
        check(&[("share", 0.25)], &[("name", "share")], Some(0.25));
    }

    #[test]
    fn it_is_refused_without_a_signal_before_anything_is_played() {
        let check = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Signal::check(&Context { seed: 0, options, extra: Vec::new() }).is_ok()
        };
        assert!(!check(&[]) && check(&[("name", "distance")]));
    }

    #[test]
    fn settings_without_a_valid_reward_are_refused() {
        for options in
            [&[][..], &[("name", "x"), ("equals", "soon")], &[("name", "x"), ("absent", "2")], &[("name", "x")]]
        {
            let found = verdict(&[("x", 7.0)], options);
            assert!(matches!(found, Ok(Verdict::Failed(_)) | Err(_)), "{options:?}: {found:?}");
        }
    }
}
