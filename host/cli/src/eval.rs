//! `clawhost eval`: a playbook on the test split, pair by pair against none, or against an older version.

use crate::args::{self, Common};
use crate::data;
use crate::exit::{Exit, UsageError};
use crate::progress::Progress;
use crate::run::{Stopping, watch_signals};
use crate::setup::{Policy, Setup};
use crate::{learn_summary, playbook, summary};
use clawhost_core::{Clock as _, Environment as _};
use clawhost_learn::harness::PlaybookView;
use clawhost_learn::playbook::Playbook;
use clawhost_runtime::Cancel;
use clawhost_runtime::learn::{Verdict, evaluate};
use std::io::Write as _;

pub(crate) fn main(common: &Common, options: &args::Eval) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(eval(common, options));
    runtime.shutdown_background();
    exit
}

async fn eval(common: &Common, options: &args::Eval) -> anyhow::Result<Exit> {
    if options.play.reward.is_empty() {
        return Err(UsageError("nothing is measured without a reward: --reward R.wasm".into()).into());
    }
    let progress = Progress::new(options.pairs * 2, options.play.quiet);
    let setup =
        Setup::new(common, &options.play, Policy::Named(options.play.policy.clone()), &|text| progress.say(text))
            .await?;
    let name = options.playbook.clone().unwrap_or_else(|| setup.environment.identity().name.clone());
    let after = playbook::served(&setup, &name, options.version).await?;
    let before = match options.against {
        Some(number) => Some(playbook::served(&setup, &name, Some(number)).await?),
        None => None,
    };
    if let Some(before) = before.as_ref().filter(|before| before.digest == after.digest) {
        return Err(UsageError(format!(
            "--against {}: version {} says the same; name another version, or leave --against out to compare with none",
            before.number, after.number
        ))
        .into());
    }
    let mut notes = Vec::new();
    for version in before.iter().chain([&after]) {
        notes.extend(playbook::notes(&setup, options.play.seed, version, options.token_budget)?);
    }
    // Both versions may have been learned in one place.
    notes.dedup();
    notes.iter().for_each(|note| progress.say(note));
    let worth = playbook::worth(&setup.folder, &name)?;
    let showing = |playbook: Playbook| PlaybookView::serving(playbook, &worth, options.token_budget);
    let first = before.as_ref().map(playbook::document).transpose()?.unwrap_or_default();
    let playbooks = [showing(first), showing(playbook::document(&after)?)];
    let version = |version: &clawhost_core::PlaybookVersion| serde_json::json!({ "name": version.name, "number": version.number, "digest": version.digest });
    let plan = setup.plan(&options.play, options.pairs * 2, 2);
    let mut told = serde_json::json!(plan);
    if let Some(plan) = told.as_object_mut() {
        plan.remove("concurrency");
    }
    let config = serde_json::json!({
        "evaluation": { "before": before.as_ref().map(version), "after": version(&after) },
        "environment": setup.environment.identity(), "policy": setup.model.identity(), "plan": told,
        "reward_rules": setup.rewards.iter().map(summary::rule).collect::<Vec<_>>(),
        "system_prompt": setup.system_prompt, "sampling": setup.sampling, "version": env!("CARGO_PKG_VERSION"),
    });
    let (run, claim) = data::begin(&setup.folder, setup.clock.now_ms())?;
    let cancel = Cancel::default();
    let began = std::time::Instant::now();
    let started = setup.clock.now_ms();
    let stop_on_signal = tokio::spawn(watch_signals(cancel.clone(), Stopping::Run));
    let ports = setup.ports();
    let done =
        evaluate(run.clone(), &plan, options.pairs, ports, playbooks, config.clone(), (&cancel, &progress)).await;
    stop_on_signal.abort();
    progress.finish();
    let (evaluation, report) = done?;
    if report.stopped.is_none() {
        claim.finish();
    }
    // What was cut short was perhaps cut short at a good moment.
    let outcome = if report.stopped.is_none() { evaluation.outcome() } else { Verdict::NotMeasured };
    if common.json {
        let document = serde_json::json!({
            "format": 1, "evaluation": evaluation, "outcome": outcome, "config": config,
            "endings": report.endings, "failed": report.failed, "failures": report.failures,
            "stopped": report.stopped, "usage": report.usage,
            "timing": {
                "run": run, "started": data::time(started), "wall_seconds": began.elapsed().as_secs_f64(),
                "concurrency": options.play.concurrency,
            },
        });
        writeln!(anstream::stdout(), "{document:#}")?;
    } else {
        let mut out = anstream::stdout();
        writeln!(out, "run         {run}")?;
        writeln!(
            out,
            "playbook    {name}, version {} against {}",
            after.number,
            before.as_ref().map_or("none".to_owned(), |version| format!("version {}", version.number))
        )?;
        let first =
            before.map_or("without a playbook".to_owned(), |version| format!("with version {}", version.number));
        learn_summary::proof(&mut out, &evaluation, [&first, &format!("with version {}", after.number)])?;
        summary::failures(&mut out, &report)?;
        match &report.stopped {
            None => writeln!(out, "verdict     {}", outcome.words())?,
            Some(reason) => writeln!(out, "verdict     none: {}", learn_summary::stopped(reason))?,
        }
    }
    Ok(Exit::of_stop(report.stopped.as_ref()))
}
