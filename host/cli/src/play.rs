//! `clawhost play`: a person is the agent.

use crate::args::{MachineArgs, PlayArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::Progress;
use async_trait::async_trait;
use clawhost_app::{Bench, HERE, Trial};
use clawhost_core::{Ending, Episode, FailureKind, Message, ModelRequest, Role, Turn, Verdict, escaped, script_turn};
use clawhost_devkit::{Hand, HandRequest, is_outdated};
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};

/// Characters of a text that are shown.
const SHOWN: usize = 20_000;
/// The line that ends an episode.
const QUIT: &str = "/quit";
/// The line that shows the tools again.
const TOOLS: &str = "/tools";

/// A person at a terminal, or a file of answers.
struct Person {
    lines: Mutex<Receiver<String>>,
    is_terminal: bool,
    is_shown: bool,
}

/// Longest line of a person, in bytes: as long as an answer of a model may be.
const LINE_BYTES: u64 = 1 << 20;
/// Lines that wait to be read. A person types one; a file is read as it is needed.
const LINES: usize = 16;

/// Lines of standard input, read on a thread of their own: reading a terminal blocks. What is no UTF-8 is shown as such characters are.
fn lines() -> Receiver<String> {
    let (sender, lines) = channel(LINES);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut bytes = Vec::new();
            let read = input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut bytes);
            if !read.is_ok_and(|read| read > 0) {
                return;
            }
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A text with its lines kept, safe to display.
fn lines_of(text: &str) -> String {
    text.lines().map(|line| escaped(line, SHOWN)).collect::<Vec<_>>().join("\n")
}

impl Person {
    fn say(&self, text: &str) {
        if self.is_shown {
            // If the output is closed, the summary reports it.
            let _ = writeln!(crate::terminal::stdout(), "{text}");
        }
    }

    fn tools(&self, request: &ModelRequest) {
        for tool in &request.tools {
            self.say(&format!(
                "\x1b[2mtool\x1b[0m      {}: {}",
                escaped(&tool.name, 100),
                escaped(&tool.description, SHOWN)
            ));
            self.say(&format!("          calls {} {}", escaped(&tool.name, 100), escaped(&tool.input_schema, SHOWN)));
        }
    }
}

#[async_trait]
impl Hand for Person {
    async fn answer(&self, request: &ModelRequest, wrong: Option<&str>) -> Option<String> {
        if let Some(why) = wrong {
            self.say(&format!("\x1b[33mnot understood\x1b[0m: {}", escaped(why, SHOWN)));
        } else {
            let is_first = request.messages.iter().all(|message| message.role != Role::Assistant);
            // What came after the last answer was shown with its turn.
            for message in request.messages.iter().filter(|message| is_first && message.role != Role::System) {
                self.say(&lines_of(&message.plain_text()));
            }
            if is_first {
                self.tools(request);
            }
        }
        loop {
            if self.is_terminal {
                let mut notes = crate::terminal::stderr();
                let _ = write!(notes, "> ").and_then(|()| notes.flush());
            }
            let line = self.lines.lock().await.recv().await?;
            match line.trim() {
                QUIT => return None,
                TOOLS => self.tools(request),
                _ => return Some(line),
            }
        }
    }
}

fn turn(is_terminal: bool, turn: &Turn, next: &[Message]) {
    let mut out = crate::terminal::stdout();
    if !is_terminal {
        // On a terminal the person sees what was typed.
        let _ = writeln!(out, "\x1b[2m> {}\x1b[0m", lines_of(&script_turn(&turn.action)));
    }
    for message in turn.tool_results.iter().chain(next) {
        let _ = writeln!(out, "{}", lines_of(&message.plain_text()));
    }
    let signals: Vec<String> =
        turn.signals.iter().map(|one| format!("{} {}", escaped(&one.name, 60), one.value)).collect();
    if !signals.is_empty() {
        let _ = writeln!(out, "\x1b[2msignals   {}\x1b[0m", signals.join(", "));
    }
}

pub(crate) async fn run(context: &Context, args: &PlayArgs) -> anyhow::Result<Exit> {
    let machine = MachineArgs::trying(args.plugin.as_deref().unwrap_or(HERE), args.allow_interpreters);
    let (folder, host) = (context.folder()?, context.host_settings(&machine)?);
    let trial = Trial::of(args.plugin.as_deref().unwrap_or(HERE), &args.reward)?;
    crate::build::note_outdated(trial.folder.as_ref().and_then(is_outdated))?;
    let is_judged = !trial.rewards.is_empty();
    let request = HandRequest {
        split: args.split.clone().or_else(|| trial.split()),
        task: args.task.clone(),
        seed: args.seed.unwrap_or_default(),
        max_turns: args.max_turns.or_else(|| trial.max_turns()).unwrap_or(clawhost_devkit::TURNS),
        plugin: trial.plugin,
        rewards: trial.rewards,
    };
    let progress = Progress::new(context, false, "played");
    let bench = Bench::open(&folder, &host, &progress)?;
    let is_terminal = std::io::stdin().is_terminal();
    let is_shown = !context.json();
    let person = Arc::new(Person { lines: Mutex::new(lines()), is_terminal, is_shown });
    let signals = cancel_on_signal(Stopping::Trying);
    let watch = |one: &Turn, next: &[Message]| {
        if is_shown {
            turn(is_terminal, one, next);
        }
    };
    let played = clawhost_devkit::play_by_hand(&bench, &request, person, signals.cancel(), &watch).await;
    progress.finish();
    let episode = played?;
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "episode": *episode }))?;
    } else {
        ended(&mut crate::terminal::stdout(), &episode, is_judged)?;
    }
    Ok(match &episode.ending {
        Ending::Failed(failure) if signals.cancel().is_requested() && failure.kind == FailureKind::Cancelled => {
            Exit::Interrupted
        }
        // The person stopped.
        Ending::Failed(failure) if failure.kind == FailureKind::Llm => Exit::Ok,
        Ending::Failed(_) => Exit::Other,
        _ => Exit::Ok,
    })
}

fn ended(out: &mut impl Write, episode: &Episode, is_judged: bool) -> std::io::Result<()> {
    let turns = clawhost_core::counted(episode.turns.len() as u64, "turn");
    let how = match &episode.ending {
        Ending::Failed(failure) if failure.kind == FailureKind::Llm => "stopped by you".to_owned(),
        ending => escaped(&ending.to_string(), SHOWN),
    };
    writeln!(out, "\x1b[1mended\x1b[0m     {how}, {turns}")?;
    for record in &episode.verdicts {
        let said = match &record.verdict {
            Verdict::Scored(card) if card.rationale.is_empty() => card.value.to_string(),
            Verdict::Scored(card) => format!("{}: {}", card.value, escaped(&card.rationale, SHOWN)),
            Verdict::NotApplicable(why) => format!("does not apply: {}", escaped(why, SHOWN)),
            Verdict::Failed(failure) => escaped(&failure.to_string(), SHOWN),
        };
        writeln!(
            out,
            "\x1b[1mverdict\x1b[0m   {} ({}): {said}",
            escaped(&record.reward.name, 100),
            record.source.name()
        )?;
    }
    match episode.reward {
        Some(reward) => writeln!(out, "\x1b[1mreward\x1b[0m    {reward}"),
        None if is_judged => writeln!(out, "\x1b[1mreward\x1b[0m    none"),
        None => writeln!(out, "\x1b[1mreward\x1b[0m    none: name a reward with --reward R.wasm"),
    }
}
