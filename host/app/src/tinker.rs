//! Models whose weights are at a service of the Tinker protocol: `tinker:BASE=FOLDER`, at Thinking Machines' own, or `tinker:BASE=FOLDER@ADDRESS`.
//!
//! `BASE` is the service's name of the base model. `FOLDER` has its `config.json`, its tokenizer and its chat template, and needs no weights: conversations are
//! rendered and tokenised here, and the service is asked in tokens. So the record has the exact tokens and log-probs, as of a local model.

use crate::models::ModelSettings;
use crate::{AppError, RequestError, small_files};
use async_trait::async_trait;
use clawhost_core::{Digest, KnownSecrets, Secret, derive_seed};
use clawhost_model::generate::{Answer, Drawn, Finish, Generator, Request, Watch};
use clawhost_model::{ChatFolder, ChatModel, LocalModelError};
use clawhost_providers::{
    SampleRequest, Sampled, TINKER_HOME, TINKER_KEY, TinkerConfig, TinkerSampler, TinkerService, TinkerWeights,
    tinker_origin,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the text of such a model begins with.
const KIND: &str = "tinker:";
/// The file with the weights of a version, in the folder of the version.
const FILE: &str = "tinker.json";
const FORMAT: u32 = 1;
/// Most bytes of a model's text in a message.
const SHOWN_BYTES: usize = 200;

/// A model at a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TinkerModel {
    /// The service's name of the base model.
    pub(crate) base: String,
    /// The folder with its texts.
    pub(crate) folder: PathBuf,
    /// The address of the service.
    pub(crate) address: String,
}

/// The weights of a version, by the service's paths of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TinkerVersion {
    format: u32,
    /// Weights and optimiser, from which learning goes on.
    pub(crate) state: String,
    /// The weights that answer.
    pub(crate) sampler: String,
}

impl TinkerVersion {
    pub(crate) fn new(state: String, sampler: String) -> Self {
        Self { format: FORMAT, state, sampler }
    }

    /// The version in a folder. `None`: there is none.
    ///
    /// # Errors
    /// The file is damaged.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, AppError> {
        small_files::read(&folder.join(FILE), FORMAT, |version: &Self| version.format)
    }

    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), AppError> {
        small_files::write(folder, FILE, self)
    }

    /// Identifies the weights.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.sampler.as_bytes())
    }
}

impl TinkerModel {
    /// The model of a text. `None`: it is of another kind.
    ///
    /// # Errors
    /// The text has no base model, or no folder.
    pub(crate) fn of(spec: &str) -> Result<Option<Self>, AppError> {
        let Some(rest) = spec.strip_prefix(KIND) else { return Ok(None) };
        let (named, address) = match rest.rsplit_once("@http") {
            Some((named, address)) => (named, format!("http{address}")),
            None => (rest, TINKER_HOME.to_owned()),
        };
        let parts = named.split_once('=').filter(|(base, folder)| !base.is_empty() && !folder.is_empty());
        let (base, folder) = parts.ok_or_else(|| {
            RequestError::Other(format!(
                "`{}` names no base model with a folder of its texts; write tinker:BASE=FOLDER, or tinker:BASE=FOLDER@http://HOST:PORT",
                clawhost_core::escaped(spec, SHOWN_BYTES)
            ))
        })?;
        Ok(Some(Self { base: base.to_owned(), folder: folder.into(), address }))
    }

    /// The weights that answer, and their digest: of a version, or of the base model.
    pub(crate) fn weights(&self, version: Option<&TinkerVersion>) -> (TinkerWeights, Digest) {
        match version {
            Some(version) => (TinkerWeights::Path(version.sampler.clone()), version.digest()),
            None => {
                (TinkerWeights::Base(self.base.clone()), Digest::of(self.base.as_bytes()).extended(b" tinker base"))
            }
        }
    }

