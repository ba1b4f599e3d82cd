//! Checks of a reflector: what it proposes about described episodes.

use super::report::Checked;
use super::{Checking, Results, VARIED, hostile};
use crate::cases::{Case, RecordedTurn, case_files, described};
use clawhost_core::{Context, Episode, Failure, FailureKind, Playbook, Proposal, Reflector as _};
use clawhost_engine::ReflectorPlugin;
use clawhost_run_config::PluginSpec;
use std::sync::Arc;

/// What helps if no episode is described.
const DESCRIBE: &str = "describe some in tests/*.toml: what went well, and what did not";

struct Checks<'a> {
    checking: &'a Checking<'a>,
    reflector: &'a ReflectorPlugin,
    context: Context,
}

/// All checks of a reflector.
pub(super) async fn checks(
    checking: &Checking<'_>,
    results: &mut Results<'_>,
    reflector: &ReflectorPlugin,
    spec: &PluginSpec,
) {
    let context = Context { seed: checking.seed, options: spec.options.clone() };
    let checks = Checks { checking, reflector, context };
    let files = match checking.folder.map(case_files).transpose() {
        Ok(files) => files.unwrap_or_default(),
        Err(error) => return results.push(Checked::failed("episodes", error.to_string(), "correct the file")),
    };
    // Cases in which it asks a model need its replies, and are played by the tests.
    let cases: Vec<Case> =
        files.into_iter().flat_map(|(_, file)| file.cases).filter(|case| case.replies.is_empty()).collect();
    if cases.is_empty() {
        return results.push(Checked::skipped("proposals", "no episode is described", DESCRIBE));
    }
    results.push(checks.proposals(&cases).await);
    results.push(checks.hostile(&cases).await);
}

impl Checks<'_> {
    fn episode(&self, case: &Case) -> Result<Arc<Episode>, String> {
        described(case, self.checking.seed, self.checking.bench.limits().episode_bytes).map(Arc::new)
    }

    async fn proposed(&self, episode: Arc<Episode>) -> Result<Vec<Proposal>, Failure> {
        self.reflector.reflect(&self.context, &Playbook::default(), &[episode]).await
    }

    /// Equal episodes have equal proposals.
    async fn proposals(&self, cases: &[Case]) -> Checked {
        const CHECK: &str = "proposals";
        let mut count = 0usize;
        for case in cases {
            let wrong = |why: String| {
                Checked::failed(CHECK, format!("`{}`: {why}", case.name), "see the report of the failure")
            };
            let episode = match self.episode(case) {
                Ok(episode) => episode,
                Err(why) => return wrong(why),
            };
            match (self.proposed(episode.clone()).await, self.proposed(episode).await) {
                (Ok(first), Ok(second)) if first == second => count = count.saturating_add(first.len()),
                (Ok(_), Ok(_)) => {
                    let says = format!("`{}`: equal episodes have other proposals the second time", case.name);
                    return Checked::failed(CHECK, says, "propose in a fixed order: maps of Rust have none");
                }
                (Err(failure), _) | (_, Err(failure)) => return wrong(failure.to_string()),
            }
        }
        Checked::passed(CHECK, format!("{count} proposals about {} described episodes, equal each time", cases.len()))
            .with([("proposals", count as f64)])
    }

    /// No text of an agent traps a reflector. The texts take the place of each text of an episode, so that what it looks for comes before them.
    async fn hostile(&self, cases: &[Case]) -> Checked {
        const CHECK: &str = "hostile-answers";
        let mut count = 0u64;
        for first in cases.iter().take(VARIED) {
            for (name, text) in hostile::texts() {
                let turn = |turn: &RecordedTurn| RecordedTurn { answer: text.clone(), ..turn.clone() };
                let behind = |said: &String| format!("{said}{text}");
                let case = Case {
                    turns: first.turns.iter().map(turn).collect(),
                    closing: first.closing.as_ref().map(behind),
                    ..first.clone()
                };
                let Ok(episode) = self.episode(&case) else { continue };
                count = count.saturating_add(1);
                let failure = self.proposed(episode).await.err();
                if let Some(failure) = failure.filter(|one| matches!(one.kind, FailureKind::Trap | FailureKind::Limit))
                {
                    let says = format!("`{}`, with texts that are {name}, fails it: {failure}", first.name);
                    return Checked::failed(
                        CHECK,
                        says,
                        "return an error, or no proposal, for what cannot be understood",
                    );
                }
            }
        }
        Checked::passed(CHECK, format!("{count} hostile episodes: none trapped it")).with([("episodes", count as f64)])
    }
}
