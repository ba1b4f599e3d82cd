//! The compilers of interpreted languages: found on this machine, or got once.

use super::shared::Shared;
use super::{BuildOptions, run};
use crate::DevkitError;
use clawhost_package::Language;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A compiler that makes components.
pub(crate) struct Compiler {
    /// The language.
    pub(crate) language: Language,
    /// The program.
    pub(crate) program: &'static str,
    /// An environment variable that names another one.
    pub(crate) variable: &'static str,
    /// How people get it.
    pub(crate) get: &'static str,
    /// Where it lies in a folder in which it was got.
    pub(crate) inside: &'static str,
    /// The steps that get it into a folder, which is their last argument where the text says `FOLDER`.
    pub(crate) steps: &'static [&'static [&'static str]],
}

/// The compiler of Python. Its output changes between versions, so it is pinned.
pub(crate) const PYTHON: Compiler = Compiler {
    language: Language::Python,
    program: "componentize-py",
    variable: "COMPONENTIZE_PY",
    get: "pip install componentize-py==0.25.1",
    inside: "bin/componentize-py",
    steps: &[
        &["python3", "-m", "venv", "--clear", "FOLDER"],
        &["FOLDER/bin/pip", "install", "--quiet", "--disable-pip-version-check", "componentize-py==0.25.1"],
    ],
};

/// The compiler of JavaScript, pinned likewise.
pub(crate) const JAVASCRIPT: Compiler = Compiler {
    language: Language::Js,
    program: "componentize-qjs",
    variable: "COMPONENTIZE_QJS",
    get: "npm install -g componentize-qjs@0.4.5",
    inside: "node_modules/.bin/componentize-qjs",
    steps: &[&[
        "npm",
        "install",
        "--silent",
        "--no-fund",
        "--no-audit",
        "--prefix",
        "FOLDER",
        "componentize-qjs@0.4.5",
    ]],
};

impl Compiler {
    /// The program: the one that its variable names, the one on the path, or the one that an earlier build got.
    pub(crate) fn find(&self, shared: Option<&Path>) -> Option<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable) {
            return Some(from_here(PathBuf::from(named))).filter(|program| works(program));
        }
        let own = shared.map(|folder| from_here(self.place(folder).join(self.inside)));
        std::iter::once(PathBuf::from(self.program)).chain(own).find(|program| works(program))
    }

    /// The program, which is got first if it is not there.
    ///
    /// # Errors
    /// It is not there, and cannot be got.
    pub(super) fn get(&self, options: &BuildOptions) -> Result<PathBuf, DevkitError> {
        if let Some(found) = self.find(options.shared.as_deref()) {
            return Ok(found);
        }
        let missing = |why: String| DevkitError::NoTool { tool: self.program.to_owned(), language: self.language, why };
        let by_hand = format!("`{}` puts it on the path", self.get);
        let named = std::env::var_os(self.variable);
        if let Some(named) = named {
            return Err(missing(format!("{} names {}, which does not run", self.variable, named.display())));
        }
        let Some(shared) = options.shared.as_deref() else { return Err(missing(by_hand)) };
        // One build gets it, and others wait. The lock lies outside of what a step clears.
        let _lock = Shared::lock(shared.join(self.language.name()))?;
        if let Some(found) = self.find(Some(shared)) {
            return Ok(found);
        }
        for step in self.steps {
            let place = self.place(shared).display().to_string();
            let mut words = step.iter().map(|word| word.replace("FOLDER", &place));
            let mut command = Command::new(words.next().unwrap_or_default());
            let done = run(command.args(words), options);
            if !done.as_ref().is_ok_and(|status| status.success()) {
                let how = done.map_or_else(|error| error.to_string(), |status| status.to_string());
                return Err(missing(format!("{} failed ({how}); {by_hand}", step.first().unwrap_or(&""))));
            }
        }
        self.find(Some(shared)).ok_or_else(|| missing(by_hand))
    }

    /// Where a build puts it.
    fn place(&self, shared: &Path) -> PathBuf {
        shared.join(self.language.name()).join("compiler")
    }
}

/// The path of a program that is run in another folder. A bare name is looked for on the path of programs.
fn from_here(program: PathBuf) -> PathBuf {
    match program.components().count() {
        1 => program,
        _ => std::path::absolute(&program).unwrap_or(program),
    }
}

/// Whether a program can be run. Not every one knows `--version`.
fn works(program: &Path) -> bool {
    let mut command = Command::new(program);
    command.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_cannot_be_got_says_how_people_get_it() {
        let absent = Compiler {
            program: "no-such-compiler-4711",
            variable: "NO_SUCH_COMPILER_4711",
            steps: &[&["no-such-program-4711", "FOLDER"]],
            ..PYTHON
        };
        let place = tempfile::tempdir().unwrap();
        let options = BuildOptions { shared: Some(place.path().to_owned()), is_quiet: true, draft: None };
        let error = absent.get(&options).unwrap_err().to_string();
        assert!(error.contains("no-such-program-4711 failed") && error.contains(absent.get), "{error}");
        let error = absent.get(&BuildOptions::default()).unwrap_err().to_string();
        assert!(error.contains(absent.get), "{error}");
    }

    #[test]
    fn a_program_named_by_a_path_is_found_from_any_folder() {
        assert_eq!(from_here("componentize-py".into()), PathBuf::from("componentize-py"));
        assert!(from_here("tools/componentize-py".into()).is_absolute());
        assert!(from_here("./componentize-py".into()).is_absolute());
    }
}
