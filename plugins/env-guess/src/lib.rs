//! Guess a number: multi-turn, with feedback after every guess.
//!
//! The number follows from the seed. The observation names the remaining range in the form of an order ("a whole number
//! between 0 and 99"), so that a policy that only follows orders makes valid guesses, and a better one halves the range
//! each time.
//!
//! With `talk=terse` observations are single characters, for models whose vocabulary has little more than digits: `?`
//! asks for a guess, `<` and `>` mean that the number is smaller or larger than the guess, `=` that it was correct. An
//! answer that is not a number costs a guess in this mode.
//!
//! With `demonstrate=clumsy` every observation has the attribute `demonstration`: the guess of a clumsy player, which is
//! any number that is still possible, and one time in twenty any number at all. Models can learn by imitation from these.

use clawhost_sdk::{
    Action, Context, Message, MessageEnvironment, Opening, OptionSpec, Params, Random, Result, Signals, Split, Status,
    Step, Task, export_environment,
};

/// One episode.
#[derive(Debug)]
pub struct Guess {
    settings: Settings,
    seed: u64,
    secret: i64,
    low: i64,
    high: i64,
    guesses: u32,
}

/// The settings of the game.
#[derive(Debug, Clone, Copy)]
struct Settings {
    size: i64,
    most_guesses: u32,
    terse: bool,
    demonstrates: bool,
}

/// The inverse share of the clumsy player's guesses that ignore the range.
const CLUMSY: i64 = 20;

/// Numbers are from 0 to one below this.
const DEFAULT_SIZE: i64 = 100;
/// Number of guesses before the episode is truncated.
const DEFAULT_GUESSES: u32 = 20;
/// Larger ranges add turns, not difficulty.
const LARGEST_SIZE: i64 = 1_000_000;

impl Guess {
    /// The observation, with the demonstrated answer.
    fn say(&self, terse: &str, words: String) -> Message {
        let message = Message::user(if self.settings.terse { terse.to_owned() } else { words });
        if !self.settings.demonstrates {
            return message;
        }
        // A function of the position alone, so that a restored episode demonstrates the same.
        let mut random = Random::new(self.seed ^ (u64::from(self.guesses) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let careless = random.between(0, CLUMSY - 1) == 0 || self.low > self.high;
        let (low, high) = if careless { (0, self.settings.size - 1) } else { (self.low, self.high) };
        let (guess, digits) = (random.between(low, high), (self.settings.size - 1).to_string().len());
        message.demonstrating(format!("{guess:0digits$}"))
    }

    fn goes_on(&self, terse: &str, words: String) -> Step {
        Step { observation: vec![self.say(terse, words)], ..Step::silent() }
    }
}

fn ask(low: i64, high: i64) -> String {
    format!("Reply with a whole number between {low} and {high}.")
}

/// The last whole number in a text: models often explain themselves first.
fn last_number(text: &str) -> Option<i64> {
    let mut last = None;
    let mut digits = String::new();
    let mut previous = ' ';
    let mut characters = text.chars().chain([' ']).peekable();
    while let Some(character) = characters.next() {
        let next_is_digit = characters.peek().is_some_and(char::is_ascii_digit);
        match character {
            '0'..='9' => digits.push(character),
            // A thousands separator.
            ',' if previous.is_ascii_digit() && next_is_digit => {}
            _ => {
                last = digits.parse().ok().or(last);
                digits.clear();
                // A sign, unless it joins two words or numbers.
                if character == '-' && next_is_digit && !previous.is_alphanumeric() {
                    digits.push('-');
                }
            }
        }
        previous = character;
    }
    last
}

impl MessageEnvironment for Guess {
    const NAME: &'static str = "env-guess";
    const SUMMARY: &'static str = "Guess a number with higher/lower feedback";
    const SNAPSHOT: bool = true;
    const DEMONSTRATIONS: bool = true;

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("size", DEFAULT_SIZE.to_string(), "how many numbers there are, 2 to 1000000"),
            OptionSpec::new("guesses", DEFAULT_GUESSES.to_string(), "guesses before it is cut short, 1 to 1000"),
            OptionSpec::new("talk", "words", "words, or terse: single characters, for models that know few"),
            OptionSpec::new("demonstrate", "no", "no, or clumsy: observations say what a clumsy player would guess"),
        ]
    }

    fn check(context: &Context) -> Result<()> {
        settings(context).map(|_| ())
    }

    fn splits() -> Vec<Split> {
        vec![Split::new("train", 1000), Split::new("val", 200), Split::new("test", 200)]
    }

    fn tasks(context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>> {
        let size = settings(context)?.size;
        let count = Self::splits().iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let end = count.min(offset.saturating_add(u64::from(limit)));
        let task = |position| Task::new(split, format!("{split}-{position}"), "").with_tag(format!("size-{size}"));
        Ok((offset..end).map(task).collect())
    }

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let settings = settings(&params.context)?;
        let seed = params.context.seed;
        let secret = Random::new(seed).between(0, settings.size - 1);
        let episode = Self { settings, seed, secret, low: 0, high: settings.size - 1, guesses: 0 };
        let said = episode.say("?", format!("I picked a number. {}", ask(episode.low, episode.high)));
        let hint = "You play a guessing game. Answer every message with one whole number and nothing else.";
        let system_hint = (!settings.terse).then(|| hint.to_owned());
        Ok((episode, Opening { system_hint, observation: vec![said], ..Opening::default() }))
    }

    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step> {
        let range = ask(self.low, self.high);
        let Some(guess) = last_number(&action.plain_text()) else {
            if !self.settings.terse {
                return Err(format!("I see no number. {range}").into());
            }
            self.guesses += 1;
            return Ok(self.or_over("?", "That was no number".to_owned(), ""));
        };
        self.guesses += 1;
        signals.set("guesses", f64::from(self.guesses));
        signals.set("distance", guess.abs_diff(self.secret) as f64);
        if guess == self.secret {
            let words = format!("Correct: it was {}.", self.secret);
            return Ok(Step::done(if self.settings.terse { "=".to_owned() } else { words }));
        }
        let (word, sign) = if guess < self.secret { ("higher", ">") } else { ("lower", "<") };
        if guess < self.secret {
            self.low = self.low.max(guess.saturating_add(1));
        } else {
            self.high = self.high.min(guess.saturating_sub(1));
        }
        let range = ask(self.low, self.high);
        Ok(self.or_over(sign, format!("It is {word} than {guess}"), &range))
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        let Self { secret, low, high, guesses, .. } = self;
        Ok(format!("{secret} {low} {high} {guesses}").into_bytes())
    }

