//! Steps of a backend that computes nothing, with rollbacks and the page beside them.

use super::super::backend::{Made, NewVersion, Start};
use super::super::section::WeightsSection;
use super::*;
use crate::{WorkspaceSettings, serve_live_weights};
use clawhost_learn::Measurements;
use clawhost_testkit::Still;
use std::path::Path;
use std::sync::Mutex;

/// What happens during a step.
type During = Box<dyn FnOnce() + Send>;

/// Makes a version of a text in every step, and notes the versions that steps began with.
#[derive(Default)]
struct Texts {
    begun: Mutex<Vec<u64>>,
    during: Mutex<Option<During>>,
}

impl WeightsBackend for Texts {
    fn part(&self) -> &str {
        "part"
    }

    fn base(&self) -> Result<Base, AppError> {
        Ok(Base { digest: "base".to_owned(), warning: None })
    }

    fn step(&self, start: &Start, _: Vec<Aged>, _: &Arc<Pace>) -> Result<Made, AppError> {
        let number = {
            let mut begun = self.begun.lock().unwrap();
            begun.push(start.number);
            begun.len()
        };
        if let Some(during) = self.during.lock().unwrap().take() {
            during();
        }
        let version: Box<dyn NewVersion> = Box::new(Text(format!("text {number}")));
        let stepped = Stepped::Taken(Measurements::default());
        Ok(Made { stepped, tokens_per_second: None, version: Some(version) })
    }
}

struct Text(String);

impl NewVersion for Text {
    fn digest(&self) -> String {
        self.0.clone()
    }

    fn write(&self, folder: &Path) -> Result<(), AppError> {
        std::fs::create_dir_all(folder.join("part")).unwrap();
        std::fs::write(folder.join("part/text"), &self.0).unwrap();
        Ok(())
    }
}

struct Bench {
    data: tempfile::TempDir,
    backend: Arc<Texts>,
    training: Training,
}

impl Bench {
    fn new(adapters: Option<&str>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(data.path())).unwrap();
        drop(workspace.store());
        let section = WeightsSection {
            model: Some("m".to_owned()),
            from: vec!["all".to_owned()],
            adapters: adapters.map(str::to_owned),
            ..WeightsSection::default()
        };
        let backend = Arc::new(Texts::default());
        let training = Training {
            base: data.path().join("base"),
            place: LearnedPlace::new(data.path(), "m"),
            plan: section.plan().unwrap().unwrap(),
            backend: backend.clone(),
            clock: Arc::new(Still),
            data: data.path().to_owned(),
        };
        Self { data, backend, training }
    }

    /// A queue with a session of an episode of this number, which is on no record: the backend reads none.
    fn queue(&self, whose: &Whose, number: u64) -> Queue {
        let mut queue = Queue::default();
        let through = self.training.through(whose).unwrap();
        queue.add(whose.clone(), Waiting { number, name: format!("r/{number}"), due_at: 0 }, || through);
        queue
    }

    async fn step(&self, whose: &Whose, number: u64) -> Outcome {
        self.training.step(&mut self.queue(whose, number), whose.clone()).await.unwrap()
    }

    fn learned(&self) -> Learned {
        self.training.place.known().unwrap().unwrap()
    }

    fn served(&self, whose: &Whose) -> Option<String> {
        std::fs::read_to_string(self.training.place_of(whose).serving().join("text")).ok()
    }

    fn page(&self) -> TrainingPage {
        TrainingPage::new(self.training.clone(), Progress::default())
    }

    /// The numbers of the steps on the page that can be served again.
    fn offered(&self) -> Vec<u64> {
        let steps = self.page().view().unwrap().steps.into_iter();
        steps.filter(|step| step.is_on_disk).map(|step| step.number).collect()
    }
}

