use clawhost_sdk::{Context, Episode, Reads, Result, Reward, Verdict, export_reward};

/// Compares what was left with the task's reference, which the environment and the policy never see.
pub struct {{type}}Reward;

impl Reward for {{type}}Reward {
    const NAME: &'static str = "{{name}}-reward";
    const VERSION: &'static str = "0.1.0";
    const SUMMARY: &'static str = "1 if the box holds what was ordered";

    fn reads() -> Vec<Reads> {
        vec![Reads::artefact("box.json"), Reads::reference()]
    }

    fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
        let wanted = episode.task().reference.ok_or("the task has no reference")?;
        let left = episode.artefact("box.json").ok_or("there is no box.json")?;
        let is_right = left.bytes == wanted.as_bytes();
        Ok(Verdict::scored(f64::from(u8::from(is_right))).because(if is_right { "as ordered" } else { "not as ordered" }))
    }
}

export_reward!({{type}}Reward);
