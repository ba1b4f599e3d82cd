//! The results of weights, for people.

use super::samples;
use clawhost_app::LearnedWeights;
use clawhost_core::{Digest, counted, escaped, thousands};
use clawhost_learning::{IterationReport, LearnReport};
use std::io::Write;

/// The results of an iteration. `None`: weights do not learn.
pub(crate) fn weights(report: &IterationReport) -> Option<String> {
    let (_, weights) = report.weights()?;
    let metrics = report.metrics();
    let metric = |name: &str| metrics.get(&format!("weights.{name}")).copied();
    let loss = metric("loss").map_or("no loss".to_owned(), |loss| format!("loss {loss:+.4}"));
    let number = |name: &str| metric(name).unwrap_or(0.0);
    let rollout = &weights.rollout;
    let refilled = match rollout.refilled_groups {
        0 => String::new(),
        groups => format!("({} played anew)  ", counted(groups, "group")),
    };
    // Of the groups that were played first.
    let first = if rollout.refilled_groups > 0 { " at first" } else { "" };
    let without_variance =
        rollout.zero_variance_share.map(|share| format!("  without variance{first} {:.0} %", 100.0 * share));
    let share = metric("truncation_share").filter(|share| *share > 0.0);
    let cut_off = share.map(|share| format!("  cut off {:.0} %", 100.0 * share));
    let validated = weights.validation.map(|reward| format!("  validation {reward:.3}"));
    let ends = [without_variance, cut_off, validated].map(Option::unwrap_or_default).concat();
    Some(format!(
        "{refilled}{loss}  KL {:.4}  entropy {:.3}  clipped {:.1} %  gradient {:.2}{ends}",
        number("approx_kl"),
        number("entropy"),
        100.0 * number("clip_fraction"),
        number("gradient_norm"),
    ))
}

/// The part of the model that changed. `None`: nothing changed.
pub(crate) fn changed(weights: &LearnedWeights) -> Option<&'static str> {
    let what = if weights.is_adapter { "the adapter" } else { "the weights" };
    (weights.before != weights.after).then_some(what)
}

/// Samples of the last iteration, and the results of demonstrations.
pub(crate) fn episodes(out: &mut impl Write, weights: &LearnedWeights, report: &LearnReport) -> std::io::Result<()> {
    if !weights.samples.is_empty() {
        writeln!(out, "episodes of the last iteration")?;
        crate::episodes::print(out, &samples::table(&weights.samples))?;
    }
    let Some(warm) = report.weights().and_then(|weights| weights.warm_start.as_ref()) else { return Ok(()) };
    let reached = match (warm.reached, warm.finished) {
        (true, _) => "enough",
        (false, true) => "not enough: more steps may help (--demonstrations-steps)",
        (false, false) => "stopped before it was enough",
    };
    let last = warm.looks.last().and_then(|(_, reward)| *reward);
    let last = last.map_or("unscored".to_owned(), |reward| format!("{reward:.3}"));
    writeln!(
        out,
        "shown       {} of {DEMONSTRATION_BATCH} demonstrations, out of {} that were played; sampled reward {last} after them: \
         {reached}",
        counted(warm.steps, "step"),
        thousands(warm.demonstrations)
    )
}

/// Demonstrations per step.
const DEMONSTRATION_BATCH: u64 = 128;

/// Why batches were skipped, why rewards carry no signal, whether they fell, and signs of reward hacking.
pub(crate) fn batches(out: &mut impl Write, report: &LearnReport) -> std::io::Result<()> {
    if let Some(why) = report.iterations.iter().rev().find_map(|one| one.learned.as_ref().err()) {
        writeln!(out, "            the last skipped one: {}", escaped(why, 500))?;
    }
    let signal = report.iterations.last().and_then(|last| last.weights());
    if let Some(why) = signal.and_then(|(_, weights)| weights.signal.as_ref()) {
        writeln!(out, "signal      {why}")?;
    }
    if let Some(why) = signal.and_then(|(_, weights)| weights.fall.as_ref()) {
        writeln!(out, "fall        {why}")?;
    }
    let mut told = Vec::new();
    for (iteration, weights) in report.iterations.iter().filter_map(|one| Some((one.iteration, one.weights()?.1))) {
        for suspicion in weights.suspicions.iter().filter(|one| !told.contains(&&one.watched)).collect::<Vec<_>>() {
            writeln!(out, "hacking     iteration {iteration}: {suspicion}")?;
            told.push(&suspicion.watched);
        }
    }
    Ok(())
}

