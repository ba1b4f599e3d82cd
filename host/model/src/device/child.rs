//! What the child process does: lists devices, or has one compute a product that is known.

use super::{Backend, ComputeDevice, DeviceChoice, DeviceKind, DeviceName, FoundDevice, Worked};
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What the child says, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// All of a backend.
    Devices(Vec<FoundDevice>),
    /// One was tried, and is fine.
    Works(Worked),
    /// In words.
    Failed(String),
}

/// Rows, columns and depth of the product: large enough that every part of a kernel has something to do, small enough that sums of
/// whole numbers are exact.
const SIZE: usize = 48;

/// Answers a [`super::ChildProber`]: about a backend (`vulkan`) with its devices, about a device (`vulkan:0`) with whether it works. One line
/// of JSON. To be called in a process that may die of it.
pub fn answer_probe(about: &str) -> String {
    let report = match about.parse::<DeviceChoice>() {
        Ok(DeviceChoice::Any(backend)) => list(backend).map_or_else(Report::Failed, Report::Devices),
        Ok(DeviceChoice::Named(name)) => product(name).map_or_else(Report::Failed, Report::Works),
        Ok(DeviceChoice::Auto) => Report::Failed("auto is a choice, not a device".into()),
        Err(error) => Report::Failed(error.to_string()),
    };
    // A report of names and numbers has no keys that could fail.
    serde_json::to_string(&report).unwrap_or_default()
}

fn list(backend: Backend) -> Result<Vec<FoundDevice>, String> {
    if !Backend::built().contains(&backend) {
        return Err(format!("this program was built without {backend}"));
    }
    match backend {
        Backend::Cpu => Ok(vec![processor()]),
        #[cfg(feature = "cuda")]
        Backend::Cuda => super::cuda::list(),
        #[cfg(feature = "graphics")]
        Backend::Vulkan | Backend::Metal | Backend::Dx12 => Ok(super::graphics::list(backend)),
        #[allow(unreachable_patterns, reason = "reachable where a feature is off")]
        _ => Ok(Vec::new()),
    }
}

fn processor() -> FoundDevice {
    FoundDevice {
        name: DeviceName::CPU,
        title: "this processor".to_owned(),
        kind: DeviceKind::Other,
        memory_bytes: None,
    }
}

/// Whole numbers below 7: their sums of products are exact in any order, and in the tenfold rounding of tensor cores too.
fn whole(salt: usize) -> Vec<f32> {
    (0..SIZE * SIZE).map(|place| ((place * 5 + place / SIZE + salt) % 7) as f32).collect()
}

fn product(name: DeviceName) -> Result<Worked, String> {
    let began = Instant::now();
    let device = ComputeDevice::open(name).map_err(|error| error.to_string())?;
    let (one, other) = (whole(1), whole(4));
    let found = device
        .guarded(|| {
            let on =
                |values: &[f32]| Tensor::<2>::from_data(TensorData::new(values.to_vec(), [SIZE, SIZE]), device.burn());
            on(&one).matmul(on(&other)).into_data().try_into_vec::<f32>()
        })
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("it gave nothing back ({error:?})"))?;
    let right = one.chunks_exact(SIZE).flat_map(|row| {
        let column = |column: usize| other.iter().skip(column).step_by(SIZE);
        (0..SIZE).map(move |number| row.iter().zip(column(number)).map(|(a, b)| a * b).sum::<f32>()).collect::<Vec<_>>()
    });
    let wrong = found.iter().zip(right).filter(|(found, right)| (**found - right).abs() > 1e-3).count();
    if found.len() != SIZE * SIZE || wrong > 0 {
        return Err(format!("it computes wrong: {wrong} of {} numbers of a product", SIZE * SIZE));
    }
    Ok(Worked { name, milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX) })
}
