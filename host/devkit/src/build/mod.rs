//! Builds plugins: from the folder of an author to a component. A build runs code of the plugin's folder on this machine, as compilers do:
//! its build scripts, its macros, its own command. Only what was built runs in the sandbox.

pub(crate) mod c;
pub(crate) mod compiler;
mod embedded;
mod interpreted;
mod rust;
mod shared;

use crate::DevkitError;
use clawhost_app::PluginFolder;
use clawhost_core::{Digest, escaped};
use clawhost_package::Language;
use serde::Serialize;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Largest component that is taken from a build, in bytes: as the host takes.
const COMPONENT_BYTES: u64 = 32 << 20;
/// The last lines of a quiet build that failed.
const LINES_KEPT: usize = 40;
/// Longest line of a tool that is looked at, in bytes. The rest of a longer one is passed over.
const LINE_BYTES: u64 = 1 << 20;
/// Bytes of a line that an error shows.
const SHOWN: usize = 400;

/// How plugins are built.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// A folder for what several plugins share: compiled libraries. `None`: each plugin builds its own.
    pub shared: Option<PathBuf>,
    /// Whether what compilers say is passed on only if they fail.
    pub is_quiet: bool,
    /// Where the component is put, instead of the folder `build` of the plugin. Plugins beside it are put where they belong.
    pub draft: Option<PathBuf>,
}

/// A built component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Built {
    /// Its plugin's name.
    pub name: String,
    /// The file.
    pub component: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its digest.
    pub digest: Digest,
    /// Time in milliseconds.
    pub took_ms: u64,
    /// Whether it was built before, and nothing has changed since.
    pub unchanged: bool,
}

/// Builds a plugin, and those beside it that its manifest names. Returns what was built, the plugin itself last.
///
/// # Errors
/// A tool is missing, a build fails, or there is nothing to build and no component.
pub fn build(plugin: &PluginFolder, options: &BuildOptions) -> Result<Vec<Built>, DevkitError> {
    let mut built = Vec::new();
    let beside = BuildOptions { draft: None, ..options.clone() };
    for folder in plugin.beside() {
        built.push(build_one(&PluginFolder::open(&folder)?, &beside)?);
    }
    built.push(build_one(plugin, options)?);
    Ok(built)
}

fn build_one(plugin: &PluginFolder, options: &BuildOptions) -> Result<Built, DevkitError> {
    let began = Instant::now();
    let build = &plugin.manifest().build;
    if is_current(plugin, options) {
        let component = plugin.component();
        let unusable = |error: std::io::Error| failed(plugin, format!("{}: {error}", component.display()), Vec::new());
        let bytes = clawhost_files::read(&component, COMPONENT_BYTES).map_err(unusable)?;
        return Ok(built(plugin, component, &bytes, (began, true)));
    }
    let made = match (build.command.split_first(), build.language, &build.component) {
        (Some((program, arguments)), _, Some(component)) => {
            own_command(plugin, program, arguments, options)?;
            plugin.inside(component)?
        }
        (_, Some(Language::Rust), _) => rust::build(plugin, options)?,
        (_, Some(Language::Python), _) => interpreted::python(plugin, options)?,
        (_, Some(Language::Js), _) => interpreted::javascript(plugin, options)?,
        (_, Some(Language::C), _) => c::build(plugin, options)?,
        // A component that is made elsewhere.
        (_, None, Some(component)) => plugin.inside(component)?,
        // A manifest names one of these.
        (_, None, None) => plugin.built()?,
    };
    let component = options.draft.clone().unwrap_or_else(|| plugin.component());
    let unusable = |why: String| failed(plugin, format!("{}: {why}", made.display()), Vec::new());
    let bytes = clawhost_files::read(&made, COMPONENT_BYTES).map_err(|error| unusable(error.to_string()))?;
    let bytes = clawhost_engine::with_manifest(&bytes, plugin.text()).map_err(unusable)?;
    crate::write::replace(&component, &bytes)?;
    Ok(built(plugin, component, &bytes, (began, false)))
}

fn built(plugin: &PluginFolder, component: PathBuf, bytes: &[u8], (began, unchanged): (Instant, bool)) -> Built {
    Built {
        name: plugin.manifest().plugin.name.to_string(),
        digest: Digest::of(bytes),
        bytes: bytes.len() as u64,
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        component,
        unchanged,
    }
}

/// Whether the component of a plugin with an interpreter is newer than its sources, and than this program, which has the SDK. Building it takes half a
/// minute, and gives other bytes each time. Compilers of other languages know themselves what has changed.
fn is_current(plugin: &PluginFolder, options: &BuildOptions) -> bool {
    let is_interpreted = matches!(plugin.manifest().build.language, Some(Language::Python | Language::Js));
    if !is_interpreted || !plugin.manifest().build.command.is_empty() || options.draft.is_some() {
        return false;
    }
    let modified = |path: &Path| std::fs::metadata(path).and_then(|facts| facts.modified()).ok();
    let program = std::env::current_exe().ok().and_then(|program| modified(&program));
    let newest = own_newest(plugin, Folders::Counted).max(program);
    modified(&plugin.component()).zip(newest).is_some_and(|(component, newest)| component > newest)
}

/// Runs the build command of a manifest in its folder.
fn own_command(
    plugin: &PluginFolder,
    program: &str,
    arguments: &[String],
    options: &BuildOptions,
) -> Result<(), DevkitError> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(plugin.folder());
    let mut running = Running::start(&mut command, options)
        .map_err(|error| failed(plugin, format!("{program}: {error}"), Vec::new()))?;
    while running.line().is_some() {}
    running.finish(plugin)
}

