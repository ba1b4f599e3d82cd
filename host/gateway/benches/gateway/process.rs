//! Processes of a measurement, each on its cores, with their processor time and memory.

use crate::load::{Heard, Plan};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

/// Ticks of the processor's clock per second in /proc.
const TICKS: f64 = 100.0;

/// A server.
pub(crate) struct Server {
    pub(crate) address: String,
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

/// A command on one core, if there are two.
fn on(core: usize, program: &str) -> Command {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), program]);
        return command;
    }
    Command::new(program)
}

/// The core of gateways, and that of the model and the load.
pub(crate) const GATEWAY: usize = 0;
pub(crate) const OTHERS: usize = 1;

impl Server {
    /// Starts a server that prints its address on its first line.
    pub(crate) fn start(core: usize, program: &str, arguments: &[&str]) -> Self {
        let mut command = on(core, program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("127.0.0.1:") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "{program} did not start");
        }
        let from = line.find("127.0.0.1:").unwrap();
        let address = line[from..].chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
        Self { address, child, output }
    }

    /// Starts a server that listens at a given port, and waits until it does.
    pub(crate) fn start_at(core: usize, port: u16, program: &str, arguments: &[&str]) -> Option<Self> {
        let mut command = on(core, program);
        let mut child =
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let output = BufReader::new(child.stdout.take().unwrap());
        let address = format!("127.0.0.1:{port}");
        for _ in 0..600 {
            if std::net::TcpStream::connect(&address).is_ok() {
                std::thread::sleep(std::time::Duration::from_secs(2));
                return Some(Self { address, child, output });
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = child.kill();
        None
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
    }

    /// Seconds of processor time so far.
    pub(crate) fn seconds(&self) -> f64 {
        let stat = self.file("stat");
        let after = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<f64> = after.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
        (fields[11] + fields[12]) / TICKS
    }

    /// Seconds of processor time by the name of the thread.
    pub(crate) fn by_thread(&self) -> Vec<(String, f64)> {
        let mut all = std::collections::BTreeMap::<String, f64>::new();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        for task in tasks.flatten() {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let Some((head, after)) = stat.rsplit_once(')') else { continue };
            let name = head.split_once('(').map(|(_, name)| name.to_owned()).unwrap_or_default();
            let fields: Vec<f64> = after.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
            *all.entry(name).or_default() += (fields[11] + fields[12]) / TICKS;
        }
        all.into_iter().collect()
    }

    /// Resident memory in MiB.
    pub(crate) fn memory(&self) -> f64 {
        let status = self.file("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
        line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap_or(0.0) / 1024.0
    }

    /// Ends it in order, and returns the rest of what it printed.
    pub(crate) fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        let _ = self.output.read_to_string(&mut rest);
        rest
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a load from a process of its own.
pub(crate) fn load(plan: &Plan) -> Heard {
    let program = std::env::current_exe().unwrap().display().to_string();
    let output = on(OTHERS, &program).args(["load", &serde_json::to_string(plan).unwrap()]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}
