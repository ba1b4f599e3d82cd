//! Components are compiled in a separate process with limits. Failures are named.

use super::*;
use clawhost_child::ChildProgram;
use clawhost_engine::{Allocation, Compiler, EngineError, Host, HostConfig, ModelGrants};
use std::time::Duration;

fn host(memory_bytes: u64, seconds: u64, program: &str) -> Host {
    let program = ChildProgram { program: program.into(), arguments: vec!["compile-component".into()] };
    let compiler = Compiler::Process { program, memory_bytes, seconds };
    Host::new(HostConfig { allocation: Allocation::OnDemand, compiler, ..HostConfig::default() }).unwrap()
}

/// A component that claims to be an environment, around a core module.
fn around(module: &str) -> Vec<u8> {
    let text = format!(
        r#"(component (core module {module})
        (instance $i) (export "clawhost:environment/environment@0.1.0" (instance $i)))"#
    );
    wat::parse_str(text).unwrap()
}

/// Small enough for the walk, and expensive for a compiler: so many values are alive at once that register allocation
/// takes long. 300 functions take some 12 s of processor time, and no current machine does that in three.
fn bomb(functions: usize) -> Vec<u8> {
    let value = |number: usize| format!("local.get {}", number % 60);
    let step = |number: usize| {
        let [one, other, third, fourth] = [1, 7, 11, 13].map(|factor| value(number * factor));
        let (inside, behind) = (number * 5 % 60, number * 3 % 60);
        format!(
            "{one} {other} i32.div_u {third} if {fourth} i32.load offset={number} local.set {inside} end local.set {behind} "
        )
    };
    let body: String = (0..400).map(step).collect();
    let function = format!("(func (param {}) {body})", "i32 ".repeat(60));
    around(&format!("(memory 1) {}", function.repeat(functions)))
}

async fn refused(host: &Host, bytes: &[u8]) -> EngineError {
    host.environment("plugin", bytes, ModelGrants::default()).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_beyond_its_limits_is_stopped_and_the_host_continues() {
    let Some(bench) = Bench::new("a_compiler_that_takes_too_much") else { return };
    let own = env!("CARGO_BIN_EXE_clawhost");
    let good = std::fs::read(bench.guest("env_guess")).unwrap();
    let bomb = bomb(300);
    for (host, says) in [
        (host(3 << 30, 3, own), "it took more than 3 s of processor time"),
        (host(40 << 20, 100, own), "it took more than 40 MiB of memory"),
        (host(3 << 30, 100, "/bin/false"), "the compiler died (exit status: 1)"),
    ] {
        let error = refused(&host, &bomb).await;
        assert!(matches!(error, EngineError::CompileLimit { .. }), "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(error.to_string().starts_with("plugin: compiling it was given up"), "{error}");
    }
    let host = host(3 << 30, 100, own);
    let plugin = host.environment("env_guess", &good, ModelGrants::default()).await;
    assert!(plugin.is_ok(), "the next plugin compiles");
}

#[tokio::test(flavor = "multi_thread")]
async fn compile_errors_contain_the_message_of_the_compiler() {
    let Some(_) = Bench::new("what_cannot_be_compiled") else { return };
    let host = host(3 << 30, 100, env!("CARGO_BIN_EXE_clawhost"));
    let error = refused(&host, &around("(func i32.add drop)")).await;
    assert!(matches!(error, EngineError::Compile { .. }), "{error}");
    assert!(error.to_string().contains("type mismatch"), "{error}");
    let missing = refused(&self::host(1 << 30, 10, "/nowhere/clawhost"), &around("")).await;
    assert!(missing.to_string().starts_with("components cannot be compiled here: no compiling process"), "{missing}");
    // The compiler never sees a component that the walk refuses.
    let walked = refused(&self::host(1 << 30, 10, "/nowhere/clawhost"), &around(&"(func)".repeat(100_001))).await;
    assert!(matches!(walked, EngineError::TooMuch { .. }), "{walked}");
    assert!(walked.to_string().contains("100001 functions, but a component may have 100000"), "{walked}");
}

/// A program that replaces the compiler.
fn stand_in(folder: &Path, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("compiler");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn output_and_signals_of_a_compiler_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = around("");
    // A megabyte of output before it has read anything.
    let chatty = "head -c 1000000 /dev/zero | tr '\\0' x >&2; cat > /dev/null; exit 3";
    let error = refused(&host(1 << 30, 30, &stand_in(folder.path(), chatty)), &bytes).await;
    assert!(matches!(error, EngineError::Compile { .. }) && error.to_string().len() < 5000, "{error}");
    let killed = refused(&host(1 << 30, 30, &stand_in(folder.path(), "kill -9 $$")), &bytes).await;
    assert!(killed.to_string().contains("the compiler was killed, perhaps for want of memory"), "{killed}");
    let idle = refused(&host(1 << 30, 1, &stand_in(folder.path(), "exec sleep 60")), &bytes).await;
    assert!(idle.to_string().contains("it took more than 3 s by the clock"), "{idle}");
    // Very long names neither block nor flood the terminal.
    let (low, high) = ("a".repeat(99_000), "A".repeat(99_000));
    let clash = format!(
        r#"(component (instance $i) (export "clawhost:environment/environment@0.1.0" (instance $i))
        (export "{low}" (instance $i)) (export "{high}" (instance $i)))"#
    );
    let own = host(3 << 30, 100, env!("CARGO_BIN_EXE_clawhost"));
    let error = refused(&own, &wat::parse_str(clash).unwrap()).await;
    assert!(error.to_string().len() < 5000, "{} bytes of words", error.to_string().len());
}

#[tokio::test]
async fn the_host_serves_during_a_compilation() {
    let Some(bench) = Bench::new("while_a_component_compiles") else { return };
    let host = host(3 << 30, 100, env!("CARGO_BIN_EXE_clawhost"));
    let good = std::fs::read(bench.guest("env_guess")).unwrap();
    let plugin = host.environment("env_guess", &good, ModelGrants::default()).await.unwrap();
    let (busy, bomb) = (host.clone(), bomb(50));
    // One thread: if the compilation blocked it, nothing else would run meanwhile.
    let compiling = tokio::spawn(async move { refused(&busy, &bomb).await });
    let mut served = 0;
    while !compiling.is_finished() {
        let task = clawhost_core::Task::new("train", "train-0");
        let answers = clawhost_core::ModelCallSource::Live;
        let params = clawhost_core::StartParams { task, context: Default::default(), max_turns: 9, answers };
        clawhost_core::Environment::start(&plugin, params).await.map(|_| ()).unwrap();
        served += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(served > 10, "{served} episodes began meanwhile");
    assert!(
        compiling.await.unwrap().to_string().contains("does not fit its world"),
        "it compiled, and is no environment"
    );
}

#[test]
fn the_command_of_the_compiler_process_is_internal() {
    let Some(bench) = Bench::new("the_compiling_process_is_for") else { return };
    let output = bench.run(&["compile-component"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("this is for the host itself"), "{}", stderr(&output));
    assert!(!stdout(&bench.run(&["--help"])).contains("compile-component"));
}
