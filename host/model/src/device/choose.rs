//! Which device it will be.

use clawhost_core::Hint;

use super::{Backend, DeviceChoice, DeviceKind, DeviceName, FoundDevice, ProbeFailure, Prober};

/// Weights of a model below which `auto` stays on the processor. An estimate, not a measurement: every operation on a GPU costs some
/// microseconds to begin, some hundreds of them a token, and the first of each shape is compiled; a model of this size is computed here in
/// that time.
pub const AUTO_PARAMETERS: u64 = 10_000_000;

/// Why no device can be used. [`DeviceError::hints`] says what may mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The word is none.
    #[error(
        "`{0}` is no device; write auto, cpu, cuda, vulkan, metal or dx12, the last four with a number too, as in vulkan:0"
    )]
    NoDevice(String),
    /// The program lacks it.
    #[error(
        "this program has no code for {backend}; clawhost-gpu has: cargo install --locked --path host/cli --bin clawhost-gpu --features {feature}"
    )]
    NotBuilt {
        /// What it lacks.
        backend: Backend,
        /// What builds it.
        feature: &'static str,
    },
    /// Another system has it.
    #[error("{backend} exists on {system} alone, and this is another system")]
    Elsewhere {
        /// What was asked for.
        backend: Backend,
        /// Where it is.
        system: &'static str,
    },
    /// Nothing of the kind.
    #[error("no {backend} device is here: is its driver installed?")]
    None {
        /// What was asked for.
        backend: Backend,
    },
    /// Others of the kind.
    #[error("no device {name} is here; there are {there}")]
    NotThere {
        /// What was asked for.
        name: DeviceName,
        /// Those that are.
        there: String,
    },
    /// Nothing but a program that acts as one.
    #[error(
        "{name} ({title}) is a program that acts as a GPU, slower than the processor; it is used only where it is named with its number"
    )]
    Software {
        /// The first of them.
        name: DeviceName,
        /// As its driver calls it.
        title: String,
    },
    /// It was tried.
    #[error("the device {name} cannot be used: {why}")]
    Fails {
        /// Which.
        name: String,
        /// How it ended.
        why: ProbeFailure,
    },
}

impl DeviceError {
    /// A stable name, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoDevice(_) => "device-unknown",
            Self::NotBuilt { .. } => "device-not-built",
            Self::Elsewhere { .. } => "device-other-system",
            Self::None { .. } => "device-none",
            Self::NotThere { .. } => "device-missing",
            Self::Software { .. } => "device-software",
            Self::Fails { .. } => "device-fails",
        }
    }

    /// What may mend it.
    pub fn hints(&self) -> Vec<Hint> {
        let cpu = || Hint::set("device", DeviceName::CPU.to_string());
        let doctor = || Hint::command("doctor", "lists the devices of this machine");
        match self {
            Self::NoDevice(_) => vec![Hint::change("device")],
            Self::NotBuilt { .. } | Self::Fails { .. } => vec![cpu()],
            Self::Elsewhere { .. } | Self::None { .. } => vec![cpu(), doctor()],
            Self::NotThere { .. } => vec![Hint::change("device"), doctor()],
            Self::Software { name, .. } => vec![cpu(), Hint::set("device", name.to_string())],
        }
    }
}

/// The device that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Computes.
    pub name: DeviceName,
    /// As its driver calls it.
    pub title: String,
    /// Why it is this one: a clause.
    pub because: String,
    /// What was tried before and does not work, each with its reason.
    pub passed_over: Vec<String>,
}

impl Chosen {
    fn processor(because: impl Into<String>, passed_over: Vec<String>) -> Self {
        let (name, title) = (DeviceName::CPU, "this processor".to_owned());
        Self { name, title, because: because.into(), passed_over }
    }
}

