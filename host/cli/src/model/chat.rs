//! `clawhost model chat`: a conversation, line by line.

use super::adapter::Located;
use super::args::ChatArgs;
use super::{harmless, notes, settings};
use crate::context::Context;
use crate::exit::Exit;
use anyhow::Context as _;
use clawhost_app::local_models::{Answered, ChatSettings, Conversation, Heard, LocalSource, TemplateArguments, Turn};
use clawhost_app::{AppError, RequestError};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Reasoning is dimmed.
const DIM: &str = "\x1b[2m";
/// Ends it.
const PLAIN: &str = "\x1b[0m";

/// Lines of standard input, read on a separate thread: reading a terminal blocks.
fn lines() -> UnboundedReceiver<std::io::Result<String>> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Ctrl-C from now on. No signal is lost between two waits, nor before the first.
fn interrupts() -> std::io::Result<UnboundedReceiver<()>> {
    let (sender, interrupts) = unbounded_channel();
    #[cfg(unix)]
    {
        // The handler is there when this returns: a task may begin late, and until then the signal would end the program.
        let mut signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        tokio::spawn(async move { while signal.recv().await.is_some() && sender.send(()).is_ok() {} });
    }
    #[cfg(not(unix))]
    tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {} });
    Ok(interrupts)
}

/// Opens the model.
fn open(context: &Context, arguments: &ChatArgs, adapter: Option<&Path>) -> anyhow::Result<Conversation> {
    let (sampling, usual) = (&arguments.sampling, ChatSettings::default());
    let chat = ChatSettings {
        system: arguments.system.clone(),
        max_tokens: sampling.max_tokens.unwrap_or(usual.max_tokens),
        temperature: sampling.temperature,
        seed: sampling.seed.unwrap_or(usual.seed),
        arguments: TemplateArguments::new(arguments.template_arg.iter().cloned().collect())?,
    };
    let models = settings(context, sampling.device)?;
    let source = LocalSource { folder: &arguments.folder, adapter, dtype: sampling.kept.dtype() };
    Conversation::open(source, chat, &models, &notes(context)).map_err(|error| match error {
        AppError::Request(RequestError::SystemPromptUnsupported { .. }) => {
            let what = "the option --system".to_owned();
            AppError::from(RequestError::SystemPromptUnsupported { what }).into()
        }
        other => other.into(),
    })
}

/// Prints the part of an answer that was not streamed.
fn tell(context: &Context, answer: &Answered) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    let Answered { reasoning, text, rest, finish, usage, left_out } = answer;
    if context.json() {
        let told = serde_json::json!({ "answer": text, "reasoning": reasoning, "finish": finish, "usage": usage, "left_out": left_out });
        crate::terminal::json_line(&told)?;
        return Ok(());
    }
    writeln!(out, "{}", harmless(rest))?;
    if *left_out > 0 {
        let mut notes = crate::terminal::stderr();
        writeln!(notes, "note: the context is full; the {left_out} oldest messages were left out")?;
    }
    Ok(())
}

pub(super) async fn chat(context: &Context, arguments: &ChatArgs) -> anyhow::Result<Exit> {
    let adapter = Located::find(context, arguments.sampling.adapter.as_deref()).await?;
    let mut conversation = open(context, arguments, adapter.folder())?;
    let (mut lines, mut interrupts, terminal) = (lines(), interrupts()?, std::io::stdin().is_terminal());
    let (mut notes, is_shown) = (crate::terminal::stderr(), !context.json());
    loop {
        if terminal {
            write!(notes, "> ")?;
            notes.flush()?;
        }
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = interrupts.recv() => return Ok(Exit::Interrupted),
        };
        let Some(line) = line.transpose().context("standard input: a line cannot be read")? else { break };
        if line.trim().is_empty() {
            continue;
        }
        let mut has_thought = false;
        let show = |heard: Heard<'_>| match heard {
            // Only answers are on standard output.
            Heard::Reasoning(text) if is_shown && terminal => {
                has_thought = true;
                let mut notes = crate::terminal::stderr();
                let _ = write!(notes, "{DIM}{}{PLAIN}", harmless(text)).and_then(|()| notes.flush());
            }
            Heard::Text(text) if is_shown => {
                if std::mem::take(&mut has_thought) {
                    let _ = writeln!(crate::terminal::stderr(), "\n");
                }
                let mut out = crate::terminal::stdout();
                // If the output is closed, the next write reports it.
                let _ = write!(out, "{}", harmless(text)).and_then(|()| out.flush());
            }
            Heard::Reasoning(_) | Heard::Text(_) => {}
        };
        let interrupted = async {
            interrupts.recv().await;
        };
        match conversation.turn(line, show, interrupted).await {
            Ok(Turn::Answered(answer)) => tell(context, &answer)?,
            Ok(Turn::Interrupted { heard }) => {
                let mut out = crate::terminal::stdout();
                match context.json() {
                    true => {
                        crate::terminal::json_line(&serde_json::json!({ "answer": heard, "finish": "interrupted" }))?
                    }
                    false => writeln!(out)?,
                }
            }
            // A person at a terminal may try again. Lines of a file are not repeated.
            Err(error) if terminal => {
                writeln!(notes, "error: {}", error.in_folder(&arguments.folder.display().to_string()))?
            }
            Err(error) => {
                let folder = arguments.folder.display().to_string();
                return Err(AppError::from(RequestError::ModelFolder { folder, error }).into());
            }
        }
    }
    if terminal {
        writeln!(notes)?;
    }
    Ok(Exit::Ok)
}
