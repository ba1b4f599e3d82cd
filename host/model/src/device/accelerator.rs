//! The interface of an accelerator: a device that code outside of this crate computes on.

use super::{Backend, ComputeDevice, DeviceName, FoundDevice, Slot};
use crate::train::{AcceleratedTrainer, Trained};
use crate::{HostDecoder, LocalModelError, ModelConfig};
use std::fmt;
use std::sync::Arc;

/// The accelerators that a program was built with.
pub trait Drivers: Sync {
    /// Their backends, and the processor, in the order of [`Backend::ALL`].
    fn built(&self) -> Vec<Backend>;

    /// The devices of a backend that was built, in its order. Loads the driver, which may end the process.
    ///
    /// # Errors
    /// The driver is missing or broken; the text says which.
    fn list(&self, backend: Backend) -> Result<Vec<FoundDevice>, String>;

    /// Opens a device. Loads the driver, which may end the process.
    ///
    /// # Errors
    /// It is not there, or this program was built without it; the text says which.
    fn open(&self, name: DeviceName) -> Result<Arc<dyn Accelerator>, String>;
}

/// A program without accelerators: everything is computed on the processor.
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

/// A device that is open. Its methods may panic where a device is lost: [`ComputeDevice`] turns that into an error.
pub trait Accelerator: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> DeviceName;

    /// Copies weights to the device, to answer with them.
    fn model(&self, config: Arc<ModelConfig>, host: &HostDecoder) -> Box<dyn AcceleratedModel>;

    /// Copies weights to the device, to train them.
    fn trainer(&self, config: Arc<ModelConfig>, host: &HostDecoder, trained: Trained) -> Box<dyn AcceleratedTrainer>;

    /// The product of two square matrices of `size` rows, row by row: shows that the device works.
    ///
    /// # Errors
    /// The device returns no data.
    fn product(&self, one: &[f32], other: &[f32], size: usize) -> Result<Vec<f32>, LocalModelError>;
}

/// A model whose weights, keys and values lie on a device. Its methods do not panic where the device is lost.
pub trait AcceleratedModel: fmt::Debug + Send + Sync {
    /// Its shape.
    fn config(&self) -> &Arc<ModelConfig>;

    /// Sequences that fit into the device's memory at once, each as long as the context.
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

    /// Computes new tokens of several sequences, at least one of each; returns the logits behind the last token of each.
    ///
    /// # Errors
    /// The device failed; all slots are lost, the weights are not.
    fn forward(&self, work: &mut [(&mut Slot, &[u32])]) -> Result<Vec<Vec<f32>>, LocalModelError>;
}

impl ComputeDevice {
    /// Opens a device that was chosen ([`super::choose`]).
    ///
    /// # Errors
    /// It is not there, or this program was built without it.
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