    fn restore(params: &Params, state: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(state)?;
        let numbers: Vec<i64> = text.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [secret, low, high, guesses] = numbers.as_slice() else {
            return Err("a state has four numbers".into());
        };
        let (settings, seed) = (settings(&params.context)?, params.context.seed);
        Ok(Self { settings, seed, secret: *secret, low: *low, high: *high, guesses: u32::try_from(*guesses)? })
    }
}

impl Guess {
    /// The observation after a wrong guess, or the end if it was the last one.
    fn or_over(&self, terse: &str, words: String, range: &str) -> Step {
        let most = self.settings.most_guesses;
        if self.guesses < most {
            return self.goes_on(terse, format!("{words}. {range}"));
        }
        let said = if self.settings.terse { terse.to_owned() } else { format!("{words}, and you have no guess left.") };
        Step { status: Status::Truncated(format!("{most} guesses")), ..Step::running(said) }
    }
}

fn settings(context: &Context) -> Result<Settings> {
    let size = context.option_or("size", DEFAULT_SIZE)?;
    let most_guesses = context.option_or("guesses", DEFAULT_GUESSES)?;
    if !(2..=LARGEST_SIZE).contains(&size) || !(1..=1000).contains(&most_guesses) {
        return Err("size must be 2 to 1000000, and guesses 1 to 1000".into());
    }
    let terse = context.is_other("talk", ["words", "terse"])?;
    let demonstrates = context.is_other("demonstrate", ["no", "clumsy"])?;
    Ok(Settings { size, most_guesses, terse, demonstrates })
}

export_environment!(Guess);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::testing::{play, play_task};

    fn params(seed: u64, options: &[(&str, &str)]) -> Params {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Params { task: Task::new("train", "train-0", ""), context: Context::new(seed, options), max_turns: 100 }
    }

    #[test]
    fn bisection_finds_every_number_in_seven_guesses() {
        for seed in 0..200 {
            let (mut episode, _) = Guess::start(&params(seed, &[])).unwrap();
            let (mut low, mut high, mut guesses) = (0, 99, 0);
            loop {
                let guess = (low + high) / 2;
                guesses += 1;
                let step =
                    episode.step(&Message::assistant(guess.to_string()).into(), &mut Signals::default()).unwrap();
                if step.status == Status::Terminated {
                    break;
                }
                let text = step.observation[0].plain_text();
                if text.contains("higher") {
                    low = guess + 1
                } else {
                    high = guess - 1
                }
                assert!(text.contains(&format!("between {low} and {high}")), "{text}");
            }
            assert!(guesses <= 7, "seed {seed} took {guesses}");
        }
    }

    #[test]
    fn answers_in_usual_spellings_are_parsed() {
        for (text, number) in [
            ("50", Some(50)),
            ("My guess is 50.", Some(50)),
            ("Between 25 and 75 I take 50", Some(50)),
            ("**42**!", Some(42)),
            ("-3", Some(-3)),
            ("50-60", Some(60)),
            ("1,000", Some(1000)),
            ("no idea", None),
            ("", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(last_number(text), number, "{text}");
        }
    }

    #[test]
    fn an_invalid_answer_is_an_observation_and_costs_no_guess() {
        let transcript = play::<Guess>(1, &["hello", "500"]);
        assert_eq!(transcript.observations[1], "I see no number. Reply with a whole number between 0 and 99.");
        assert_eq!(transcript.signals[0], [("invalid_action".to_owned(), 1.0)]);
        assert!(transcript.signals[1].contains(&("guesses".to_owned(), 1.0)));
    }

    #[test]
    fn the_episode_is_truncated_after_the_last_guess() {
        let transcript = play_task::<Guess>(params(3, &[("guesses", "2")]), &["-1", "-1", "-1"]);
        assert!(transcript.over);
        assert!(transcript.last().contains("no guess left"), "{}", transcript.last());
        assert!(Guess::start(&params(3, &[("size", "1")])).is_err());
        assert!(Guess::start(&params(3, &[("size", "many")])).is_err());
    }

    #[test]
    fn a_restored_episode_continues_like_the_original() {
        let begin = params(9, &[]);
        let (mut original, _) = Guess::start(&begin).unwrap();
        original.step(&Message::assistant("10").into(), &mut Signals::default()).unwrap();
        let mut restored = Guess::restore(&begin, &original.snapshot().unwrap()).unwrap();
        for guess in ["20", "90", "50"] {
            let step = |episode: &mut Guess| {
                let mut signals = Signals::default();
                format!(
                    "{:?}",
                    episode.step(&Message::assistant(guess).into(), &mut signals).map(|step| step.observation)
                )
            };
            assert_eq!(step(&mut original), step(&mut restored));
        }
        assert!(Guess::restore(&begin, b"nonsense").is_err());
    }
}
