use clawhost_sdk::{Context, Episode, Reads, Result, Reward, Verdict, export_reward};

/// Judges what the host recorded, in a sandbox of its own: an environment never scores itself.
pub struct {{type}}Reward;

impl Reward for {{type}}Reward {
    const NAME: &'static str = "{{name}}-reward";
    const VERSION: &'static str = "0.1.0";
    const SUMMARY: &'static str = "1 if the answer was right";

    fn reads() -> Vec<Reads> {
        vec![Reads::signal("right")]
    }

    fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
        let right = episode.signals().into_iter().find(|signal| signal.name == "right");
        Ok(match right {
            Some(signal) => Verdict::scored(signal.value),
            None => Verdict::scored(0.0).because("there was no answer"),
        })
    }
}

export_reward!({{type}}Reward);
