//! Finds the compiler of CUDA kernels (NVRTC) and its headers: in an installed toolkit, or in the wheels that PyTorch depends on.
//!
//! It only checks whether files exist: [`Places`] has the folders. No program is started: a Python is recognised by its folders.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variable that burn reads. It names the folder that contains `include/`.
pub(super) const VARIABLE: &str = "CUDA_PATH";

/// Headers that kernels include. The wheels of the runtime lack the second, which is in `nvidia-cuda-crt`.
const HEADERS: [&str; 2] = ["include/cuda_runtime.h", "include/crt/mma.h"];

/// The folders of installed toolkits on Linux, in the order in which burn searches them.
const INSTALLED: [&str; 2] = ["/usr/local/cuda", "/opt/cuda"];
/// The folder of a Linux distribution's packages, and the program that is there if the toolkit is installed.
const DISTRIBUTION: (&str, &str) = ("/usr", "bin/nvcc");

/// The places to search.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    /// The folder that `CUDA_PATH` names. If it is set, the others are ignored.
    pub(super) named: Option<PathBuf>,
    /// Folders of installed toolkits.
    pub(super) installed: Vec<PathBuf>,
    /// The active virtual environment, which `VIRTUAL_ENV` names.
    pub(super) virtual_environment: Option<PathBuf>,
    /// The folders of `PATH`.
    pub(super) programs: Vec<PathBuf>,
}

impl Places {
    /// The places according to the environment of this process.
    pub(super) fn here() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            named: folder(VARIABLE),
            installed: INSTALLED.iter().map(PathBuf::from).collect(),
            virtual_environment: folder("VIRTUAL_ENV"),
            programs: std::env::var_os("PATH").map_or_else(Vec::new, |path| std::env::split_paths(&path).collect()),
        }
    }

    /// The folder whose headers burn uses with the current environment.
    fn used_by_burn(&self) -> Option<PathBuf> {
        let (distribution, compiler) = DISTRIBUTION;
        let installed = self.installed.iter().find(|folder| folder.exists()).cloned();
        let packaged = || Path::new(distribution).join(compiler).exists().then(|| PathBuf::from(distribution));
        self.named.clone().or(installed).or_else(packaged)
    }
}

/// A toolkit with all headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Toolkit {
    /// The folder that contains `include/`.
    pub(super) root: PathBuf,
    /// Whether burn finds it without help. If not, `CUDA_PATH` has to name it.
    pub(super) is_used_by_burn: bool,
}

/// The folders of a toolkit's libraries.
fn library_folders(root: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["lib64", "lib", "targets/x86_64-linux/lib"].iter().map(|name| root.join(name)).collect();
    // Older wheels have one folder per package.
    folders.extend(root.parent().map(|beside| beside.join("cuda_nvrtc/lib")));
    folders
}

/// Why no toolkit can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    /// Missing headers: the first of each folder.
    pub(super) headers: Vec<PathBuf>,
}

/// Finds a toolkit. If `CUDA_PATH` names one, it is used or refused. Otherwise the first complete one is used, in this order: installed
/// ones, that of `nvcc`, the wheels of the active virtual environment, the wheels of the Python on the path.
pub(super) fn find(places: &Places) -> Result<Toolkit, Missing> {
    let used = places.used_by_burn();
    let mut headers = Vec::new();
    for root in roots(places) {
        match HEADERS.iter().map(|header| root.join(header)).find(|header| !header.is_file()) {
            None => return Ok(Toolkit { is_used_by_burn: used.as_ref() == Some(&root), root }),
            Some(header) => headers.push(header),
        }
    }
    Err(Missing { headers })
}

/// Folders that may contain NVRTC: those of the toolkit whose headers are used, then those of all others, complete or not.
pub(super) fn compiler_folders(used: Option<&Toolkit>, places: &Places) -> Vec<PathBuf> {
    let others = roots(&Places { named: None, ..places.clone() });
    let first = used.map(|toolkit| &toolkit.root).or(places.named.as_ref());
    first.into_iter().chain(&others).flat_map(|root| library_folders(root)).collect()
}

