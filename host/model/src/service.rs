//! A model folder as a policy that answers conversations.
//!
//! Text is tokenised once. The tokens of an answer are remembered with the conversation that they end. When the
//! conversation continues, only the new text is tokenised. So training sees exactly the generated tokens. One text can
//! have several tokenisations; an answer in another one than the tokenizer's own carries the attribute `WRITTEN`, so
//! that it is not confused with the tokenizer's own.
//!
//! What is remembered of a conversation is found by requests of the same partition alone.

use crate::answers::ReadAnswer;
use crate::answers::RequestFields;
use crate::answers::stream::Speech;
use crate::blocking::in_place;
use crate::generate::{Answer, Drawn, Engine, Finish, Generator, Model, Request, Sampling, StopTexts, Version, Watch};
use crate::grammar;
use crate::remembered::{AnsweredConversation, Memory};
use crate::tokens::{ChatTemplate, TemplateArguments, Tokenizer};
use crate::{AdapterFolder, Grammars, LocalModelError};
use async_trait::async_trait;
use clawhost_core::{
    DeltaSink, Digest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, REASONING, Role,
    TokenLogprob, TokenRecord, ToolChoice, ToolSpec, Usage, ignored_by,
};
use prompt::{Prompt, conversation};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// The identity of a model and its chat format.
#[derive(Debug, Clone)]
pub struct ChatFormat {
    /// Its name.
    pub name: String,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// The chat template.
    pub template: ChatTemplate,
    /// Tokens that end an answer.
    pub end: Vec<u32>,
    /// The default sampling.
    pub sampling: Sampling,
    /// The treatment of conversations that are too long.
    pub overlong: Overlong,
    /// The arguments of the template, unless a request gives others.
    pub arguments: TemplateArguments,
    /// The marks of the family that are control tokens.
    pub marks: Arc<BTreeMap<String, u32>>,
    /// The digest of all this and of the model's shape. Together with the weights it determines the answers.
    pub digest: Digest,
}

impl ChatFormat {
    /// The same format with arguments of the template for all requests. They are part of its digest.
    pub fn with_arguments(self, arguments: TemplateArguments) -> Self {
        if arguments.is_empty() {
            return self;
        }
        let written = serde_json::to_vec(&arguments).unwrap_or_default();
        Self { digest: self.digest.extended(&written), arguments, ..self }
    }
}

/// The treatment of a conversation that does not fit into the model's context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overlong {
    /// The conversation is refused.
    #[default]
    Refuse,
    /// Its oldest turns are dropped until it fits, with room for the answer (at most half of the context). The system
    /// prompt and the last message stay. The answer's attribute [`LEFT_OUT`] has the number of dropped messages.
    LeaveOut,
}

/// The attribute of an answer with the number of messages that were dropped from its conversation.
pub const LEFT_OUT: &str = "left_out";

/// The attribute of an answer whose text does not determine its tokens: their digest.
const WRITTEN: &str = "written";

/// A model behind the port `Llm`: conversations are rendered and tokenised here, `G` generates tokens.
#[derive(Debug)]
pub struct ChatModel<G = Engine> {
    chat_format: ChatFormat,
    engine: Arc<G>,
    memory: Mutex<Memory>,
    grammars: Arc<Grammars>,
}

/// A model whose weights are in this process.
pub type LocalModel = ChatModel<Engine>;

/// The tools that may be called. None are shown to the model if calls are not allowed.
fn offered(request: &ModelRequest) -> &[ToolSpec] {
    if request.tool_choice == ToolChoice::None { &[] } else { &request.tools }
}

impl LocalModel {
    /// The same model with an adapter beside its weights, which both share in memory; what it answers and remembers is its own. `None`: its weights are on
    /// a device, which cannot share them.
    ///
    /// # Errors
    /// The adapter belongs to another model, or the thread could not be started.
    pub fn adapted(&self, number: u64, adapter: &AdapterFolder) -> Result<Option<Arc<Self>>, LocalModelError> {
        let base = self.engine.current();
        let Model::Processor(model) = &base.model else { return Ok(None) };
        let model = model.adapted(adapter)?.into();
        let engine = Engine::new(Version { number, digest: adapter.digest_with(base.digest), model })?;
        Ok(Some(Arc::new(Self::new(self.chat_format.clone(), Arc::new(engine)))))
    }
}

