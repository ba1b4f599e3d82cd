//! Reports everything that a reward can read.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "odd-reader";

    fn score(episode: &Episode, context: &Context) -> Result<Verdict> {
        let turns: Vec<String> = episode
            .turns()
            .iter()
            .map(|turn| {
                let seen: Vec<String> = turn.observation.iter().map(|message| message.plain_text()).collect();
                format!("{} {:?} -> {:?}", turn.index, seen, turn.action.plain_text())
            })
            .collect();
        let closing: Vec<String> = episode.closing().iter().map(|message| message.plain_text()).collect();
        let text = format!(
            "{} task {:?} reference {:?} turns {turns:?} closing {closing:?} ending {:?} signals {:?} reward {:?} options {:?}",
            episode.environment(),
            episode.task().input,
            episode.task().reference,
            episode.ending(),
            episode.signals(),
            episode.reward(),
            context.options,
        );
        Ok(Verdict::scored(1.0).because(text))
    }
}

export_reward!(Guest);