/// The variable to set before burn starts. `None`: burn finds the toolkit without it, or there is no toolkit.
pub(super) fn variable(places: &Places) -> Option<(&'static str, OsString)> {
    let toolkit = find(places).ok()?;
    (!toolkit.is_used_by_burn).then(|| (VARIABLE, toolkit.root.into_os_string()))
}

/// Folders that may contain `include/`, the preferred ones first.
fn roots(places: &Places) -> Vec<PathBuf> {
    if let Some(named) = &places.named {
        return vec![named.clone()];
    }
    let mut roots = places.installed.clone();
    let of_program = |name: &str| {
        let folder = places.programs.iter().find(|folder| folder.is_absolute() && folder.join(name).exists());
        folder.map(|folder| folder.join(name))
    };
    if let Some(program) = of_program("nvcc") {
        roots.extend(above_programs(&program));
    }
    let mut pythons: Vec<PathBuf> = places.virtual_environment.iter().cloned().collect();
    if let Some(program) = of_program("python3") {
        pythons.extend(above_programs(&program));
    }
    roots.extend(pythons.iter().flat_map(|folder| packages(folder)).flat_map(|folder| wheels(&folder)));
    let mut seen = Vec::new();
    roots.retain(|root| {
        let is_new = !seen.contains(root);
        seen.push(root.clone());
        is_new
    });
    roots
}

/// The parent folder of a program's `bin/`: as given, and with links resolved.
fn above_programs(program: &Path) -> Vec<PathBuf> {
    let above = |program: &Path| program.parent().and_then(Path::parent).map(Path::to_owned);
    let real = program.canonicalize().ok();
    [above(program), real.as_deref().and_then(above)].into_iter().flatten().collect()
}

