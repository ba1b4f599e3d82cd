//! A command as a process of its own: its task on standard input, its base URL in the environment, limits on its time.

use super::{CollectTask, reward_of};
use clawhost_core::Secret;
use clawhost_gateway::PLACEHOLDER_KEY;
use clawhost_play::Cancel;
use std::collections::VecDeque;
use std::io::{Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a running command is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of the end of a command's output that are kept.
const OUTPUT_BYTES: usize = 64 << 10;
/// Bytes of the end of its messages that a failure quotes.
const QUOTED_BYTES: usize = 300;

/// A command that is run for every task.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// The key for the gateway, where it needs one.
    pub(super) key: Option<Secret>,
    pub(super) timeout: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ended {
    Done { reward: Option<f64> },
    Failed(String),
    Interrupted,
}

/// A running command. Dropped, it is killed with everything that it has started.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        kill(&mut self.0);
        let _ = self.0.wait();
    }
}

#[cfg(unix)]
fn kill(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // The group of a child that has ended is gone, or holds what it left.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill(child: &mut Child) {
    let _ = child.kill();
}

/// Reads an output to its end and keeps the last of it.
fn kept(mut output: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut last, mut buffer) = (VecDeque::new(), [0; 8192]);
        while let Ok(count) = output.read(&mut buffer) {
            if count == 0 {
                break;
            }
            last.extend(buffer.get(..count).unwrap_or_default());
            let excess = last.len().saturating_sub(OUTPUT_BYTES);
            last.drain(..excess);
        }
        String::from_utf8_lossy(last.make_contiguous()).into_owned()
    })
}

impl Program {
    /// Runs it to its end.
    pub(super) fn run(&self, base: &str, task: &CollectTask, member: u64, cancel: &Cancel) -> Ended {
        let Some((program, arguments)) = self.command.split_first() else {
            return Ended::Failed("there is no command".to_owned());
        };
        let key = self.key.as_ref().map_or(PLACEHOLDER_KEY, Secret::expose);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("OPENAI_BASE_URL", format!("{base}/v1"))
            .env("OPENAI_API_BASE", format!("{base}/v1"))
            .env("ANTHROPIC_BASE_URL", base)
            .env("OPENAI_API_KEY", key)
            .env("ANTHROPIC_API_KEY", key)
            .env("CLAWHOST_TASK_ID", &task.id)
            .env("CLAWHOST_MEMBER", member.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C in the terminal is for this program, which ends the command.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ended::Failed(format!("`{program}` cannot be started: {error}")),
        };
        let mut running = Running(child);
        if let Some(mut input) = running.0.stdin.take() {
            let text = format!("{}\n", task.text);
            // A command that does not read its task has closed its input.
            std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
        }
        let output = running.0.stdout.take().map(kept);
        let messages = running.0.stderr.take().map(kept);
        let give_up = Instant::now() + self.timeout;
        let status = loop {
            match running.0.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if cancel.is_requested() => return Ended::Interrupted,
                Ok(None) if Instant::now() > give_up => {
                    return Ended::Failed(format!("it took longer than {} s", self.timeout.as_secs()));
                }
                Ok(None) => std::thread::sleep(LOOK),
                Err(error) => return Ended::Failed(error.to_string()),
            }
        };
        // What it has started and left would hold its output open.
        kill(&mut running.0);
        let read = |thread: Option<JoinHandle<String>>| thread.and_then(|one| one.join().ok()).unwrap_or_default();
        let (output, messages) = (read(output), read(messages));
        if status.success() {
            return Ended::Done { reward: reward_of(&output) };
        }
        let from = messages.trim_end().len().saturating_sub(QUOTED_BYTES);
        let from = (from..messages.len()).find(|at| messages.is_char_boundary(*at)).unwrap_or(0);
        Ended::Failed(format!("{status}: {}", messages.get(from..).unwrap_or_default().trim()))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn run(script: &str, timeout: Duration, cancel: &Cancel) -> Ended {
        let command = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let document = serde_json::json!({"id": "t", "n": 1});
        let task = CollectTask { id: "t".into(), text: document.to_string(), document };
        Program { command, key: None, timeout }.run("http://127.0.0.1:1/a/b", &task, 3, cancel)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_gets_its_task_and_base_url_and_gives_a_reward() {
        let check = |script: &str, expect: Ended| assert_eq!(run(script, LONG, &Cancel::default()), expect, "{script}");
        check("echo '{\"reward\": 0.5}'", Ended::Done { reward: Some(0.5) });
        check("read line; test \"$line\" = '{\"id\":\"t\",\"n\":1}'", Ended::Done { reward: None });
        check("test $OPENAI_BASE_URL = http://127.0.0.1:1/a/b/v1", Ended::Done { reward: None });
        check("test $ANTHROPIC_BASE_URL = http://127.0.0.1:1/a/b", Ended::Done { reward: None });
        check("test $CLAWHOST_TASK_ID$CLAWHOST_MEMBER = t3", Ended::Done { reward: None });
        check("echo no model >&2; exit 3", Ended::Failed("exit status: 3: no model".into()));
        check("yes | head -c 1000000; echo; echo '{\"reward\": 1}'", Ended::Done { reward: Some(1.0) });
        // What it leaves behind holds nothing up.
        check("sleep 600 & echo '{\"reward\": 1}'", Ended::Done { reward: Some(1.0) });
    }

    #[test]
    fn a_command_that_takes_too_long_or_is_interrupted_is_ended_with_its_children() {
        let ended = run("sleep 600 & sleep 600", Duration::ZERO, &Cancel::default());
        assert_eq!(ended, Ended::Failed("it took longer than 0 s".into()));
        let cancel = Cancel::default();
        cancel.request();
        assert_eq!(run("sleep 600", LONG, &cancel), Ended::Interrupted);
        let missing = Program { command: vec!["/no/such/program".into()], key: None, timeout: LONG };
        let task = CollectTask { id: "t".into(), text: "{}".into(), document: serde_json::json!({}) };
        let ended = missing.run("http://127.0.0.1:1", &task, 1, &Cancel::default());
        assert!(matches!(&ended, Ended::Failed(why) if why.contains("cannot be started")), "{ended:?}");
    }
}
