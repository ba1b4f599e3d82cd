//! What learning came to, for people and for machines.

use super::{Learning, completions, settings, watch};
use crate::args::{Common, PlayOptions, Run};
use crate::exit::Exit;
use crate::learn_summary;
use crate::plot;
use crate::setup::Setup;
use crate::shell::{program, quoted};
use clawhost_core::{Digest, Environment as _, RunId, escaped};
use clawhost_learn::CheckpointKind;
use clawhost_model::train::Rule;
use clawhost_model::{CheckpointWriter, Learned, ModelFolder};
use clawhost_runtime::ScoringRule;
use clawhost_runtime::learn::{LearnPlan, LearnReport, Verdict};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The drawing of a run.
const CURVE: &str = "curve.svg";

/// What there is to tell beside the report.
pub(super) struct Facts {
    pub(super) run: RunId,
    pub(super) out: PathBuf,
    pub(super) config: serde_json::Value,
    /// Digests of the weights.
    pub(super) before: String,
    pub(super) after: String,
    pub(super) started: u64,
    pub(super) wall: Duration,
    /// That were asked for.
    pub(super) iterations: u64,
    pub(super) rows: Vec<[String; 3]>,
    /// What of the model learns, in a word.
    pub(super) learns: &'static str,
    /// Plays with what was learned.
    pub(super) play: String,
}

/// The command that plays with what was learned last.
pub(super) fn command(common: &Common, play: &PlayOptions, playbook: Option<(&str, u64)>, out: &Path) -> String {
    let mut words = vec![program(), "run".to_owned(), play.plugin.clone()];
    let mut option = |name: &str, value: String| match value.starts_with('-') {
        // It would be taken for an option itself.
        true => words.push(format!("--{name}={value}")),
        false => words.extend([format!("--{name}"), value]),
    };
    option("model", CheckpointWriter::place(out, CheckpointKind::Last).display().to_string());
    play.reward.iter().for_each(|reward| option("reward", reward.clone()));
    let models = &play.models;
    models.grant.iter().for_each(|grant| option("grant", grant.clone()));
    if let Some(text) = &play.system_prompt {
        option("system-prompt", text.clone());
    }
    if let Some(path) = &play.system_prompt_file {
        option("system-prompt-file", path.display().to_string());
    }
    if let Some((name, token_budget)) = playbook {
        option("playbook", name.to_owned());
        option("token-budget", token_budget.to_string());
    }
    if let Some(temperature) = play.temperature {
        option("temperature", temperature.to_string());
    }
    models.endpoint.api_key_file.iter().for_each(|file| option("api-key-file", file.clone()));
    option("max-tokens", play.max_tokens.to_string());
    option("max-turns", play.max_turns.to_string());
    if let Some(data) = &common.data {
        option("data", data.display().to_string());
    }
    let host = [("--allow-interpreters", play.host.allow_interpreters), ("--on-demand", play.host.on_demand)];
    words.extend(host.into_iter().filter(|(_, is_on)| *is_on).map(|(option, _)| option.to_owned()));
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let lead = digits.len() % 3;
    let grouped = digits.char_indices().map(|(place, digit)| {
        let apart = place > 0 && (place + 3 - lead).is_multiple_of(3);
        format!("{}{digit}", if apart { "," } else { "" })
    });
    grouped.collect()
}

/// What is played and what learns, for whoever waits.
pub(super) fn header(setup: &Setup<'_>, found: &ModelFolder, folder: &Path, plan: &LearnPlan) -> String {
    let environment = setup.environment.identity();
    let weights = thousands(found.config.parameters());
    format!(
        "{} {} with {}, {weights} weights, seed {}; {} iterations of {} episodes in groups of {}",
        environment.name,
        environment.version,
        folder.display(),
        plan.play.seed,
        plan.iterations,
        plan.play.episodes,
        plan.play.group
    )
}

