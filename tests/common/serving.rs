//! `clawhost serve` as a child process.

use crate::bench::Bench;
use crate::client::request;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Output, Stdio};

/// A gateway. Dropped, it is killed.
pub(crate) struct Served {
    pub(crate) address: String,
    child: Option<Child>,
    /// Held open: the program must not fail at its next line.
    _output: BufReader<ChildStdout>,
}

impl Served {
    /// Starts a gateway, and waits until it listens.
    pub(crate) fn start(bench: &Bench, upstreams: &[&str]) -> Self {
        let options: Vec<&str> = upstreams.iter().flat_map(|upstream| ["--upstream", upstream]).collect();
        Self::start_with(bench, &options)
    }

    /// The same with these options.
    pub(crate) fn start_with(bench: &Bench, options: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", "127.0.0.1:0", "--json"], options].concat();
        Self::of(bench.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// A gateway that was started with `--json` and piped outputs, when it listens.
    pub(crate) fn of(mut child: Child) -> Self {
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        // The document has several lines; the address is on one of its own.
        while !line.contains("\"address\"") {
            line.clear();
            if output.read_line(&mut line).unwrap() == 0 {
                let output = child.wait_with_output().unwrap();
                panic!("no gateway: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
        let address = line.split('"').find(|part| part.contains("127.0.0.1")).unwrap().to_owned();
        Self { address, child: Some(child), _output: output }
    }

    /// Its process.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// What a test sees at once, and again after each change of the models or of the weights that learn.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn changes<T>(&self, bench: &Bench, mut look: impl FnMut() -> T) -> impl Iterator<Item = T> {
        let key = std::fs::read_to_string(bench.data.path().join("admin.key")).unwrap();
        let mut events = request("GET", &self.address, "/v1/events", &[("x-api-key", key.trim())], b"");
        events.read_until(": clawhost events\n\n");
        let mut is_first = true;
        std::iter::from_fn(move || {
            let has_changed = std::mem::take(&mut is_first) || events.event("_changed");
            has_changed.then(&mut look)
        })
    }

    /// Ends it like a system that shuts down.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn terminate(mut self) -> Output {
        let child = self.child.take().unwrap();
        let kill = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        child.wait_with_output().unwrap()
    }

    /// Ends it with no warning.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
