//! Text completion.

use super::folder::{LocalSource, read};
use super::{MAX_TOKENS, SEED};
use crate::{AppError, Event, EventSink, ModelSettings, RequestError};
use clawhost_core::{Digest, Partition};
use clawhost_model::generate::{Answer, Drawn, Finish, Penalties, Request, Sampling, StopTexts, Watch};
use clawhost_model::tokens::{TextHost, Tokenizer};
use clawhost_model::{AnswerShape, Grammar, Grammars, LocalModelError, ModelFolder, digest};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Receives text while it is generated. Called on the generating thread; must not block.
pub type TextSink = Box<dyn FnMut(&str) + Send>;

/// The settings of a completion.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// The text to complete, unchanged: no chat template.
    pub prompt: String,
    /// Number of answers, drawn independently.
    pub answers: u16,
    /// Largest number of tokens per answer.
    pub max_tokens: u32,
    /// Sampling temperature. 0: greedy. `None`: the model's own.
    pub temperature: Option<f32>,
    /// Top-p. `None`: the model's own.
    pub top_p: Option<f64>,
    /// Top-k. 0: all tokens. `None`: the model's own.
    pub top_k: Option<u32>,
    /// Penalties for tokens that occurred before. `None`: the model's own.
    pub penalties: Option<Penalties>,
    /// What every answer is to be.
    pub shape: Option<AnswerShape>,
    /// The seed: equal seeds give equal answers.
    pub seed: u64,
    /// Texts that end an answer. They are not part of it.
    pub stop: Vec<String>,
}

impl GenerateRequest {
    /// One answer to a prompt, with the model's own settings.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            answers: 1,
            max_tokens: MAX_TOKENS,
            temperature: None,
            top_p: None,
            top_k: None,
            penalties: None,
            shape: None,
            seed: SEED,
            stop: Vec::new(),
        }
    }
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedText {
    /// Its text, up to the stop text or end token.
    pub text: String,
    /// Bytes of the text that were streamed, if there was a sink.
    pub streamed: usize,
    /// Why it ended.
    pub finish: Finish,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// The log-probability of each token for the model.
    pub logprobs: Vec<f32>,
    /// The log-probability of each token in the distribution from which it was drawn.
    pub logprobs_sampled: Vec<f32>,
}

/// The answers to a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedTexts {
    /// The tokens of the prompt.
    pub prompt_tokens: Vec<u32>,
    /// The answers, in order.
    pub answers: Vec<GeneratedText>,
    /// The digest of the weights.
    pub weights: Digest,
    /// The digest of the answers' grammar, if they had one.
    pub grammar: Option<Digest>,
}

/// A model that completes texts.
#[derive(Debug)]
pub struct TextGenerator {
    model: ModelFolder,
    tokenizer: Tokenizer,
}

impl TextGenerator {
    /// Reads a model. Nothing is computed yet.
    ///
    /// # Errors
    /// There is no supported model, its tokenizer cannot be used, or the adapter does not fit.
    pub fn read(source: LocalSource<'_>, texts: &TextHost, events: &dyn EventSink) -> Result<Self, AppError> {
        let model = read(source, texts, events)?;
        let tokenizer = model.texts()?.tokenizer;
        Ok(Self { model, tokenizer })
    }