impl<G: Generator> ChatModel<G> {
    /// A model with this engine.
    pub fn new(chat_format: ChatFormat, engine: Arc<G>) -> Self {
        let marks: Vec<u32> = chat_format.marks.values().copied().collect();
        let words = (&chat_format.end[..], &marks[..]);
        let grammars = Grammars::new(chat_format.tokenizer.clone(), words, engine.vocabulary());
        Self { chat_format, engine, memory: Mutex::default(), grammars: Arc::new(grammars) }
    }

    pub(crate) fn chat_format(&self) -> &ChatFormat {
        &self.chat_format
    }

    /// Its compiler of grammars.
    pub fn grammars(&self) -> &Arc<Grammars> {
        &self.grammars
    }

    /// What generates tokens.
    pub fn engine(&self) -> &Arc<G> {
        &self.engine
    }

    /// Whether its template omits system messages: a system prompt or a playbook would have no effect.
    pub fn ignores_system_prompt(&self) -> bool {
        self.chat_format.template.ignores_system_prompt()
    }

    async fn answer(
        &self,
        request: &ModelRequest,
        prompt: Prompt,
        mut pass_on: impl FnMut(&str) -> ControlFlow<()> + Send + 'static,
    ) -> Result<ModelResponse, LocalModelError> {
        let fields = RequestFields::of(request);
        fields.check_answer()?;
        let mut sampling = Sampling {
            temperature: request.temperature.unwrap_or(self.chat_format.sampling.temperature),
            top_p: request.top_p.unwrap_or(self.chat_format.sampling.top_p),
            ..self.chat_format.sampling.clone()
        };
        fields.apply(&mut sampling, self.engine.vocabulary())?;
        let (temperature, restricted) = (sampling.temperature, !sampling.is_trainable());
        let format = self.chat_format.template.answers();
        if !self.engine.constrains() && fields.grammar()?.is_some() {
            return Err(LocalModelError::Request("the service of this model's weights knows no grammars".to_owned()));
        }
        let marks = &self.chat_format.marks;
        let grammar = match self.engine.constrains() {
            true => grammar::text::of_request(request, &fields, format, marks, &prompt.text)?,
            // What the answer then lacks is reported with it.
            false => None,
        };
        let grammar = grammar.map(|text| in_place(|| self.grammars.compile(&text))).transpose()?;
        let asked = Request {
            prompt: prompt.tokens.clone(),
            sampling,
            grammar: grammar.clone(),
            seed: request.seed.unwrap_or(0),
            choice: prompt.tokens.len() as u64,
            max_tokens: request.max_tokens.max(1) as usize,
            alternatives: request.logprobs.unwrap_or(0).into(),
            end: self.chat_format.end.clone(),
            partition: request.partition,
        };
        let mut stop = self.stop_texts(request);
        let watch: Watch = Box::new(move |drawn| match stop.push(drawn.token) {
            Ok((text, ended)) => {
                let flow = pass_on(text);
                if ended { ControlFlow::Break(()) } else { flow }
            }
            // The final decoding of the whole answer reports text that cannot be decoded.
            Err(_) => ControlFlow::Continue(()),
        });
        let Answer { tokens, finish, version, .. } = self.engine.generate(asked, watch).await?;
        let ids: Vec<u32> = tokens.iter().map(|token| token.token).collect();
        let ended = ids.last().is_some_and(|last| self.chat_format.end.contains(last));
        let shown = ids.get(..ids.len() - usize::from(ended)).unwrap_or_default();
        let text = self.spoken(shown)?;
        let stops = request.stop.iter().filter(|stop| !stop.is_empty());
        let (text, finish) = match stops.filter_map(|stop| text.find(stop.as_str())).min() {
            Some(end) => (text.get(..end).unwrap_or_default().to_owned(), "stop"),
            None if finish == Finish::Stop => (text, "stop"),
            None => (text, "length"),
        };
        let (mut message, finish) = self.to_message(request, text, &ids, (finish, prompt.reasons));
        self.remember(request, &message, &prompt, &ids)?;
        if prompt.left_out > 0 {
            message.extra.push((LEFT_OUT.to_owned(), prompt.left_out.to_string()));
        }
        let usage = Usage {
            prompt_tokens: prompt.tokens.len() as u64,
            completion_tokens: ids.len() as u64,
            // Not the engine's cache hits: equal runs have equal records. A client sees it, so it comes from its own partition.
            cached_tokens: prompt.shared as u64,
            ..Usage::default()
        };
        let logprobs = match request.logprobs {
            Some(_) => self.logprobs(&tokens, shown.len())?,
            None => Vec::new(),
        };
        let record = TokenRecord {
            version,
            shared: prompt.shared,
            prompt: prompt.tokens.get(prompt.shared..).unwrap_or_default().to_vec(),
            logprob_model: tokens.iter().map(|token| token.logprob_model).collect(),
            logprob_sampled: tokens.iter().map(|token| token.logprob_sampled).collect(),
            tokens: ids,
            temperature,
            restricted,
            grammar: grammar.map(|grammar| grammar.record()),
        };
        // The policy's identity has the model's name already.
        let mut response =
            ModelResponse { tokens: Some(Box::new(record)), logprobs, ..ModelResponse::new(message, usage, finish) };
        response.ignored = ignored_by(&response, request);
        Ok(response)
    }

