//! Which version of weights that learn while they serve answers: an earlier one by hand, and none that learned from what was forgotten.

use super::lease::{busy, changing, lease};
use super::traces::names_adapter;
use super::versions::{LearnedPlace, WeightsVersion};
use crate::{AppError, RequestError, Workspace};
use clawhost_learn::memory::Scope;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// What a model has learned from live sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveWeightsVersions {
    /// The alias of the model.
    pub model: String,
    /// Whose adapter it is. `None`: weights that answer everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The version that answers; 0 is the configured model.
    pub serves: u64,
    /// Versions and steps that made none, the newest first.
    pub versions: Vec<WeightsVersion>,
}

/// Versions that learned from something that was forgotten.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WithdrawnWeights {
    /// The alias of the model.
    pub model: String,
    /// Whose adapter it is. `None`: weights that answer everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The versions that no longer answer.
    pub versions: Vec<u64>,
    /// Whether they are removed: the adapter of a scope goes with the scope.
    pub is_removed: bool,
    /// The version that answers now; 0 is the configured model.
    pub serves: u64,
}

/// What the models of a data folder have learned from live sessions.
///
/// # Errors
/// What was learned cannot be read.
pub fn live_weights(workspace: &Workspace) -> Result<Vec<LiveWeightsVersions>, AppError> {
    let mut all = Vec::new();
    for place in LearnedPlace::all(workspace.folder()) {
        let Some(learned) = place.known()? else { continue };
        let (model, scope, serves) = (learned.model, learned.scope, learned.serves);
        all.push(LiveWeightsVersions { model, scope, serves, versions: learned.versions.into_iter().rev().collect() });
    }
    all.sort_by(|one, other| (&one.model, &one.scope).cmp(&(&other.model, &other.scope)));
    Ok(all)
}

/// Serves an earlier version of the weights of a model again; 0 is the configured model. `scope`: whose adapter. `confirms`: even if it learned
/// from something that was forgotten since. A gateway that serves the model follows within seconds. A step that runs meanwhile makes no version.
///
/// # Errors
/// There is no such version on disk, or it is withdrawn.
pub fn serve_live_weights(
    workspace: &Workspace,
    (model, scope): (&str, Option<&Scope>),
    number: u64,
    confirms: bool,
) -> Result<(), AppError> {
    serve(workspace.folder(), (model, scope), number, confirms)
}

pub(super) fn serve(
    data: &Path,
    (model, scope): (&str, Option<&Scope>),
    number: u64,
    confirms: bool,
) -> Result<(), AppError> {
    let all = LearnedPlace::new(data, model);
    let place = scope.map_or(all.clone(), |scope| all.of_scope(scope));
    let nothing = || {
        if scope.is_none() && !all.scopes().is_empty() {
            let model = clawhost_core::escaped(model, clawhost_learn::memory::SCOPE_BYTES);
            let why = format!("the model {model} has an adapter for each scope; name the scope whose adapter is meant");
            return AppError::from(RequestError::Other(why));
        }
        let whose = scope.map(|scope| format!(" of {scope}")).unwrap_or_default();
        let named = clawhost_core::escaped(&format!("{model}{whose}"), clawhost_learn::memory::SCOPE_BYTES);
        AppError::from(RequestError::Other(format!("the model {named} has learned nothing from live sessions")))
    };
    // A step that runs meanwhile sees at its end that another version serves, and makes none.
    let _changing = changing(data, model)?;
    let mut learned = place.known()?.ok_or_else(nothing)?;
    place.serve(&mut learned, number, confirms)
}

