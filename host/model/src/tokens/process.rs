//! The process that interprets the texts of a model folder: started when it is first needed, and again if it reached a limit.

use super::limits::{LOAD_SECONDS, MEMORY_BYTES, MOST_LIMITS, REPLY_BYTES, REQUEST_SECONDS};
use super::order::{Ask, Facts, Sources, Told};
use super::serve::PANICKED;
use crate::LocalModelError;
use crate::blocking::in_place;
use clawhost_child::{ChildProgram, How, how_it_ended};
use std::borrow::Cow;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};

/// The texts of a model folder in a process of their own.
#[derive(Debug)]
pub(super) struct TextProcess {
    program: ChildProgram,
    sources: Sources,
    facts: Facts,
    running: Mutex<State>,
}

#[derive(Debug)]
struct State {
    running: Option<Running>,
    /// How often a limit was reached.
    limits: u32,
}

#[derive(Debug)]
struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, or is not needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a question was about, for errors.
fn subject(ask: &Ask<'_>) -> &'static str {
    match ask {
        Ask::Load(_) => "reading the tokenizer and the chat template",
        Ask::Render { .. } => "the chat template",
        Ask::Encode { .. } | Ask::Decode { .. } | Ask::Token(_) | Ask::Vocabulary => "the tokenizer",
    }
}

impl TextProcess {
    /// Starts the process, and lets it read the texts.
    ///
    /// # Errors
    /// It cannot be started; a text is invalid, or reading it reaches a limit.
    pub(super) fn load(program: &ChildProgram, sources: Sources) -> Result<Self, LocalModelError> {
        let mut running = Running::start(program)?;
        let facts = running.load(&sources)?;
        Ok(Self {
            program: program.clone(),
            sources,
            facts,
            running: Mutex::new(State { running: Some(running), limits: 0 }),
        })
    }

    /// What the tokenizer is.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Asks. A process that reached a limit is started again for the next question.
    ///
    /// # Errors
    /// The answer takes more than the limits, or the process cannot be started.
    pub(super) fn ask(&self, ask: &Ask<'_>) -> Result<Told, LocalModelError> {
        in_place(|| self.ask_now(ask))
    }

    fn ask_now(&self, ask: &Ask<'_>) -> Result<Told, LocalModelError> {
        let mut state = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if state.limits >= MOST_LIMITS {
            let what = format!("reached its limits {MOST_LIMITS} times and is not asked any more");
            return Err(LocalModelError::TextLimit { subject: subject(ask), what });
        }
        // Taken out: after an error it is dropped, and not asked again.
        let mut running = match state.running.take() {
            Some(running) => running,
            None => {
                let mut running = Running::start(&self.program)?;
                running.load(&self.sources)?;
                running
            }
        };
        match running.ask(ask) {
            Ok(told) => {
                state.limits += u32::from(matches!(told, Told::Limit(_)));
                state.running = Some(running);
                Ok(told)
            }
            Err(error) => {
                state.limits += u32::from(matches!(error, LocalModelError::TextLimit { .. }));
                Err(error)
            }
        }
    }
}

/// The process that interprets texts cannot be started or spoken to.
fn not_here(error: impl std::fmt::Display) -> LocalModelError {
    LocalModelError::TextProcess(error.to_string())
}

impl Running {
    fn start(program: &ChildProgram) -> Result<Self, LocalModelError> {
        let mut command = program.command();
        // What a library writes there has no reader.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(not_here)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self { child, input, output: BufReader::new(output) }),
            _ => Err(not_here("it has no pipes")),
        }
    }

    fn load(&mut self, sources: &Sources) -> Result<Facts, LocalModelError> {
        match self.ask(&Ask::Load(Cow::Borrowed(sources)))? {
            Told::Loaded(facts) => Ok(facts),
            other => Err(refused(other)),
        }
    }

    fn ask(&mut self, ask: &Ask<'_>) -> Result<Told, LocalModelError> {
        let mut line = serde_json::to_vec(ask).map_err(not_here)?;
        line.push(b'\n');
        let mut answer = Vec::new();
        let sent = self.input.write_all(&line).and_then(|()| self.input.flush());
        let read = sent.and_then(|()| (&mut self.output).take(REPLY_BYTES).read_until(b'\n', &mut answer));
        if read.is_ok() && answer.ends_with(b"\n") {
            return serde_json::from_slice(&answer).map_err(not_here);
        }
        Err(self.failure(ask, answer.len()))
    }

    /// Why there is no whole answer.
    fn failure(&mut self, ask: &Ask<'_>, read: usize) -> LocalModelError {
        let limit = |what: String| LocalModelError::TextLimit { subject: subject(ask), what };
        if read as u64 >= REPLY_BYTES {
            return limit(format!("answered with more than {} MiB", REPLY_BYTES >> 20));
        }
        let seconds = if matches!(ask, Ask::Load(_)) { LOAD_SECONDS } else { REQUEST_SECONDS };
        match self.child.wait().map(how_it_ended) {
            Ok(How::OutOfTime) => limit(format!("took more than {seconds} s of processor time")),
            Ok(How::Aborted) => limit(format!("took more than {} MiB of memory, or its stack", MEMORY_BYTES >> 20)),
            Ok(How::Killed) => limit("was killed, perhaps for want of memory".to_owned()),
            Ok(How::Code(code)) if code == i32::from(PANICKED) => limit("made its library fail".to_owned()),
            Ok(How::Code(code)) => limit(format!("ended its process with code {code}")),
            Ok(How::Signal(signal)) => limit(format!("ended its process with signal {signal}")),
            Err(error) => not_here(error),
        }
    }
}

/// An answer that is none.
pub(super) fn refused(told: Told) -> LocalModelError {
    match told {
        Told::Tokenizer(why) => LocalModelError::Tokenizer(why),
        Told::Template(why) => LocalModelError::Template(why),
        Told::Limit(what) => LocalModelError::TextLimit { subject: "the chat template", what },
        _ => not_here("it answered another question"),
    }
}