    /// The log-probabilities of the first `shown` tokens of an answer under the model, including those of the text of
    /// calls, with the most likely tokens at their places, if they were asked for.
    fn logprobs(&self, tokens: &[Drawn], shown: usize) -> Result<Vec<TokenLogprob>, LocalModelError> {
        let text = |token: u32| self.chat_format.tokenizer.decode(&[token], true);
        let one = |drawn: &Drawn| {
            let other = |(token, logprob): &(u32, f64)| Ok((text(*token)?, logprob.min(0.0)));
            let alternatives = drawn.alternatives.iter().map(other).collect::<Result<_, LocalModelError>>()?;
            // As exact as beside it, where the token is one of the alternatives.
            let beside = drawn.alternatives.iter().find(|(token, _)| *token == drawn.token);
            let logprob = beside.map_or_else(|| f64::from(drawn.logprob_model), |(_, logprob)| *logprob).min(0.0);
            Ok(TokenLogprob { token: text(drawn.token)?, logprob, alternatives })
        };
        tokens.iter().take(shown).map(one).collect()
    }

    /// Answers, and passes reasoning and text on as they are drawn. If tools are offered, text that may become a call is held back; calls are passed
    /// on when the answer has ended. White space at the beginning of an answer with calls is passed on, and is not in
    /// the message.
    ///
    /// # Errors
    /// The template refuses the conversation, it is too long, or the sink stopped reading.
    pub async fn answer_streamed(
        &self,
        request: &ModelRequest,
        sink: &mut dyn DeltaSink,
    ) -> Result<ModelResponse, LocalModelError> {
        let stopped = || LocalModelError::Service(ModelError::Stopped);
        // Tokens are drawn on a thread of the engine, which must not wait for the sink. The queue is bounded by the
        // tokens of an answer.
        let (sender, mut receiver) = mpsc::unbounded_channel::<String>();
        let prompt = self.prompt(request)?;
        let format = self.chat_format.template.answers().clone();
        let mut speech = Speech::new(format, prompt.reasons, !offered(request).is_empty());
        let mut answer = Box::pin(self.answer(request, prompt, move |text| match sender.send(text.to_owned()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }));
        let response = loop {
            tokio::select! {
                biased;
                Some(text) = receiver.recv() => {
                    if speech.push(&text, sink).is_break() {
                        // The engine stops at the next token: the receiver is gone.
                        return Err(stopped());
                    }
                }
                response = &mut answer => break response?,
            }
        };
        drop(answer);
        while let Ok(text) = receiver.try_recv() {
            speech.push(&text, sink).continue_value().ok_or_else(stopped)?;
        }
        speech.end(&response, sink).continue_value().ok_or_else(stopped)?;
        Ok(response)
    }

    /// The response of a model that answered with this text, tokenised by the tokenizer. Its log-probs are unknown.
    pub(crate) fn demonstrated(&self, request: &ModelRequest, text: &str) -> Result<ModelResponse, LocalModelError> {
        let prompt = self.prompt(request)?;
        // The text comes from an environment, which must not insert control words.
        let text = self.chat_format.template.harmless(text);
        let ids = self.own_tokens(&text)?;
        let (tokens, context) = (prompt.tokens.len() + ids.len(), self.engine.context());
        if tokens > context {
            return Err(LocalModelError::TooLong { tokens, context });
        }
        let (message, finish) = self.to_message(request, text, &ids, ("stop", prompt.reasons));
        self.remember(request, &message, &prompt, &ids)?;
        let record = TokenRecord {
            version: self.engine.weights().0,
            shared: prompt.shared,
            prompt: prompt.tokens.get(prompt.shared..).unwrap_or_default().to_vec(),
            logprob_model: vec![0.0; ids.len()],
            logprob_sampled: vec![0.0; ids.len()],
            tokens: ids,
            temperature: 1.0,
            restricted: false,
            grammar: None,
        };
        let usage = Usage::default();
        Ok(ModelResponse { tokens: Some(Box::new(record)), ..ModelResponse::new(message, usage, finish) })
    }

