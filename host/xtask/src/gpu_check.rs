//! `cargo xtask gpu-check`: builds a bundle that checks a GPU on a machine without Rust and without a network.
//!
//! It contains the program with GPU support, the device tests as a program, one guest, and the scripts of `tests/gpu`, which run both
//! programs and PyTorch. It runs on machines with the same target as the building one.

use crate::{cargo, guests, root, run, say, target};
use anyhow::{Context as _, Result, bail};
use cargo_metadata::Message;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Largest size of the bundle in bytes, because upload limits may be low.
const MOST_BYTES: u64 = 55_000_000;
/// The name of the bundle and of its folder.
const NAME: &str = "clawhost-gpu-check";
/// The program, and the test target that is built as a program.
const PROGRAM: &str = "clawhost-gpu";
const TESTS: &str = "devices";

/// A file of the bundle.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Its path in the bundle.
    to: String,
    /// Its source path.
    from: PathBuf,
    is_program: bool,
}

/// All files of the bundle. `built`: the programs by target name.
fn contents(root: &Path, guests: &Path, built: &BTreeMap<String, PathBuf>) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut add = |to: &str, from: PathBuf, is_program| entries.push(Entry { to: to.to_owned(), from, is_program });
    for name in [PROGRAM, TESTS] {
        let from = built.get(name).with_context(|| format!("cargo built no program `{name}`"))?;
        add(name, from.clone(), true);
    }
    add("guests/env_guess.wasm", guests.join("env_guess.wasm"), false);
    let scripts = root.join("tests/gpu");
    add("check.sh", scripts.join("check.sh"), true);
    for name in ["check.py", "machine.py", "torch_figures.py", "README.txt"] {
        add(name, scripts.join(name), false);
    }
    add("bench.py", root.join("tests/torch/bench.py"), false);
    Ok(entries)
}

/// The built programs by target name, from cargo's messages.
fn programs(messages: impl std::io::BufRead) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for message in Message::parse_stream(messages) {
        if let Message::CompilerArtifact(artifact) = message.context("a message of cargo")?
            && let Some(program) = artifact.executable
        {
            found.insert(artifact.target.name, program.into_std_path_buf());
        }
    }
    Ok(found)
}

/// Builds both programs with one command, so that shared crates are built once.
fn build() -> Result<BTreeMap<String, PathBuf>> {
    let mut command = cargo();
    command.args(["build", "--profile", "dist", "--package", "clawhost-cli", "--package", "clawhost-burn"]);
    command.args(["--features", "clawhost-cli/gpu,clawhost-cli/cuda,clawhost-burn/gpu,clawhost-burn/cuda"]);
    command.args(["--bin", PROGRAM, "--test", TESTS, "--message-format", "json-render-diagnostics"]);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo cannot be started")?;
    let out = child.stdout.take().context("cargo has no output")?;
    let found = programs(BufReader::new(out));
    let status = child.wait()?;
    if !status.success() {
        bail!("cargo build failed ({status})");
    }
    found
}

/// Copies the files to their paths in the bundle.
fn stage(entries: &[Entry], folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    for entry in entries {
        let to = folder.join(&entry.to);
        if let Some(above) = to.parent() {
            std::fs::create_dir_all(above)?;
        }
        std::fs::copy(&entry.from, &to).with_context(|| entry.from.display().to_string())?;
        set_mode(&to, entry.is_program)?;
        let bytes = std::fs::metadata(&to)?.len();
        say(&format!("  {:<24} {:>8.2} MB", entry.to, megabytes(bytes)));
    }
    Ok(())
}

