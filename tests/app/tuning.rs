//! Tunings of a tiny model.

use crate::bench::Bench;
use clawhost_app::local_models::{
    LabelledSettings, NewModel, TUNE_ADAPTER_RATE, TUNE_BETA, TuneData, TuneObjective, TuneReport, TuneRequest,
    Vocabulary, create_model, tune,
};
use clawhost_app::{AppError, Event, ModelSettings, RequestError, Silent, Start, run};
use clawhost_core::Digest;
use clawhost_model::tokens::TextHost;
use clawhost_model::{ModelFolder, digest};
use clawhost_play::Cancel;
use clawhost_run_config::Verb;
use std::path::{Path, PathBuf};

const LABELS: LabelledSettings = LabelledSettings { beta: TUNE_BETA, desirable: 1.0, undesirable: 1.0 };

/// Sums with one digit, each with its right answer.
fn sums() -> impl Iterator<Item = (String, u32)> {
    (0..5_u32).flat_map(|one| (0..5_u32).map(move |other| (format!("{one}+{other}="), one + other)))
}

fn lines(objective: TuneObjective) -> String {
    let line = |(question, answer): (String, u32)| match objective {
        TuneObjective::Sft => vec![format!(
            r#"{{"messages":[{{"role":"user","content":"{question}"}},{{"role":"assistant","content":"{answer}"}}]}}"#
        )],
        TuneObjective::Dpo { .. } => {
            vec![format!(r#"{{"prompt":"{question}","chosen":"{answer}","rejected":"{answer}9"}}"#)]
        }
        TuneObjective::Kto(_) => [(answer.to_string(), true), (format!("{answer}9"), false)]
            .map(|(said, label)| format!(r#"{{"prompt":"{question}","completion":"{said}","label":{label}}}"#))
            .to_vec(),
    };
    sums().flat_map(line).collect::<Vec<_>>().join("\n")
}

struct Shelf {
    folder: tempfile::TempDir,
}

impl Shelf {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vocabulary = Some(Vocabulary::Characters("0123456789+=<>?#".to_owned()));
        create_model(&NewModel { width: 32, context: 32, vocabulary, ..NewModel::new(folder.path().join("model")) })
            .unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn request(&self, objective: TuneObjective, text: &str, out: &str) -> TuneRequest {
        let file = self.path("data.jsonl");
        std::fs::write(&file, text).unwrap();
        let request = TuneRequest::new(self.path("model"), objective, TuneData::Files(vec![file]), self.path(out));
        TuneRequest { epochs: 8, batch: 5, ..request }
    }

    fn tuned(&self, request: &TuneRequest, cancel: &Cancel) -> Result<TuneReport, AppError> {
        tune(request, (None, 0), &ModelSettings::default(), cancel, &Silent)
    }
}

fn weights(folder: &Path) -> Digest {
    digest(&ModelFolder::read(folder, &TextHost::InProcess).unwrap().weights)
}

#[test]
fn every_objective_lowers_the_loss_of_what_it_has_not_seen() {
    let shelf = Shelf::new();
    let check = |objective: TuneObjective, rate: f64, share: f64, train: u64, held_out: u64| {
        let request = shelf.request(objective, &lines(objective), objective.name());
        let request = TuneRequest { rate: Some(rate), held_out: 0.2, ..request };
        let report = shelf.tuned(&request, &Cancel::default()).unwrap();
        assert_eq!((report.examples.train, report.examples.held_out), (train, held_out), "{objective:?}");
        let (start, last) = (report.start.unwrap(), report.epochs.last().unwrap());
        let least = report.epochs.iter().filter_map(|epoch| epoch.validation).fold(start, f64::min);
        assert!(least < share * start, "{objective:?}: {start}, then {:?}", report.epochs);
        let best = report.best.unwrap();
        assert_eq!(
            report.epochs[best as usize - 1].validation,
            Some(least),
            "the best epoch is that of the least loss"
        );
        assert_eq!(last.accuracy.is_some(), objective != TuneObjective::Sft);
        assert_eq!(report.steps, train.div_ceil(5) * 8);
        assert_eq!(weights(&report.last_folder), report.after);
        assert!(report.best_folder.unwrap().join("config.json").exists());
        assert_eq!(report.before, weights(&shelf.path("model")), "the folder of the model is not changed");
        let steps = std::fs::read_to_string(request.out.join("metrics.jsonl")).unwrap();
        assert_eq!(steps.lines().count() as u64, report.steps);
    };
    check(TuneObjective::Sft, 0.01, 0.7, 20, 5);
    check(TuneObjective::Dpo { beta: TUNE_BETA }, 0.005, 0.98, 20, 5);
    check(TuneObjective::Kto(LABELS), 0.005, 0.98, 40, 10);
}

#[test]
fn equal_seeds_give_equal_weights_and_other_seeds_others() {
    let shelf = Shelf::new();
    let after = |out: &str, seed: u64| {
        let request = shelf.request(TuneObjective::Sft, &lines(TuneObjective::Sft), out);
        shelf.tuned(&TuneRequest { epochs: 1, seed, ..request }, &Cancel::default()).unwrap().after
    };
    assert_eq!(after("one", 1), after("again", 1));
    assert_ne!(after("more", 1), after("other", 2));
}

#[test]
fn a_stopped_tuning_keeps_its_last_weights() {
    let shelf = Shelf::new();
    let request = shelf.request(TuneObjective::Sft, &lines(TuneObjective::Sft), "out");
    let cancel = Cancel::default();
    // The event of the third step requests the stop.
    let stop = |event: Event| {
        if matches!(event, Event::Progress { done: 3, .. }) {
            cancel.request();
        }
    };
    let report = tune(&request, (None, 0), &ModelSettings::default(), &cancel, &stop).unwrap();
    assert_eq!((report.is_stopped, report.steps, report.epochs.len()), (true, 3, 0));
    assert_ne!(report.after, report.before);
    assert_eq!(weights(&report.last_folder), report.after);
}

#[test]
fn an_adapter_is_written_beside_the_base_model() {
    let shelf = Shelf::new();
    let request = shelf.request(TuneObjective::Sft, &lines(TuneObjective::Sft), "out");
    let request = TuneRequest { adapter_rank: Some(4), epochs: 1, held_out: 0.0, ..request };
    let report = shelf.tuned(&request, &Cancel::default()).unwrap();
    assert!(report.last_folder.join("adapter/adapter_config.json").exists());
    assert_eq!((report.start, report.best, report.best_folder), (None, None, None), "nothing is held out");
    assert_eq!(report.rate, TUNE_ADAPTER_RATE);
}

#[test]
fn data_without_examples_is_refused() {
    let shelf = Shelf::new();
    let check = |text: &str, expect: &str| {
        let error = shelf.tuned(&shelf.request(TuneObjective::Sft, text, "out"), &Cancel::default()).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
        assert!(!shelf.path("out").exists(), "nothing is written");
    };
    check("", "there is no example to learn from: 0 are longer");
    let long = "1".repeat(40);
    let line = format!(r#"{{"messages":[{{"role":"user","content":"{long}"}},{{"role":"assistant","content":"1"}}]}}"#);
    check(&line, "1 are longer than the model's context");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_objective_learns_from_a_recorded_run() {
    let Some(bench) = Bench::new("tuning_from_a_run") else { return };
    let shelf = Shelf::new();
    // First it learns to answer with a digit, so that answers are whole.
    let digits = (0..4).map(|digit| {
        format!(r#"{{"messages":[{{"role":"user","content":"?"}},{{"role":"assistant","content":"{digit}"}}]}}"#)
    });
    let request = shelf.request(TuneObjective::Sft, &digits.collect::<Vec<_>>().join("\n"), "digits");
    let request = TuneRequest { epochs: 30, rate: Some(0.01), held_out: 0.0, ..request };
    let player = shelf.tuned(&request, &Cancel::default()).unwrap().last_folder;
    let text = format!(
        "plugin = \"env_guess.wasm?size=4&guesses=2&talk=terse\"\n\
         rewards = [\"reward_signal.wasm?name=distance&equals=0&absent=0\"]\npolicy = \"local:{}\"\n\
         episodes = 48\ngroup = 8\nmax_tokens = 3\ntemperature = 1.0\n",
        player.display()
    );
    let workspace = bench.open();
    let played = run(&workspace, bench.spec(Verb::Play, &text), Start::New, &Cancel::default(), &Silent).await.unwrap();
    let reader = workspace.reader().unwrap();
    let now = 1_800_000_000_000;
    let tuned = |objective: TuneObjective, run: &str, threshold: Option<f64>, out: &str| {
        let data = TuneData::Run { run: run.to_owned(), threshold };
        let request = TuneRequest::new(player.clone(), objective, data, shelf.path(out));
        let request = TuneRequest { epochs: 4, batch: 8, rate: Some(0.005), ..request };
        tune(&request, (Some(&*reader), now), &ModelSettings::default(), &Cancel::default(), &Silent)
    };
    let mut used = Vec::new();
    for objective in [TuneObjective::Sft, TuneObjective::Dpo { beta: TUNE_BETA }, TuneObjective::Kto(LABELS)] {
        let report = tuned(objective, &played.run.0, None, objective.name()).unwrap();
        let (first, last) = (report.epochs[0].loss, report.epochs[3].loss);
        assert!(last < first, "{objective:?}: {first} to {last}");
        assert_eq!(report.threshold.is_some(), !matches!(objective, TuneObjective::Dpo { .. }));
        used.push(report.examples.train + report.examples.held_out);
    }
    assert!(used[0] < used[2] && used[1] <= 24 && used[2] > 20, "the best, pairs, and all whole episodes: {used:?}");
    let good = tuned(TuneObjective::Sft, &played.run.0, Some(1.0), "good").unwrap();
    assert!(good.threshold == Some(1.0) && good.examples.train + good.examples.held_out <= used[0], "{good:?}");
    let error = tuned(TuneObjective::Sft, "nowhere", None, "none").unwrap_err();
    assert!(matches!(error, AppError::Request(RequestError::NoRun { .. })), "{error}");
}