    /// Completes a text. If one answer is requested, its text is streamed to `stream`. Dropping the future cancels it.
    ///
    /// # Errors
    /// The prompt is empty or cannot be tokenised, or the device cannot be used.
    pub async fn generate(
        &self,
        request: &GenerateRequest,
        models: &ModelSettings,
        events: &dyn EventSink,
        stream: Option<TextSink>,
    ) -> Result<GeneratedTexts, AppError> {
        let prompt_tokens = self.tokenizer.encode_whole(&request.prompt)?;
        if prompt_tokens.is_empty() {
            return Err(RequestError::Other("an empty prompt; give a text to complete".to_owned()).into());
        }
        let reading = Reading { tokenizer: &self.tokenizer, end: &self.model.config.end_tokens, stop: &request.stop };
        let device = models.open_device(self.model.config.parameters(), events)?;
        let grammar = self.grammar(request)?;
        let engine = self.model.engine(&device)?;
        let mut stream = stream.filter(|_| request.answers == 1);
        let mut asked = Vec::with_capacity(request.answers.into());
        for choice in 0..u64::from(request.answers) {
            let one = Request {
                prompt: prompt_tokens.clone(),
                sampling: self.sampling(request),
                grammar: grammar.clone(),
                seed: request.seed,
                choice,
                max_tokens: request.max_tokens.max(1) as usize,
                alternatives: 0,
                end: self.model.config.end_tokens.clone(),
                partition: Partition::OWN,
            };
            asked.push((one, Some(reading.watch(stream.take()))));
        }
        let (mut answers, total) = (Vec::with_capacity(asked.len()), asked.len() as u64);
        for waiting in engine.ask_many(asked)? {
            let answer =
                waiting.await.map_err(|_| AppError::Host("the thread that answers has ended".to_owned()))??;
            answers.push(reading.text_of(&answer)?);
            if total > 1 {
                events.event(Event::Progress { done: answers.len() as u64, total });
            }
        }
        let grammar = grammar.map(|grammar| grammar.record().digest);
        Ok(GeneratedTexts { prompt_tokens, answers, weights: digest(&self.model.weights), grammar })
    }

    /// The grammar of the answers, compiled before anything is computed.
    fn grammar(&self, request: &GenerateRequest) -> Result<Option<Arc<Grammar>>, AppError> {
        let Some(shape) = &request.shape else { return Ok(None) };
        let config = &self.model.config;
        let grammars = Grammars::new(self.tokenizer.clone(), (&config.end_tokens, &[]), config.vocabulary);
        let compiled = grammars.compile(&shape.text());
        Ok(Some(compiled.map_err(|error| RequestError::Other(error.to_string()))?))
    }

    fn sampling(&self, request: &GenerateRequest) -> Sampling {
        let own = &self.model.sampling;
        Sampling {
            temperature: request.temperature.unwrap_or(own.temperature),
            top_k: request.top_k.map_or(own.top_k, |k| (k > 0).then_some(k as usize)),
            top_p: request.top_p.map_or(own.top_p, |p| p as f32),
            penalties: request.penalties.unwrap_or(own.penalties),
            ..own.clone()
        }
    }
}

/// Decodes answers: the tokenizer, the end tokens, and the stop texts.
struct Reading<'a> {
    tokenizer: &'a Tokenizer,
    end: &'a [u32],
    stop: &'a [String],
}