#[cfg(unix)]
fn set_mode(path: &Path, is_program: bool) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = if is_program { 0o755 } else { 0o644 };
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: bool) -> Result<()> {
    bail!("the bundle is for Linux: build it there")
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Checks that a bundle of this size is within the limit.
fn check_size(bytes: u64) -> Result<()> {
    if bytes > MOST_BYTES {
        bail!(
            "the bundle has {:.2} MB, but may have {:.0}; leave something out, or let the profile `dist` build smaller",
            megabytes(bytes),
            megabytes(MOST_BYTES)
        );
    }
    Ok(())
}

/// Runs a program that packs the bundle.
fn pack(program: &str, arguments: &[&str], folder: &Path) -> Result<()> {
    let missing = format!("{program} packs the bundle: install it from your system's packages");
    run(Command::new(program).args(arguments).current_dir(folder)).with_context(|| missing)
}

/// `cargo xtask gpu-check`
pub(crate) fn main(rest: &[String]) -> Result<()> {
    if let Some(first) = rest.first() {
        bail!("gpu-check takes no arguments, and found {first}");
    }
    let guests = guests::build(guests::Which::Plugins)?;
    say("building clawhost-gpu and the device tests with CUDA and Vulkan (the first time takes long)");
    let entries = contents(&root(), &guests, &build()?)?;
    let folder = target()?.join("gpu-check");
    say(&format!("{NAME}:"));
    stage(&entries, &folder.join(NAME))?;
    let (tar, packed) = (format!("{NAME}.tar"), folder.join(format!("{NAME}.tar.xz")));
    // Sorted names without owner and time: equal files give an equal bundle.
    let plain = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-cf"];
    pack("tar", &[&plain[..], &[&tar, NAME]].concat(), &folder)?;
    pack("xz", &["-9", "--force", &tar], &folder)?;
    let bytes = std::fs::metadata(&packed).with_context(|| packed.display().to_string())?.len();
    say(&format!("{} has {:.2} MB. On the machine with the GPU:", packed.display(), megabytes(bytes)));
    say(&format!("  tar -xJf {NAME}.tar.xz && cd {NAME} && ./check.sh all"));
    check_size(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_is_complete_and_every_script_exists() {
        let built = BTreeMap::from([PROGRAM, TESTS].map(|name| (name.to_owned(), PathBuf::from("/built").join(name))));
        let entries = contents(&root(), Path::new("/guests"), &built).unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry.to.as_str()).collect();
        let scripts = ["check.sh", "check.py", "machine.py", "torch_figures.py", "README.txt", "bench.py"];
        assert_eq!(names, [&[PROGRAM, TESTS, "guests/env_guess.wasm"][..], &scripts].concat());
        for entry in &entries {
            let is_built = entry.from.starts_with("/built") || entry.from.starts_with("/guests");
            assert!(is_built || entry.from.is_file(), "{entry:?}");
            assert_eq!(entry.is_program, [PROGRAM, TESTS, "check.sh"].contains(&entry.to.as_str()));
        }
        let error = contents(&root(), Path::new("/guests"), &BTreeMap::new()).unwrap_err();
        assert_eq!(error.to_string(), "cargo built no program `clawhost-gpu`");
    }

    #[test]
    fn a_bundle_that_is_too_large_is_refused() {
        assert!(check_size(MOST_BYTES).is_ok());
        let error = check_size(MOST_BYTES + 10_000).unwrap_err().to_string();
        assert!(error.starts_with("the bundle has 55.01 MB, but may have 55;"), "{error}");
    }

    #[test]
    fn programs_are_found_in_the_messages_of_cargo() {
        let artifact = |name: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"p","manifest_path":"/p/Cargo.toml","target":{{"kind":["bin"],"crate_types":["bin"],"name":"{name}","src_path":"/p/main.rs","edition":"2024","doc":true,"doctest":false,"test":true}},"profile":{{"opt_level":"3","debuginfo":0,"debug_assertions":false,"overflow_checks":false,"test":false}},"features":[],"filenames":[],"executable":{executable},"fresh":false}}"#
            )
        };
        let lines = [artifact("a", "null"), artifact(PROGRAM, "\"/t/clawhost-gpu\"")].join("\n");
        let found = programs(lines.as_bytes()).unwrap();
        assert_eq!(found, BTreeMap::from([(PROGRAM.to_owned(), PathBuf::from("/t/clawhost-gpu"))]));
    }

    #[test]
    fn files_are_staged_with_their_modes_and_old_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("one"), "1").unwrap();
        std::fs::create_dir_all(at("bundle")).unwrap();
        std::fs::write(at("bundle/leftover"), "").unwrap();
        let entry = |to: &str, is_program| Entry { to: to.to_owned(), from: at("one"), is_program };
        stage(&[entry("program", true), entry("deep/file", false)], &at("bundle")).unwrap();
        assert!(!at("bundle/leftover").exists() && at("bundle/deep/file").is_file());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |name: &str| std::fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode("bundle/program"), mode("bundle/deep/file")), (0o755, 0o644));
        }
    }

    /// Runs the tests of the scripts, if Python is installed.
    #[test]
    fn the_scripts_pass_their_tests() {
        let mut python = Command::new("python3");
        python.args(["-B", "-m", "unittest", "-q", "test_check"]).current_dir(root().join("tests/gpu"));
        match python.output() {
            Err(error) => println!("skipped the_scripts_pass_their_tests: no python3 is here ({error})"),
            Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        }
    }
}
