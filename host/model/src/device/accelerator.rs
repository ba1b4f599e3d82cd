//! The interface of an accelerator: a device whose code is in another crate.

use super::{Backend, ComputeDevice, DeviceName, FoundDevice, Slot};
use crate::train::{AcceleratedTrainer, Trained};
use crate::{HostDecoder, LocalModelError, ModelConfig};
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

/// The accelerators that a program was built with.
pub trait Drivers: Sync {
    /// Their backends and the processor, in the order of [`Backend::ALL`].
    fn built(&self) -> Vec<Backend>;

    /// Lists the devices of a backend that was built, in the backend's order. Loads the driver, which may end the
    /// process.
    ///
    /// # Errors
    /// The driver is missing or broken. The text says which.
    fn list(&self, backend: Backend) -> Result<Vec<FoundDevice>, String>;

    /// Variables of the environment that drivers need and that are not set. A program sets them before it starts any thread. Looks at
    /// folders, and loads no driver.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        Vec::new()
    }

    /// Opens a device. Loads the driver, which may end the process.
    ///
    /// # Errors
    /// The device is missing, or this program was built without its backend. The text says which.
    fn open(&self, name: DeviceName) -> Result<Arc<dyn Accelerator>, String>;
}

/// A program without accelerators: everything runs on the processor.
#[derive(Debug, Clone, Copy)]
pub struct ProcessorOnly;

impl Drivers for ProcessorOnly {
    fn built(&self) -> Vec<Backend> {
        vec![Backend::Cpu]
    }

    fn list(&self, _: Backend) -> Result<Vec<FoundDevice>, String> {
        Ok(Vec::new())
    }

    fn open(&self, name: DeviceName) -> Result<Arc<dyn Accelerator>, String> {
        Err(format!("this program was built without {}", name.backend))
    }
}

/// An open device. Its methods may panic if the device is lost: [`ComputeDevice`] turns the panic into an error.
pub trait Accelerator: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> DeviceName;

    /// Copies weights to the device for inference.
    fn model(&self, config: Arc<ModelConfig>, host: &HostDecoder) -> Box<dyn AcceleratedModel>;

    /// Copies weights to the device for training.
    fn trainer(&self, config: Arc<ModelConfig>, host: &HostDecoder, trained: Trained) -> Box<dyn AcceleratedTrainer>;

    /// The product of two square matrices of `size` rows, row by row: shows that the device works.
    ///
    /// # Errors
    /// The device returns no data.
    fn product(&self, one: &[f32], other: &[f32], size: usize) -> Result<Vec<f32>, LocalModelError>;
}

/// A model whose weights, keys and values are on a device. Its methods do not panic if the device is lost.
pub trait AcceleratedModel: fmt::Debug + Send + Sync {
    /// Its shape.
    fn config(&self) -> &Arc<ModelConfig>;

    /// Number of sequences that fit into the device's memory at once, each as long as the context.
    fn most_at_once(&self) -> usize;

    /// An empty slot for a sequence.
    fn begin(&self) -> Slot;

    /// Whether the device still holds the keys and values of this slot.
    fn knows(&self, slot: &Slot) -> bool;

    /// Another slot with the first `length` tokens of this one.
    ///
    /// # Errors
    /// The device failed; all slots are lost.
    fn copy(&self, from: &Slot, length: usize) -> Result<Slot, LocalModelError>;

    /// Computes new tokens of several sequences, at least one of each. Returns the logits after the last token of each.
    ///
    /// # Errors
    /// The device failed; all slots are lost, the weights are not.
    fn forward(&self, work: &mut [(&mut Slot, &[u32])]) -> Result<Vec<Vec<f32>>, LocalModelError>;
}

impl ComputeDevice {
    /// Opens the device that was chosen ([`super::choose`]).
    ///
    /// # Errors
    /// The device is missing, or this program was built without its backend.
    pub fn open(name: DeviceName, drivers: &dyn Drivers) -> Result<Self, LocalModelError> {
        if name == DeviceName::CPU {
            return Ok(Self::processor());
        }
        match super::guarded(name, || drivers.open(name))? {
            Ok(accelerator) => Ok(Self::accelerator(accelerator)),
            Err(why) => Err(LocalModelError::Device { name: name.to_string(), why }),
        }
    }
}
