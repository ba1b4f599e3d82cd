//! `clawhost model tune`: trains a model on given conversations.

use super::args::{TuneArgs, TunedBy};
use super::{harmless, print_json, settings};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::Progress;
use clawhost_app::SystemClock;
use clawhost_app::local_models::{
    LabelledSettings, TUNE_BETA, TUNE_LABEL_WEIGHT, TuneData, TuneObjective, TuneReport, TuneRequest, tune,
};
use clawhost_core::{Clock as _, counted};
use std::io::Write;

impl TuneArgs {
    /// Refuses settings that the objective does not have.
    fn check(&self) -> Result<(), UsageError> {
        let (is_sft, is_kto) = (self.objective == TunedBy::Sft, self.objective == TunedBy::Kto);
        let refused = [
            ("--beta", self.beta.is_some() && is_sft, "dpo and kto"),
            ("--desirable-weight", self.desirable_weight.is_some() && !is_kto, "kto"),
            ("--undesirable-weight", self.undesirable_weight.is_some() && !is_kto, "kto"),
            ("--threshold", self.threshold.is_some() && !is_sft && !is_kto, "sft and kto"),
        ];
        match refused.into_iter().find(|(_, is_refused, _)| *is_refused) {
            Some((option, _, of)) => Err(UsageError(format!("{option}: belongs to {of}"))),
            None => Ok(()),
        }
    }

    fn objective(&self) -> TuneObjective {
        let beta = self.beta.unwrap_or(TUNE_BETA);
        match self.objective {
            TunedBy::Sft => TuneObjective::Sft,
            TunedBy::Dpo => TuneObjective::Dpo { beta },
            TunedBy::Kto => TuneObjective::Kto(LabelledSettings {
                beta,
                desirable: self.desirable_weight.unwrap_or(TUNE_LABEL_WEIGHT),
                undesirable: self.undesirable_weight.unwrap_or(TUNE_LABEL_WEIGHT),
            }),
        }
    }

    fn request(&self) -> TuneRequest {
        let data = match &self.from {
            Some(run) => TuneData::Run { run: run.clone(), threshold: self.threshold },
            None => TuneData::Files(self.data.clone()),
        };
        let usual = TuneRequest::new(self.folder.clone(), self.objective(), data, self.out.clone());
        TuneRequest {
            epochs: self.epochs.unwrap_or(usual.epochs),
            batch: self.batch.unwrap_or(usual.batch),
            rate: self.rate,
            adapter_rank: self.adapter_rank,
            held_out: self.held_out.unwrap_or(usual.held_out),
            seed: self.seed.unwrap_or(usual.seed),
            ..usual
        }
    }
}

pub(super) fn run(context: &Context, arguments: &TuneArgs) -> anyhow::Result<Exit> {
    arguments.check()?;
    let request = arguments.request();
    let reader = request_reader(context, &request)?;
    let models = settings(context, arguments.device)?;
    let progress = Progress::new(context, arguments.quiet, "trained");
    let work = cancel_on_signal(Stopping::Tuning);
    let data = (reader.as_deref(), SystemClock::default().now_ms());
    let report = tune(&request, data, &models, work.cancel(), &progress);
    drop(work);
    progress.finish();
    let report = report?;
    let exit = if report.is_stopped { Exit::Interrupted } else { Exit::Ok };
    if context.json() {
        let mut document = serde_json::json!({ "format": 1 });
        if let (Some(all), serde_json::Value::Object(fields)) =
            (document.as_object_mut(), serde_json::to_value(&report)?)
        {
            all.extend(fields);
        }
        print_json(&document)?;
        return Ok(exit);
    }
    text(&mut crate::terminal::stdout(), &report)?;
    Ok(exit)
}

/// The data folder, where a recorded run teaches.
fn request_reader(
    context: &Context,
    request: &TuneRequest,
) -> anyhow::Result<Option<Box<dyn clawhost_core::StoreReader>>> {
    match request.data {
        TuneData::Run { .. } => context.reader().map(Some),
        TuneData::Files(_) => Ok(None),
    }
}

fn text(out: &mut impl Write, report: &TuneReport) -> std::io::Result<()> {
    let TuneReport { objective, examples, threshold, steps, rate, start, epochs, best, .. } = report;
    let learned = counted(examples.train, "example");
    let tokens = counted(examples.tokens, "token");
    writeln!(out, "data        {learned} with {tokens} of answers, {} held out", examples.held_out)?;
    if examples.too_long + examples.unusable > 0 {
        writeln!(out, "left out    {} too long, {} episodes that cannot teach", examples.too_long, examples.unusable)?;
    }
    if let Some(threshold) = threshold {
        writeln!(out, "good        from a reward of {threshold:.3} on")?;
    }
    writeln!(out, "objective   {objective}, {} at a rate of up to {rate}", counted(*steps, "step"))?;
    if let Some(start) = start {
        writeln!(out, "start       validation loss {start:.4}")?;
    }
    for one in epochs {
        let validation = one.validation.map(|loss| format!(", validation loss {loss:.4}")).unwrap_or_default();
        let accuracy = one.accuracy.map(|share| format!(", {:.0} % preferred rightly", 100.0 * share));
        writeln!(out, "epoch {:<5} loss {:.4}{validation}{}", one.epoch, one.loss, accuracy.unwrap_or_default())?;
    }
    if report.is_stopped {
        writeln!(out, "stopped     before its end; the weights up to there are kept")?;
    }
    writeln!(out, "last        {}", harmless(&report.last_folder.display().to_string()))?;
    if let (Some(folder), Some(best)) = (&report.best_folder, best) {
        let of = if *best == 0 { "the starting weights".to_owned() } else { format!("epoch {best}") };
        writeln!(out, "best        {}, of {of}", harmless(&folder.display().to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_app::local_models::{ExampleCounts, TunedEpoch};
    use clawhost_core::Digest;

    #[test]
    fn a_tuning_is_told_in_lines() {
        let report = TuneReport {
            objective: "dpo",
            examples: ExampleCounts { train: 9, held_out: 1, too_long: 2, unusable: 3, tokens: 40 },
            threshold: None,
            steps: 6,
            rate: 0.0002,
            start: Some(0.6875),
            epochs: vec![TunedEpoch { epoch: 1, loss: 0.5, validation: Some(0.7), accuracy: Some(0.5) }],
            best: Some(0),
            is_stopped: true,
            before: Digest::of(b"a"),
            after: Digest::of(b"b"),
            last_folder: "out/last".into(),
            best_folder: Some("out/best".into()),
        };
        let mut out = Vec::new();
        text(&mut out, &report).unwrap();
        let expect = "data        9 examples with 40 tokens of answers, 1 held out\n\
                      left out    2 too long, 3 episodes that cannot teach\n\
                      objective   dpo, 6 steps at a rate of up to 0.0002\n\
                      start       validation loss 0.6875\n\
                      epoch 1     loss 0.5000, validation loss 0.7000, 50 % preferred rightly\n\
                      stopped     before its end; the weights up to there are kept\n\
                      last        out/last\n\
                      best        out/best, of the starting weights\n";
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}
