"""What a machine has: CUDA's headers and libraries, the loader of Vulkan, Python's packages. Standard library only."""

import ctypes
import os
import pathlib
import shutil
import sysconfig

# Headers that kernels include, and what else some of them include.
HEADERS = ("cuda_runtime.h", "crt/mma.h")
WANTED = HEADERS + ("nv/target",)


def package_folders(folders=None):
    """Folders that hold Python's packages: of this Python, and those on its path."""
    if folders is None:
        import sys

        folders = [sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], *sys.path]
    found = [pathlib.Path(folder) for folder in dict.fromkeys(folders) if folder and os.path.isdir(folder)]
    return [folder for folder in found if folder.name in ("site-packages", "dist-packages")]


def wheel_headers(packages):
    """Folders of headers that NVIDIA's wheels and Triton's have, the newest layout first."""
    found = []
    for folder in packages:
        nvidia = folder / "nvidia"
        newer = [path for path in nvidia.glob("cu[0-9]*") if path.name[2:].isdigit()]
        for path in sorted(newer, key=lambda path: int(path.name[2:]), reverse=True):
            found.append(path / "include")
        found += [nvidia / name / "include" for name in ("cuda_runtime", "cuda_nvcc", "cuda_crt", "cuda_cccl")]
        found.append(folder / "triton/backends/nvidia/include")
    return [path for path in found if path.is_dir()]


def wheel_libraries(packages):
    """Folders of wheels that hold NVRTC."""
    found = []
    for folder in packages:
        for path in sorted((folder / "nvidia").glob("*/lib"), reverse=True):
            if list(path.glob("libnvrtc.so*")):
                found.append(path)
    return found


def has(include, header):
    return (include / header).is_file() or (include / "cccl" / header).is_file()


def lacks(root):
    """Headers that a toolkit lacks."""
    return [header for header in HEADERS if not has(root / "include", header)]


def merge(includes, folder):
    """Makes a toolkit of links to several folders of headers; the first that has a file gives it. Gives what is still missing."""
    include = folder / "include"
    include.mkdir(parents=True, exist_ok=True)
    for source in includes:
        for entry in sorted(source.iterdir()):
            to = include / entry.name
            if not to.exists():
                to.symlink_to(entry.resolve())
    # CCCL of the older layout lies beside the others.
    if not (include / "cccl").exists():
        for source in includes:
            if (source / "nv/target").is_file():
                (include / "cccl").symlink_to(source.resolve())
                break
    return [header for header in WANTED if not has(include, header)]


def installed(environment):
    """Toolkits that are installed, in the order in which the program looks."""
    found = [pathlib.Path("/usr/local/cuda"), pathlib.Path("/opt/cuda")]
    compiler = shutil.which("nvcc", path=environment.get("PATH"))
    if compiler:
        found += [pathlib.Path(compiler).parent.parent, pathlib.Path(compiler).resolve().parent.parent]
    return found


def toolkit(environment, packages, work, roots=None):
    """The folder for CUDA_PATH, and how it came about. None: there are no headers."""
    if environment.get("CUDA_PATH"):
        return environment["CUDA_PATH"], "CUDA_PATH named it"
    for root in installed(environment) if roots is None else roots:
        if root.is_dir() and not lacks(root):
            return str(root), "it is installed"
    includes = wheel_headers(packages)
    for include in includes:
        if all(has(include, header) for header in WANTED):
            return str(include.parent), "wheels have it"
    if not includes:
        return None, "no headers of CUDA are here: no toolkit is installed, and this Python has no wheels of NVIDIA"
    missing = merge(includes, work / "cuda")
    said = "made of links to the headers of " + ", ".join(map(str, includes))
    if missing:
        said += "; still missing: " + ", ".join(missing) + " (pip install nvidia-cuda-crt nvidia-cuda-cccl)"
    return str(work / "cuda"), said


def child_environment(environment, packages, work, roots=None):
    """The environment for the program and the tests, and what was chosen."""
    chosen = dict(environment)
    root, said = toolkit(environment, packages, work, roots)
    folders = []
    if root:
        chosen["CUDA_PATH"] = root
        folders += [os.path.join(root, name) for name in ("lib64", "lib")]
    folders += map(str, wheel_libraries(packages))
    before = chosen.get("LD_LIBRARY_PATH")
    # Behind what the user chose.
    chosen["LD_LIBRARY_PATH"] = ":".join([before] * bool(before) + [one for one in folders if os.path.isdir(one)])
    chosen.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    chosen["HOME"] = chosen.get("HOME") or str(work)
    # Compiled kernels and measured choices stay with this run.
    chosen["XDG_CACHE_HOME"] = str(work / "cache")
    return chosen, {"headers": root, "because": said, "library_path": chosen["LD_LIBRARY_PATH"]}


def loads(library):
    """Whether a library can be loaded by its name."""
    try:
        ctypes.CDLL(library)
        return True
    except OSError:
        return False
