//! Chooses the device of a model.

use clawhost_core::Hint;

use super::{Backend, DeviceChoice, DeviceKind, DeviceName, FoundDevice, ProbeFailure, Prober};

/// Below this number of weights, `auto` stays on the processor. An estimate, not a measurement: every operation on a
/// GPU costs some microseconds to launch, a token has some hundreds of them, and the first of each shape is compiled.
/// The processor computes a model of this size in that time.
pub const AUTO_PARAMETERS: u64 = 10_000_000;

/// Why no device can be used. [`DeviceError::hints`] suggests remedies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The name is no device.
    #[error(
        "`{0}` is not a device; write auto, cpu, cuda, vulkan, metal or dx12, the last four optionally with a number, as in vulkan:0"
    )]
    NoDevice(String),
    /// The program was built without the backend.
    #[error(
        "this program has no code for {backend}; clawhost-gpu has: cargo install --locked --path host/cli --bin clawhost-gpu --features {feature}"
    )]
    NotBuilt {
        /// The backend.
        backend: Backend,
        /// The cargo feature that builds it.
        feature: &'static str,
    },
    /// The backend exists on another system only.
    #[error("{backend} exists only on {system}")]
    Elsewhere {
        /// The requested backend.
        backend: Backend,
        /// The system that has it.
        system: &'static str,
    },
    /// The backend has no device here.
    #[error("no {backend} device was found; is its driver installed?")]
    None {
        /// The requested backend.
        backend: Backend,
    },
    /// The backend has other devices.
    #[error("no device {name} was found; available: {there}")]
    NotThere {
        /// The requested device.
        name: DeviceName,
        /// The devices that exist.
        there: String,
    },
    /// The backend has only a software device.
    #[error(
        "{name} ({title}) is software that acts as a GPU, slower than the processor; it is used only if it is selected by its number"
    )]
    Software {
        /// The first of them.
        name: DeviceName,
        /// Its driver's name for it.
        title: String,
    },
    /// The device was tried and does not work.
    #[error("the device {name} cannot be used: {why}")]
    Fails {
        /// The device.
        name: String,
        /// The failure.
        why: ProbeFailure,
    },
}

impl DeviceError {
    /// A stable code.
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

    /// Suggested remedies.
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

/// The chosen device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Computes.
    pub name: DeviceName,
    /// Its driver's name for it.
    pub title: String,
    /// The reason of the choice: a clause.
    pub because: String,
    /// Devices that were tried before and do not work, each with its reason.
    pub passed_over: Vec<String>,
}

impl Chosen {
    fn processor(because: impl Into<String>, passed_over: Vec<String>) -> Self {
        let (name, title) = (DeviceName::CPU, "this processor".to_owned());
        Self { name, title, because: because.into(), passed_over }
    }
}

/// Chooses among the devices that `prober` finds, for a model with this number of weights.
///
/// `auto` takes CUDA if it works, else a GPU that works, discrete ones first, else the processor. Small models stay on
/// the processor. A software device is taken only by its number.
///
/// # Errors
/// The requested device is not built, missing, or does not work. `auto` never fails.
pub fn choose(
    choice: DeviceChoice,
    parameters: u64,
    built: &[Backend],
    prober: &dyn Prober,
) -> Result<Chosen, DeviceError> {
    match choice {
        DeviceChoice::Named(DeviceName::CPU) | DeviceChoice::Any(Backend::Cpu) => {
            Ok(Chosen::processor("it was requested", Vec::new()))
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

/// The best device that is not software.
fn best(found: &[FoundDevice]) -> Option<&FoundDevice> {
    found.iter().filter(|one| one.kind != DeviceKind::Software).min_by_key(|one| (one.kind, one.name))
}

fn tried(device: &FoundDevice, prober: &dyn Prober) -> Result<Chosen, DeviceError> {
    match prober.probe(device.name) {
        Ok(_) => Ok(Chosen {
            name: device.name,
            title: device.title.clone(),
            because: "it was requested".to_owned(),
            passed_over: Vec::new(),
        }),
        Err(why) => Err(DeviceError::Fails { name: device.name.to_string(), why }),
    }
}

fn automatic(parameters: u64, built: &[Backend], prober: &dyn Prober) -> Chosen {
    let graphics: Vec<Backend> = built.iter().copied().filter(|one| *one != Backend::Cpu).collect();
    if graphics.is_empty() {
        return Chosen::processor("this program was built without other devices", Vec::new());
    }
    if parameters < AUTO_PARAMETERS {
        let because = format!(
            "a model of {parameters} weights is faster on the processor than on a GPU (from {AUTO_PARAMETERS} on)"
        );
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
    // `auto` takes no virtual GPU and no device of unknown kind.
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
    Chosen::processor("no working GPU was found", passed_over)
}
