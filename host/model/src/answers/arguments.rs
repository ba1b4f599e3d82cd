//! Fields of a client's request beside the common ones, as servers of open models name them: sampling, arguments of the template, grammars.

use crate::generate::Sampling;
use crate::grammar::text::AnswerShape;
use crate::tokens::TemplateArguments;
use crate::{LocalModelError, TokenMask};
use clawhost_core::{ModelRequest, UnknownFields, escaped};
use serde_json::{Map, Value};

/// Largest penalty for presence or frequency, of both signs: the range of OpenAI's API.
const LARGEST_PENALTY: f64 = 2.0;
/// Largest bias of a token, of both signs: the range of OpenAI's API.
const LARGEST_BIAS: f64 = 100.0;
/// Most tokens with a bias: ten times what OpenAI's API takes.
const MOST_BIASED: usize = 3_000;
/// Characters of a field's name in an error.
const SHOWN: usize = 60;
/// Largest penalty for repetition. Those in use are below 2.
const LARGEST_REPETITION: f64 = 10.0;

/// What a request says in its further fields.
#[derive(Debug, Default)]
pub(crate) struct RequestFields {
    dialect: String,
    fields: Map<String, Value>,
}

fn wrong(name: &str, why: &str) -> LocalModelError {
    LocalModelError::Request(format!("{name} {why}"))
}