/// A tool that runs. Its output is read line by line; its messages are passed on, or kept for the case that it fails.
struct Running {
    child: Child,
    output: Option<BufReader<Box<dyn Read + Send>>>,
    messages: Option<std::thread::JoinHandle<Vec<String>>>,
}

impl Running {
    /// Starts a tool whose standard output is read. What it says on the other stream is passed on, unless builds are quiet.
    fn start(command: &mut Command, options: &BuildOptions) -> std::io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(if options.is_quiet { Stdio::piped() } else { Stdio::inherit() });
        let mut child = command.spawn()?;
        let output = child.stdout.take().map(|output| BufReader::new(Box::new(output) as Box<dyn Read + Send>));
        let messages = child.stderr.take().map(|messages| {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(messages);
                let mut kept = std::collections::VecDeque::new();
                while let Some(line) = bounded_line(&mut reader) {
                    kept.push_back(line);
                    if kept.len() > LINES_KEPT {
                        kept.pop_front();
                    }
                }
                kept.into()
            })
        });
        Ok(Self { child, output, messages })
    }

    /// The next line of its output.
    fn line(&mut self) -> Option<String> {
        bounded_line(self.output.as_mut()?)
    }

    /// Waits for its end.
    fn finish(mut self, plugin: &PluginFolder) -> Result<(), DevkitError> {
        let status = self.child.wait();
        let messages = self.messages.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(plugin, status.to_string(), messages)),
            Err(error) => Err(failed(plugin, error.to_string(), messages)),
        }
    }
}

/// The next line, of which [`LINE_BYTES`] at most are kept. `None`: there is no more.
fn bounded_line(reader: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut bytes).ok().filter(|read| *read > 0)?;
    if bytes.last() != Some(&b'\n') {
        // The rest of the line, piece by piece.
        let mut rest = Vec::new();
        while reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut rest).is_ok_and(|read| read > 0) {
            if rest.last() == Some(&b'\n') {
                break;
            }
            rest.clear();
        }
    }
    Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// Runs a tool whose output is a message for people.
fn run(command: &mut Command, options: &BuildOptions) -> std::io::Result<ExitStatus> {
    command.stdin(Stdio::null());
    let said = |quiet: bool| if quiet { Stdio::null() } else { std::io::stderr().into() };
    command.stdout(said(options.is_quiet)).stderr(said(options.is_quiet)).status()
}

fn failed(plugin: &PluginFolder, how: String, messages: Vec<String>) -> DevkitError {
    let messages = messages.iter().map(|line| format!("\n  {}", escaped(line, SHOWN))).collect();
    DevkitError::Build { folder: plugin.folder().display().to_string(), how, messages }
}

/// The time of the newest source of a plugin, and of those beside it. `None`: there is none.
pub fn newest_source(plugin: &PluginFolder) -> Option<SystemTime> {
    let beside = plugin.beside().into_iter();
    let beside = beside.filter_map(|folder| own_newest(&PluginFolder::open(&folder).ok()?, Folders::PassedOver));
    own_newest(plugin, Folders::PassedOver).into_iter().chain(beside).max()
}

/// Whether the time of a folder counts: it changes when a file is removed, and when anything is written into it.
#[derive(Clone, Copy, PartialEq)]
enum Folders {
    PassedOver,
    Counted,
}

fn own_newest(plugin: &PluginFolder, folders: Folders) -> Option<SystemTime> {
    let watched = plugin.manifest().watched();
    watched.into_iter().filter_map(|path| newest(&plugin.path(&path), folders)).max()
}

/// The time of the newest file in a folder, or of a file. Links are not followed, and what builds write is passed over.
fn newest(path: &Path, folders: Folders) -> Option<SystemTime> {
    let facts = std::fs::symlink_metadata(path).ok()?;
    if !facts.is_dir() {
        return facts.modified().ok();
    }
    if path.file_name().is_some_and(|name| OUTPUTS.iter().any(|output| name == *output)) {
        return None;
    }
    let entries = std::fs::read_dir(path).ok()?.flatten();
    let own = (folders == Folders::Counted).then(|| facts.modified().ok()).flatten();
    entries.filter_map(|entry| newest(&entry.path(), folders)).chain(own).max()
}

/// Folders that builds write.
pub(crate) const OUTPUTS: [&str; 2] = ["build", "target"];

/// How much newer the sources of a plugin are than its component. `None`: they are not newer, or nothing is built.
pub fn is_outdated(plugin: &PluginFolder) -> Option<Duration> {
    let built = std::fs::metadata(plugin.component()).and_then(|facts| facts.modified()).ok()?;
    newest_source(plugin)?.duration_since(built).ok().filter(|newer| !newer.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_and_the_next_one_is_read() {
        let long = "x".repeat(LINE_BYTES as usize + 10);
        let mut text = std::io::Cursor::new(format!("{long}\nnext\nlast"));
        assert_eq!(bounded_line(&mut text).map(|line| line.len() as u64), Some(LINE_BYTES));
        assert_eq!(bounded_line(&mut text).as_deref(), Some("next"));
        assert_eq!(bounded_line(&mut text).as_deref(), Some("last"));
        assert_eq!(bounded_line(&mut text), None);
    }
}
