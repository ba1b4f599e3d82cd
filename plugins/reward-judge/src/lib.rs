//! The opinion of a model: several votes, decided by majority.
//!
//! The model comes from the operator's grant (`--grant llm:judge=SPEC`). Its prompt has the task, the episode, and a
//! rubric, and its answer ends with a vote: `\boxed{1}` for good, `\boxed{-1}` for bad, `\boxed{0}` for neither. Text
//! of an agent or an environment is fenced and marked as material, because it may contain instructions to the judge; a
//! fence inside the material is broken up.
//!
//! An answer without a vote does not count. The value with more votes than any other is the verdict; its confidence is
//! its share of the requested votes. Without such a value the verdict is `not-applicable`; without any vote, or if the
//! model does not answer, it is `failed`.
//!
//! With `turns=judge` the model is also asked about every turn, once for each, with what was there up to this turn. Its votes are the
//! scores of the turns, and do not change the value.
//!
//! With `turns=next` every turn is judged by what followed it instead: the next message of the user, or the results of its tool
//! calls. Votes decide each turn alone; the value is the mean over the turns that were decided. A tie, a vote of neither, and a turn that
//! nothing follows decide nothing.

mod material;
mod next;

use clawhost_sdk::llm::{Request, complete_batch, error_text};
use clawhost_sdk::{
    Context, Ending, Episode, Message, OptionSpec, Result, Reward, Role, Source, Verdict, export_reward, log,
};

/// The reward.
#[derive(Debug)]
pub struct Judge;

const ALIAS: &str = "judge";
const DEFAULT_VOTES: u32 = 3;
const MOST_VOTES: u32 = 15;
const DEFAULT_TOKENS: u32 = 512;
const RUBRIC: &str = "Did the agent do what the task asks, correctly and completely?";
/// Bytes of material for the judge: a long episode is cut in the middle.
const DEFAULT_BYTES: usize = 24_000;
/// All votes of one verdict are requested from the host in one call, which allows 2 MiB.
const BYTES: std::ops::RangeInclusive<usize> = 1000..=60_000;
/// Turns that are asked about in one call: as many as votes, so that they fit as well.
const TURNS_AT_ONCE: usize = MOST_VOTES as usize;

impl Reward for Judge {
    const NAME: &'static str = "reward-judge";
    const SUMMARY: &'static str = "a granted model's majority vote: 1 good, 0 neither, -1 bad";
    const RANGE: (f64, f64) = (-1.0, 1.0);
    const SOURCE: Source = Source::Judge;

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("alias", ALIAS, "which granted model to ask"),
            OptionSpec::new("votes", "3", "how often to ask, 1 to 15"),
            OptionSpec::new("temperature", "", "of the judge, 0 to 2; empty: the model's own"),
            OptionSpec::new("max_tokens", "512", "most tokens of one answer"),
            OptionSpec::new("max_bytes", "24000", "most bytes of the episode that are shown, 1000 to 60000"),
            OptionSpec::new("rubric", RUBRIC, "what makes an episode good"),
            OptionSpec::new("reference", "show", "whether the judge sees the task's reference: show or hide"),
            OptionSpec::new(
                "turns",
                "ignore",
                "judge: ask about every turn, too, once for each; next: judge every turn by what followed it; or ignore",
            ),
        ]
    }

    fn check(context: &Context) -> Result<()> {
        Settings::of(context).map(|_| ())
    }

    fn score(episode: &Episode, context: &Context) -> Result<Verdict> {
        let Settings { votes, temperature, max_tokens, max_bytes, show_reference, turns } = Settings::of(context)?;
        if matches!(episode.ending(), Ending::Failed(_)) {
            return Ok(Verdict::NotApplicable("the episode failed".into()));
        }
        let rubric = context.option("rubric").unwrap_or(RUBRIC);
        let question = |turn| material::question(episode, turn, rubric, show_reference, max_bytes);
        let alias = context.option("alias").unwrap_or(ALIAS);
        let instruction = if turns == Turns::Next { next::INSTRUCTION } else { material::INSTRUCTION };
        let ask = |question: String, number: u64| Request {
            alias: alias.to_owned(),
            messages: vec![Message::text(Role::System, instruction), Message::user(question)],
            tools: Vec::new(),
            max_tokens,
            temperature,
            seed: Some(context.seed.wrapping_add(number)),
            stop: Vec::new(),
            extra: Vec::new(),
        };
        if turns == Turns::Next {
            return next::verdict(episode, max_bytes, votes, ask);
        }
        let about_all = question(None);
        let asked = (0..votes).map(|number| ask(about_all.clone(), number.into())).collect::<Vec<_>>();
        let verdict = decide(tally(voted(&asked)?.into_iter().flatten()), votes)?;
        if turns == Turns::Ignore || verdict.value().is_none() {
            return Ok(verdict);
        }
        let numbers: Vec<usize> = (1..=episode.turns().len()).collect();
        let mut scores = Vec::with_capacity(numbers.len());
        for some in numbers.chunks(TURNS_AT_ONCE) {
            let asked: Vec<Request> = some.iter().map(|turn| ask(question(Some(*turn)), *turn as u64)).collect();
            // Without a vote nothing can be told.
            scores.extend(voted(&asked)?.into_iter().map(|vote| f64::from(vote.unwrap_or(0))));
        }
        Ok(verdict.with_turns(scores))
    }
}

