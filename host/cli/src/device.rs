//! The option `--device`, and the doctor's findings about devices.

use crate::subprocess;
use clap::Args;
use clawhost_core::Hint;
use clawhost_devkit::doctor::Finding;
use clawhost_model::device::{Backend, ChildProber, DeviceChoice, DeviceError, DeviceKind, FoundDevice, Prober};

const HELP: &str = "Where the model is computed: `auto`, `cpu`, `cuda`, `vulkan`, `metal` or `dx12`; `cuda:1` takes one of several, and \
`clawhost doctor` lists them. `auto` takes a GPU that works, and the processor for small models. On a GPU equal seeds give runs \
that differ by rounding [default: auto]";

/// The device of a local model.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct DeviceOption {
    #[arg(long, value_name = "DEVICE", value_parser = read, help = HELP, help_heading = "Model")]
    pub(crate) device: Option<DeviceChoice>,
}

impl DeviceOption {
    /// The choice.
    pub(crate) fn choice(self) -> DeviceChoice {
        self.device.unwrap_or(DeviceChoice::Auto)
    }
}

fn read(text: &str) -> Result<DeviceChoice, String> {
    text.parse().map_err(|error: DeviceError| error.to_string())
}

/// The doctor's findings: one for each device that was found for a backend that was built.
pub(crate) fn examine() -> anyhow::Result<Vec<Finding>> {
    let prober = ChildProber::new(subprocess::child(subprocess::PROBE)?);
    let mut findings = Vec::new();
    let built = clawhost_app::drivers().built();
    for backend in built.iter().copied().filter(|one| *one != Backend::Cpu) {
        match prober.list(backend) {
            Ok(devices) if devices.is_empty() => findings.push(missing(backend.word(), "no device found")),
            Ok(devices) => findings.extend(devices.iter().map(|device| tried(device, &prober))),
            Err(why) => findings.push(missing(backend.word(), &why.to_string())),
        }
    }
    if findings.is_empty() {
        let says = "this program runs local models only on the processor";
        let build = "clawhost-gpu uses GPUs: cargo install --locked --path host/cli --bin clawhost-gpu --features gpu (any GPU), or --features cuda (NVIDIA)";
        findings.push(Finding::missing("devices", says, COSTS, build));
    }
    Ok(findings)
}

const COSTS: &str = "local models are computed on this processor";

fn missing(topic: &str, says: &str) -> Finding {
    Finding::missing(topic, says, COSTS, "install the GPU's driver; without a GPU nothing needs to be installed")
}

fn tried(device: &FoundDevice, prober: &dyn Prober) -> Finding {
    let FoundDevice { name, title, kind, memory_bytes } = device;
    let memory = memory_bytes.map_or(String::new(), |bytes| format!(", {:.1} GiB", bytes as f64 / f64::from(1 << 30)));
    let what = format!("{title}, {}{memory}", kind.words());
    let topic = name.to_string();
    if *kind == DeviceKind::Software {
        return Finding::good(&topic, format!("{what}; used only with --device {name}, not tried here"));
    }
    match prober.probe(*name) {
        Ok(worked) => {
            Finding::good(&topic, format!("{what}: works, the first product after {} ms", worked.milliseconds))
        }
        Err(why) => Finding::missing(&topic, format!("{what}: {why}"), COSTS, "update its driver")
            .with_hints([Hint::set("device", "cpu")]),
    }
}