impl RequestFields {
    /// The further fields of a request, in whatever dialect it came.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        let unknown = request.unknown.clone();
        unknown.map(|UnknownFields { dialect, fields }| Self { dialect, fields }).unwrap_or_default()
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn number(&self, name: &str, least: f64, most: f64) -> Result<Option<f32>, LocalModelError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_f64().filter(|number| (least..=most).contains(number));
        number
            .map(|number| Some(number as f32))
            .ok_or_else(|| wrong(name, &format!("must be a number from {least} to {most}")))
    }

    /// Changes the sampling as the request says. `vocabulary`: ids of tokens are below it.
    ///
    /// # Errors
    /// A field is out of range.
    pub(crate) fn apply(&self, sampling: &mut Sampling, vocabulary: usize) -> Result<(), LocalModelError> {
        if let Some(value) = self.get("top_k") {
            let count = value.as_i64().filter(|count| *count >= -1);
            let count = count.ok_or_else(|| wrong("top_k", "must be a whole number, with -1 or 0 for all tokens"))?;
            sampling.top_k = usize::try_from(count).ok().filter(|count| *count > 0);
        }
        sampling.min_p = self.number("min_p", 0.0, 1.0)?.unwrap_or(sampling.min_p);
        let penalties = &mut sampling.penalties;
        let (least, most) = (-LARGEST_PENALTY, LARGEST_PENALTY);
        penalties.presence = self.number("presence_penalty", least, most)?.unwrap_or(penalties.presence);
        penalties.frequency = self.number("frequency_penalty", least, most)?.unwrap_or(penalties.frequency);
        let repetition = self.number("repetition_penalty", 0.0, LARGEST_REPETITION)?;
        if repetition == Some(0.0) {
            return Err(wrong("repetition_penalty", "must be above 0"));
        }
        penalties.repetition = repetition.unwrap_or(penalties.repetition);
        if let Some(value) = self.get("logit_bias") {
            let biases = value.as_object().ok_or_else(|| wrong("logit_bias", "must be an object of tokens"))?;
            if biases.len() > MOST_BIASED {
                return Err(wrong("logit_bias", &format!("must have at most {MOST_BIASED} tokens")));
            }
            let all = TokenMask::of(vocabulary, &[]);
            for (token, bias) in biases {
                let known = token.parse::<u32>().ok().filter(|token| all.knows(*token));
                let token =
                    known.ok_or_else(|| wrong("logit_bias", &format!("has a token that is not below {vocabulary}")))?;
                let bias = bias.as_f64().filter(|bias| bias.abs() <= LARGEST_BIAS);
                let bias = bias.ok_or_else(|| wrong("logit_bias", "must have numbers from -100 to 100"))?;
                sampling.bias.push((token, bias as f32));
            }
        }
        Ok(())
    }

    /// The arguments of the template: those of `chat_template_kwargs`, the documents, and how much the model is to think.
    ///
    /// # Errors
    /// A field has another type, or a name is the template's own.
    pub(crate) fn template(&self, defaults: &TemplateArguments) -> Result<TemplateArguments, LocalModelError> {
        let mut arguments = Map::new();
        // Anthropic's dialect.
        let thinking = self.get("thinking").and_then(|thinking| thinking.get("type")?.as_str());
        if let Some(thinking) = thinking {
            arguments.insert("enable_thinking".to_owned(), Value::Bool(thinking != "disabled"));
        }
        // OpenAI's.
        if let Some(effort) = self.get("reasoning_effort") {
            arguments.insert("reasoning_effort".to_owned(), effort.clone());
            if effort == "none" {
                arguments.insert("enable_thinking".to_owned(), Value::Bool(false));
            }
        }
        if let Some(documents) = self.get("documents") {
            let documents = documents.as_array().ok_or_else(|| wrong("documents", "must be a list"))?;
            arguments.insert("documents".to_owned(), documents.clone().into());
        }
        if let Some(own) = self.get("chat_template_kwargs") {
            let own = own.as_object().ok_or_else(|| wrong("chat_template_kwargs", "must be an object"))?;
            arguments.extend(own.clone());
        }
        Ok(defaults.with(TemplateArguments::new(arguments)?))
    }

    /// The grammar that the request asks for in fields of its own: `structured_outputs` of vLLM, or its older `guided_...`.
    ///
    /// # Errors
    /// A field has another type, or there are two grammars.
    pub(crate) fn grammar(&self) -> Result<Option<AnswerShape>, LocalModelError> {
        let outer = self.get("structured_outputs");
        let outer =
            outer.map(|value| value.as_object().ok_or_else(|| wrong("structured_outputs", "must be an object")));
        let outer = outer.transpose()?;
        const KINDS: [&str; 4] = ["json", "regex", "choice", "grammar"];
        let other = outer
            .and_then(|outer| outer.iter().find(|(name, value)| !KINDS.contains(&name.as_str()) && !value.is_null()));
        if let Some((name, _)) = other {
            let name = escaped(name, SHOWN);
            return Err(wrong(
                &format!("structured_outputs.{name}"),
                "is not known; json, regex, choice and grammar are",
            ));
        }
        let mut found = Vec::new();
        for kind in KINDS {
            let older = format!("guided_{kind}");
            let inner = outer.and_then(|outer| outer.get(kind)).filter(|value| !value.is_null());
            let Some(value) = inner.or_else(|| self.get(&older)) else { continue };
            let text = || value.as_str().map(str::to_owned).ok_or_else(|| wrong(kind, "must be a text"));
            found.push(match kind {
                "json" => AnswerShape::Json(match value {
                    Value::String(text) => {
                        serde_json::from_str(text).map_err(|error| wrong(kind, &format!("is no JSON: {error}")))?
                    }
                    schema => schema.clone(),
                }),
                "regex" => AnswerShape::Regex(text()?),
                "grammar" => AnswerShape::Lark(text()?),
                _ => {
                    let choices = value.as_array().map(|all| all.iter().map(|one| one.as_str().map(str::to_owned)));
                    let choices =
                        choices.and_then(Iterator::collect::<Option<Vec<String>>>).filter(|all| !all.is_empty());
                    AnswerShape::Choice(choices.ok_or_else(|| wrong(kind, "must be a list of texts, at least one"))?)
                }
            });
        }
        if found.len() > 1 {
            return Err(wrong("structured_outputs", "must have one of json, regex, choice and grammar"));
        }
        Ok(found.pop())
    }

    /// Refuses what a client asks of its answer in words that its dialect does not have, or that no local model can give: without them the answer would be of
    /// another kind.
    ///
    /// # Errors
    /// There is such a field.
    pub(crate) fn check_answer(&self) -> Result<(), LocalModelError> {
        // In this dialect what was understood is in no further field, and the others refuse by themselves what they do not understand.
        if self.dialect != "openai" {
            return Ok(());
        }
        if self.get("response_format").is_some_and(|format| format.get("type").is_some()) {
            return Err(wrong("response_format.type", "must be text, json_object or json_schema"));
        }
        if self.get("tool_choice").is_some() {
            return Err(wrong(
                "tool_choice",
                "must be auto, none, required or a function, as an object with its type and name",
            ));
        }
        Ok(())
    }

    /// Whether an answer may have several calls: `parallel_tool_calls` of OpenAI's dialects, `disable_parallel_tool_use` of Anthropic's.
    pub(crate) fn may_call_twice(&self) -> bool {
        let disabled = self.get("tool_choice").and_then(|choice| choice.get("disable_parallel_tool_use")?.as_bool());
        self.get("parallel_tool_calls").and_then(Value::as_bool).unwrap_or(true) && !disabled.unwrap_or(false)
    }

    /// Whether the tool of this name is to be called with arguments of its schema alone: `strict` of OpenAI's dialect.
    pub(crate) fn is_strict(&self, tool: &str) -> bool {
        let tools = self.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let function = |entry: &Value| {
            // Other dialects than chat have the fields of a function in the tool itself.
            let function = entry.get("function").unwrap_or(entry);
            (function.get("name")?.as_str()? == tool).then(|| function.get("strict") == Some(&Value::Bool(true)))
        };
        tools.iter().find_map(function).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> RequestFields {
        let Value::Object(fields) = value else { panic!("no object") };
        let unknown = Some(UnknownFields { dialect: "openai".into(), fields });
        RequestFields::of(&ModelRequest { unknown, ..ModelRequest::default() })
    }

    #[test]
    fn sampling_fields_change_the_sampling_and_wrong_ones_are_named() {
        let mut sampling = Sampling::default();
        let all = json!({
            "top_k": 40, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": -2, "repetition_penalty": 1.1,
            "logit_bias": { "3": -100, "0": 0.5 },
        });
        fields(all).apply(&mut sampling, 4).unwrap();
        let crate::generate::Penalties { repetition, presence, frequency } = sampling.penalties;
        assert_eq!((sampling.top_k, sampling.min_p, repetition), (Some(40), 0.1, 1.1));
        assert_eq!((presence, frequency), (1.0, -2.0));
        sampling.bias.sort_by_key(|(token, _)| *token);
        assert_eq!(sampling.bias, [(0, 0.5), (3, -100.0)]);
        fields(json!({ "top_k": -1, "min_p": null })).apply(&mut sampling, 4).unwrap();
        assert_eq!((sampling.top_k, sampling.min_p), (None, 0.1));
        let check = |wrong: Value, expect: &str| {
            let error = fields(wrong.clone()).apply(&mut Sampling::default(), 4).unwrap_err();
            assert_eq!(error.to_string(), expect, "{wrong}");
        };
        check(json!({ "top_k": 0.5 }), "top_k must be a whole number, with -1 or 0 for all tokens");
        check(json!({ "min_p": 2 }), "min_p must be a number from 0 to 1");
        check(json!({ "presence_penalty": "a" }), "presence_penalty must be a number from -2 to 2");
        check(json!({ "repetition_penalty": 0 }), "repetition_penalty must be above 0");
        check(json!({ "logit_bias": [] }), "logit_bias must be an object of tokens");
        check(json!({ "logit_bias": { "4": 1 } }), "logit_bias has a token that is not below 4");
        check(json!({ "logit_bias": { "1": 101 } }), "logit_bias must have numbers from -100 to 100");
    }

    #[test]
    fn what_is_asked_of_an_answer_and_not_understood_is_refused() {
        let check = |value: Value, expect: &str| {
            let fields = fields(value.clone());
            let error = fields.check_answer().and_then(|()| fields.grammar()).unwrap_err();
            assert_eq!(error.to_string(), expect, "{value}");
        };
        let format = "response_format.type must be text, json_object or json_schema";
        check(json!({ "response_format": { "type": "foo" } }), format);
        let choice = "tool_choice must be auto, none, required or a function, as an object with its type and name";
        check(json!({ "tool_choice": "foo" }), choice);
        check(json!({ "tool_choice": { "type": "allowed_tools" } }), choice);
        check(json!({ "tool_choice": { "type": "any" } }), choice);
        let unknown = "structured_outputs.choise is not known; json, regex, choice and grammar are";
        check(json!({ "structured_outputs": { "choise": ["x"] } }), unknown);
        for right in [
            json!({}),
            json!({ "response_format": { "json_schema": { "description": "a city" } } }),
            json!({ "structured_outputs": { "regex": "a", "grammar": null, "backend": null } }),
        ] {
            fields(right.clone()).check_answer().unwrap_or_else(|error| panic!("{right}: {error}"));
            fields(right.clone()).grammar().unwrap_or_else(|error| panic!("{right}: {error}"));
        }
        let own = json!({ "tool_choice": { "type": "any", "disable_parallel_tool_use": true } });
        RequestFields { dialect: "anthropic".to_owned(), ..fields(own) }.check_answer().unwrap();
    }

    #[test]
    fn both_dialects_can_ask_for_one_call() {
        let check = |value: Value, expect: bool| assert_eq!(fields(value.clone()).may_call_twice(), expect, "{value}");
        check(json!({}), true);
        check(json!({ "parallel_tool_calls": true }), true);
        check(json!({ "parallel_tool_calls": false }), false);
        check(json!({ "tool_choice": { "type": "any", "disable_parallel_tool_use": true } }), false);
    }

    #[test]
    fn arguments_of_the_template_come_from_both_dialects() {
        let check = |value: Value, expect: Value| {
            let defaults = TemplateArguments::new(Map::from_iter([("a".to_owned(), json!(0))])).unwrap();
            let found = fields(value.clone()).template(&defaults).unwrap();
            assert_eq!(serde_json::to_value(&found).unwrap(), expect, "{value}");
        };
        check(json!({}), json!({ "a": 0 }));
        check(
            json!({ "chat_template_kwargs": { "a": 1, "enable_thinking": false } }),
            json!({ "a": 1, "enable_thinking": false }),
        );
        check(json!({ "thinking": { "type": "disabled" } }), json!({ "a": 0, "enable_thinking": false }));
        check(
            json!({ "reasoning_effort": "none" }),
            json!({ "a": 0, "reasoning_effort": "none", "enable_thinking": false }),
        );
        check(json!({ "documents": [{ "text": "x" }] }), json!({ "a": 0, "documents": [{ "text": "x" }] }));
        for wrong in [
            json!({ "documents": 1 }),
            json!({ "chat_template_kwargs": 1 }),
            json!({ "chat_template_kwargs": { "messages": [] } }),
        ] {
            let error = fields(wrong.clone()).template(&TemplateArguments::default()).unwrap_err();
            assert!(matches!(error, LocalModelError::Request(_)), "{wrong}");
        }
    }

    #[test]
    fn a_grammar_is_found_by_its_newer_and_its_older_name() {
        let check = |value: Value, expect: Option<AnswerShape>| {
            assert_eq!(fields(value.clone()).grammar().unwrap(), expect, "{value}")
        };
        check(json!({}), None);
        check(json!({ "structured_outputs": { "regex": "a+" } }), Some(AnswerShape::Regex("a+".into())));
        check(json!({ "guided_regex": "a+" }), Some(AnswerShape::Regex("a+".into())));
        check(json!({ "guided_json": "{\"type\": \"object\"}" }), Some(AnswerShape::Json(json!({ "type": "object" }))));
        check(json!({ "structured_outputs": { "json": {} } }), Some(AnswerShape::Json(json!({}))));
        check(
            json!({ "structured_outputs": { "choice": ["a", "b"] } }),
            Some(AnswerShape::Choice(vec!["a".into(), "b".into()])),
        );
        check(
            json!({ "structured_outputs": { "grammar": "start: \"a\"" } }),
            Some(AnswerShape::Lark("start: \"a\"".into())),
        );
        for wrong in [
            json!({ "structured_outputs": 1 }),
            json!({ "guided_choice": [1] }),
            json!({ "guided_choice": [] }),
            json!({ "guided_json": "{" }),
            json!({ "guided_regex": "a", "guided_choice": ["a"] }),
        ] {
            assert!(fields(wrong.clone()).grammar().is_err(), "{wrong}");
        }
    }

    #[test]
    fn strict_tools_are_those_that_say_so() {
        let tools = json!({ "tools": [{ "type": "function", "function": { "name": "a", "strict": true } }] });
        assert_eq!([fields(tools.clone()).is_strict("a"), fields(tools).is_strict("b")], [true, false]);
        assert!(fields(json!({ "tools": [{ "name": "a", "strict": true }] })).is_strict("a"));
    }
}