/// The votes in the answers to some requests. `None`: an answer has none.
fn voted(requests: &[Request]) -> Result<Vec<Option<i8>>> {
    let mut votes = Vec::with_capacity(requests.len());
    for answer in complete_batch(requests).map_err(error_text)? {
        let text = answer.map_err(|error| format!("the judge did not answer: {}", error_text(error)))?;
        let text = text.message.plain_text();
        votes.push(vote(&text));
        if vote(&text).is_none() {
            log::warn(&format!("no vote in: {}", text.chars().take(200).collect::<String>()));
        }
    }
    Ok(votes)
}

struct Settings {
    votes: u32,
    temperature: Option<f32>,
    max_tokens: u32,
    max_bytes: usize,
    show_reference: bool,
    turns: Turns,
}

/// What is asked about turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turns {
    Ignore,
    /// About every turn, by what was there up to it.
    Judge,
    /// About every turn, by what followed it.
    Next,
}

impl Settings {
    fn of(context: &Context) -> Result<Self> {
        let votes = context.option_or("votes", DEFAULT_VOTES)?;
        let temperature = match context.option("temperature") {
            None | Some("") => None,
            Some(text) => Some(text.parse().map_err(|_| format!("temperature={text} is no number"))?),
        };
        let max_tokens = context.option_or("max_tokens", DEFAULT_TOKENS)?;
        let max_bytes = context.option_or("max_bytes", DEFAULT_BYTES)?;
        let cold = temperature.is_none_or(|temperature: f32| (0.0..=2.0).contains(&temperature));
        if !(1..=MOST_VOTES).contains(&votes) || !cold || max_tokens == 0 {
            return Err("votes must be 1 to 15, temperature 0 to 2, max_tokens at least 1".into());
        }
        if !BYTES.contains(&max_bytes) {
            return Err(format!("max_bytes must be {} to {}", BYTES.start(), BYTES.end()).into());
        }
        let show_reference = match context.option("reference").unwrap_or("show") {
            "show" => true,
            "hide" => false,
            other => return Err(format!("reference={other} is neither show nor hide").into()),
        };
        let turns = match context.option("turns").unwrap_or("ignore") {
            "judge" => Turns::Judge,
            "next" => Turns::Next,
            "ignore" => Turns::Ignore,
            other => return Err(format!("turns={other} is neither judge, next nor ignore").into()),
        };
        Ok(Self { votes, temperature, max_tokens, max_bytes, show_reference, turns })
    }
}

/// Largest number of votes.
const VOTES: [i8; 3] = [-1, 0, 1];

/// The vote in an answer: the content of its last `\boxed{}`.
fn vote(text: &str) -> Option<i8> {
    let (_, after) = text.rsplit_once("\\boxed{")?;
    let (inside, _) = after.split_once('}')?;
    inside.trim().trim_start_matches('+').parse().ok().filter(|vote| VOTES.contains(vote))
}

/// How often each value was voted for.
fn tally(votes: impl IntoIterator<Item = i8>) -> [u32; 3] {
    let mut counted = [0u32; 3];
    for vote in votes {
        counted.iter_mut().zip(VOTES).filter(|(_, known)| *known == vote).for_each(|(n, _)| *n += 1);
    }
    counted
}

/// The value with more votes than any other.
fn majority(counted: [u32; 3]) -> Option<i8> {
    let most = counted.iter().copied().max().filter(|most| *most > 0)?;
    let mut leaders = VOTES.iter().zip(counted).filter(|(_, count)| *count == most);
    match (leaders.next(), leaders.next()) {
        (Some((vote, _)), None) => Some(*vote),
        _ => None,
    }
}

fn decide(counted: [u32; 3], asked: u32) -> Result<Verdict> {
    let votes: u32 = counted.iter().sum();
    if votes == 0 {
        return Err(
            format!("the judge was asked {asked} times and never voted; it should end with \\boxed{{1}}").into()
        );
    }
    let most = counted.iter().copied().max().unwrap_or(0);
    let [bad, neither, good] = counted;
    let shown = format!("{good} good, {neither} neither, {bad} bad, {} without a vote", asked.saturating_sub(votes));
    match majority(counted) {
        Some(vote) => Ok(Verdict::scored(f64::from(vote))
            .with_confidence(f64::from(most) / f64::from(asked))
            .with_part("votes", f64::from(votes))
            .because(shown)),
        None => Ok(Verdict::NotApplicable(format!("the judge is divided: {shown}"))),
    }
}

