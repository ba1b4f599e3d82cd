use clawhost_sdk::{Context, Episode, Reads, Result, Reward, Verdict, export_reward};

/// Compares the last answer with the task's reference, which is JSON: a text in quotes, or a number.
pub struct {{type}};

impl Reward for {{type}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = "0.1.0";
    const SUMMARY: &'static str = "1 if the last answer is the reference";

    fn reads() -> Vec<Reads> {
        vec![Reads::reference()]
    }

    fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
        let Some(reference) = episode.task().reference else {
            return Ok(Verdict::NotApplicable("the task has no reference".into()));
        };
        let wanted = reference.trim_matches('"');
        let is_right = episode.last_answer().trim() == wanted;
        Ok(Verdict::scored(f64::from(u8::from(is_right))).because(format!("wanted `{wanted}`")))
    }
}

export_reward!({{type}});
