//! `cargo xtask`: set-up, guest builds, demo, tests and tidy. They need only cargo and rustup.

mod adapter;
mod demo;
mod documents;
mod fuzz;
mod gpu_check;
mod guests;
mod interop;
mod languages;
mod messages;
mod reasoning_gym;
mod sdks;
mod spent;
mod supply;
mod tidy;
mod toolchain;
mod transformers;
mod wgsl;

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const HELP: &str = "cargo xtask COMMAND

  demo        build guests and program in release, then play and score the built-in environments
  test        build guests, then run every test, doc tests included; further arguments go to `cargo test`
  guests      build every guest into target/guests; equal lock file, toolchain and target give equal bytes in every folder
  languages   get the compilers for Python and JavaScript guests (into target/toolchains) and build the examples in
              other languages; `test` builds those whose compilers are there
  reasoning-gym
              pack datasets of the PyPI library reasoning-gym as components, and compare their questions and scores with the
              library's own: `reasoning-gym [GROUP ...]`, all groups without names; takes minutes for each
  sdks        get the SDKs of OpenAI, Anthropic and Tinker (into target/toolchains/sdks); `test` runs them against
              the gateway if they are there
  agents      get codex, Claude Code and OpenClaw (into target/toolchains/agents, 1.6 GB); `test` runs them against the gateway if
              they are there
  fuzz        try to break every reader of foreign bytes, 60 s each: `fuzz [TARGET ...] [--seconds N]`; needs a nightly
              compiler and cargo-fuzz
  interop     publish, pull, sign and verify modules through Debian's docker-registry, with the library of wkg and with sigstore on
              the other side; builds some minutes the first time
  adapter     learn one iteration of an adapter beside random weights in the shape of a model with 0.6 billion weights, 64 answers of
              128 tokens, and fail above a limit of memory: `adapter [--limit MIB] [--dtype NAME]`; takes minutes
  transformers
              hold local models against PyPI's transformers and peft, both ways: `transformers PYTHON`
  wgsl        run what a GPU would compute on a software driver of Vulkan (Mesa's lavapipe), and compare it with the
              processor; builds some minutes the first time
  gpu-check   make target/gpu-check/clawhost-gpu-check.tar.xz: it checks a GPU on a machine with an NVIDIA driver and PyTorch,
              without Rust and without a network; builds long the first time; needs tar and xz
  licences    check licences, sources, bans and advisories of everything that is built in, with cargo-deny
  sbom        list everything that is built in, in the format CycloneDX: target/clawhost.cdx.json
  release     build the program as it ships (profile `dist`), with that list beside it
  tidy        check floors, dependencies, sizes, names and documents

Guests need a WebAssembly standard library. The first that is there is used:
  1. the active toolchain's own wasm32-unknown-unknown
  2. `rustup target add wasm32-unknown-unknown` (run for you; it touches your toolchain only)
  3. a distribution's rustc with its rust-src, as in /usr/bin
CLAWHOST_GUEST_ROUTE=installed|rustup|distribution forces one of them.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let done = match arguments.first().map(String::as_str) {
        Some("adapter") => adapter::main(rest),
        Some("demo") => demo::main(),
        Some("test") => test(rest),
        Some("guests") => guests::build(guests::Which::All).map(|_| ()),
        Some("languages") => languages::main(),
        Some("reasoning-gym") => reasoning_gym::main(rest),
        Some("sdks") => sdks::main(),
        Some("agents") => sdks::agents(),
        Some("fuzz") => fuzz::main(rest),
        Some("interop") => interop::main(),
        Some("transformers") => transformers::main(rest),
        Some("wgsl") => wgsl::main(rest),
        Some("gpu-check") => gpu_check::main(rest),
        Some("licences") => supply::licences(),
        Some("sbom") => supply::sbom().map(|_| ()),
        Some("release") => supply::release(),
        Some("tidy") => tidy::main(),
        None | Some("help" | "--help" | "-h") => {
            say(HELP);
            Ok(())
        }
        Some(other) => Err(anyhow::anyhow!("no command `{other}`\n\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line for the user.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    // If standard error is closed, the text is dropped.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map(PathBuf::from).unwrap_or(here)
}

/// The target folder, as the user configured it.
pub(crate) fn target() -> Result<PathBuf> {
    let metadata =
        cargo_metadata::MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata")?;
    Ok(metadata.target_directory.into_std_path_buf())
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command. The error names the command that failed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("{shown} cannot be started"))?;
    if !status.success() {
        bail!("{shown} failed ({status})");
    }
    Ok(())
}

fn test(rest: &[String]) -> Result<()> {
    let folder = guests::build(guests::Which::All)?;
    languages::build(&folder)?;
    // One build for all: failpoints change nothing until a commit is chosen. The guests are built, so no test may be skipped
    // because one is missing.
    let mut cargo = cargo();
    cargo.arg("test");
    if !rest.iter().any(|one| one.starts_with("-p") || one.starts_with("--package")) {
        cargo.args(["--workspace", "--features", "clawhost-cli/failpoints"]);
    }
    cargo.args(rest);
    run(cargo.env("CLAWHOST_GUESTS", &folder).env("CLAWHOST_REQUIRE_GUESTS", "1"))
}
