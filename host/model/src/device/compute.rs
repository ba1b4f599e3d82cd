//! A device that is open.

use super::{Backend, DeviceName};
use crate::generate::Model;
use crate::train::{OptimizerSettings, Schedule, Trained, Trainer};
use crate::{HostDecoder, LocalModelError, ModelConfig};
use burn::tensor::Device;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A device that is open.
#[derive(Debug, Clone)]
pub struct ComputeDevice {
    name: DeviceName,
    burn: Device,
}

impl ComputeDevice {
    /// This processor: always there.
    pub fn processor() -> Self {
        Self { name: DeviceName::CPU, burn: Device::flex() }
    }

    /// Opens a device that was chosen ([`super::choose`]).
    ///
    /// # Errors
    /// It is not there, or this program was built without it.
    pub fn open(name: DeviceName) -> Result<Self, LocalModelError> {
        let burn = match name.backend {
            Backend::Cpu => return Ok(Self::processor()),
            #[cfg(feature = "cuda")]
            Backend::Cuda => guarded(name, || super::cuda::open(name))?,
            #[cfg(feature = "graphics")]
            Backend::Vulkan | Backend::Metal | Backend::Dx12 => guarded(name, || super::graphics::open(name))?,
            #[allow(unreachable_patterns, reason = "reachable where a feature is off")]
            backend => Err(format!("this program was built without {backend}")),
        };
        match burn {
            Ok(burn) => Ok(Self { name, burn }),
            Err(why) => Err(LocalModelError::Device { name: name.to_string(), why }),
        }
    }

    /// How it is called.
    pub fn name(&self) -> DeviceName {
        self.name
    }

    /// Whether it is this processor.
    pub fn is_processor(&self) -> bool {
        self.name == DeviceName::CPU
    }

    /// As burn knows it.
    pub fn burn(&self) -> &Device {
        &self.burn
    }

    /// A model that answers there: on the processor by code of our own, elsewhere by burn.
    ///
    /// # Errors
    /// The device does not take the weights.
    pub fn model(&self, config: Arc<ModelConfig>, host: &HostDecoder) -> Result<Model, LocalModelError> {
        Model::new(self, config, host)
    }

    /// Weights that learn there: on the processor by code of our own, elsewhere by burn.
    ///
    /// # Errors
    /// The device does not take the weights.
    pub fn trainer(
        &self,
        config: &Arc<ModelConfig>,
        host: &HostDecoder,
        trained: Trained,
        settings: OptimizerSettings,
        schedule: Schedule,
    ) -> Result<Trainer, LocalModelError> {
        let config = config.clone();
        if self.is_processor() {
            return Ok(Trainer::on_processor(config, host, trained, settings, schedule));
        }
        self.guarded(|| Trainer::on_device(config, host, &self.burn, trained, settings, schedule))
    }

    /// Does something there. What burn has no other way to say than a panic (a device that is gone, a driver that gave up) is an error
    /// with the device's name.
    ///
    /// # Errors
    /// The device failed in the midst.
    pub fn guarded<T>(&self, run: impl FnOnce() -> T) -> Result<T, LocalModelError> {
        guarded(self.name, run)
    }

    #[cfg(test)]
    pub(crate) fn fake(number: usize) -> Self {
        Self { name: DeviceName { backend: Backend::Vulkan, number }, burn: Device::flex() }
    }
}

fn guarded<T>(name: DeviceName, run: impl FnOnce() -> T) -> Result<T, LocalModelError> {
    if name == DeviceName::CPU {
        // A panic of the processor's own code is a bug of ours, and passes as one.
        return Ok(run());
    }
    // Unwinding is safe: whoever calls keeps what it had before, and what was under way is dropped.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let (name, why) = (name.to_string(), words(panic.as_ref()));
        match lacks_memory(&why) {
            true => LocalModelError::DeviceMemory { name, why },
            false => LocalModelError::DeviceLost { name, why },
        }
    })
}

/// What a panic says, in one line: that memory was short, where that stands in it, else how it begins.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why");
    // Behind the first lines stand backtraces; a cause may stand there too, if others followed from it.
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let short = lines.clone().find(|line| lacks_memory(line)).map(str::to_owned);
    let text = short.unwrap_or_else(|| lines.by_ref().take(3).collect::<Vec<_>>().join(" "));
    clawhost_core::escaped(&text, 300)
}

/// Whether these words say that a device had no room: those of cubecl (`IoError`, `LaunchError`), of the drivers below it, and of wgpu.
pub(crate) fn lacks_memory(words: &str) -> bool {
    let words = words.to_lowercase();
    ["out of device memory", "out-of-memory", "out of memory", "out_of_memory", "can't allocate", "not enough memory"]
        .iter()
        .any(|phrase| words.contains(phrase))
}