export_reward!(Judge);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::Task;
    use clawhost_sdk::Usage;
    use clawhost_sdk::llm::{LlmError, Response};
    use clawhost_sdk::testing::{Recording, judge, set_llm};

    fn episode(answer: &str) -> Episode {
        Recording::of(Task::new("train", "t", "Say hello").with_reference("\"hello\""))
            .observed("Say hello.")
            .acted(Message::assistant(answer))
            .ended(Ending::Terminated)
    }

    fn response(text: &str) -> Response {
        let usage = Usage { prompt_tokens: 1, completion_tokens: 1, cached_tokens: 0, extra: vec![] };
        Response { message: Message::assistant(text), usage, finish: "stop".into(), extra: vec![] }
    }

    /// The verdict when the judge gives these answers in order. `None`: it does not answer.
    fn check(answers: &[Option<&str>], expected: Option<f64>, says: &str) {
        let texts: Vec<Option<String>> = answers.iter().map(|text| text.map(str::to_owned)).collect();
        let mut next = texts.clone().into_iter();
        set_llm(move |_| match next.next().flatten() {
            Some(text) => Ok(response(&text)),
            None => Err(LlmError::Unavailable("gone".into())),
        });
        let votes = answers.len().to_string();
        let verdict = judge::<Judge>(vec![episode("hello")], &[("votes", &votes)]).unwrap().remove(0);
        assert_eq!(verdict.value(), expected, "{texts:?}: {verdict:?}");
        assert!(format!("{verdict:?}").contains(says), "{says}: {verdict:?}");
    }

    #[test]
    fn the_majority_decides_and_answers_without_a_vote_do_not_count() {
        check(
            &[Some("fine \\boxed{1}"), Some("\\boxed{1}"), Some("\\boxed{-1}")],
            Some(1.0),
            "2 good, 0 neither, 1 bad",
        );
        check(&[Some("\\boxed{-1}"), Some("I like it."), Some("\\boxed{-1}")], Some(-1.0), "1 without a vote");
        check(&[Some("first \\boxed{1}, no: \\boxed{ +0 }")], Some(0.0), "1 neither");
        check(&[Some("\\boxed{1}"), Some("\\boxed{-1}")], None, "the judge is divided");
        check(&[Some("\\boxed{7}"), Some("\\boxed{1")], None, "never voted");
        check(&[Some("A thoughtful essay."), Some("")], None, "never voted");
    }

    #[test]
    fn a_call_that_fails_fails_this_verdict() {
        check(&[Some("\\boxed{1}"), None, Some("\\boxed{1}")], None, "the judge did not answer: gone");
    }

    #[test]
    fn confidence_is_the_share_of_the_requested_votes() {
        set_llm(|request| {
            // Every vote has its own seed.
            Ok(response(if request.seed == Some(0) { "hm" } else { "\\boxed{1}" }))
        });
        let verdict = judge::<Judge>(vec![episode("hello")], &[("votes", "4")]).unwrap().remove(0);
        assert!(matches!(verdict, Verdict::Scored { confidence, .. } if confidence == 0.75), "{verdict:?}");
    }

    #[test]
    fn every_turn_is_judged_by_what_was_there_up_to_it() {
        let counted = || {
            let begun = Recording::of(Task::new("train", "t", "Count"));
            let turn = |recording: Recording, number: u32| {
                recording.observed(format!("say {number}")).acted(Message::assistant(format!("said {number}")))
            };
            (1..=20).fold(begun, turn).observed("the end").ended(Ending::Terminated)
        };
        set_llm(|request| {
            let text = request.messages[1].plain_text();
            let shown = text.matches("[agent] said").count();
            let is_this_turn = text.contains(&format!("Judge turn {shown} of")) && !text.contains("the end");
            Ok(response(match text.contains("Judge turn") {
                false => "\\boxed{1}",
                true if !is_this_turn => "this is another turn",
                true if shown % 3 == 0 => "no idea",
                true if shown % 2 == 0 => "\\boxed{-1}",
                true => "\\boxed{1}",
            }))
        });
        let scored = |options: &[(&str, &str)]| judge::<Judge>(vec![counted()], options).unwrap().remove(0);
        let Verdict::Scored { value, per_turn, .. } = scored(&[("turns", "judge")]) else { panic!("it has a value") };
        assert_eq!((value, per_turn.len()), (1.0, 20));
        assert_eq!(per_turn[..6], [1.0, -1.0, 0.0, -1.0, 1.0, 0.0]);
        let Verdict::Scored { per_turn, .. } = scored(&[]) else { panic!("it has a value") };
        assert!(per_turn.is_empty());
    }

    #[test]
    fn settings_are_checked_before_anything_is_asked() {
        set_llm(|_| panic!("asked"));
        for (name, value) in [
            ("votes", "0"),
            ("votes", "16"),
            ("temperature", "3"),
            ("reference", "maybe"),
            ("max_tokens", "0"),
            ("max_bytes", "500000"),
            ("turns", "maybe"),
        ] {
            let verdict = judge::<Judge>(vec![episode("x")], &[(name, value)]).unwrap().remove(0);
            assert!(matches!(verdict, Verdict::Failed(_)), "{name}={value}");
        }
    }
}
