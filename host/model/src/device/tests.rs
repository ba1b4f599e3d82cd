//! Which device is chosen, by what was requested, what exists and what works.

use super::child::Report;
use super::*;
use crate::LocalModelError;
use clawhost_child::ChildProgram;
use clawhost_core::Hint;
use std::cell::RefCell;
use std::collections::BTreeMap;

#[test]
fn a_device_choice_round_trips() {
    for text in ["auto", "cpu", "cuda", "vulkan", "metal", "dx12", "cuda:0", "vulkan:3", "metal:0", "dx12:65535"] {
        assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "gpu",
        "CUDA",
        "cpu:0",
        "auto:1",
        "cuda:",
        "cuda:-1",
        "cuda:+1",
        "cuda:1:2",
        "cuda:65536",
        "vulkan: 1",
        ":0",
    ] {
        let error = text.parse::<DeviceChoice>().unwrap_err().to_string();
        assert!(error.contains("is not a device; write auto, cpu, cuda, vulkan"), "{text}: {error}");
    }
    let found: Report = serde_json::from_str(r#"{"works":{"name":"vulkan:1","milliseconds":7}}"#).unwrap();
    let name = DeviceName { backend: Backend::Vulkan, number: 1 };
    assert_eq!(found, Report::Works(Worked { name, milliseconds: 7 }));
    assert!(serde_json::from_str::<Report>(r#"{"works":{"name":"vulkan","milliseconds":7}}"#).is_err());
}

proptest::proptest! {
    #[test]
    fn any_text_parses_or_gives_an_error(text in ".{0,40}") {
        if let Ok(choice) = text.parse::<DeviceChoice>() {
            assert_eq!(choice.to_string().parse::<DeviceChoice>().unwrap(), choice);
        }
    }
}

/// A machine with these devices, some of which do not work.
#[derive(Default)]
struct Machine {
    devices: Vec<FoundDevice>,
    broken: BTreeMap<String, ProbeFailure>,
    asked: RefCell<Vec<String>>,
}

fn device(name: &str, kind: DeviceKind) -> FoundDevice {
    FoundDevice { name: name.parse().unwrap(), title: format!("the {name}"), kind, memory_bytes: None }
}

impl Machine {
    fn with(devices: &[(&str, DeviceKind)]) -> Self {
        Self { devices: devices.iter().map(|(name, kind)| device(name, *kind)).collect(), ..Self::default() }
    }

    fn broken(mut self, what: &str, how: ProbeFailure) -> Self {
        self.broken.insert(what.to_owned(), how);
        self
    }

    fn looked_at(&self, what: &str) -> Result<(), ProbeFailure> {
        self.asked.borrow_mut().push(what.to_owned());
        self.broken.get(what).map_or(Ok(()), |how| Err(how.clone()))
    }
}

impl Prober for Machine {
    fn list(&self, backend: Backend) -> Result<Vec<FoundDevice>, ProbeFailure> {
        self.looked_at(backend.word())?;
        Ok(self.devices.iter().filter(|one| one.name.backend == backend).cloned().collect())
    }

    fn probe(&self, name: DeviceName) -> Result<Worked, ProbeFailure> {
        self.looked_at(&name.to_string())?;
        Ok(Worked { name, milliseconds: 1 })
    }
}

const BUILT: [Backend; 3] = [Backend::Cuda, Backend::Vulkan, Backend::Cpu];
const LARGE: u64 = AUTO_PARAMETERS;

use DeviceKind::{Discrete, Integrated, Other, Software, Virtual};

#[test]
fn auto_selects_cuda_then_a_working_gpu_then_the_processor() {
    let check = |machine: Machine, expect: &str, passed_over: usize| {
        let chosen = choose(DeviceChoice::Auto, LARGE, &BUILT, &machine).unwrap();
        assert_eq!((chosen.name.to_string().as_str(), chosen.passed_over.len()), (expect, passed_over), "{chosen:?}");
    };
    let both = || Machine::with(&[("vulkan:0", Integrated), ("vulkan:1", Discrete), ("cuda:0", Discrete)]);
    check(both(), "cuda:0", 0);
    check(both().broken("cuda:0", ProbeFailure::Died(11)), "vulkan:1", 1);
    check(both().broken("cuda", ProbeFailure::Said("no NVIDIA driver is here".into())), "vulkan:1", 1);
    let worse = || both().broken("cuda:0", ProbeFailure::Died(11)).broken("vulkan:1", ProbeFailure::TooSlow(90));
    check(worse(), "vulkan:0", 2);
    check(worse().broken("vulkan:0", ProbeFailure::Ended(3)), "cpu", 3);
    check(Machine::default(), "cpu", 0);
}

#[test]
fn a_software_device_is_selected_only_by_its_number() {
    let machine = Machine::with(&[("vulkan:0", Software), ("vulkan:1", Virtual), ("vulkan:2", Other)]);
    let auto = choose(DeviceChoice::Auto, LARGE, &BUILT, &machine).unwrap();
    assert_eq!(auto.name, DeviceName::CPU, "virtual and other devices are not selected automatically");
    assert!(!machine.asked.borrow().iter().any(|asked| asked.contains(':')), "nothing of it is tried");

    let machine = Machine::with(&[("vulkan:0", Software)]);
    let error = choose("vulkan".parse().unwrap(), LARGE, &BUILT, &machine).unwrap_err();
    assert_eq!(error.code(), "device-software");
    assert_eq!(error.hints(), [Hint::set("device", "cpu"), Hint::set("device", "vulkan:0")]);
    let error = error.to_string();
    assert!(error.contains("is software that acts as a GPU, slower than the processor"), "{error}");
    assert_eq!(choose("vulkan:0".parse().unwrap(), LARGE, &BUILT, &machine).unwrap().name.to_string(), "vulkan:0");
}

#[test]
fn small_models_stay_on_the_processor_without_probing() {
    let machine = Machine::with(&[("cuda:0", Discrete)]);
    let chosen = choose(DeviceChoice::Auto, LARGE - 1, &BUILT, &machine).unwrap();
    assert_eq!((chosen.name, machine.asked.borrow().len()), (DeviceName::CPU, 0));
    assert!(chosen.because.contains("faster on the processor than on a GPU"), "{}", chosen.because);
    // An explicit request for a device is followed.
    assert_eq!(choose("cuda".parse().unwrap(), 1, &BUILT, &machine).unwrap().name.to_string(), "cuda:0");
}

#[test]
fn unavailable_devices_are_refused_with_hints() {
    let check = |choice: &str, built: &[Backend], machine: Machine, code: &str, expect: &str| {
        let error = choose(choice.parse().unwrap(), LARGE, built, &machine).unwrap_err();
        assert!(error.to_string().contains(expect), "{choice}: {error}");
        assert_eq!(error.code(), code, "{choice}");
        let first = if code == "device-missing" { Hint::change("device") } else { Hint::set("device", "cpu") };
        assert_eq!(error.hints().first(), Some(&first), "{choice}");
        let doctor = error.hints().contains(&Hint::command("doctor", "lists the devices of this machine"));
        assert_eq!(doctor, !["device-not-built", "device-fails"].contains(&code), "{choice}");
    };
    let cpu = [Backend::Cpu];
    check(
        "vulkan",
        &cpu,
        Machine::default(),
        "device-not-built",
        "clawhost-gpu has: cargo install --locked --path host/cli --bin clawhost-gpu --features gpu",
    );
    check(
        "cuda:0",
        &cpu,
        Machine::default(),
        "device-not-built",
        "clawhost-gpu has: cargo install --locked --path host/cli --bin clawhost-gpu --features cuda",
    );
    if !cfg!(target_os = "macos") {
        check("metal", &BUILT, Machine::default(), "device-other-system", "metal exists only on macos");
    }
    if !cfg!(target_os = "windows") {
        check("dx12:0", &BUILT, Machine::default(), "device-other-system", "dx12 exists only on windows");
    }
    check("vulkan", &BUILT, Machine::default(), "device-none", "no vulkan device was found; is its driver installed?");
    check("cuda:1", &BUILT, Machine::default(), "device-none", "no cuda device was found");
    let one = || Machine::with(&[("cuda:0", Discrete)]);
    check("cuda:1", &BUILT, one(), "device-missing", "no device cuda:1 was found; available: cuda:0 (the cuda:0)");
    let dead = || one().broken("cuda:0", ProbeFailure::Died(11));
    check("cuda:0", &BUILT, dead(), "device-fails", "its driver crashed with signal 11 (segmentation fault)");
    check(
        "cuda",
        &BUILT,
        one().broken("cuda", ProbeFailure::TooSlow(20)),
        "device-fails",
        "it gave no answer within 20 seconds",
    );
    assert_eq!(choose("cpu".parse().unwrap(), LARGE, &cpu, &Machine::default()).unwrap().name, DeviceName::CPU);
}

/// A child that runs this script instead of trying a device. `$0` is the backend or device.
#[cfg(unix)]
fn child(script: &str) -> ChildProber {
    let arguments = ["-c".into(), script.into()].to_vec();
    let program = ChildProgram { program: "/bin/sh".into(), arguments };
    ChildProber { program, list_seconds: 5, probe_seconds: 5 }
}

#[cfg(unix)]
#[test]
fn a_probe_that_crashes_hangs_or_answers_nonsense_is_identified() {
    let name: DeviceName = "vulkan:0".parse().unwrap();
    let check = |script: &str, expect: ProbeFailure| assert_eq!(child(script).probe(name), Err(expect), "{script}");
    check("kill -SEGV $$", ProbeFailure::Died(11));
    check("kill -ABRT $$", ProbeFailure::Died(6));
    check("echo '{\"works\":{\"name\":\"vulkan:0\",\"milliseconds\":1}}'; kill -BUS $$", ProbeFailure::Died(7));
    check("exit 3", ProbeFailure::Ended(3));
    check("echo nonsense", ProbeFailure::Ended(0));
    check("echo '{\"failed\":\"it is not there\"}'", ProbeFailure::Said("it is not there".into()));
    check("echo '{\"devices\":[]}'", ProbeFailure::Said("it answered another question".into()));
    let hangs = ChildProber { probe_seconds: 1, ..child("exec sleep 60") };
    assert_eq!(hangs.probe(name), Err(ProbeFailure::TooSlow(1)));
    let program = ChildProgram { program: "/nowhere/clawhost".into(), arguments: Vec::new() };
    let nowhere = ChildProber { program, ..child("") };
    assert!(matches!(nowhere.list(Backend::Vulkan), Err(ProbeFailure::NotStarted(_))));

    // Output of drivers before the report is ignored, however long it is.
    let loud = child("seq 100000; echo \"{\\\"works\\\":{\\\"name\\\":\\\"$0\\\",\\\"milliseconds\\\":4}}\"");
    assert_eq!(loud.probe(name), Ok(Worked { name, milliseconds: 4 }));
}

#[cfg(unix)]
#[test]
fn a_crashing_driver_does_not_end_the_choice() {
    let machine = child("kill -SEGV $$");
    let auto = choose(DeviceChoice::Auto, LARGE, &BUILT, &machine).unwrap();
    assert_eq!((auto.name, auto.passed_over.len()), (DeviceName::CPU, 2));
    let error = choose("cuda:0".parse().unwrap(), LARGE, &BUILT, &machine).unwrap_err().to_string();
    assert!(error.contains("the device cuda cannot be used: its driver crashed with signal 11"), "{error}");
}

#[test]
fn the_processor_is_probed_like_any_device() {
    assert!(matches!(
        serde_json::from_str(&answer_probe("cpu", &ProcessorOnly)).unwrap(),
        Report::Works(Worked { name: DeviceName::CPU, .. })
    ));
    let check = |about: &str, expect: &str| match serde_json::from_str(&answer_probe(about, &ProcessorOnly)).unwrap() {
        Report::Failed(why) => assert!(why.contains(expect), "{about}: {why}"),
        other => panic!("{about}: {other:?}"),
    };
    check("auto", "auto is a choice");
    check("quantum", "is not a device");
    check("cuda", "this program was built without cuda");
    check("cuda:0", "this program was built without cuda");
}

#[test]
fn a_failing_device_is_named_and_a_panic_of_the_processor_propagates() {
    let name: DeviceName = "vulkan:3".parse().unwrap();
    assert_eq!(guarded(name, || 7).unwrap(), 7);
    let lost = guarded(name, || -> u8 { panic!("DeviceLost\n\n  at some/file.rs") }).unwrap_err();
    assert!(matches!(&lost, LocalModelError::DeviceLost { name, .. } if name == "vulkan:3"));
    let text = lost.to_string();
    assert!(text.contains("the device vulkan:3 failed while in use (DeviceLost at some/file.rs)"), "{text}");
    assert!(text.ends_with("start again, or use another device"), "{text}");
    assert_eq!((lost.code(), lost.hints()), ("device-lost", vec![Hint::set("device", "cpu")]));
    // The wording of cubecl 0.11 on Mesa's software driver: the cause is at the end.
    let short = "Error while reading data: use `try_into_data` instead\nCaused by:\n  Several failures at once\nCaused by:\n  skipped \
                 `ReduceKernel`: it needed memory\nCaused by:\n  can't allocate buffer of size: 191760000\nNo backtrace available";
    let full = guarded(name, || -> u8 { panic!("{short}") }).unwrap_err();
    assert_eq!((full.code(), full.hints()), ("device-memory", vec![Hint::set("device", "cpu")]));
    let text = full.to_string();
    assert!(
        text.starts_with("the device vulkan:3 has too little memory (can't allocate buffer of size: 191760000);"),
        "{text}"
    );
    let bug = std::panic::catch_unwind(|| ComputeDevice::processor().guarded(|| -> u8 { panic!("a bug") }));
    assert!(bug.is_err());
}
