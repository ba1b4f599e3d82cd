//! `--device`, and the hidden command that tries a device out.

use crate::exit::Exit;
use clap::Args;
use clawhost_devkit::doctor::Finding;
use clawhost_model::device::{
    Backend, ChildProber, Chosen, ComputeDevice, DeviceChoice, DeviceError, DeviceKind, FoundDevice, Prober,
    answer_probe, choose,
};
use std::io::Write as _;

/// The command by which this program tries a device out in another process of itself.
pub(crate) const PROBE: &str = "probe-device";

const HELP: &str = "Where the model is computed: `auto`, `cpu`, `cuda`, `vulkan`, `metal` or `dx12`; a number takes one of several, as in \
`cuda:1`. `clawhost doctor` lists what is here. `auto` takes a GPU that was tried and works, and the processor for small models. On a \
GPU equal seeds give runs that differ by rounding";

/// Where a local model is computed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DeviceOption {
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = read, help = HELP, help_heading = "Model")]
    pub(crate) device: DeviceChoice,
}

impl Default for DeviceOption {
    /// What clap gives where nothing is said.
    fn default() -> Self {
        Self { device: DeviceChoice::Auto }
    }
}

fn read(text: &str) -> Result<DeviceChoice, String> {
    text.parse().map_err(|error: DeviceError| error.to_string())
}

fn prober() -> std::io::Result<ChildProber> {
    Ok(ChildProber::new(std::env::current_exe()?, vec![PROBE.into()]))
}

impl DeviceOption {
    /// Chooses a device for a model of so many weights, and opens it.
    pub(crate) fn open(&self, parameters: u64) -> anyhow::Result<(ComputeDevice, Chosen)> {
        let chosen = choose(self.device, parameters, &Backend::built(), &prober()?)?;
        Ok((ComputeDevice::open(chosen.name)?, chosen))
    }
}

/// A device that was chosen, in words for people; none where there was nothing to choose.
pub(crate) fn described(chosen: &Chosen) -> Vec<String> {
    if Backend::built() == [Backend::Cpu] {
        return Vec::new();
    }
    let mut lines = vec![format!("device      {} ({}): {}", chosen.name, chosen.title, chosen.because)];
    lines.extend(chosen.passed_over.iter().map(|one| format!("            passed over: {one}")));
    lines
}

/// `clawhost probe-device WHAT`: for the program itself. It may die of it.
pub(crate) fn probe(what: &str) -> anyhow::Result<Exit> {
    writeln!(std::io::stdout(), "{}", answer_probe(what))?;
    Ok(Exit::Ok)
}

/// What the doctor says: one finding for each device that was built for, and found.
pub(crate) fn examine() -> anyhow::Result<Vec<Finding>> {
    let prober = prober()?;
    let mut findings = Vec::new();
    let built = Backend::built();
    for backend in built.iter().copied().filter(|one| *one != Backend::Cpu) {
        match prober.list(backend) {
            Ok(devices) if devices.is_empty() => findings.push(missing(backend.word(), "no device is here")),
            Ok(devices) => findings.extend(devices.iter().map(|device| tried(device, &prober))),
            Err(why) => findings.push(missing(backend.word(), &why.to_string())),
        }
    }
    if findings.is_empty() {
        let says = "local models are computed on this processor; this program was built for nothing else";
        let build = "cargo install --locked --path host/cli --features gpu (any GPU), or --features cuda (NVIDIA)";
        findings.push(Finding::missing("devices", says, COSTS, build));
    }
    Ok(findings)
}

const COSTS: &str = "local models are computed on this processor";

fn missing(topic: &str, says: &str) -> Finding {
    Finding::missing(topic, says, COSTS, "install the GPU's driver; without a GPU there is nothing to mend")
}

fn tried(device: &FoundDevice, prober: &dyn Prober) -> Finding {
    let FoundDevice { name, title, kind, memory_bytes } = device;
    let memory = memory_bytes.map_or(String::new(), |bytes| format!(", {:.1} GiB", bytes as f64 / f64::from(1 << 30)));
    let what = format!("{title}, {}{memory}", kind.words());
    let topic = name.to_string();
    if *kind == DeviceKind::Software {
        return Finding::good(&topic, format!("{what}; taken only by --device {name}, not tried here"));
    }
    match prober.probe(*name) {
        Ok(worked) => {
            Finding::good(&topic, format!("{what}: works, the first product after {} ms", worked.milliseconds))
        }
        Err(why) => Finding::missing(&topic, format!("{what}: {why}"), COSTS, "update its driver, or use --device cpu"),
    }
}
