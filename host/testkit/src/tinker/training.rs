//! The arithmetic of the service: a small model in training, with this program's own trainer behind the messages of the protocol.

use clawhost_core::derive_seed;
use clawhost_model::device::ComputeDevice;
use clawhost_model::generate::{Request, Sampling};
use clawhost_model::train::{OptimizerSettings, Rule, Schedule, Sequence, TokenScores, Trained, Trainer};
use clawhost_model::{AdapterSettings, HostDecoder, LocalModel, LocalModelError, ModelFolder};
use clawhost_wire::tinker::{
    AT_LENGTH, Datum, ForwardBackwardOutput, ForwardBackwardRequest, STOPPED, SampleResponse, SampledSequence,
    TopkLogprobs, float_bytes, token_bytes,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A model in training.
pub(super) struct Training {
    trainer: Trainer,
    pub(super) rank: usize,
    /// The number of the next request.
    next: i64,
}

/// What a loss needs of one datum.
struct Inputs {
    targets: Vec<u32>,
    weights: Vec<f64>,
    logprobs: Vec<f64>,
}

type Refused<T> = Result<T, String>;

fn inputs(datum: &Datum, length: usize) -> Refused<Inputs> {
    let floats = |name: &str| match datum.loss_fn_inputs.get(name) {
        Some(tensor) => tensor.floats().map(|all| all.into_iter().map(f64::from).collect()).map_err(|e| e.to_string()),
        None => Ok(Vec::new()),
    };
    let targets = datum.loss_fn_inputs.get("target_tokens").ok_or("no target_tokens")?;
    let targets = targets.tokens().map_err(|error| error.to_string())?;
    let (mut weights, logprobs) = (floats("weights")?, floats("logprobs")?);
    let advantages = floats("advantages")?;
    if !advantages.is_empty() {
        weights = advantages;
    } else if weights.is_empty() {
        weights = vec![1.0; targets.len()];
    }
    if targets.len() != length || weights.len() != length || !(logprobs.is_empty() || logprobs.len() == length) {
        return Err(format!("{} targets and {} weights of {length} tokens", targets.len(), weights.len()));
    }
    Ok(Inputs { targets, weights, logprobs })
}

impl Training {
    pub(super) fn new(base: &ModelFolder, rank: usize, seed: u64) -> Self {
        let adapter = AdapterSettings { rank, alpha: 2.0 * rank as f64, seed, ..AdapterSettings::default() };
        let weights = adapter.attach(&base.weights).unwrap();
        let (config, rate) = (Arc::new(base.config.clone()), Schedule::constant(0.0));
        let trainer = Trainer::on_processor(config, &weights, Trained::Adapters, OptimizerSettings::default(), rate);
        Self { trainer, rank, next: 1 }
    }

    /// Checks that requests come in order.
    pub(super) fn take(&mut self, number: i64) -> Refused<()> {
        if number != self.next {
            return Err(format!("request {number} where {} is next", self.next));
        }
        self.next += 1;
        Ok(())
    }

    pub(super) fn weights(&self) -> HostDecoder {
        self.trainer.host().unwrap()
    }

    pub(super) fn saved(&self) -> Vec<u8> {
        self.trainer.to_bytes().unwrap()
    }

    pub(super) fn load(&mut self, saved: &[u8]) {
        self.trainer.restore(saved).unwrap();
    }

    /// A pass over data. A target is scored beside the token that follows in the input, so that it may be any.
    pub(super) fn pass(&mut self, request: &ForwardBackwardRequest) -> Refused<ForwardBackwardOutput> {
        let is_known = ["cross_entropy", "importance_sampling"].contains(&request.loss_fn.as_str());
        if !is_known {
            return Err(format!("the stub has no loss {}", request.loss_fn));
        }
        let (mut units, mut all) = (Vec::new(), Vec::new());
        for datum in &request.data {
            let mut tokens = datum.input().map_err(|error| error.to_string())?;
            let inputs = inputs(datum, tokens.len())?;
            tokens.push(inputs.targets.last().copied().unwrap_or_default());
            let mask: Vec<bool> = (0..tokens.len()).map(|place| place > 0).collect();
            let beside = inputs.targets.iter().map(|target| vec![*target]).collect();
            let sequence = Sequence::new(tokens, &mask, 1.0).and_then(|sequence| sequence.with_beside(beside));
            units.push(vec![sequence.map_err(|error| error.to_string())?]);
            all.push(inputs);
        }
        let of_targets = |scores: &TokenScores| scores.beside.concat();
        let scores = {
            let sequences: Vec<&Sequence> = units.iter().flatten().collect();
            self.trainer.scores(&sequences).map_err(|error| error.to_string())?
        };
        let logprobs: Vec<Vec<f64>> = scores.iter().map(of_targets).collect();
        let slope = |inputs: &Inputs, place: usize, new: f64| match inputs.logprobs.get(place) {
            Some(old) if request.loss_fn == "importance_sampling" => -inputs.weights[place] * (new - old).exp(),
            _ => -inputs.weights[place],
        };
        let value = |inputs: &Inputs, place: usize, new: f64| match inputs.logprobs.get(place) {
            Some(_) if request.loss_fn == "importance_sampling" => slope(inputs, place, new),
            _ => slope(inputs, place, new) * new,
        };
        let sum: f64 = all
            .iter()
            .zip(&logprobs)
            .flat_map(|(inputs, new)| new.iter().enumerate().map(|(place, new)| value(inputs, place, *new)))
            .sum();
        if !request.forward_only {
            let loss = |first: usize, scores: &[Vec<TokenScores>]| {
                let slopes = |(inputs, scores): (&Inputs, &Vec<TokenScores>)| {
                    let new: Vec<f64> = scores.iter().flat_map(of_targets).collect();
                    let of = |(place, new): (usize, f64)| [0.0, slope(inputs, place, new)];
                    new.into_iter().enumerate().flat_map(of).collect::<Vec<f64>>()
                };
                let wanted = all[first..].iter().zip(scores).map(slopes).collect();
                Ok::<_, LocalModelError>((wanted, ()))
            };
            let units: Vec<&[Sequence]> = units.iter().map(Vec::as_slice).collect();
            self.trainer.accumulate(&units, &loss).map_err(|error| error.to_string())?;
        }
        let narrow = |all: &Vec<f64>| all.iter().map(|one| *one as f32).collect();
        let logprobs: Vec<Vec<f32>> = logprobs.iter().map(narrow).collect();
        Ok(ForwardBackwardOutput::of_logprobs(&logprobs, BTreeMap::from([("loss:sum".to_owned(), sum)])))
    }

    /// A step with what the request says of Adam.
    pub(super) fn step(&mut self, params: &Value) -> Refused<()> {
        let number = |name: &str| params[name].as_f64().ok_or_else(|| format!("no {name}"));
        let clip = number("grad_clip_norm")?;
        self.trainer.set_optimizer(OptimizerSettings {
            rule: Rule::AdamW,
            beta1: number("beta1")?,
            beta2: number("beta2")?,
            epsilon: number("eps")?,
            weight_decay: number("weight_decay")?,
            clip: if clip > 0.0 { clip } else { f64::MAX },
        });
        self.trainer.step_at(number("learning_rate")?).map(drop).map_err(|error| error.to_string())
    }
}

/// A model that samples from these weights.
pub(super) fn sampler(base: &ModelFolder, weights: HostDecoder) -> Arc<LocalModel> {
    let folder = ModelFolder { weights, ..base.clone() };
    folder.open("stub", &ComputeDevice::processor()).unwrap()
}

/// Answers `asample`.
pub(super) fn sample(model: &LocalModel, request: &Value) -> Refused<SampleResponse> {
    let chunks = request["prompt"]["chunks"].as_array().ok_or("no prompt")?;
    let tokens = chunks.iter().flat_map(|chunk| chunk["tokens"].as_array().into_iter().flatten());
    let prompt: Vec<u32> = tokens.filter_map(|token| u32::try_from(token.as_u64()?).ok()).collect();
    let params = &request["sampling_params"];
    let own = model.engine().current().model.config().end_tokens.clone();
    let end = match params["stop"].as_array() {
        Some(all) => all.iter().filter_map(|token| u32::try_from(token.as_u64()?).ok()).collect(),
        None => own,
    };
    let ask = |max_tokens: usize, alternatives: usize, choice: u64| {
        let top_k = params["top_k"].as_i64().and_then(|top_k| usize::try_from(top_k).ok());
        let sampling = Sampling {
            temperature: params["temperature"].as_f64().unwrap_or(1.0) as f32,
            top_k,
            top_p: params["top_p"].as_f64().unwrap_or(1.0) as f32,
            ..Sampling::default()
        };
        let seed = params["seed"]
            .as_u64()
            .unwrap_or_else(|| derive_seed(0, "sample", request["seq_id"].as_u64().unwrap_or(0)));
        let (prompt, end) = (prompt.clone(), end.clone());
        let partition = clawhost_core::Partition::OWN;
        let asked = Request { prompt, sampling, grammar: None, seed, choice, max_tokens, alternatives, end, partition };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(model.engine().ask(asked)).map_err(|error| error.to_string())
    };
    let mut response = SampleResponse::default();
    for choice in 0..request["num_samples"].as_u64().unwrap_or(1) {
        let answer = ask(params["max_tokens"].as_u64().unwrap_or(16) as usize, 0, choice)?;
        let ids: Vec<u32> = answer.tokens.iter().map(|token| token.token).collect();
        let logprobs: Vec<f32> = answer.tokens.iter().map(|token| token.logprob_model).collect();
        let is_stopped = ids.last().is_some_and(|last| end.contains(last));
        response.sequences.push(SampledSequence {
            stop_reason: if is_stopped { STOPPED } else { AT_LENGTH },
            tokens: token_bytes(&ids),
            logprobs: Some(float_bytes(&logprobs)),
        });
    }
    let top = request["topk_prompt_logprobs"].as_u64().unwrap_or(0) as usize;
    if request["prompt_logprobs"] == true || top > 0 {
        let scores = if prompt.len() > 1 { ask(0, top, 0)?.scores } else { Vec::new() };
        let logprobs = scores.iter().map(|score| score.logprob as f32);
        let logprobs: Vec<f32> = std::iter::once(f32::NAN).chain(logprobs).collect();
        response.prompt_logprobs = Some(float_bytes(&logprobs));
        let mut cells = vec![(0, -99_999.0); top];
        for score in &scores {
            let own = score.alternatives.iter().map(|(id, logprob)| (*id, *logprob as f32));
            cells.extend(own.chain(std::iter::repeat((0, -99_999.0))).take(top));
        }
        let (ids, logprobs): (Vec<u32>, Vec<f32>) = cells.into_iter().unzip();
        let (token_ids, logprobs) = (token_bytes(&ids), float_bytes(&logprobs));
        let topk = TopkLogprobs { token_ids, logprobs, k: top as u32, length: prompt.len() as u32 };
        response.topk_prompt_logprobs = (top > 0).then_some(topk);
    }
    Ok(response)
}
