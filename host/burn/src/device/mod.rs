//! The devices of burn that this build supports.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "graphics")]
mod graphics;
#[cfg(test)]
mod tests;
#[cfg(any(feature = "cuda", test))]
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "tests of a build without CUDA need a part of it"))]
mod toolkit;

use crate::network::{DeviceModel, values};
use crate::training::DeviceTrainer;
use burn::tensor::{Device, Tensor, TensorData};
use clawhost_model::device::{AcceleratedModel, Accelerator, Backend, DeviceName, Drivers, FoundDevice};
use clawhost_model::train::{AcceleratedTrainer, Trained};
use clawhost_model::{HostDecoder, LocalModelError, ModelConfig};
#[cfg(feature = "cuda")]
use std::ffi::OsString;
use std::sync::Arc;

/// The drivers of this build.
#[derive(Debug, Clone, Copy)]
pub struct Burn;

impl Drivers for Burn {
    fn built(&self) -> Vec<Backend> {
        let here = |backend: &Backend| match backend {
            Backend::Cpu => true,
            Backend::Cuda => cfg!(feature = "cuda"),
            Backend::Vulkan => cfg!(feature = "graphics") && !cfg!(target_os = "macos"),
            Backend::Metal => cfg!(feature = "graphics") && cfg!(target_os = "macos"),
            Backend::Dx12 => cfg!(feature = "graphics") && cfg!(target_os = "windows"),
        };
        Backend::ALL.into_iter().filter(here).collect()
    }

    fn list(&self, backend: Backend) -> Result<Vec<FoundDevice>, String> {
        match backend {
            #[cfg(feature = "cuda")]
            Backend::Cuda => cuda::list(),
            #[cfg(feature = "graphics")]
            Backend::Vulkan | Backend::Metal | Backend::Dx12 => Ok(graphics::list(backend)),
            _ => Ok(Vec::new()),
        }
    }

    #[cfg(feature = "cuda")]
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        cuda::environment()
    }

    fn open(&self, name: DeviceName) -> Result<Arc<dyn Accelerator>, String> {
        Ok(Arc::new(BurnDevice::open(name)?))
    }
}

/// An open device of burn.
#[derive(Debug, Clone)]
pub struct BurnDevice {
    name: DeviceName,
    device: Device,
}

impl BurnDevice {
    /// Opens a device. Loads its driver, which may end the process.
    ///
    /// # Errors
    /// There is no such device, or this program was built without its backend. The text has the reason.
    pub fn open(name: DeviceName) -> Result<Self, String> {
        let device: Result<Device, String> = match name.backend {
            #[cfg(feature = "cuda")]
            Backend::Cuda => cuda::open(name),
            #[cfg(feature = "graphics")]
            Backend::Vulkan | Backend::Metal | Backend::Dx12 => graphics::open(name),
            backend => Err(format!("this program was built without {backend}")),
        };
        Ok(Self { name, device: device? })
    }

    /// Burn's device on this processor. It runs the same code as a GPU, so that tests can compare it with the processor
    /// path.
    pub fn processor() -> Self {
        Self { name: DeviceName::CPU, device: Device::flex() }
    }

    /// The device in burn's type.
    pub fn burn(&self) -> &Device {
        &self.device
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.parse().unwrap(), ..Self::processor() }
    }
}

impl Accelerator for BurnDevice {
    fn name(&self) -> DeviceName {
        self.name
    }

    fn model(&self, config: Arc<ModelConfig>, host: &HostDecoder) -> Box<dyn AcceleratedModel> {
        Box::new(DeviceModel::new(self, config, host))
    }

    fn trainer(&self, config: Arc<ModelConfig>, host: &HostDecoder, trained: Trained) -> Box<dyn AcceleratedTrainer> {
        Box::new(DeviceTrainer::new(config, host, &self.device, trained))
    }

    fn product(&self, one: &[f32], other: &[f32], size: usize) -> Result<Vec<f32>, LocalModelError> {
        let on_device = |numbers: &[f32]| -> Tensor<2> {
            Tensor::from_data(TensorData::new(numbers.to_vec(), [size, size]), &self.device)
        };
        values(&on_device(one).matmul(on_device(other)))
    }
}
