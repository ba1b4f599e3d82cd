//! `clawhost model generate`: completes a text.

use super::adapter::Located;
use super::args::GenerateArgs;
use super::{harmless, notes, print_json, settings};
use crate::context::{Context, texts};
use crate::exit::Exit;
use anyhow::Context as _;
use clawhost_app::local_models::{
    Finish, GenerateRequest, GeneratedText, GeneratedTexts, LocalSource, TextGenerator, TextSink,
};
use serde_json::json;
use std::io::{Read as _, Write as _};

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

fn sample(answer: &GeneratedText) -> serde_json::Value {
    json!({
        "text": answer.text, "finish": if answer.finish == Finish::Stop { "stop" } else { "length" },
        "logprobs": answer.logprobs, "logprobs_sampled": answer.logprobs_sampled, "tokens": answer.tokens,
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
        seed: sampling.seed.unwrap_or(usual.seed),
        stop: arguments.stop.clone(),
        ..usual
    };
    let models = settings(context, sampling.device)?;
    let stream = (!context.json()).then(|| Box::new(show) as TextSink);
    let generated = tokio::select! {
        generated = generator.generate(&request, &models, &events, stream) => generated?,
        _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
    };
    let GeneratedTexts { prompt_tokens, answers, weights } = generated;
    if context.json() {
        return print_json(&json!({
            "prompt": request.prompt, "prompt_tokens": prompt_tokens,
            "samples": answers.iter().map(sample).collect::<Vec<_>>(), "weights": weights,
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
    Ok(Exit::Ok)
}