/// Withdraws the weights in a data folder that learned from some sessions, by their names `RUN/EPISODE` or those of their scopes: what they learned answers nobody
/// until it is learned anew without them, or an operator serves it all the same. The files of steps name these sessions and their scopes no more, so doing it again changes nothing. `is_rehearsal`: nothing is changed.
///
/// # Errors
/// What was learned somewhere cannot be read or written, or another process trains these weights. All others are withdrawn.
pub(crate) fn withdraw_weights(
    data: &Path,
    names: &BTreeSet<String>,
    is_rehearsal: bool,
) -> Result<Vec<WithdrawnWeights>, AppError> {
    let (mut all, mut problem) = (Vec::new(), None);
    for place in LearnedPlace::all(data) {
        match withdrawn(data, &place, names, is_rehearsal) {
            Ok(withdrawn) => all.extend(withdrawn),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    problem.map_or(Ok(all), Err)
}

fn withdrawn(
    data: &Path,
    place: &LearnedPlace,
    names: &BTreeSet<String>,
    is_rehearsal: bool,
) -> Result<Option<WithdrawnWeights>, AppError> {
    let Some(known) = place.known_or_closed(is_rehearsal)? else { return Ok(None) };
    let lease = if is_rehearsal {
        None
    } else {
        Some((lease(data, &known.model)?.ok_or_else(busy)?, changing(data, &known.model)?))
    };
    // It may have learned until now.
    let Some(mut learned) = place.known()? else { return Ok(None) };
    let before = learned.clone();
    let versions = place.withdrawn(&mut learned, names);
    // An earlier try may have been interrupted before the version that counts served.
    if lease.is_some() {
        if learned != before || !versions.is_empty() {
            place.keep(&learned)?;
        } else {
            place.repair(&learned)?;
        }
        // The versions are withdrawn, so what shows whose they were is needed no more.
        place.forget_sessions(names)?;
    }
    let (model, scope, serves) = (learned.model, learned.scope, learned.serves);
    Ok((!versions.is_empty()).then_some(WithdrawnWeights { model, scope, versions, is_removed: false, serves }))
}

/// Removes the adapters in a data folder whose scope one of these names means. `is_rehearsal`: nothing is removed.
///
/// # Errors
/// What was learned somewhere cannot be read or removed, or another process trains these weights. All others are removed.
pub(crate) fn remove_adapters(
    data: &Path,
    names: &BTreeSet<String>,
    is_rehearsal: bool,
) -> Result<Vec<WithdrawnWeights>, AppError> {
    let (mut all, mut problem) = (Vec::new(), None);
    for place in LearnedPlace::all(data) {
        let mut remove = || -> Result<(), AppError> {
            let known = if place.is_named(names) {
                place.known().ok().flatten()
            } else {
                place.known_or_closed(is_rehearsal)?
            };
            let Some(learned) = known else {
                // It is theirs, whatever is left of it.
                return if place.is_named(names) && !is_rehearsal { place.remove() } else { Ok(()) };
            };
            let Some(scope) = learned.scope.clone().filter(|scope| names_adapter(names, scope)) else { return Ok(()) };
            if !is_rehearsal {
                let _lease = lease(data, &learned.model)?.ok_or_else(busy)?;
                let _changing = changing(data, &learned.model)?;
                place.remove()?;
            }
            let versions = learned.versions.iter().filter(|version| version.number > 0 && version.is_kept);
            let versions = versions.map(|version| version.number).collect();
            let (model, scope) = (learned.model.clone(), Some(scope));
            all.push(WithdrawnWeights { model, scope, versions, is_removed: true, serves: 0 });
            Ok(())
        };
        if let Err(error) = remove() {
            problem = problem.or(Some(error));
        }
    }
    problem.map_or(Ok(all), Err)
}

#[cfg(test)]
mod tests {
    use super::super::backend::NewVersion;
    use super::super::steps::Taught;
    use super::super::traces::{folder_of, trace_of};
    use super::super::versions::{Beginning, Learned};
    use super::*;
    use crate::WorkspaceSettings;

    struct Text(&'static str);

    impl NewVersion for Text {
        fn digest(&self) -> String {
            self.0.to_owned()
        }
        fn write(&self, folder: &Path) -> Result<(), AppError> {
            std::fs::create_dir_all(folder.join("part")).unwrap();
            std::fs::write(folder.join("part/text"), self.0).unwrap();
            Ok(())
        }
    }

    fn beginning(scope: Option<&Scope>) -> Beginning {
        Beginning {
            model: "m".to_owned(),
            part: "part".to_owned(),
            base: "/base".to_owned(),
            digest: "base".to_owned(),
            learns: "all weights".to_owned(),
            scope: scope.cloned(),
        }
    }

    fn begun(place: &LearnedPlace, scope: Option<&Scope>) -> Learned {
        place.learned(&beginning(scope), 0).unwrap()
    }

    /// Sessions with the names of their scopes: each is of a user of its own.
    fn taught(sessions: &[&str]) -> Taught {
        let trace = |session: &&str| ((*session).to_owned(), [trace_of(&format!("user:shop/{session}"))].into());
        sessions.iter().map(trace).collect()
    }

    /// A step over sessions, from the version that serves.
    fn step(place: &LearnedPlace, learned: &mut Learned, text: &'static str, sessions: &[&str]) {
        let number = learned.newest() + 1;
        place.list(number, taught(sessions)).unwrap();
        let version = WeightsVersion {
            number,
            from: learned.serves,
            digest: text.to_owned(),
            at: number,
            sessions: sessions.len(),
            metrics: Vec::new(),
            note: String::new(),
            is_kept: true,
            is_withdrawn: learned.is_withdrawn(learned.serves),
        };
        place.write(number, &Text(text)).unwrap();
        place.publish(learned, version).unwrap();
    }

    impl LearnedPlace {
        /// The texts of the files of its steps.
        fn step_files(&self) -> Vec<String> {
            let steps = self.serving().with_file_name("steps");
            let files = std::fs::read_dir(steps).unwrap().map(|file| file.unwrap().path());
            files.map(|file| std::fs::read_to_string(file).unwrap()).collect()
        }
    }

    fn served(place: &LearnedPlace) -> Option<String> {
        std::fs::read_to_string(place.serving().join("text")).ok()
    }

    fn episodes(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn an_earlier_version_serves_again_and_learning_goes_on_from_it() {
        let data = tempfile::tempdir().unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        let mut learned = begun(&place, None);
        for (text, session) in [("one", "r/1"), ("two", "r/2"), ("three", "r/3"), ("four", "r/4")] {
            step(&place, &mut learned, text, &[session]);
        }
        assert_eq!(served(&place).as_deref(), Some("four"));
        let serve_again = |number| serve(data.path(), ("m", None), number, false);
        assert!(serve_again(1).unwrap_err().to_string().contains("no version 1"), "its weights are gone");
        assert!(serve_again(9).is_err());
        serve_again(2).unwrap();
        assert_eq!(served(&place).as_deref(), Some("two"));
        let mut learned = place.known().unwrap().unwrap();
        assert_eq!((learned.lag("two"), learned.lag("one"), learned.lag("four")), (Some(0), Some(1), None));
        step(&place, &mut learned, "five", &["r/5"]);
        assert_eq!((learned.lag("two"), learned.lag("base"), learned.lag("three")), (Some(1), Some(3), None));
        serve_again(0).unwrap();
        assert_eq!(std::fs::read_link(place.serving()).unwrap(), Path::new("/base"));
        assert!(serve(data.path(), ("other", None), 0, false).is_err());
    }

    #[test]
    fn weights_that_learned_from_what_was_forgotten_answer_nobody_until_they_are_confirmed() {
        let data = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(data.path())).unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        let mut learned = begun(&place, None);
        for (text, session) in [("one", "r/1"), ("two", "r/2"), ("three", "r/3")] {
            step(&place, &mut learned, text, &[session, "r/other"]);
        }
        let scope: Scope = "user:shop/ada".parse().unwrap();
        let own = place.of_scope(&scope);
        let mut adapter = begun(&own, Some(&scope));
        step(&own, &mut adapter, "of ada", &["r/2"]);
        assert_eq!(served(&own).as_deref(), Some("of ada"));

        assert_eq!(withdraw_weights(data.path(), &episodes(&["r/9"]), false).unwrap(), []);
        let would = withdraw_weights(data.path(), &episodes(&["r/2"]), true).unwrap();
        assert_eq!(served(&place).as_deref(), Some("three"), "a rehearsal changes nothing");
        let withdrawn = withdraw_weights(data.path(), &episodes(&["r/2"]), false).unwrap();
        assert_eq!(would, withdrawn);
        let of = |scope: Option<&Scope>, versions: &[u64], serves| WithdrawnWeights {
            model: "m".to_owned(),
            scope: scope.cloned(),
            versions: versions.to_vec(),
            is_removed: false,
            serves,
        };
        assert_eq!(withdrawn, [of(None, &[2, 3], 1), of(Some(&scope), &[1], 0)], "with what was learned from them");
        assert_eq!((served(&place).as_deref(), served(&own)), (Some("one"), None));
        assert_eq!(withdraw_weights(data.path(), &episodes(&["r/2"]), false).unwrap(), [], "nothing names it any more");
        for place in [&place, &own] {
            let steps = place.step_files();
            assert!(!steps.is_empty() && steps.iter().all(|text| !text.contains("r/2")), "{steps:?}");
            assert!(steps.iter().any(|text| text.contains("\"forgotten\": 1")), "{steps:?}");
            assert!(steps.iter().all(|text| !text.contains(&trace_of("user:shop/r/2"))), "{steps:?}");
        }
        assert!(place.step_files().iter().all(|text| text.contains("r/other")), "those of others stay");

        let refused = serve_live_weights(&workspace, ("m", None), 3, false).unwrap_err();
        assert!(refused.to_string().contains("forgotten since"), "{refused}");
        // Learned anew, without them.
        let mut learned = place.known().unwrap().unwrap();
        step(&place, &mut learned, "four", &["r/4"]);
        withdraw_weights(data.path(), &episodes(&["r/2"]), false).unwrap();
        assert_eq!(served(&place).as_deref(), Some("four"));
        serve_live_weights(&workspace, ("m", None), 3, true).unwrap();
        serve_live_weights(&workspace, ("m", Some(&scope)), 1, true).unwrap();
        assert_eq!((served(&place).as_deref(), served(&own).as_deref()), (Some("three"), Some("of ada")));
    }

    #[test]
    fn a_confirmed_version_stays_withdrawn_and_so_is_what_is_learned_from_it() {
        let data = tempfile::tempdir().unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        let mut learned = begun(&place, None);
        for (text, session) in [("one", "r/1"), ("two", "r/2")] {
            step(&place, &mut learned, text, &[session]);
        }
        withdraw_weights(data.path(), &episodes(&["r/2"]), false).unwrap();
        serve(data.path(), ("m", None), 2, true).unwrap();
        assert_eq!(served(&place).as_deref(), Some("two"));
        let mut learned = place.known().unwrap().unwrap();
        step(&place, &mut learned, "three", &["r/3"]);
        serve(data.path(), ("m", None), 1, false).unwrap();
        for number in [2, 3] {
            let refused = serve(data.path(), ("m", None), number, false).unwrap_err().to_string();
            assert!(refused.contains("forgotten since"), "{number}: {refused}");
        }
    }

    #[test]
    fn what_serves_after_a_withdrawal_is_what_the_served_version_was_learned_from() {
        let data = tempfile::tempdir().unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        let mut learned = begun(&place, None);
        for (text, session) in [("one", "r/1"), ("bad", "r/2")] {
            step(&place, &mut learned, text, &[session]);
        }
        serve(data.path(), ("m", None), 1, false).unwrap();
        let mut learned = place.known().unwrap().unwrap();
        step(&place, &mut learned, "three", &["r/3"]);
        withdraw_weights(data.path(), &episodes(&["r/3"]), false).unwrap();
        assert_eq!(served(&place).as_deref(), Some("one"), "and not the one that an operator rolled back from");
    }

    #[test]
    fn weights_know_scopes_whose_sessions_are_no_longer_recorded() {
        let data = tempfile::tempdir().unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        let mut learned = begun(&place, None);
        step(&place, &mut learned, "one", &["r/1"]);
        step(&place, &mut learned, "two", &["r/2"]);
        let names = |scope: &str| [trace_of(scope)].into();
        assert_eq!(withdraw_weights(data.path(), &names("user:shop/r/9"), false).unwrap(), []);
        assert_eq!(withdraw_weights(data.path(), &names("user:shop/r/2"), false).unwrap()[0].versions, [2]);
        assert_eq!(served(&place).as_deref(), Some("one"));
    }

    #[test]
    fn weights_know_the_sessions_of_steps_that_are_no_longer_listed() {
        let data = tempfile::tempdir().unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        let mut learned = begun(&place, None);
        for number in 1..=5 {
            step(&place, &mut learned, "text", &[&format!("r/{number}")]);
        }
        learned.versions.retain(|version| version.number == 0 || version.number > 3);
        place.keep(&learned).unwrap();
        let withdrawn = |name: &str| withdraw_weights(data.path(), &episodes(&[name]), true).unwrap();
        assert_eq!(withdrawn("r/9"), []);
        assert_eq!(withdrawn("r/1")[0].versions, [4, 5]);
        assert_eq!(withdrawn("r/5")[0].versions, [5]);
        withdraw_weights(data.path(), &episodes(&["r/1"]), false).unwrap();
        assert_eq!(place.known().unwrap().unwrap().serves, 0);
    }

    #[test]
    fn one_place_that_cannot_be_read_keeps_no_other_from_being_withdrawn() {
        let data = tempfile::tempdir().unwrap();
        for model in ["a", "b", "c"] {
            let place = LearnedPlace::new(data.path(), model);
            let beginning = Beginning { model: model.to_owned(), ..beginning(None) };
            let mut learned = place.learned(&beginning, 0).unwrap();
            step(&place, &mut learned, "one", &["r/1"]);
        }
        std::fs::write(data.path().join("live-weights/b/learned.json"), "{").unwrap();
        let refused = withdraw_weights(data.path(), &episodes(&["r/1"]), false).unwrap_err().to_string();
        assert!(refused.contains("live-weights/b/learned.json"), "{refused}");
        for model in ["a", "c"] {
            let learned = LearnedPlace::new(data.path(), model).known().unwrap().unwrap();
            assert_eq!(learned.serves, 0, "{model}");
        }
    }

    #[test]
    fn other_settings_begin_anew_until_a_step_was_taken() {
        let data = tempfile::tempdir().unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        begun(&place, None);
        let other = Beginning { learns: "an adapter of rank 2".to_owned(), ..beginning(None) };
        let mut learned = place.learned(&other, 0).unwrap();
        step(&place, &mut learned, "one", &["r/1"]);
        let refused = place.learned(&beginning(None), 0).unwrap_err().to_string();
        assert!(
            refused.contains("so far an adapter of rank 2 learned") && refused.contains("live-weights/m"),
            "{refused}"
        );
    }

    #[test]
    fn the_adapter_of_a_scope_goes_with_the_scope() {
        let data = tempfile::tempdir().unwrap();
        let all = LearnedPlace::new(data.path(), "m");
        let scopes: [Scope; 2] = ["user:shop/ada", "user:shop/ben"].map(|scope| scope.parse().unwrap());
        for scope in &scopes {
            let place = all.of_scope(scope);
            let mut learned = begun(&place, Some(scope));
            step(&place, &mut learned, "one", &["r/1"]);
        }
        let of_team: BTreeSet<String> = [trace_of("team:/core")].into();
        assert_eq!(remove_adapters(data.path(), &of_team, false).unwrap(), []);
        let ada: BTreeSet<String> = [trace_of("user:shop/ada")].into();
        let would = remove_adapters(data.path(), &ada, true).unwrap();
        assert!(served(&all.of_scope(&scopes[0])).is_some(), "a rehearsal removes nothing");
        let removed = remove_adapters(data.path(), &ada, false).unwrap();
        assert_eq!((would, removed[0].versions.as_slice(), removed[0].is_removed), (removed.clone(), &[1][..], true));
        assert_eq!(all.scopes().len(), 1);
        assert_eq!(served(&all.of_scope(&scopes[1])).as_deref(), Some("one"));
        assert_eq!(remove_adapters(data.path(), &ada, false).unwrap(), []);
        let shop: BTreeSet<String> = [trace_of("key:shop")].into();
        assert_eq!(remove_adapters(data.path(), &shop, false).unwrap().len(), 1, "everything of the key");
        assert_eq!(all.scopes(), []);
    }

    #[test]
    fn what_is_left_of_an_adapter_goes_with_its_scope_and_one_that_cannot_be_read_answers_nobody() {
        let data = tempfile::tempdir().unwrap();
        let all = LearnedPlace::new(data.path(), "m");
        let scopes: [Scope; 3] = ["user:/ada", "user:/ben", "user:/cy"].map(|scope| scope.parse().unwrap());
        let places = scopes.each_ref().map(|scope| {
            let place = all.of_scope(scope);
            let mut learned = begun(&place, Some(scope));
            step(&place, &mut learned, "one", &["r/1"]);
            place
        });
        let file = |scope: &Scope| {
            data.path().join("live-weights/m/own").join(folder_of(&scope.to_string())).join("learned.json")
        };
        // The removal of Ada's was interrupted, and the files of the others are damaged.
        std::fs::remove_file(file(&scopes[0])).unwrap();
        std::fs::write(file(&scopes[1]), "{").unwrap();
        std::fs::write(file(&scopes[2]), "{").unwrap();
        let names: BTreeSet<String> = ["user:/ada", "user:/ben"].map(trace_of).into();
        assert_eq!(remove_adapters(data.path(), &names, true).unwrap(), []);
        assert!(places.iter().all(|place| served(place).is_some()), "a rehearsal removes nothing");
        assert_eq!(remove_adapters(data.path(), &names, false).unwrap(), []);
        assert_eq!(withdraw_weights(data.path(), &names, false).unwrap(), []);
        assert_eq!(all.scopes(), [places[2].clone()]);
        assert_eq!(served(&places[2]), None);
    }

    #[test]
    fn a_version_that_counts_no_longer_answers_nobody_and_is_taken_away_by_the_next_try() {
        let data = tempfile::tempdir().unwrap();
        let scope: Scope = "user:/ada".parse().unwrap();
        let place = LearnedPlace::new(data.path(), "m").of_scope(&scope);
        let mut learned = begun(&place, Some(&scope));
        step(&place, &mut learned, "one", &["r/1"]);
        step(&place, &mut learned, "two", &["r/2"]);
        assert_eq!(place.scope().unwrap().map(|(scope, _)| scope), Some(scope));
        let second = std::fs::read_link(place.serving()).unwrap();
        assert_eq!(withdraw_weights(data.path(), &episodes(&["r/2"]), false).unwrap()[0].serves, 1);
        assert_eq!(served(&place).as_deref(), Some("one"));
        // As after the end of a process between the two.
        std::fs::remove_file(place.serving()).unwrap();
        std::os::unix::fs::symlink(&second, place.serving()).unwrap();
        assert_eq!(place.scope().unwrap(), None);
        withdraw_weights(data.path(), &episodes(&["r/2"]), false).unwrap();
        assert_eq!(served(&place).as_deref(), Some("one"));
        // A copy of the folder that did not keep links.
        std::fs::remove_file(place.serving()).unwrap();
        std::fs::create_dir(place.serving()).unwrap();
        std::fs::write(place.serving().join("text"), "two").unwrap();
        assert_eq!(place.scope().unwrap(), None);
        withdraw_weights(data.path(), &episodes(&["r/2"]), false).unwrap();
        assert_eq!(served(&place).as_deref(), Some("one"));
    }

    #[test]
    fn a_version_that_was_being_written_when_its_process_ended_is_written_anew() {
        let data = tempfile::tempdir().unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        let mut learned = begun(&place, None);
        step(&place, &mut learned, "one", &["r/1"]);
        // The weights of the next version are there, and it does not count.
        let half = data.path().join("live-weights/m/versions/2/part");
        std::fs::create_dir_all(&half).unwrap();
        std::fs::write(half.join("text"), "tw").unwrap();
        std::fs::write(half.join("other"), "").unwrap();
        let mut learned = place.known().unwrap().unwrap();
        place.repair(&learned).unwrap();
        assert_eq!(served(&place).as_deref(), Some("one"));
        step(&place, &mut learned, "two", &["r/2"]);
        assert_eq!(served(&place).as_deref(), Some("two"));
        assert!(!half.join("other").exists());
        // It counts, and the link leads to the version before.
        std::fs::remove_file(place.serving()).unwrap();
        place.repair(&place.known().unwrap().unwrap()).unwrap();
        assert_eq!(served(&place).as_deref(), Some("two"));
    }

    #[test]
    fn a_step_whose_sessions_cannot_be_read_may_have_had_any() {
        let data = tempfile::tempdir().unwrap();
        let place = LearnedPlace::new(data.path(), "m");
        let mut learned = begun(&place, None);
        step(&place, &mut learned, "one", &["r/1"]);
        std::fs::remove_file(data.path().join("live-weights/m/steps/1.json")).unwrap();
        assert_eq!(withdraw_weights(data.path(), &episodes(&["r/9"]), false).unwrap().len(), 1);
        assert_eq!(place.known().unwrap().unwrap().serves, 0);
    }
}
