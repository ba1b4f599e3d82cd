//! The child process: it lists devices, or computes a known product on one.

use super::{Backend, ComputeDevice, DeviceChoice, DeviceKind, DeviceName, Drivers, FoundDevice, Worked};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The child's answer, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// All devices of a backend.
    Devices(Vec<FoundDevice>),
    /// One device was tried and works.
    Works(Worked),
    /// The failure.
    Failed(String),
}

/// Rows, columns and depth of the product: large enough that every part of a kernel has something to do, small enough that sums of
/// whole numbers are exact.
const SIZE: usize = 48;

/// Answers a [`super::ChildProber`]: for a backend (`vulkan`) with its devices, for a device (`vulkan:0`) with whether
/// it works. Returns one line of JSON. Call it in a separate process: it loads drivers, which may end the process.
pub fn answer_probe(about: &str, drivers: &dyn Drivers) -> String {
    let report = match about.parse::<DeviceChoice>() {
        Ok(DeviceChoice::Any(backend)) => list(backend, drivers).map_or_else(Report::Failed, Report::Devices),
        Ok(DeviceChoice::Named(name)) => try_device(name, drivers).map_or_else(Report::Failed, Report::Works),
        Ok(DeviceChoice::Auto) => Report::Failed("auto is a choice, not a device".into()),
        Err(error) => Report::Failed(error.to_string()),
    };
    // A report of names and numbers has no keys that could fail.
    serde_json::to_string(&report).unwrap_or_default()
}

fn list(backend: Backend, drivers: &dyn Drivers) -> Result<Vec<FoundDevice>, String> {
    if !drivers.built().contains(&backend) {
        return Err(format!("this program was built without {backend}"));
    }
    match backend {
        Backend::Cpu => Ok(vec![processor()]),
        _ => drivers.list(backend),
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

/// Whole numbers below 7: their sums of products are exact in any order, and in the reduced precision of tensor cores.
fn whole(salt: usize) -> Vec<f32> {
    (0..SIZE * SIZE).map(|place| ((place * 5 + place / SIZE + salt) % 7) as f32).collect()
}

/// The product of two square matrices of `size` rows, row by row, by the definition.
pub(super) fn plain_product(one: &[f32], other: &[f32], size: usize) -> Vec<f32> {
    let of_row = |row: &[f32]| {
        let column = |column: usize| other.iter().skip(column).step_by(size);
        (0..size).map(|number| row.iter().zip(column(number)).map(|(a, b)| a * b).sum::<f32>()).collect::<Vec<_>>()
    };
    one.chunks_exact(size.max(1)).flat_map(of_row).collect()
}

fn try_device(name: DeviceName, drivers: &dyn Drivers) -> Result<Worked, String> {
    let began = Instant::now();
    let device = ComputeDevice::open(name, drivers).map_err(|error| error.to_string())?;
    let (one, other) = (whole(1), whole(4));
    let found = device.product(&one, &other, SIZE).map_err(|error| error.to_string())?;
    let right = plain_product(&one, &other, SIZE);
    let wrong = found.iter().zip(right).filter(|(found, right)| (**found - right).abs() > 1e-3).count();
    if found.len() != SIZE * SIZE || wrong > 0 {
        return Err(format!("its product of two matrices is wrong in {wrong} of {} numbers", SIZE * SIZE));
    }
    Ok(Worked { name, milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX) })
}
