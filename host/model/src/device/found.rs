//! The devices that a backend reports.

use super::DeviceName;
use serde::{Deserialize, Serialize};

/// The kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A share of a GPU, in a virtual machine.
    Virtual,
    /// Its driver does not say.
    Other,
    /// Software that acts as a GPU: exact, and slower than the processor that it runs on.
    Software,
}

impl DeviceKind {
    /// The kind in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Other => "device of unknown kind",
            Self::Software => "software, not a GPU",
        }
    }
}

/// A device that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundDevice {
    /// Its name.
    pub name: DeviceName,
    /// Its driver's name for it.
    pub title: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Its memory, if the driver reports it.
    pub memory_bytes: Option<u64>,
}
