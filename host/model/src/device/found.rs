//! What a backend says about its devices.

use super::DeviceName;
use serde::{Deserialize, Serialize};

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A share of a GPU, in a virtual machine.
    Virtual,
    /// Its driver does not say.
    Other,
    /// A program that acts as a GPU: exact, and slower than the processor that it runs on.
    Software,
}

impl DeviceKind {
    /// As people say it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Other => "device of a kind that its driver does not say",
            Self::Software => "software, not a GPU",
        }
    }
}

/// A device that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundDevice {
    /// To ask for it by.
    pub name: DeviceName,
    /// As its driver calls it.
    pub title: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Its memory, where the driver says.
    pub memory_bytes: Option<u64>,
}