/// The models and metrics that were written.
pub(crate) fn files(
    out: &mut impl Write,
    weights: &LearnedWeights,
    report: &LearnReport,
    play: Option<&str>,
) -> std::io::Result<()> {
    let LearnedWeights { before, after, out: folder, last, best, files, .. } = weights;
    writeln!(out, "weights     {} (were {})", short(after), short(before))?;
    match last {
        Some(last) => writeln!(out, "last        {}", last.display())?,
        None => writeln!(out, "last        not written: nothing was learned yet")?,
    }
    let learned = report.weights();
    if let (Some(place), Some(best)) = (best, learned.and_then(|weights| weights.best.as_ref())) {
        let of = match best.iteration {
            0 => "the starting weights".to_owned(),
            iteration => format!("iteration {iteration}"),
        };
        writeln!(out, "best        {}, of {of}: {:.3} on validation tasks", place.display(), best.reward)?;
    }
    if let Some((start, last)) = learned.and_then(|weights| Some((weights.start?, weights.last?))) {
        writeln!(out, "validation  {start:.3} with the starting weights, {last:.3} with the last that were measured")?;
    }
    if let (Some(name), Some(place)) = (&weights.routed_as, best.as_ref().or(last.as_ref())) {
        let (name, place) = (escaped(name, 100), place.display());
        writeln!(out, "to serve    in the file of the router: models.{name}.model = \"local:{place}\"")?;
    }
    if let Some(play) = play.filter(|_| report.stopped.is_none()) {
        writeln!(out, "play it     {play}")?;
    }
    if !report.iterations.is_empty() {
        let there: Vec<&str> = files.iter().copied().chain(["events for `tensorboard --logdir`"]).collect();
        writeln!(out, "numbers     {}: {}", folder.display(), there.join(", "))?;
    }
    Ok(())
}

/// The beginning of a digest.
fn short(digest: &Digest) -> String {
    digest.to_string().chars().take("sha256:".len() + 12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Usage;
    use clawhost_learn::policy::{Suspicion, Watched};
    use clawhost_learning::{LayerDetails, LayerIteration, Outcome, WeightsIteration};

    fn iteration(number: u64, weights: WeightsIteration) -> IterationReport {
        let details = LayerDetails::Weights(Box::new(weights));
        IterationReport {
            iteration: number,
            reward: Some(0.5),
            parts: Vec::new(),
            episodes: 64,
            removed: 0,
            revised: 0,
            learned: Ok(()),
            layers: vec![LayerIteration { layer: "weights".to_owned(), details, ..LayerIteration::default() }],
            state: Digest::of(b"state"),
            usage: Usage::default(),
        }
    }

    fn report(iterations: Vec<IterationReport>) -> LearnReport {
        LearnReport {
            outcome: Outcome::NotMeasured,
            evaluation: None,
            learned: iterations.len() as u64,
            iterations,
            reached: 0,
            layers: Vec::new(),
            stopped: None,
            failures: Vec::new(),
            usage: Usage::default(),
            content_root: Digest::of(b"content"),
        }
    }

    #[test]
    fn a_model_that_was_not_written_is_not_named() {
        let check = |last: Option<&str>, expect: &[&str]| {
            let weights = LearnedWeights {
                before: Digest::of(b"weights"),
                after: Digest::of(b"weights"),
                is_adapter: true,
                out: "run".into(),
                last: last.map(Into::into),
                best: None,
                routed_as: Some("small".to_owned()),
                samples: Vec::new(),
                files: Vec::new(),
            };
            let mut out = Vec::new();
            files(&mut out, &weights, &report(Vec::new()), None).unwrap();
            let told = String::from_utf8(out).unwrap();
            assert_eq!(told.lines().skip(1).collect::<Vec<_>>(), expect);
        };
        check(None, &["last        not written: nothing was learned yet"]);
        let to_serve = "to serve    in the file of the router: models.small.model = \"local:run/last\"";
        check(Some("run/last"), &["last        run/last", to_serve]);
    }

    #[test]
    fn a_fall_and_signs_of_hacking_are_told_by_the_summary() {
        let suspicion = |watched: Watched, before, after| Suspicion {
            watched,
            reward_before: 0.25,
            reward_after: 0.75,
            before,
            after,
        };
        let (length, entropy) = (suspicion(Watched::Length, 10.0, 20.0), suspicion(Watched::Entropy, 1.0, 0.25));
        let suspicious = |suspicions: &[&Suspicion]| WeightsIteration {
            suspicions: suspicions.iter().map(|one| (*one).clone()).collect(),
            ..WeightsIteration::default()
        };
        let report = report(vec![
            iteration(1, suspicious(&[&length])),
            iteration(2, suspicious(&[&length, &entropy])),
            iteration(3, WeightsIteration { fall: Some("it fell".to_owned()), ..WeightsIteration::default() }),
        ]);
        let mut out = Vec::new();
        batches(&mut out, &report).unwrap();
        let told = String::from_utf8(out).unwrap();
        let expect = [
            "fall        it fell".to_owned(),
            format!("hacking     iteration 1: {length}"),
            format!("hacking     iteration 2: {entropy}"),
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), expect);
        assert!(told.contains("answers grew from 10.0 to 20.0 tokens") && told.contains("0.250 nats"), "{told}");
    }
}