/// What would be done.
pub(super) fn dry_run(
    common: &Common,
    setup: &Setup<'_>,
    learning: &Learning,
    (options, rewards): (&Run, &[ScoringRule]),
    plan: &LearnPlan,
    digest: &Digest,
) -> anyhow::Result<Exit> {
    let Some(weights) = &plan.weights else { return Ok(Exit::Ok) };
    let found = &learning.found;
    let training = plan.iterations.saturating_mul(plan.play.episodes);
    let refilled = training.saturating_mul(u64::from(weights.refills));
    let looks = plan.iterations.checked_div(weights.evaluate_every).unwrap_or(0);
    let validation = looks.saturating_mul(weights.evaluate_episodes);
    let shown = weights.warm_start.as_ref().map_or(0, |warm| {
        warm.demonstrations.saturating_add(warm.steps.div_ceil(warm.every.max(1)).saturating_mul(warm.episodes))
    });
    let test = plan.test_pairs.saturating_mul(2);
    let parts = [training, refilled, validation, shown, test];
    let episodes = parts.into_iter().fold(0, u64::saturating_add);
    if common.json {
        let document = serde_json::json!({
            "format": 1, "dry_run": true, "plan": plan, "digest": digest, "environment": setup.environment.identity(),
            "policy": setup.model.identity(), "parameters": found.config.parameters(),
            "at_most": {
                "training_episodes": training, "refilled_episodes": refilled, "validation_episodes": validation,
                "demonstration_episodes": shown, "test_episodes": test, "episodes": episodes,
            },
        });
        writeln!(anstream::stdout(), "{document:#}")?;
        return Ok(Exit::Ok);
    }
    let mut out = anstream::stdout();
    let identity = setup.environment.identity();
    writeln!(out, "environment {} {} ({})", identity.name, identity.version, identity.digest.short())?;
    writeln!(out, "model       {} weights, context {}", thousands(found.config.parameters()), found.config.context)?;
    let settings = settings(options, &plan.play)?;
    let learns = match settings.learned {
        Learned::Full => "all weights".to_owned(),
        Learned::Adapter(adapter) => format!("an adapter of rank {} and alpha {}", adapter.rank, adapter.alpha),
    };
    let (rule, peak) = (settings.optimizer.rule, settings.schedule.peak);
    let rule = if rule == Rule::Muon { "Muon and AdamW" } else { "AdamW" };
    writeln!(out, "learns      {learns} by {}, {rule}, rate {peak}", options.learning.weights.objective)?;
    let judges = rewards.iter().map(|rule| rule.reward.identity().name.clone()).collect::<Vec<_>>().join(", ");
    writeln!(out, "judged by   {judges}")?;
    if let Some(playbook) = &options.playbook {
        writeln!(out, "playbook    {playbook}")?;
    }
    writeln!(
        out,
        "training    {} iterations of {} episodes in groups of {}: {training}, and {refilled} at most in the place of others",
        plan.iterations, plan.play.episodes, plan.play.group
    )?;
    writeln!(out, "shown       {shown} episodes of demonstrations and looks at most")?;
    writeln!(out, "validation  {validation} episodes")?;
    writeln!(out, "test        {test} episodes: {} before and as many after", plan.test_pairs)?;
    writeln!(out, "at most     {episodes} episodes of {} turns", plan.play.max_turns)?;
    writeln!(out, "digest      {digest}")?;
    writeln!(out, "nothing was played: leave --dry-run out")?;
    Ok(Exit::Ok)
}

/// The training reward, and what the validation tasks said.
pub(super) fn draw(facts: &Facts, report: &LearnReport) -> anyhow::Result<()> {
    let validated =
        report.iterations.iter().filter_map(|one| Some((one.iteration as f64, *one.metrics.get("val.reward")?)));
    let curves = [("training", learn_summary::curve(report)), ("validation", validated.collect())];
    let curves: Vec<plot::Curve> = curves
        .into_iter()
        .filter(|(_, points)| points.len() >= 2)
        .map(|(name, points)| plot::Curve { name: name.to_owned(), points })
        .collect();
    if curves.is_empty() {
        return Ok(());
    }
    plot::svg(&facts.out.join(CURVE), "Reward while weights learn", ("iteration", "mean reward"), &curves, &[])
}