    /// The message of these tokens, and how it ended. Equal tokens give equal texts and calls, whatever their origin.
    fn to_message<'a>(
        &self,
        request: &ModelRequest,
        text: String,
        ids: &[u32],
        (finish, reasons): (&'a str, bool),
    ) -> (Message, &'a str) {
        let ReadAnswer { reasoning, text, calls } =
            self.chat_format.template.answers().read(&text, reasons, offered(request));
        // A truncated answer is reported as such, even if it has calls.
        let finish = if calls.is_empty() || finish == "length" { finish } else { "tool_calls" };
        let mut message = Message::text(Role::Assistant, Origin::Policy, text);
        message.tool_calls = calls;
        message.extra.extend(reasoning.map(|reasoning| (REASONING.to_owned(), reasoning)));
        let told = self.own_tokens(&message.plain_text()).is_ok_and(|own| own == ids);
        if !told || !message.tool_calls.is_empty() {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            message.extra.push((WRITTEN.to_owned(), Digest::of(&bytes).to_string()));
        }
        (message, finish)
    }

    /// The text of an answer's tokens. The marks of its family are in it, even if they are control tokens.
    fn spoken(&self, tokens: &[u32]) -> Result<String, LocalModelError> {
        let ChatFormat { tokenizer, marks, .. } = &self.chat_format;
        if marks.is_empty() {
            return tokenizer.decode(tokens, true);
        }
        let (mut parts, mut between) = (vec![Vec::new()], Vec::new());
        for token in tokens {
            match marks.iter().find(|(_, mark)| *mark == token) {
                Some((text, _)) => {
                    between.push(text.as_str());
                    parts.push(Vec::new());
                }
                None => parts.last_mut().into_iter().for_each(|part| part.push(*token)),
            }
        }
        let texts = tokenizer.decode_lists(parts, true)?;
        let marks = between.into_iter().chain(std::iter::once(""));
        Ok(texts.iter().zip(marks).flat_map(|(text, mark)| [text.as_str(), mark]).collect())
    }

    fn stop_texts(&self, request: &ModelRequest) -> StopTexts {
        let ChatFormat { tokenizer, marks, end, .. } = &self.chat_format;
        let shown = marks.iter().map(|(text, token)| (*token, text.clone())).collect();
        StopTexts::new(tokenizer.clone(), &request.stop, end.clone()).showing(shown)
    }

    /// The tokens of a whole answer by the tokenizer.
    fn own_tokens(&self, text: &str) -> Result<Vec<u32>, LocalModelError> {
        let mut ids = self.chat_format.tokenizer.encode(text)?;
        ids.extend(self.chat_format.end.first());
        Ok(ids)
    }

    fn remember(
        &self,
        request: &ModelRequest,
        message: &Message,
        prompt: &Prompt,
        ids: &[u32],
    ) -> Result<(), LocalModelError> {
        let answer = self.chat_format.tokenizer.decode(ids, false)?;
        let entry = AnsweredConversation {
            text: format!("{}{answer}", prompt.text),
            tokens: [&prompt.tokens, ids].concat().into(),
        };
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).keep(
            request.partition,
            conversation(request.messages.iter().chain([message])),
            entry,
        );
        Ok(())
    }
}

#[async_trait]
impl<G: Generator> Llm for ChatModel<G> {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity {
            provider: self.engine.provider().to_owned(),
            model: self.chat_format.name.clone(),
            // Changing the tokenizer or the chat template changes the model's identity.
            version: format!("{}+{}", self.engine.weights().1, self.chat_format.digest.short()),
        }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let prompt = self.prompt(request)?;
        Ok(self.answer(request, prompt, |_| ControlFlow::Continue(())).await?)
    }

    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        Ok(self.answer_streamed(request, sink).await?)
    }
}

impl From<LocalModelError> for ModelError {
    fn from(error: LocalModelError) -> Self {
        match error {
            LocalModelError::Device { .. }
            | LocalModelError::DeviceLost { .. }
            | LocalModelError::DeviceMemory { .. } => Self::Unavailable(error.to_string()),
            LocalModelError::Service(error) => error,
            LocalModelError::TooLong { .. } => Self::TooLong(error.to_string()),
            other => Self::Refused(other.to_string()),
        }
    }
}

#[cfg(test)]
mod partitions;
mod prompt;
#[cfg(test)]
mod tests;