impl Reading<'_> {
    fn texts(&self) -> StopTexts {
        StopTexts::new(self.tokenizer.clone(), self.stop, self.end.to_vec())
    }

    /// The text of an answer, up to the stop text or end token.
    fn text(&self, tokens: &[u32]) -> Result<String, LocalModelError> {
        let spoken: Vec<u32> = tokens.iter().copied().filter(|token| !self.end.contains(token)).collect();
        let text = self.tokenizer.decode(&spoken, true)?;
        let end = self.stop.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop.as_str())).min();
        Ok(text.get(..end.unwrap_or(text.len())).unwrap_or_default().to_owned())
    }

    /// Ends an answer at a stop text, and streams its text.
    fn watch(&self, mut stream: Option<TextSink>) -> Watch {
        let mut texts = self.texts();
        Box::new(move |drawn: &Drawn| {
            let Ok((text, over)) = texts.push(drawn.token) else { return ControlFlow::Continue(()) };
            if let Some(stream) = stream.as_mut().filter(|_| !text.is_empty()) {
                stream(text);
            }
            if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    fn text_of(&self, answer: &Answer) -> Result<GeneratedText, LocalModelError> {
        let tokens: Vec<u32> = answer.tokens.iter().map(|drawn| drawn.token).collect();
        let (mut texts, mut streamed) = (self.texts(), 0);
        for token in &tokens {
            streamed += texts.push(*token)?.0.len();
        }
        Ok(GeneratedText {
            text: self.text(&tokens)?,
            streamed,
            finish: answer.finish,
            logprobs: answer.tokens.iter().map(|drawn| drawn.logprob_model).collect(),
            logprobs_sampled: answer.tokens.iter().map(|drawn| drawn.logprob_sampled).collect(),
            tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use crate::local_models::{NewModel, create_model};
    use std::sync::Mutex;

    #[tokio::test]
    async fn an_answer_is_streamed_and_equal_seeds_give_equal_answers() {
        let folder = tempfile::tempdir().unwrap();
        let vocabulary = Some(clawhost_model::Vocabulary::Characters("0123456789+=#".to_owned()));
        create_model(&NewModel { width: 16, context: 32, vocabulary, ..NewModel::new(folder.path()) }).unwrap();
        let generator = TextGenerator::read(LocalSource::new(folder.path()), &TextHost::InProcess, &Silent).unwrap();
        let models = ModelSettings::default();
        let request = GenerateRequest { max_tokens: 9, seed: 4, ..GenerateRequest::new("1+1=") };
        let heard = Arc::new(Mutex::new(String::new()));
        let hears = heard.clone();
        let stream: TextSink = Box::new(move |text| hears.lock().unwrap().push_str(text));
        let one = generator.generate(&request, &models, &Silent, Some(stream)).await.unwrap();
        let first = &one.answers[0];
        assert_eq!(*heard.lock().unwrap(), first.text[..first.streamed]);
        assert_eq!((first.tokens.len(), one.prompt_tokens.len()), (first.logprobs.len(), 4));
        let several = GenerateRequest { answers: 3, ..request.clone() };
        let several = generator.generate(&several, &models, &Silent, None).await.unwrap();
        assert_eq!((several.answers.len(), &several.answers[0]), (3, first));
        let empty = generator.generate(&GenerateRequest::new(""), &models, &Silent, None).await.unwrap_err();
        assert!(empty.to_string().contains("an empty prompt"), "{empty}");
    }

    #[tokio::test]
    async fn answers_are_of_the_shape_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let vocabulary = Some(clawhost_model::Vocabulary::Characters("0123456789+=#".to_owned()));
        create_model(&NewModel { width: 16, context: 32, vocabulary, ..NewModel::new(folder.path()) }).unwrap();
        let generator = TextGenerator::read(LocalSource::new(folder.path()), &TextHost::InProcess, &Silent).unwrap();
        let asked = |shape| GenerateRequest { answers: 5, max_tokens: 9, shape, ..GenerateRequest::new("1+1=") };
        let models = ModelSettings::default();
        let shape = Some(AnswerShape::Regex("[0-9]{2}[+][0-9]".to_owned()));
        let found = generator.generate(&asked(shape), &models, &Silent, None).await.unwrap();
        assert!(found.grammar.is_some());
        for answer in &found.answers {
            let [a, b, plus, c] = answer.text.as_bytes() else { panic!("{answer:?}") };
            assert!([a, b, c].into_iter().all(u8::is_ascii_digit) && *plus == b'+', "{answer:?}");
            assert_eq!((answer.finish, answer.logprobs_sampled[4]), (Finish::Stop, 0.0), "the end is forced");
            assert!(answer.logprobs.iter().zip(&answer.logprobs_sampled).all(|(model, sampled)| model < sampled));
        }
        let letters = Some(AnswerShape::Choice(vec!["x".to_owned()]));
        let refused = generator.generate(&asked(letters), &models, &Silent, None).await.unwrap_err();
        assert_eq!(refused.kind(), crate::ErrorKind::Usage, "{refused}");
    }
}
