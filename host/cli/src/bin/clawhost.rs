//! The program: local models run on the processor, unless it was built with a GPU feature.

fn main() -> std::process::ExitCode {
    clawhost_cli::main("clawhost")
}
