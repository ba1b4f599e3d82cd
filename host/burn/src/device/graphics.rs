//! Devices behind a graphics API: Vulkan, Metal, DirectX 12.

use burn::tensor::wgpu::{WgpuBackend, wgpu};
use burn::tensor::{Device, DeviceKind};
use clawhost_model::device::{Backend, DeviceKind as Kind, DeviceName, FoundDevice};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The open devices. Each can be initialised once per process.
static OPEN: Mutex<BTreeMap<DeviceName, Device>> = Mutex::new(BTreeMap::new());

fn api(backend: Backend) -> Option<(wgpu::Backends, WgpuBackend)> {
    match backend {
        Backend::Vulkan => Some((wgpu::Backends::VULKAN, WgpuBackend::Vulkan)),
        Backend::Metal => Some((wgpu::Backends::METAL, WgpuBackend::Metal)),
        Backend::Dx12 => Some((wgpu::Backends::DX12, WgpuBackend::Dx12)),
        Backend::Cpu | Backend::Cuda => None,
    }
}

/// All devices of an API, in its order.
pub(super) fn list(backend: Backend) -> Vec<FoundDevice> {
    let Some((backends, _)) = api(backend) else { return Vec::new() };
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return Vec::new() };
    let adapters = runtime.block_on(instance.enumerate_adapters(backends));
    let found = adapters.iter().map(wgpu::Adapter::get_info).enumerate();
    found
        .map(|(number, info)| FoundDevice {
            name: DeviceName { backend, number },
            title: clawhost_core::escaped(info.name.trim(), 100),
            kind: match info.device_type {
                wgpu::DeviceType::DiscreteGpu => Kind::Discrete,
                wgpu::DeviceType::IntegratedGpu => Kind::Integrated,
                wgpu::DeviceType::VirtualGpu => Kind::Virtual,
                wgpu::DeviceType::Cpu => Kind::Software,
                wgpu::DeviceType::Other => Kind::Other,
            },
            // These APIs do not report it.
            memory_bytes: None,
        })
        .collect()
}

/// Opens a device, or returns the open one.
pub(super) fn open(name: DeviceName) -> Result<Device, String> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = open.get(&name) {
        return Ok(device.clone());
    }
    let (_, backend) = api(name.backend).ok_or("it is behind no graphics API")?;
    let found = list(name.backend);
    let wanted = found.iter().find(|one| one.name == name).ok_or("it is not there")?;
    // Burn numbers the devices of each kind separately.
    let before = found.iter().filter(|one| one.kind == wanted.kind && one.name < name).count();
    let kind = match wanted.kind {
        Kind::Discrete => DeviceKind::DiscreteGpu(before),
        Kind::Integrated => DeviceKind::IntegratedGpu(before),
        Kind::Virtual => DeviceKind::VirtualGpu(before),
        Kind::Software => DeviceKind::Cpu,
        Kind::Other => return Err("its driver does not say what it is, and such devices are not supported".into()),
    };
    let device = Device::wgpu_options().device_kind(kind).graphics_api(backend).init();
    let device = device.map_err(|error| clawhost_core::escaped(&error.to_string(), 300))?;
    open.insert(name, device.clone());
    Ok(device)
}
