//! The program with GPU support: built with the feature `gpu`, `cuda` or both.

fn main() -> std::process::ExitCode {
    clawhost_cli::main("clawhost-gpu")
}
