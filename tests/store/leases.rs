//! Leases: mutual exclusion of processes. Lock files stay in their folder.

use clawhost_core::{LeaseMode, LeaseSubject, Leases as _, RunId};
use clawhost_store::FileLeases;
use std::path::Path;
use std::process::Command;

fn run(id: &str) -> LeaseSubject {
    LeaseSubject::Run(RunId(id.into()))
}

fn playbook(name: &str) -> LeaseSubject {
    LeaseSubject::Playbook(name.into())
}

/// The lock files of a data folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("leases")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn exclusive_leases_exclude_all_others_and_shared_ones_exclusive_ones() {
    let folder = tempfile::tempdir().unwrap();
    let leases = FileLeases::new(folder.path());
    for subject in [run("run-a"), playbook("chess"), LeaseSubject::Folder] {
        let take = |mode| leases.acquire(&subject, mode).unwrap();
        let exclusive = take(LeaseMode::Exclusive).unwrap();
        assert!(take(LeaseMode::Exclusive).is_none());
        assert!(take(LeaseMode::Shared).is_none());
        drop(exclusive);
        let [one, two] = [take(LeaseMode::Shared).unwrap(), take(LeaseMode::Shared).unwrap()];
        assert!(take(LeaseMode::Exclusive).is_none());
        drop(one);
        assert!(take(LeaseMode::Exclusive).is_none());
        drop(two);
        assert!(take(LeaseMode::Exclusive).is_some());
    }
}

#[test]
fn a_dropped_lease_keeps_its_file_and_a_completed_one_removes_it() {
    let folder = tempfile::tempdir().unwrap();
    let leases = FileLeases::new(folder.path());
    let take = |mode| leases.acquire(&run("run-a"), mode).unwrap().unwrap();
    drop(take(LeaseMode::Exclusive));
    assert_eq!(files(folder.path()), ["run-run-a"]);
    take(LeaseMode::Exclusive).complete();
    assert!(files(folder.path()).is_empty());
    // Releasing one shared lease keeps the others.
    let [one, two] = [take(LeaseMode::Shared), take(LeaseMode::Shared)];
    one.complete();
    assert!(leases.acquire(&run("run-a"), LeaseMode::Exclusive).unwrap().is_none());
    drop(two);
}

#[test]
fn a_lease_does_not_remove_the_file_of_a_later_one() {
    let folder = tempfile::tempdir().unwrap();
    let leases = FileLeases::new(folder.path());
    let take = || leases.acquire(&run("run-a"), LeaseMode::Exclusive).unwrap();
    let first = take().unwrap();
    // A person deletes the lock file.
    std::fs::remove_file(folder.path().join("leases/run-run-a")).unwrap();
    let second = take().unwrap();
    first.complete();
    assert!(take().is_none(), "the second lease is valid");
    second.complete();
    assert!(take().is_some());
}

#[test]
fn each_subject_has_its_own_lock() {
    let folder = tempfile::tempdir().unwrap();
    let leases = FileLeases::new(folder.path());
    let long = "a".repeat(300);
    let subjects = [
        LeaseSubject::Folder,
        run("folder"),
        playbook("folder"),
        run("x"),
        playbook("x"),
        run("X"),
        run("playbook-x"),
        playbook("run-x"),
        run("-x"),
        playbook(""),
        run(""),
        run("%2e"),
        run("."),
        run("a b"),
        run("a%20b"),
        run(&long),
        run(&format!("{long}a")),
        playbook(&long),
    ];
    let held: Vec<_> = subjects.iter().map(|subject| leases.acquire(subject, LeaseMode::Exclusive).unwrap()).collect();
    assert!(held.iter().all(Option::is_some), "{held:?}");
    let mut lower: Vec<String> = files(folder.path()).iter().map(|name| name.to_lowercase()).collect();
    lower.sort();
    lower.dedup();
    assert_eq!(lower.len(), subjects.len(), "also where a file system ignores case");
}

#[test]
fn a_lock_file_never_leaves_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let leases = FileLeases::new(&data);
    let names = ["..", "../..", "../../outside", "/etc/outside", "a/../../outside", "a\\..\\b", "a/b", "a\0b", "C:x"];
    for name in names {
        for subject in [run(name), playbook(name)] {
            let lease = leases.acquire(&subject, LeaseMode::Exclusive).unwrap().unwrap();
            assert!(leases.acquire(&subject, LeaseMode::Exclusive).unwrap().is_none(), "{name:?}");
            assert_eq!(files(&data).len(), 1, "{name:?}");
            lease.complete();
            assert!(files(&data).is_empty(), "{name:?}");
        }
    }
    for (path, expected) in [(folder.path(), "data"), (data.as_path(), "leases")] {
        let entries: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(entries, [expected]);
    }
}

#[test]
fn threads_that_complete_their_leases_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let leases = FileLeases::new(folder.path());
    let inside = std::sync::Mutex::new(());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    if let Some(lease) = leases.acquire(&run("run-a"), LeaseMode::Exclusive).unwrap() {
                        let alone = inside.try_lock();
                        assert!(alone.is_ok(), "two hold the lease");
                        drop(alone);
                        lease.complete();
                    }
                }
            });
        }
    });
}

/// The variable with the data folder of the child process of the test below.
const CHILD: &str = "CLAWHOST_TEST_LEASE_FOLDER";

#[test]
fn a_lease_ends_with_its_process() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let lease = FileLeases::new(Path::new(&folder)).acquire(&run("run-a"), LeaseMode::Exclusive).unwrap();
        if lease.is_none() {
            return;
        }
        std::process::abort();
    }
    let folder = tempfile::tempdir().unwrap();
    let leases = FileLeases::new(folder.path());
    let child = || {
        let name = "leases::a_lease_ends_with_its_process";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name]).env(CHILD, folder.path()).output().unwrap().status
    };
    let held = leases.acquire(&run("run-a"), LeaseMode::Exclusive).unwrap().unwrap();
    assert!(child().success(), "another process gets no lease");
    drop(held);
    assert!(!child().success(), "it took the lease and was aborted");
    assert_eq!(files(folder.path()), ["run-run-a"]);
    assert!(leases.acquire(&run("run-a"), LeaseMode::Exclusive).unwrap().is_some());
}

#[test]
fn a_folder_without_support_for_leases_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("leases"), "").unwrap();
    let error = FileLeases::new(folder.path()).acquire(&LeaseSubject::Folder, LeaseMode::Shared).unwrap_err();
    assert!(error.to_string().contains("leases"), "{error}");
}
