//! An open device.

use super::{Accelerator, DeviceName};
use crate::cpu::CpuModel;
use crate::generate::Model;
use crate::train::{OptimizerSettings, Schedule, Trained, Trainer};
use crate::{HostDecoder, LocalModelError, ModelConfig};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// An open device: the processor or an accelerator.
#[derive(Debug, Clone)]
pub struct ComputeDevice {
    /// `None`: the processor.
    accelerator: Option<Arc<dyn Accelerator>>,
}

impl ComputeDevice {
    /// This processor: always available.
    pub fn processor() -> Self {
        Self { accelerator: None }
    }

    /// An open accelerator.
    pub fn accelerator(accelerator: Arc<dyn Accelerator>) -> Self {
        Self { accelerator: Some(accelerator) }
    }

    /// Its name.
    pub fn name(&self) -> DeviceName {
        self.accelerator.as_ref().map_or(DeviceName::CPU, |accelerator| accelerator.name())
    }

    /// Whether it is the processor.
    pub fn is_processor(&self) -> bool {
        self.accelerator.is_none()
    }

    /// Opens a model for inference on this device. On the processor it uses the kernels of this crate.
    ///
    /// # Errors
    /// The device does not accept the weights.
    pub fn model(&self, config: Arc<ModelConfig>, host: &HostDecoder) -> Result<Model, LocalModelError> {
        match &self.accelerator {
            None => Ok(CpuModel::new(config, host).into()),
            Some(accelerator) => Ok(Model::Accelerator(self.guarded(|| accelerator.model(config, host))?)),
        }
    }

    /// Opens a trainer on this device. On the processor it uses the kernels of this crate.
    ///
    /// # Errors
    /// The device does not accept the weights.
    pub fn trainer(
        &self,
        config: &Arc<ModelConfig>,
        host: &HostDecoder,
        trained: Trained,
        settings: OptimizerSettings,
        schedule: Schedule,
    ) -> Result<Trainer, LocalModelError> {
        let config = config.clone();
        match &self.accelerator {
            None => Ok(Trainer::on_processor(config, host, trained, settings, schedule)),
            Some(accelerator) => {
                let trainer = self.guarded(|| accelerator.trainer(config, host, trained))?;
                Ok(Trainer::accelerated(trainer, host, trained, settings, schedule))
            }
        }
    }

    /// The product of two square matrices, row by row: shows that the device works.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn product(&self, one: &[f32], other: &[f32], size: usize) -> Result<Vec<f32>, LocalModelError> {
        match &self.accelerator {
            None => Ok(super::child::plain_product(one, other, size)),
            Some(accelerator) => self.guarded(|| accelerator.product(one, other, size)).flatten(),
        }
    }

    /// Runs a function on the device. The only failure report of an accelerator's code may be a panic (the device is
    /// lost, the driver failed): it becomes an error with the device's name. A panic of the processor's code is a bug,
    /// and stays a panic.
    ///
    /// # Errors
    /// The device failed.
    pub fn guarded<T>(&self, run: impl FnOnce() -> T) -> Result<T, LocalModelError> {
        match &self.accelerator {
            None => Ok(run()),
            Some(accelerator) => guarded(accelerator.name(), run),
        }
    }
}

/// Runs a function on an accelerator, as [`ComputeDevice::guarded`] does.
///
/// # Errors
/// The device failed.
pub fn guarded<T>(name: DeviceName, run: impl FnOnce() -> T) -> Result<T, LocalModelError> {
    // Unwinding is safe: callers keep the previous state, and the interrupted computation is dropped.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let (name, why) = (name.to_string(), panic_text(panic.as_ref()));
        match lacks_memory(&why) {
            true => LocalModelError::DeviceMemory { name, why },
            false => LocalModelError::DeviceLost { name, why },
        }
    })
}

/// The text of a panic in one line: the line that reports a lack of memory, if there is one, else the beginning.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
    // Backtraces follow the first lines. They may contain the cause, if other panics followed from it.
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let short = lines.clone().find(|line| lacks_memory(line)).map(str::to_owned);
    let text = short.unwrap_or_else(|| lines.by_ref().take(3).collect::<Vec<_>>().join(" "));
    clawhost_core::escaped(&text, 300)
}

/// Whether a text reports that a device is out of memory, in the wording of cubecl (`IoError`, `LaunchError`), of the
/// drivers below it, or of wgpu.
pub fn lacks_memory(text: &str) -> bool {
    let text = text.to_lowercase();
    ["out of device memory", "out-of-memory", "out of memory", "out_of_memory", "can't allocate", "not enough memory"]
        .iter()
        .any(|phrase| text.contains(phrase))
}
