//! Names of devices.

use super::DeviceError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What computes a model: the processor, or a kind of GPU interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// This processor.
    Cpu,
    /// NVIDIA CUDA.
    Cuda,
    /// Apple Metal.
    Metal,
    /// Any GPU on Linux and Windows.
    Vulkan,
    /// DirectX 12.
    Dx12,
}

impl Backend {
    /// All backends, the best first if a machine has several.
    pub const ALL: [Self; 5] = [Self::Cuda, Self::Metal, Self::Vulkan, Self::Dx12, Self::Cpu];

    /// The name in options.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Metal => "metal",
            Self::Vulkan => "vulkan",
            Self::Dx12 => "dx12",
        }
    }

    /// The cargo feature that builds it. `None`: always built.
    pub fn feature(self) -> Option<&'static str> {
        match self {
            Self::Cpu => None,
            Self::Cuda => Some("cuda"),
            Self::Metal | Self::Vulkan | Self::Dx12 => Some("gpu"),
        }
    }

    /// The only system that has it. `None`: several have it.
    pub fn system(self) -> Option<&'static str> {
        match self {
            Self::Metal => Some("macos"),
            Self::Dx12 => Some("windows"),
            Self::Cpu | Self::Cuda | Self::Vulkan => None,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Backend {
    type Err = DeviceError;

    fn from_str(word: &str) -> Result<Self, DeviceError> {
        let known = Self::ALL.into_iter().find(|one| one.word() == word);
        known.ok_or_else(|| DeviceError::NoDevice(clawhost_core::escaped(word, 40)))
    }
}

/// One device: `cuda:0` is CUDA's first. The processor is `cpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceName {
    /// Its backend.
    pub backend: Backend,
    /// Its number in the backend, from 0. The processor's is 0.
    pub number: usize,
}

impl DeviceName {
    /// This processor.
    pub const CPU: Self = Self { backend: Backend::Cpu, number: 0 };
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backend {
            Backend::Cpu => f.write_str("cpu"),
            backend => write!(f, "{backend}:{}", self.number),
        }
    }
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match DeviceChoice::from_str(text)? {
            DeviceChoice::Named(name) => Ok(name),
            DeviceChoice::Auto | DeviceChoice::Any(_) => Err(DeviceError::NoDevice(clawhost_core::escaped(text, 40))),
        }
    }
}

impl TryFrom<String> for DeviceName {
    type Error = DeviceError;

    fn try_from(text: String) -> Result<Self, DeviceError> {
        text.parse()
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.to_string()
    }
}

/// The requested device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The device that fits the model best.
    Auto,
    /// The best device of a backend.
    Any(Backend),
    /// This device.
    Named(DeviceName),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Any(backend) => write!(f, "{backend}"),
            Self::Named(name) => write!(f, "{name}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let (word, number) = match text.split_once(':') {
            None => (text, None),
            Some((word, number)) => (word, Some(number)),
        };
        let unknown = || DeviceError::NoDevice(clawhost_core::escaped(text, 40));
        if word == "auto" && number.is_none() {
            return Ok(Self::Auto);
        }
        match (word.parse::<Backend>().map_err(|_| unknown())?, number) {
            (Backend::Cpu, None) => Ok(Self::Named(DeviceName::CPU)),
            (Backend::Cpu, Some(_)) => Err(unknown()),
            (backend, None) => Ok(Self::Any(backend)),
            (backend, Some(digits)) => {
                // Some parsers accept `+1` and `٣` as numbers.
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let number = digits.parse::<u16>().ok().filter(|_| plain).ok_or_else(unknown)?;
                Ok(Self::Named(DeviceName { backend, number: number.into() }))
            }
        }
    }
}
