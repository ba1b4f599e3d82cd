//! `clawhost model generate`: completes a text.

use super::adapter::Located;
use super::args::{GenerateArgs, ShapeArgs};
use super::{harmless, notes, print_json, settings};
use crate::context::{Context, texts};
use crate::exit::Exit;
use anyhow::Context as _;
use clawhost_app::local_models::{
    AnswerShape, Finish, GenerateRequest, GeneratedText, GeneratedTexts, LocalSource, Penalties, TextGenerator,
    TextSink,
};
use clawhost_app::{AppError, RequestError};
use clawhost_core::counted;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Largest file of a schema or a grammar in bytes: what a grammar may have.
const SHAPE_BYTES: u64 = 512 << 10;

/// The prompt from the command line, or else from standard input.
fn prompt(given: Option<&String>) -> anyhow::Result<String> {
    if let Some(prompt) = given {
        return Ok(prompt.clone());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input")?;
    // Editors and `echo` append a line end that is not part of the prompt.
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

/// Streams text.
fn show(text: &str) {
    let mut out = crate::terminal::stdout();
    // If the output is closed, the final write reports it.
    let _ = write!(out, "{}", harmless(text)).and_then(|()| out.flush());
}

/// Says that an answer within a grammar was cut off: it is no whole one.
fn note_cut(answers: &[GeneratedText], has_shape: bool) -> std::io::Result<()> {
    let cut = answers.iter().filter(|answer| answer.finish == Finish::Length).count() as u64;
    if !has_shape || cut == 0 {
        return Ok(());
    }
    writeln!(crate::terminal::stderr(), "note: {} cut off, and not whole; raise --max-tokens", counted(cut, "answer"))
}

fn sample(answer: &GeneratedText) -> serde_json::Value {
    json!({
        "text": answer.text, "finish": if answer.finish == Finish::Stop { "stop" } else { "length" },
        "logprobs": answer.logprobs, "logprobs_sampled": answer.logprobs_sampled, "tokens": answer.tokens,
    })
}

/// What answers are to be, from files and options.
fn shape(arguments: &ShapeArgs) -> anyhow::Result<Option<AnswerShape>> {
    let unusable = |path: &Path, why: String| RequestError::File { path: path.display().to_string(), why };
    let read = |path: &Path| {
        clawhost_files::read_text(path, SHAPE_BYTES).map_err(|error| AppError::from(unusable(path, error.to_string())))
    };
    Ok(match arguments {
        ShapeArgs { schema: Some(path), .. } => {
            let schema = serde_json::from_str(&read(path)?);
            let schema = schema.map_err(|error| AppError::from(unusable(path, format!("no JSON: {error}"))))?;
            Some(AnswerShape::Json(schema))
        }
        ShapeArgs { regex: Some(pattern), .. } => Some(AnswerShape::Regex(pattern.clone())),
        ShapeArgs { grammar: Some(path), .. } => Some(AnswerShape::Lark(read(path)?)),
        _ => None,
    })
}

/// The penalties that were given. The others are none, as in the model's own settings but for repetition.
fn penalties(arguments: &GenerateArgs) -> Option<Penalties> {
    let GenerateArgs { repetition_penalty, presence_penalty, frequency_penalty, .. } = arguments;
    [repetition_penalty, presence_penalty, frequency_penalty].into_iter().flatten().next()?;
    let none = Penalties::default();
    Some(Penalties {
        repetition: repetition_penalty.unwrap_or(none.repetition),
        presence: presence_penalty.unwrap_or(none.presence),
        frequency: frequency_penalty.unwrap_or(none.frequency),
    })
}

pub(super) async fn generate(context: &Context, arguments: &GenerateArgs) -> anyhow::Result<Exit> {
    let (events, sampling) = (notes(context), &arguments.sampling);
    let adapter = Located::find(context, sampling.adapter.as_deref()).await?;
    let source = LocalSource { folder: &arguments.folder, adapter: adapter.folder(), dtype: sampling.kept.dtype() };
    let generator = TextGenerator::read(source, &texts()?, &events)?;
    let usual = GenerateRequest::new(prompt(arguments.prompt.as_ref())?);
    let request = GenerateRequest {
        answers: arguments.n.unwrap_or(usual.answers),
        max_tokens: sampling.max_tokens.unwrap_or(usual.max_tokens),
        temperature: sampling.temperature,
        top_p: arguments.top_p,
        top_k: arguments.top_k,
        penalties: penalties(arguments),
        shape: shape(&arguments.shape)?,
        seed: sampling.seed.unwrap_or(usual.seed),
        stop: arguments.stop.clone(),
        ..usual
    };
    let models = settings(context, sampling.device)?;
    let begun = Arc::new(AtomicBool::new(false));
    let stream = (!context.json()).then(|| {
        let begun = begun.clone();
        Box::new(move |text: &str| {
            begun.store(begun.load(Relaxed) || !text.is_empty(), Relaxed);
            show(text);
        }) as TextSink
    });
    let generated = tokio::select! {
        generated = generator.generate(&request, &models, &events, stream) => generated.inspect_err(|_| {
            // The error has a line of its own.
            if begun.load(Relaxed) {
                show("\n");
            }
        })?,
        _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
    };
    let GeneratedTexts { prompt_tokens, answers, weights, grammar } = generated;
    if context.json() {
        return print_json(&json!({
            "prompt": request.prompt, "prompt_tokens": prompt_tokens,
            "samples": answers.iter().map(sample).collect::<Vec<_>>(), "weights": weights, "grammar": grammar,
        }));
    }
    let mut out = crate::terminal::stdout();
    for (number, answer) in (1..).zip(&answers) {
        if request.answers > 1 {
            writeln!(out, "{number}: {}", harmless(&answer.text))?;
        } else {
            // Streamed already, except for the part that could have become a stop text.
            writeln!(out, "{}", harmless(answer.text.get(answer.streamed..).unwrap_or_default()))?;
        }
    }
    note_cut(&answers, request.shape.is_some())?;
    Ok(Exit::Ok)
}
