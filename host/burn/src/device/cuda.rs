//! NVIDIA's devices. The driver, the compiler of kernels and its headers are looked for by name first: what lies below ends the process where one of them
//! is missing.

#![allow(
    unsafe_code,
    reason = "a driver is a library that is found at run time; its few functions are called as cuda.h declares them"
)]

use burn::tensor::Device;
use clawhost_model::device::{Backend, DeviceKind, DeviceName, FoundDevice};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;

#[cfg(windows)]
const DRIVER: [&str; 1] = ["nvcuda.dll"];
#[cfg(not(windows))]
const DRIVER: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
#[cfg(windows)]
const COMPILER: [&str; 2] = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
#[cfg(not(windows))]
const COMPILER: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// A header that every kernel includes.
const HEADER: &str = "include/cuda_runtime.h";

fn library(names: &[&str]) -> Option<Library> {
    // SAFETY: what is loaded by these names is NVIDIA's, and its initialisers may run at any time; burn loads the same.
    names.iter().find_map(|name| unsafe { Library::new(*name) }.ok())
}

/// Calls a function of the driver that gives back 0 where all is well.
macro_rules! ask {
    ($driver:expr, $name:literal, ($($kind:ty),*), ($($argument:expr),*)) => {{
        // SAFETY: the signature is that of cuda.h, where it has been the same since the function exists; pointers are to values of ours that
        // outlive the call.
        unsafe {
            $driver
                .get::<unsafe extern "C" fn($($kind),*) -> c_int>($name)
                .map_err(|error| format!("the driver is too old ({error}); install a newer one"))
                .map(|function| function($($argument),*))
        }
    }};
}

fn checked(code: c_int, what: &str) -> Result<(), String> {
    match code {
        0 => Ok(()),
        // CUDA_ERROR_NO_DEVICE
        100 => Err("the driver is there and has no device".into()),
        code => Err(format!("{what} failed with the driver's error {code}; does `nvidia-smi` work?")),
    }
}

fn driver() -> Result<Library, String> {
    library(&DRIVER)
        .ok_or_else(|| format!("no NVIDIA driver is here ({} cannot be loaded); install it", DRIVER.join(", ")))
}

/// The devices that the driver counts.
pub(super) fn list() -> Result<Vec<FoundDevice>, String> {
    let driver = driver()?;
    checked(ask!(driver, b"cuInit\0", (u32), (0))?, "cuInit")?;
    let mut count: c_int = 0;
    checked(ask!(driver, b"cuDeviceGetCount\0", (*mut c_int), (&mut count))?, "cuDeviceGetCount")?;
    let mut found = Vec::new();
    for number in 0..count {
        let mut device: c_int = 0;
        checked(ask!(driver, b"cuDeviceGet\0", (*mut c_int, c_int), (&mut device, number))?, "cuDeviceGet")?;
        let mut title = [0u8; 128];
        let (to, length) = (title.as_mut_ptr().cast::<c_char>(), title.len() as c_int - 1);
        checked(
            ask!(driver, b"cuDeviceGetName\0", (*mut c_char, c_int, c_int), (to, length, device))?,
            "cuDeviceGetName",
        )?;
        let mut bytes = 0usize;
        let memory = ask!(driver, b"cuDeviceTotalMem_v2\0", (*mut usize, c_int), (&mut bytes, device))?;
        let title = CStr::from_bytes_until_nul(&title).map(CStr::to_string_lossy).unwrap_or_default();
        found.push(FoundDevice {
            name: DeviceName { backend: Backend::Cuda, number: usize::try_from(number).unwrap_or(0) },
            title: clawhost_core::escaped(&title, 100),
            kind: DeviceKind::Discrete,
            memory_bytes: (memory == 0).then_some(bytes as u64),
        });
    }
    Ok(found)
}

/// Where the toolkit's headers are sought, as burn seeks them.
fn toolkit() -> PathBuf {
    std::env::var_os("CUDA_PATH").map_or_else(|| PathBuf::from("/usr/local/cuda"), PathBuf::from)
}

/// Opens a device.
pub(super) fn open(name: DeviceName) -> Result<Device, String> {
    let count = list()?.len();
    if name.number >= count {
        return Err(format!("the driver counts {count} devices"));
    }
    if library(&COMPILER).is_none() {
        return Err(format!(
            "the compiler of kernels is not here ({} cannot be loaded); install NVRTC of CUDA 13, or put its folder on the library path",
            COMPILER.join(", ")
        ));
    }
    let header = toolkit().join(HEADER);
    if !header.exists() {
        return Err(format!(
            "CUDA's headers are not here ({} does not exist); install them, and let CUDA_PATH name the folder that holds include/",
            header.display()
        ));
    }
    Ok(Device::cuda(name.number))
}