/// The subfolders whose names are this prefix and a version number, the highest version first.
fn numbered(folder: &Path, before: &str) -> Vec<PathBuf> {
    let number = |path: &PathBuf| -> Option<Vec<u32>> {
        let name = path.file_name()?.to_str()?.strip_prefix(before)?;
        name.split('.').map(|part| part.parse().ok()).collect()
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> =
        entries.map(|entry| entry.path()).filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// The package folders of a Python.
fn packages(python: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64", "local/lib"].map(|name| python.join(name)) {
        for version in numbered(&lib, "python") {
            found.extend(["site-packages", "dist-packages"].map(|name| version.join(name)));
        }
    }
    found
}

/// The folders of NVIDIA's wheels: `nvidia/cu13` and other versions, and the older layout with one folder per package.
fn wheels(packages: &Path) -> Vec<PathBuf> {
    let nvidia = packages.join("nvidia");
    let mut found = numbered(&nvidia, "cu");
    found.push(nvidia.join("cuda_runtime"));
    found.retain(|folder| folder.is_dir());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    fn complete(root: &Path) {
        HEADERS.iter().for_each(|header| write(&root.join(header)));
    }

    /// A folder for toolkits, a virtual environment and a Python.
    fn machine() -> (tempfile::TempDir, Places) {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            named: None,
            installed: vec![folder.path().join("cuda"), folder.path().join("opt-cuda")],
            virtual_environment: Some(folder.path().join("venv")),
            programs: vec![PathBuf::from("relative"), folder.path().join("empty"), folder.path().join("system/bin")],
        };
        (folder, places)
    }

    #[test]
    fn installed_toolkits_are_preferred_to_wheels() {
        let (folder, places) = machine();
        let at = |name: &str| folder.path().join(name);
        assert!(find(&places).is_err() && variable(&places).is_none());
        // From the last choice to the first: each new one is preferred to the previous ones.
        let order = [
            ("system/lib/python3.9/site-packages/nvidia/cuda_runtime", false),
            ("system/lib/python3.12/dist-packages/nvidia/cu12", false),
            ("system/lib/python3.12/dist-packages/nvidia/cu13", false),
            ("venv/lib/python3.12/site-packages/nvidia/cu13", false),
            ("opt-cuda", true),
            ("cuda", true),
        ];
        write(&at("system/bin/python3"));
        for (root, is_used_by_burn) in order {
            complete(&at(root));
            assert_eq!(find(&places), Ok(Toolkit { root: at(root), is_used_by_burn }));
            let wanted = (!is_used_by_burn).then(|| (VARIABLE, at(root).into_os_string()));
            assert_eq!(variable(&places), wanted, "{root}");
        }
    }

    #[test]
    fn a_toolkit_without_all_headers_is_skipped_and_reported() {
        let (folder, mut places) = machine();
        let at = |name: &str| folder.path().join(name);
        // As in a container that has only the libraries of CUDA: burn would use this folder.
        std::fs::create_dir_all(at("cuda/lib64")).unwrap();
        let wheel = "venv/lib/python3.11/site-packages/nvidia/cu13";
        write(&at(&format!("{wheel}/include/cuda_runtime.h")));
        let missing = find(&places).unwrap_err();
        assert!(missing.headers.contains(&at("cuda/include/cuda_runtime.h")));
        assert!(missing.headers.contains(&at(&format!("{wheel}/include/crt/mma.h"))));
        assert!(compiler_folders(None, &places).contains(&at(&format!("{wheel}/lib"))));
        write(&at(&format!("{wheel}/include/crt/mma.h")));
        assert_eq!(find(&places), Ok(Toolkit { root: at(wheel), is_used_by_burn: false }));
        // A toolkit that `CUDA_PATH` names is used or refused.
        places.named = Some(at("elsewhere"));
        assert_eq!(find(&places).unwrap_err().headers, [at("elsewhere/include/cuda_runtime.h")]);
        complete(&at("elsewhere"));
        assert_eq!(find(&places), Ok(Toolkit { root: at("elsewhere"), is_used_by_burn: true }));
        assert_eq!(variable(&places), None);
    }

    #[test]
    fn the_toolkit_of_a_compiler_on_the_path_is_found() {
        let (folder, places) = machine();
        write(&folder.path().join("system/bin/nvcc"));
        complete(&folder.path().join("system"));
        assert_eq!(find(&places).unwrap().root, folder.path().join("system"));
    }

    #[test]
    fn libraries_are_searched_in_both_layouts_of_wheels() {
        let (folder, places) = machine();
        let nvidia = folder.path().join("venv/lib/python3.11/site-packages/nvidia");
        complete(&nvidia.join("cuda_runtime"));
        let named = Places { named: Some("/elsewhere".into()), ..places.clone() };
        for (toolkit, places) in [(find(&places).ok(), &places), (None, &named)] {
            let folders = compiler_folders(toolkit.as_ref(), places);
            let place = |folder: &str| folders.iter().position(|one| *one == nvidia.join(folder));
            assert!(place("cuda_nvrtc/lib").is_some() && place("cuda_runtime/lib").is_some());
            assert_eq!(folders[0] == nvidia.join("cuda_runtime/lib64"), toolkit.is_some(), "the used toolkit is first");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_python_behind_a_link_is_followed() {
        let (folder, places) = machine();
        let at = |name: &str| folder.path().join(name);
        write(&at("real/bin/python3.12"));
        std::fs::create_dir_all(at("system/bin")).unwrap();
        std::os::unix::fs::symlink(at("real/bin/python3.12"), at("system/bin/python3")).unwrap();
        let root = folder.path().canonicalize().unwrap().join("real/lib/python3.12/site-packages/nvidia/cu13");
        complete(&root);
        assert_eq!(find(&places).unwrap().root, root);
    }
}
