//! NVIDIA's devices. The driver, the kernel compiler (NVRTC) and its headers are searched before burn is used, because burn ends the
//! process if one of them is missing. [`super::toolkit`] has the search paths.

#![allow(
    unsafe_code,
    reason = "a driver is a library that is found at run time; its few functions are called as cuda.h declares them"
)]

use super::toolkit::{self, Places};
use burn::tensor::Device;
use clawhost_model::device::{Backend, DeviceKind, DeviceName, FoundDevice};
use libloading::Library;
use std::ffi::{CStr, OsString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

#[cfg(windows)]
const DRIVER: [&str; 1] = ["nvcuda.dll"];
#[cfg(not(windows))]
const DRIVER: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
#[cfg(windows)]
const COMPILER: [&str; 2] = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
#[cfg(not(windows))]
const COMPILER: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// The compiler, if it was loaded from a folder outside of the library path. It stays loaded, so that burn finds it by name.
static LOADED: Mutex<Option<Library>> = Mutex::new(None);

fn library(names: &[&str]) -> Option<Library> {
    // SAFETY: libraries with these names are NVIDIA's. Their initialisers may run at any time; burn loads the same libraries.
    names.iter().find_map(|name| unsafe { Library::new(*name) }.ok())
}

/// Calls a function of the driver that returns 0 for success.
macro_rules! ask {
    ($driver:expr, $name:literal, ($($kind:ty),*), ($($argument:expr),*)) => {{
        // SAFETY: the signature is that of cuda.h, where it never changed since the function was introduced. Pointers are to local
        // values that outlive the call.
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

/// The devices of the driver.
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

/// The environment variables that burn needs to find CUDA's headers. They have to be set before any thread starts.
pub(super) fn environment() -> Vec<(&'static str, OsString)> {
    toolkit::variable(&Places::here()).into_iter().collect()
}

/// Whether the kernel compiler can be loaded by its name: from the library path, or else from these folders.
fn has_compiler(folders: &[PathBuf]) -> bool {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if loaded.is_some() || library(&COMPILER).is_some() {
        return true;
    }
    let paths = folders.iter().flat_map(|folder| COMPILER.map(|name| folder.join(name)));
    let files: Vec<String> =
        paths.filter(|path| path.is_file()).map(|path| path.to_string_lossy().into_owned()).collect();
    *loaded = files.iter().find_map(|file| library(&[file]));
    loaded.is_some()
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Opens a device.
pub(super) fn open(name: DeviceName) -> Result<Device, String> {
    let count = list()?.len();
    if name.number >= count {
        return Err(format!("the driver counts {count} devices"));
    }
    let places = Places::here();
    let found = toolkit::find(&places);
    if !has_compiler(&toolkit::compiler_folders(found.as_ref().ok(), &places)) {
        return Err(no_compiler());
    }
    let toolkit = found.map_err(|missing| no_headers(&missing.headers))?;
    if !toolkit.is_used_by_burn {
        return Err(unnamed(&toolkit.root));
    }
    Ok(Device::cuda(name.number))
}

fn no_compiler() -> String {
    format!(
        "the compiler of kernels is not here ({} cannot be loaded); install NVRTC of CUDA 13 (in a virtual environment: pip install nvidia-cuda-nvrtc), or put its folder on the library path",
        COMPILER.join(", ")
    )
}

fn no_headers(missing: &[PathBuf]) -> String {
    format!(
        "CUDA's headers are not here ({} missing); install CUDA's toolkit (in a virtual environment: pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl, all of NVRTC's version), or let CUDA_PATH name the folder that holds include/",
        shown(missing)
    )
}

fn unnamed(root: &Path) -> String {
    format!("CUDA's headers are in {0}, which is not where burn looks; set CUDA_PATH={0}", root.display())
}