pub(super) fn text(facts: &Facts, report: &LearnReport) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "run         {}", facts.run)?;
    if let Some(plot) = plot::text(&learn_summary::curve(report), 0.0, 1.0) {
        writeln!(out, "training reward by iteration")?;
        writeln!(out, "{plot}")?;
    }
    if !facts.rows.is_empty() {
        writeln!(out, "what was said in the last iteration")?;
        crate::episodes::print(&mut out, &completions::table(&facts.rows))?;
    }
    if let Some(warm) = &report.warm_start {
        let reached = match (warm.reached, warm.finished) {
            (true, _) => "enough",
            (false, true) => "not enough: more steps may help (--demonstrations-steps)",
            (false, false) => "stopped before it was enough",
        };
        let last = warm.looks.last().and_then(|(_, reward)| *reward);
        let last = last.map_or("unscored".to_owned(), |reward| format!("{reward:.3}"));
        writeln!(
            out,
            "shown       {} steps of {} demonstrations, out of {} that were played; sampled reward {last} after them: {reached}",
            warm.steps,
            super::DEMONSTRATION_BATCH,
            warm.demonstrations
        )?;
    }
    writeln!(out, "batches     {} learned of {}", report.learned, report.iterations.len())?;
    if let Some(why) = report.iterations.iter().rev().find_map(|one| one.learned.as_ref().err()) {
        writeln!(out, "            the last that was not: {}", escaped(why, 500))?;
    }
    if let Some(why) = report.iterations.last().and_then(|last| last.signal.as_ref()) {
        writeln!(out, "signal      {why}")?;
    }
    if let Some(evaluation) = &report.evaluation {
        learn_summary::proof(
            &mut out,
            evaluation,
            ["with the weights of before the first reward", "with those of now"],
        )?;
    }
    match &report.stopped {
        None => {
            let changed = if facts.before == facts.after {
                "no weight changed".to_owned()
            } else {
                format!("the {} alone changed", facts.learns)
            };
            writeln!(out, "verdict     {} ({changed})", report.outcome.words())?;
            if report.outcome == Verdict::NotMeasured && report.evaluation.is_none() {
                writeln!(out, "            --test-pairs 200 measures it")?;
            }
        }
        Some(reason) => {
            writeln!(out, "verdict     none: {}", learn_summary::stopped(reason))?;
            if let Some(most) = report.failures.iter().max_by_key(|failure| failure.episodes) {
                writeln!(out, "            most failed so: {}", escaped(&most.message, 500))?;
            }
            writeln!(out, "            {}", learn_summary::next(reason, report.iterations.len(), facts.iterations))?;
        }
    }
    writeln!(out, "weights     {} (were {})", short(&facts.after), short(&facts.before))?;
    writeln!(out, "last        {}", CheckpointWriter::place(&facts.out, CheckpointKind::Last).display())?;
    let place = CheckpointWriter::place(&facts.out, CheckpointKind::Best);
    // Whoever made an empty folder for a run that was taken up has lost it.
    if let Some(best) = report.best.as_ref().filter(|_| place.exists()) {
        writeln!(
            out,
            "best        {}, of iteration {}: {:.3} on validation tasks",
            place.display(),
            best.iteration,
            best.reward
        )?;
    }
    if report.stopped.is_none() {
        writeln!(out, "play it     {}", facts.play)?;
    }
    if !report.iterations.is_empty() {
        let there =
            [watch::METRICS, watch::COMPLETIONS, CURVE].into_iter().filter(|name| facts.out.join(name).exists());
        let there: Vec<&str> = there.chain(["events for `tensorboard --logdir`"]).collect();
        writeln!(out, "numbers     {}: {}", facts.out.display(), there.join(", "))?;
    }
    Ok(())
}

fn short(digest: &str) -> String {
    digest.chars().take("sha256:".len() + 12).collect()
}

/// One JSON document. What differs between equal runs stands under `timing`, and nowhere else.
pub(super) fn json(facts: &Facts, report: &LearnReport) -> anyhow::Result<()> {
    let mut learn = serde_json::json!(report);
    if let Some(iterations) = learn.get_mut("iterations").and_then(serde_json::Value::as_array_mut) {
        iterations.iter_mut().filter_map(serde_json::Value::as_object_mut).for_each(|one| {
            // What layers of other kinds do.
            ["usage", "reflections", "proposals", "gate"].iter().for_each(|name| drop(one.remove(*name)));
        });
    }
    if let Some(learn) = learn.as_object_mut() {
        learn.remove("usage");
    }
    let document = serde_json::json!({
        "format": 1,
        "learn": learn,
        "weights": { "before": facts.before, "after": facts.after },
        "config": facts.config,
        "timing": {
            "run": facts.run, "out": facts.out, "usage": report.usage, "started": crate::data::time(facts.started),
            "wall_seconds": facts.wall.as_secs_f64(),
        },
    });
    writeln!(anstream::stdout(), "{document:#}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(7, "7"), (999, "999"), (1000, "1,000"), (99_456, "99,456"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }
}
