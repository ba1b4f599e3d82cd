//! `cargo xtask wgsl`: runs the GPU code on a software driver of Vulkan, and compares the results with those of the processor.

use crate::{cargo, run};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// The folders in which Linux lists Vulkan drivers.
const DRIVERS: [&str; 3] = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

/// Packages that are built without optimisation, like all dependencies here: the build becomes faster by more than the tests become
/// slower. Packages that the workspace optimises by name have to be listed here.
const PLAIN: [&str; 13] = [
    "clawhost-bindings",
    "clawhost-core",
    "clawhost-engine",
    "clawhost-follower",
    "clawhost-learn",
    "clawhost-model",
    "clawhost-play",
    "burn-autodiff",
    "burn-flex",
    "gemm",
    "gemm-common",
    "gemm-f32",
    "macerator",
];

/// Finds Mesa's driver that computes on the processor.
fn lavapipe(folders: &[PathBuf]) -> Option<PathBuf> {
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    found.retain(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("lvp_icd") && name.ends_with(".json")
    });
    found.sort();
    found.into_iter().next()
}

pub(crate) fn main(rest: &[String]) -> Result<()> {
    let driver = match std::env::var_os("VK_DRIVER_FILES") {
        Some(chosen) => PathBuf::from(chosen),
        None => lavapipe(&DRIVERS.map(PathBuf::from)).context(
            "no software driver of Vulkan is here: install Mesa's (Debian: apt-get install mesa-vulkan-drivers libvulkan1), or let \
             VK_DRIVER_FILES name the JSON file of another",
        )?,
    };
    if !Path::new(&driver).exists() {
        bail!("{} (VK_DRIVER_FILES) does not exist", driver.display());
    }
    let mut command = cargo();
    command.args(["test", "--package", "clawhost-burn", "--features", "wgsl-test", "--test", "devices"]);
    command.args(["--config", "profile.dev.package.'*'.opt-level=0"]);
    for name in PLAIN {
        command.args(["--config", &format!("profile.dev.package.{name}.opt-level=0")]);
    }
    // One test at a time, because they share one device and print its times.
    command.args(rest).args(["--", "--nocapture", "--test-threads=1"]);
    // Older loaders read only the second variable. The driver is available, so no test may be skipped because it is missing.
    command.env("VK_DRIVER_FILES", &driver).env("VK_ICD_FILENAMES", &driver).env("CLAWHOST_TEST_DEVICE", "software");
    run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_software_driver_is_found_among_others() {
        let folder = std::env::temp_dir().join(format!("clawhost-xtask-wgsl-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["radeon_icd.x86_64.json", "lvp_icd.x86_64.json", "lvp_icd.x86_64.json.bak"] {
            std::fs::write(folder.join(name), "{}").unwrap();
        }
        let found = lavapipe(&[folder.join("nowhere"), folder.clone()]);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, Some(folder.join("lvp_icd.x86_64.json")));
        assert_eq!(lavapipe(&[folder]), None);
    }
}
