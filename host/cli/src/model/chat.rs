//! `clawhost model chat`: a conversation, line by line.

use super::args::Chat;
use super::{harmless, read};
use crate::args::Common;
use crate::exit::Exit;
use crate::setup::unheard;
use clawhost_core::{Message, ModelRequest, ModelResponse, Origin, Role};
use clawhost_model::{LEFT_OUT, LocalModel, LocalModelError, Overlong, ChatFormat};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Lines of standard input, read on a thread of their own: a terminal cannot be waited for in any other way.
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

/// Ctrl-C, from now on: none is lost between two things that are waited for.
fn interrupts() -> UnboundedReceiver<()> {
    let (sender, interrupts) = unbounded_channel();
    tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {} });
    interrupts
}

/// What ends an answer that is under way.
enum Ended {
    Said(Box<ModelResponse>),
    Interrupted,
    /// It cannot be answered as it stands: a character that the model does not have, for example.
    Refused(LocalModelError),
}

pub(super) async fn chat(common: &Common, options: &Chat) -> anyhow::Result<Exit> {
    let folder = read(&options.folder, options.sampling.adapter.as_deref())?;
    let name = options.folder.display().to_string();
    // In a conversation with a person old turns may go; what is left out is told.
    let speech = ChatFormat { overlong: Overlong::LeaveOut, ..folder.speech(&name)? };
    let (device, _) = options.sampling.device.open(folder.config.parameters())?;
    let model = LocalModel::new(speech, Arc::new(folder.engine(&device)?));
    if options.system.is_some() && model.drops_system() {
        return Err(unheard("what --system says").into());
    }
    let mut messages = Vec::new();
    messages.extend(options.system.iter().map(|text| Message::text(Role::System, Origin::User, text.as_str())));
    let (mut lines, mut interrupts, terminal) = (lines(), interrupts(), std::io::stdin().is_terminal());
    let mut notes = anstream::stderr();
    loop {
        if terminal {
            write!(notes, "> ")?;
            notes.flush()?;
        }
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = interrupts.recv() => return Ok(Exit::Interrupted),
        };
        let Some(line) = line.transpose()? else { break };
        if line.trim().is_empty() {
            continue;
        }
        messages.push(Message::text(Role::User, Origin::User, line));
        let request = ModelRequest {
            messages: messages.clone(),
            tools: Vec::new(),
            max_tokens: options.sampling.max_tokens,
            temperature: options.sampling.temperature,
            seed: Some(options.sampling.seed),
            stop: Vec::new(),
        };
        let heard = Arc::new(Mutex::new(String::new()));
        let hears = heard.clone();
        let show = !common.json;
        let hear = move |text: &str| {
            hears.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
            if show {
                let mut out = anstream::stdout();
                // Whoever reads may be gone: the next line says so.
                let _ = write!(out, "{}", harmless(text)).and_then(|()| out.flush());
            }
        };
        let ended = tokio::select! {
            said = model.say(&request, hear) => match said {
                Ok(response) => Ended::Said(Box::new(response)),
                // Somebody sits there and may say it otherwise; nobody does where lines come from a file.
                Err(error) if terminal => Ended::Refused(error),
                Err(error) => return Err(error.into()),
            },
            _ = interrupts.recv() => Ended::Interrupted,
        };
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut out = anstream::stdout();
        match ended {
            Ended::Said(response) => {
                let text = response.message.plain_text();
                let left_out = response.message.extra.iter().find(|(name, _)| name == LEFT_OUT);
                if common.json {
                    let told = serde_json::json!({
                        "answer": text, "finish": response.finish, "usage": response.usage,
                        "left_out": left_out.map_or(0, |(_, count)| count.parse::<u64>().unwrap_or_default()),
                    });
                    writeln!(out, "{told}")?;
                } else {
                    writeln!(out, "{}", harmless(text.strip_prefix(heard.as_str()).unwrap_or_default()))?;
                    if let Some((_, count)) = left_out {
                        writeln!(notes, "note: the context is full; the {count} oldest messages were left out")?;
                    }
                }
                messages.push(response.message);
            }
            Ended::Refused(error) => {
                messages.pop();
                writeln!(notes, "error: {error}")?;
            }
            Ended::Interrupted => {
                match common.json {
                    true => writeln!(out, "{}", serde_json::json!({ "answer": heard, "finish": "interrupted" }))?,
                    false => writeln!(out)?,
                }
                // It goes on from what was seen.
                messages.push(Message::text(Role::Assistant, Origin::Policy, heard));
            }
        }
    }
    if terminal {
        writeln!(notes)?;
    }
    Ok(Exit::Ok)
}
