//! Looks for a file: lists its preopened folders, and if there are none, forges a handle to one.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};

struct Guest;

/// Paths that lead out of a folder, or to a device.
const PATHS: [&str; 6] = ["../../etc/passwd", "/etc/passwd", "link/passwd", "NUL", "C:\\CON", "a\0b"];

fn opens(folder: &Descriptor) -> String {
    let opened = PATHS.iter().filter(|path| {
        folder.open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::empty(), DescriptorFlags::READ).is_ok()
    });
    format!("opened {}", opened.count())
}

impl Environment for Guest {
    const NAME: &'static str = "hostile-files";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, action: &str, _signals: &mut Signals) -> Result<Next> {
        Ok(Next::Continue(match action.parse::<u32>() {
            // SAFETY: forging handles is the purpose of this guest. The host accepts no handle that it did not issue.
            Ok(forged) => opens(&unsafe { Descriptor::from_handle(forged) }),
            Err(_) => {
                let folders = wasip2::filesystem::preopens::get_directories();
                let opened: Vec<String> = folders.iter().map(|(folder, _)| opens(folder)).collect();
                format!("{} folders {opened:?}", folders.len())
            }
        }))
    }
}

export_environment!(Guest);