    /// The texts of the folder. The name of the model is that of the folder.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub(crate) fn texts(&self, settings: &ModelSettings) -> Result<ChatFolder, AppError> {
        let shown = self.folder.display().to_string();
        if !self.folder.join("config.json").exists() {
            return Err(RequestError::NoModelFolder { folder: shown }.into());
        }
        let name = crate::model_folders::folder_name(&self.folder);
        let texts = ChatFolder::read(&self.folder, &name, &settings.texts);
        let texts = texts.map_err(|error| RequestError::ModelFolder { folder: shown.clone(), error })?;
        let sampling = &texts.format.sampling;
        if sampling.min_p > 0.0 || !sampling.penalties.are_none() {
            let why = "generation_config.json has min_p or repetition_penalty, which a Tinker service does not know; take them out of this folder";
            return Err(RequestError::File { path: shown, why: why.to_owned() }.into());
        }
        Ok(texts)
    }

    /// A connection to the service, with the key of the environment if the address may have it. `patience`: the longest wait for a result.
    ///
    /// # Errors
    /// The address is invalid, or wants a key and there is none.
    pub(crate) fn service(
        &self,
        settings: &ModelSettings,
        known: &KnownSecrets,
        key: Option<Secret>,
        patience: Option<Duration>,
    ) -> Result<Arc<TinkerService>, AppError> {
        let (origin, is_own) = tinker_origin(&self.address)?;
        let may_have = is_own || settings.confirmed.iter().any(|confirmed| confirmed == origin);
        let of_environment = || std::env::var(TINKER_KEY).ok().and_then(|text| Secret::new(&text));
        let key = key.or_else(|| of_environment().filter(|_| may_have));
        let config = TinkerConfig::new(self.address.clone(), key);
        let (silence, patience) = (config.silence, patience.unwrap_or(config.patience));
        let (known, retries) = (known.clone(), settings.retries);
        Ok(TinkerService::new(TinkerConfig { known, retries, patience, silence: silence.min(patience), ..config })?)
    }

    /// Opens the model with the weights of a version, or its base model. Its sampling session is open when this returns. `number`: that of the weights in
    /// answers.
    ///
    /// # Errors
    /// The texts cannot be used, or the service does not have the weights, or does not answer.
    pub(crate) fn open(
        &self,
        texts: ChatFolder,
        service: &Arc<TinkerService>,
        version: Option<&TinkerVersion>,
        number: u64,
    ) -> Result<Arc<ChatModel<TinkerGenerator>>, AppError> {
        let ChatFolder { format, vocabulary, context, .. } = texts;
        let (weights, digest) = self.weights(version);
        let sampler = service.wait(|service| async move { service.sampler(weights, vocabulary).await });
        let sampler = Arc::new(sampler.map_err(LocalModelError::Service)?);
        let generator = TinkerGenerator { sampler, weights: (number, digest), context, vocabulary };
        Ok(Arc::new(ChatModel::new(format, Arc::new(generator))))
    }
}

/// Generates tokens with the weights of a service.
#[derive(Debug)]
pub(crate) struct TinkerGenerator {
    sampler: Arc<TinkerSampler>,
    weights: (u64, Digest),
    context: usize,
    vocabulary: usize,
}

impl TinkerGenerator {
    /// The session that samples.
    pub(crate) fn sampler(&self) -> &Arc<TinkerSampler> {
        &self.sampler
    }
}

#[async_trait]
impl Generator for TinkerGenerator {
    fn provider(&self) -> &'static str {
        "tinker"
    }

    fn weights(&self) -> (u64, Digest) {
        self.weights
    }

    fn context(&self) -> usize {
        self.context
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn constrains(&self) -> bool {
        false
    }

    async fn generate(&self, request: Request, mut watch: Watch) -> Result<Answer, LocalModelError> {
        let Request { prompt, sampling, seed, choice, max_tokens, end, .. } = request;
        if prompt.is_empty() || prompt.len() >= self.context {
            return Err(LocalModelError::TooLong { tokens: prompt.len(), context: self.context });
        }
        if sampling.min_p > 0.0 || !sampling.bias.is_empty() || !sampling.penalties.are_none() {
            let why = "a Tinker service knows no min_p, no penalties and no logit_bias";
            return Err(LocalModelError::Request(why.to_owned()));
        }
        let most = max_tokens.clamp(1, self.context - prompt.len());
        let asked = SampleRequest {
            prompt,
            max_tokens: most,
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            seed: derive_seed(seed, "sample", choice),
            stop: end.clone(),
        };
        let Sampled { tokens, is_stopped } = self.sampler.sample(asked).await.map_err(LocalModelError::Service)?;
        let mut drawn = Vec::with_capacity(tokens.len());
        let mut finish = if is_stopped { Finish::Stop } else { Finish::Length };
        for one in tokens {
            // Of the model at temperature 1: a service gives no others. Sessions at another temperature teach no weights.
            let logprob_sampled = if sampling.temperature > 0.0 { one.logprob } else { 0.0 };
            let token = Drawn {
                token: one.token,
                logprob_model: one.logprob,
                logprob_sampled,
                kept: None,
                alternatives: Vec::new(),
            };
            let is_over = watch(&token).is_break() || end.contains(&one.token);
            drawn.push(token);
            if is_over {
                finish = Finish::Stop;
                break;
            }
        }
        let (version, weights) = self.weights;
        Ok(Answer { tokens: drawn, finish, version, weights, scores: Vec::new(), reused: 0 })
    }
}

#[cfg(test)]
mod tests;