/// Chooses among what `prober` finds, for a model of so many weights.
///
/// `auto`: CUDA where it works, else a GPU that works, discrete ones first, else the processor; small models stay on the processor. A
/// program that acts as a GPU is taken by its number alone.
///
/// # Errors
/// What was asked for is not built, not there, or does not work. `auto` always ends well.
pub fn choose(
    choice: DeviceChoice,
    parameters: u64,
    built: &[Backend],
    prober: &dyn Prober,
) -> Result<Chosen, DeviceError> {
    match choice {
        DeviceChoice::Named(DeviceName::CPU) | DeviceChoice::Any(Backend::Cpu) => {
            Ok(Chosen::processor("it was asked for", Vec::new()))
        }
        DeviceChoice::Auto => Ok(automatic(parameters, built, prober)),
        DeviceChoice::Any(backend) => {
            let found = listed(backend, built, prober)?;
            let device = best(&found).ok_or_else(|| match found.first() {
                None => DeviceError::None { backend },
                Some(first) => DeviceError::Software { name: first.name, title: first.title.clone() },
            })?;
            tried(device, prober)
        }
        DeviceChoice::Named(name) => {
            let found = listed(name.backend, built, prober)?;
            let device = found.iter().find(|one| one.name == name).ok_or_else(|| match found.is_empty() {
                true => DeviceError::None { backend: name.backend },
                false => DeviceError::NotThere { name, there: named(&found) },
            })?;
            tried(device, prober)
        }
    }
}

fn named(found: &[FoundDevice]) -> String {
    found.iter().map(|one| format!("{} ({})", one.name, one.title)).collect::<Vec<_>>().join(", ")
}

fn listed(backend: Backend, built: &[Backend], prober: &dyn Prober) -> Result<Vec<FoundDevice>, DeviceError> {
    if let Some(system) = backend.system().filter(|system| *system != std::env::consts::OS) {
        return Err(DeviceError::Elsewhere { backend, system });
    }
    if let Some(feature) = backend.feature().filter(|_| !built.contains(&backend)) {
        return Err(DeviceError::NotBuilt { backend, feature });
    }
    prober.list(backend).map_err(|why| DeviceError::Fails { name: backend.to_string(), why })
}

/// The best that is no program.
fn best(found: &[FoundDevice]) -> Option<&FoundDevice> {
    found.iter().filter(|one| one.kind != DeviceKind::Software).min_by_key(|one| (one.kind, one.name))
}

fn tried(device: &FoundDevice, prober: &dyn Prober) -> Result<Chosen, DeviceError> {
    match prober.probe(device.name) {
        Ok(_) => Ok(Chosen {
            name: device.name,
            title: device.title.clone(),
            because: "it was asked for".to_owned(),
            passed_over: Vec::new(),
        }),
        Err(why) => Err(DeviceError::Fails { name: device.name.to_string(), why }),
    }
}

fn automatic(parameters: u64, built: &[Backend], prober: &dyn Prober) -> Chosen {
    let graphics: Vec<Backend> = built.iter().copied().filter(|one| *one != Backend::Cpu).collect();
    if graphics.is_empty() {
        return Chosen::processor("this program was built for nothing else", Vec::new());
    }
    if parameters < AUTO_PARAMETERS {
        let because =
            format!("a model of {parameters} weights is faster here than on a GPU (from {AUTO_PARAMETERS} on)");
        return Chosen::processor(because, Vec::new());
    }
    let mut passed_over = Vec::new();
    let mut found = Vec::new();
    for backend in graphics {
        match prober.list(backend) {
            Ok(devices) => found.extend(devices),
            Err(why) => passed_over.push(format!("{backend}: {why}")),
        }
    }
    // A share of a GPU, or something without a kind, is nothing to begin with unasked.
    found.retain(|one| matches!(one.kind, DeviceKind::Discrete | DeviceKind::Integrated));
    found.sort_by_key(|one| (one.name.backend != Backend::Cuda, one.kind, one.name));
    for FoundDevice { name, title, kind, .. } in found {
        match prober.probe(name) {
            Ok(_) => {
                return Chosen { name, title, because: format!("it is a {} that works", kind.words()), passed_over };
            }
            Err(why) => passed_over.push(format!("{name} ({title}): {why}")),
        }
    }
    Chosen::processor("no GPU that works is here", passed_over)
}
