//! `clawhost model generate`: a text goes on.

use super::args::Generate;
use super::{harmless, print_json, read};
use crate::args::Common;
use crate::exit::{Exit, UsageError};
use anyhow::Context as _;
use clawhost_model::digest;
use clawhost_model::generate::{Answer, Drawn, Finish, Request, Sampling, StopTexts, Watch};
use clawhost_model::tokens::Tokenizer;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;

/// What reads an answer: the tokenizer, the tokens that end it, and the texts that do.
struct Reading<'a> {
    tokenizer: Tokenizer,
    end: &'a [u32],
    stop: &'a [String],
}

impl Reading<'_> {
    fn texts(&self) -> StopTexts {
        StopTexts::new(self.tokenizer.clone(), self.stop, self.end.to_vec())
    }

    /// The text of an answer, up to whatever ended it.
    fn text(&self, tokens: &[u32]) -> anyhow::Result<String> {
        let spoken: Vec<u32> = tokens.iter().copied().filter(|token| !self.end.contains(token)).collect();
        let text = self.tokenizer.decode(&spoken, true)?;
        let end = self.stop.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop.as_str())).min();
        Ok(text.get(..end.unwrap_or(text.len())).unwrap_or_default().to_owned())
    }

    /// Somebody who ends an answer at a stop text, and shows what comes where it is to be shown.
    fn watch(&self, show: bool) -> Watch {
        let mut texts = self.texts();
        Box::new(move |drawn: &Drawn| {
            let Ok((text, over)) = texts.push(drawn.token) else { return ControlFlow::Continue(()) };
            if show && !text.is_empty() {
                let mut out = anstream::stdout();
                // Whoever reads may be gone: what is left is noticed where the answer is told.
                let _ = write!(out, "{}", harmless(text)).and_then(|()| out.flush());
            }
            if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    fn sample(&self, answer: &Answer) -> anyhow::Result<serde_json::Value> {
        let tokens: Vec<u32> = answer.tokens.iter().map(|drawn| drawn.token).collect();
        let column = |of: fn(&Drawn) -> f32| answer.tokens.iter().map(of).collect::<Vec<f32>>();
        Ok(json!({
            "text": self.text(&tokens)?, "finish": if answer.finish == Finish::Stop { "stop" } else { "length" },
            "logprobs": column(|drawn| drawn.logprob_model), "logprobs_sampled": column(|drawn| drawn.logprob_sampled),
            "tokens": tokens,
        }))
    }

    /// Bytes of an answer that were shown while it came.
    fn shown(&self, answer: &Answer) -> anyhow::Result<usize> {
        let mut texts = self.texts();
        let mut shown = 0;
        for drawn in &answer.tokens {
            shown += texts.push(drawn.token)?.0.len();
        }
        Ok(shown)
    }
}

pub(super) async fn generate(common: &Common, options: &Generate) -> anyhow::Result<Exit> {
    let model = read(&options.folder, options.sampling.adapter.as_deref())?;
    let prompt = match &options.prompt {
        Some(prompt) => prompt.clone(),
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("standard input")?;
            // Editors and `echo` end a text with a line end that nobody meant.
            text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
        }
    };
    let reading = Reading { tokenizer: model.tokenizer()?, end: &model.config.end_tokens, stop: &options.stop };
    let tokens = reading.tokenizer.encode_whole(&prompt)?;
    if tokens.is_empty() {
        return Err(UsageError("an empty prompt; say what the model should go on with".into()).into());
    }
    let own = &model.sampling;
    let sampling = Sampling {
        temperature: options.sampling.temperature.unwrap_or(own.temperature),
        top_k: options.top_k.map_or(own.top_k, |k| (k > 0).then_some(k as usize)),
        top_p: options.top_p.map_or(own.top_p, |p| p as f32),
        ..own.clone()
    };
    let (device, _) = options.sampling.device.open(model.config.parameters())?;
    let engine = model.engine(&device)?;
    let show = !common.json && options.n == 1;
    let mut asked = Vec::new();
    for choice in 0..u64::from(options.n) {
        let request = Request {
            prompt: tokens.clone(),
            sampling: sampling.clone(),
            seed: options.sampling.seed,
            choice,
            max_tokens: options.sampling.max_tokens as usize,
            end: model.config.end_tokens.clone(),
        };
        asked.push((request, Some(reading.watch(show))));
    }
    let mut answers = Vec::new();
    for answer in engine.ask_many(asked)? {
        answers.push(tokio::select! {
            answer = answer => answer.context("the thread that answers has ended")??,
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        });
    }
    let samples = answers.iter().map(|answer| reading.sample(answer)).collect::<anyhow::Result<Vec<_>>>()?;
    if common.json {
        return print_json(&json!({
            "prompt": prompt, "prompt_tokens": tokens, "samples": samples, "weights": digest(&model.weights),
        }));
    }
    let mut out = anstream::stdout();
    for (number, (answer, sample)) in (1..).zip(answers.iter().zip(&samples)) {
        let text = sample.get("text").and_then(serde_json::Value::as_str).unwrap_or_default();
        if options.n > 1 {
            writeln!(out, "{number}: {}", harmless(text))?;
        } else {
            // Shown already, but for what could have become a stop text.
            writeln!(out, "{}", harmless(text.get(reading.shown(answer)?..).unwrap_or_default()))?;
        }
    }
    Ok(Exit::Ok)
}
