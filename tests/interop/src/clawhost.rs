//! The program, with a data folder and a working folder of its own.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub struct Clawhost {
    program: PathBuf,
    component: PathBuf,
    place: tempfile::TempDir,
}

impl Clawhost {
    pub fn new(program: PathBuf, component: &Path) -> Result<Self> {
        Ok(Self {
            program: std::path::absolute(program)?,
            component: std::path::absolute(component)?,
            place: tempfile::tempdir()?,
        })
    }

    fn output(&self, words: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .current_dir(self.place.path())
            .env("CLAWHOST_HOME", self.data())
            .env_remove("CLAWHOST_REGISTRY");
        // No credentials of this machine.
        command.env("DOCKER_CONFIG", self.place.path().join("docker")).stdin(Stdio::null());
        command.output().with_context(|| self.program.display().to_string())
    }

    /// The JSON of a command that succeeds.
    pub fn run(&self, words: &[&str]) -> Result<Value> {
        let output = self.output(&[words, &["--json"]].concat())?;
        if !output.status.success() {
            bail!("{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The message of a command that fails.
    pub fn refused(&self, words: &[&str]) -> Result<String> {
        let output = self.output(words)?;
        ensure!(!output.status.success(), "{words:?} succeeds");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// The folder of a reward of this name, around the component.
    pub fn plugin(&self, name: &str, version: &str) -> Result<String> {
        let folder = self.place.path().join(name);
        std::fs::create_dir_all(&folder)?;
        std::fs::copy(&self.component, folder.join("made.wasm"))?;
        let manifest = format!(
            "[plugin]\nname = \"{name}\"\nversion = \"{version}\"\nkind = \"reward\"\ntrack = \"0.1\"\nlicense = \"MIT\"\n\
             summary = \"a reward to share\"\n[build]\ncomponent = \"made.wasm\"\n"
        );
        std::fs::write(folder.join("claw.toml"), manifest)?;
        self.run(&["build", name])?;
        Ok(name.to_owned())
    }

    /// The component of a plugin's folder, as it is published.
    pub fn built(&self, folder: &str) -> Result<Vec<u8>> {
        let file = self.place.path().join(folder).join("build").join(format!("{folder}.wasm"));
        std::fs::read(&file).with_context(|| file.display().to_string())
    }

    pub fn public_file(&self, key: &str) -> String {
        self.data().join(format!("keys/{key}.pub")).display().to_string()
    }

    pub fn public_key(&self, key: &str) -> Result<Vec<u8>> {
        Ok(std::fs::read(self.public_file(key))?)
    }

    pub fn private_key(&self, key: &str) -> Result<Vec<u8>> {
        Ok(std::fs::read(self.data().join(format!("keys/{key}.pem")))?)
    }
}