fn version(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Done(step) => step.version,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_rollback_during_a_step_takes_effect_at_once_and_the_step_makes_no_version() {
    let bench = Bench::new(None);
    for number in 1..=2 {
        assert_eq!(version(&bench.step(&None, number).await), Some(number));
    }
    assert_eq!(bench.served(&None).as_deref(), Some("text 2"));
    // As another process does it: with a workspace of its own.
    let folder = bench.data.path().to_owned();
    let served = Arc::new(Mutex::new(None));
    let seen = served.clone();
    *bench.backend.during.lock().unwrap() = Some(Box::new(move || {
        let workspace = Workspace::open(WorkspaceSettings::new(&folder)).unwrap();
        serve_live_weights(&workspace, ("m", None), 1, false).unwrap();
        *seen.lock().unwrap() = std::fs::read_to_string(folder.join("live-weights/m/serving/text")).ok();
    }));
    let mut queue = bench.queue(&None, 3);
    assert_eq!(bench.training.step(&mut queue, None).await.unwrap(), Outcome::Overtaken);
    assert_eq!(served.lock().unwrap().as_deref(), Some("text 1"), "while the step ran");
    assert_eq!((bench.served(&None).as_deref(), bench.learned().newest()), (Some("text 1"), 2));
    assert!(!bench.data.path().join("live-weights/m/versions/3").exists());
    assert_eq!((queue.longest(), bench.learned().through), (1, 2), "its sessions wait");
    // They are taken again, from the version that serves.
    assert_eq!(version(&bench.training.step(&mut queue, None).await.unwrap()), Some(3));
    assert_eq!(*bench.backend.begun.lock().unwrap(), [0, 1, 2, 1]);
    assert_eq!((bench.served(&None).as_deref(), bench.learned().through), (Some("text 4"), 3));
}

#[tokio::test]
async fn a_rollback_of_the_page_wins_over_a_step_and_another_process_takes_none_meanwhile() {
    let bench = Bench::new(None);
    bench.step(&None, 1).await;
    let (page, other) = (bench.page(), bench.training.clone());
    *bench.backend.during.lock().unwrap() = Some(Box::new(move || {
        page.serve(None, 0).unwrap();
        assert!(other.lease().unwrap().is_none(), "one process takes steps");
    }));
    assert_eq!(bench.step(&None, 2).await, Outcome::Overtaken);
    assert_eq!((bench.learned().serves, bench.learned().newest()), (0, 1));
}

#[tokio::test]
async fn the_page_offers_the_versions_that_are_on_disk_and_serves_them() {
    let bench = Bench::new(None);
    assert_eq!(bench.offered(), [0; 0]);
    for number in 1..=5 {
        bench.step(&None, number).await;
    }
    let view = bench.page().view().unwrap();
    let shown: Vec<_> = view.steps.iter().map(|step| (step.number, step.is_kept, step.serves)).collect();
    assert_eq!(shown, [(5, true, true), (4, true, false), (3, true, false), (2, true, false), (1, true, false)]);
    assert_eq!((view.serves, view.model.as_str(), view.signal.as_str()), (Some(5), "m", "rewards and corrections"));
    assert_eq!(bench.offered(), [5, 4, 3]);
    assert!(bench.page().serve(None, 2).unwrap_err().to_string().contains("no version 2 of these weights on disk"));
    bench.page().serve(None, 3).unwrap();
    assert_eq!((bench.page().view().unwrap().serves, bench.served(&None).as_deref()), (Some(3), Some("text 3")));
    // Whatever is offered can be served.
    for number in bench.offered() {
        bench.page().serve(None, number).unwrap();
    }
    bench.page().serve(None, 0).unwrap();
    assert_eq!(bench.page().view().unwrap().serves, Some(0));
}

#[tokio::test]
async fn a_version_on_disk_is_offered_behind_many_steps_that_made_none() {
    let bench = Bench::new(None);
    bench.step(&None, 1).await;
    let mut learned = bench.learned();
    for number in 2..70 {
        let none = WeightsVersion { number, is_kept: false, ..learned.versions[1].clone() };
        bench.training.place.note(&mut learned, none).unwrap();
    }
    assert_eq!(bench.page().view().unwrap().steps.len(), 51);
    assert_eq!(bench.offered(), [1]);
}

#[tokio::test]
async fn the_page_shows_and_serves_the_adapters_of_scopes() {
    let bench = Bench::new(Some("user"));
    let ada: Scope = "user:/ada".parse().unwrap();
    let whose = Some(ada.clone());
    for number in 1..=2 {
        bench.step(&whose, number).await;
    }
    let view = bench.page().view().unwrap();
    let shown: Vec<_> = view.steps.iter().map(|step| (step.scope.as_deref(), step.number, step.serves)).collect();
    assert_eq!(shown, [(Some("user:/ada"), 2, true), (Some("user:/ada"), 1, false)]);
    assert_eq!(view.serves, None);
    bench.page().serve(Some(&ada), 1).unwrap();
    assert_eq!(bench.served(&whose).as_deref(), Some("text 1"));
    bench.page().serve(Some(&ada), 0).unwrap();
    assert_eq!(bench.served(&whose), None, "the configured model answers");
    assert!(bench.page().serve(None, 1).is_err(), "there are no weights for everybody");
}
