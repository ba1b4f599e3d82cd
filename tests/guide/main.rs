//! Executes the author's guide and the cookbook: every file is written, every command is run, every output is compared.
//!
//! A block of these pages with `file=PATH` in its first line is that file; a block of `console` has commands after
//! `$ ` and their output. In the output `...` matches any text, alone on a line any lines, and `[N]` alone is the exit
//! code (otherwise 0).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

#[path = "../common/guests.rs"]
#[allow(dead_code, reason = "only the skip is used here")]
mod guests;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One fenced block.
struct Block {
    kind: String,
    file: Option<String>,
    text: String,
    line: usize,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                let mut words = info.split_whitespace();
                let kind = words.next().unwrap_or_default().to_owned();
                let file = words.find_map(|word| word.strip_prefix("file=")).map(str::to_owned);
                open = Some(Block { kind, file, text: String::new(), line: number + 1 });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Whether a line matches a pattern in which `...` matches any text.
fn line_fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("...");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (position, part) in parts.iter().enumerate() {
        if position + 1 == parts.len() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

/// Whether lines match patterns; `...` alone matches any lines.
fn fits(patterns: &[&str], lines: &[&str]) -> bool {
    match patterns {
        [] => lines.is_empty(),
        ["...", rest @ ..] => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        [pattern, rest @ ..] => {
            lines.split_first().is_some_and(|(line, after)| line_fits(pattern, line) && fits(rest, after))
        }
    }
}

/// A command with its expected output.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, expected))) => expected.push(line.to_owned()),
            (None, None) => panic!("output before any command: {line}"),
        }
    }
    commands
}

struct Place {
    folder: tempfile::TempDir,
    path: String,
    page: &'static str,
}

impl Place {
    fn run(&self, line: usize, command: &str, expected: &[String]) {
        let page = self.page;
        let output = Command::new("bash")
            .args(["-o", "pipefail", "-c"])
            // The two streams in the order of a terminal.
            .arg(format!("exec 2>&1; {command}"))
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("CLAWHOST_HOME", self.folder.path().join("data"))
            // The packages that the workspace has fetched are sufficient.
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TERM_COLOR", "never")
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUSTFLAGS")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let mut code = 0;
        if let Some(last) = expected.last().and_then(|last| last.strip_prefix('[')?.strip_suffix(']')?.parse().ok()) {
            code = last;
            expected.pop();
        }
        assert_eq!(output.status.code(), Some(code), "{page}:{line}: $ {command}\n{printed}");
        assert!(
            fits(&expected, &lines),
            "{page}:{line}: $ {command}\nshould print\n{}\nbut prints\n{printed}",
            expected.join("\n")
        );
    }
}

/// Whether this toolchain can build the guide's target.
fn can_build() -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    Path::new(&sysroot).join("lib/rustlib/wasm32-unknown-unknown/lib").exists()
}

#[test]
fn the_commands_of_the_guide_give_the_documented_output() {
    carry_out("sdk/GUIDE.md", "the_commands_of_the_guide_give_the_documented_output");
}

#[test]
fn the_recipes_of_the_cookbook_give_the_documented_output() {
    carry_out("sdk/COOKBOOK.md", "the_recipes_of_the_cookbook_give_the_documented_output");
}

/// Carries out a page, in an empty folder.
fn carry_out(page: &'static str, test: &str) {
    if !can_build() || Command::new("bash").arg("--version").output().is_err() {
        eprintln!("skipped {test}: it needs bash, and `rustup target add wasm32-unknown-unknown`");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let blocks = blocks(&text);
    assert!(blocks.iter().filter(|block| block.file.is_some()).count() >= 5, "{page} has lost its files");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_clawhost"));
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&root, folder.path().join("clawhost")).unwrap();
    // Libraries that the plugins of both pages need are compiled once.
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-builds");
    std::fs::create_dir_all(&shared).unwrap();
    std::fs::create_dir_all(folder.path().join("data")).unwrap();
    std::os::unix::fs::symlink(shared, folder.path().join("data/build")).unwrap();
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let place = Place { page, folder, path };
    for block in &blocks {
        match (&block.file, block.kind.as_str()) {
            (Some(file), _) => {
                let file = place.folder.path().join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(&file, &block.text).unwrap();
                if file.ends_with("Cargo.toml") {
                    // The versions of the workspace.
                    std::fs::copy(root.join("Cargo.lock"), file.with_file_name("Cargo.lock")).unwrap();
                }
            }
            (None, "console") => {
                for (command, expected) in commands(&block.text) {
                    place.run(block.line, &command, &expected);
                }
            }
            (None, kind) => panic!("{page}:{}: a `{kind}` block that nothing runs", block.line),
        }
    }
}

#[test]
fn dots_match_anything() {
    for (pattern, line, fit) in [
        ("a ... c", "a b c", true),
        ("a ... c", "a b d", false),
        ("...", "anything", true),
        ("exact", "exact", true),
        ("exact", "exactly", false),
        ("a...b...c", "a1b2c", true),
        ("reward 1.0...", "reward 1.000 (5)", true),
    ] {
        assert_eq!(line_fits(pattern, line), fit, "{pattern} | {line}");
    }
    assert!(fits(&["a", "...", "c"], &["a", "b", "b", "c"]));
    assert!(!fits(&["a", "...", "c"], &["a", "b"]));
    assert!(!fits(&[], &["more"]));
}
