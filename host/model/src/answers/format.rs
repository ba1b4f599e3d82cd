//! The format of a family, and an answer that was read in it.

use super::{hermes, llama, mistral};
use clawhost_core::{Message, Part, REASONING, ToolCall, ToolSpec};
use serde_json::Value;

/// How calls are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallFormat {
    /// Of Hermes and Qwen.
    Hermes,
    /// Of Llama 3.
    Llama,
    /// Of Mistral, as a list.
    MistralList,
    /// Of Mistral, as names with arguments.
    MistralNamed,
}

/// Marks around reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
}

/// The marks that families use.
const REASONING_MARKS: [Marks; 2] =
    [Marks { open: "<think>", close: "</think>" }, Marks { open: "[THINK]", close: "[/THINK]" }];

/// How the models of a family write answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerFormat {
    /// Around reasoning, if the family reasons.
    pub(crate) reasoning: Option<Marks>,
    /// How it calls tools.
    pub(crate) calls: CallFormat,
}

/// An answer, in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadAnswer {
    pub(crate) reasoning: Option<String>,
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
}

/// A call of an object with a name and arguments.
pub(super) fn call(found: &Value, id: &str) -> Option<ToolCall> {
    let name = found.get("name")?.as_str()?.to_owned();
    let arguments = match found.get("arguments").or_else(|| found.get("parameters")) {
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
        None => "{}".to_owned(),
    };
    Some(ToolCall { id: id.to_owned(), name, arguments, extra: Vec::new() })
}

impl AnswerFormat {
    /// The format of a chat template: by the marks that it writes. A template without any gets calls as Hermes writes them.
    pub(crate) fn of_template(source: &str) -> Self {
        let calls = if source.contains(mistral::CALLS) {
            if source.contains(mistral::ARGUMENTS) { CallFormat::MistralNamed } else { CallFormat::MistralList }
        } else if source.contains(hermes::CALL) {
            CallFormat::Hermes
        } else if source.contains(llama::TAG) || source.contains("<|start_header_id|>") {
            CallFormat::Llama
        } else {
            CallFormat::Hermes
        };
        let reasoning = REASONING_MARKS.into_iter().find(|marks| source.contains(marks.close));
        Self { reasoning, calls }
    }

    /// The texts of all its marks. They are shown even if they are control tokens.
    pub(crate) fn marks(&self) -> Vec<&'static str> {
        let calls: &[&str] = match self.calls {
            CallFormat::Hermes => &[hermes::CALL, hermes::END],
            CallFormat::Llama => &[llama::TAG],
            CallFormat::MistralList => &[mistral::CALLS],
            CallFormat::MistralNamed => &[mistral::CALLS, mistral::CALL_ID, mistral::ARGUMENTS],
        };
        let reasoning = self.reasoning.iter().flat_map(|marks| [marks.open, marks.close]);
        calls.iter().copied().chain(reasoning).collect()
    }

    /// Whether a prompt ends inside of reasoning: its template opened it.
    pub(crate) fn reasons_at_the_end_of(&self, prompt: &str) -> bool {
        self.reasoning.is_some_and(|marks| prompt.trim_end().ends_with(marks.open))
    }

    /// Whether a prompt ends behind reasoning: its template closed it.
    pub(crate) fn has_reasoned_at_the_end_of(&self, prompt: &str) -> bool {
        self.reasoning.is_some_and(|marks| prompt.trim_end().ends_with(marks.close))
    }

    /// What may begin a call, at any place of a text. `None`: only a whole answer is one.
    pub(crate) fn call_mark(&self) -> Option<&'static str> {
        match self.calls {
            CallFormat::Hermes => Some(hermes::CALL),
            CallFormat::Llama => None,
            CallFormat::MistralList | CallFormat::MistralNamed => Some(mistral::CALLS),
        }
    }

    /// Reads a whole answer. `reasons`: the prompt has opened its reasoning. `tools`: those that may be called.
    pub(crate) fn read(&self, text: &str, reasons: bool, tools: &[ToolSpec]) -> ReadAnswer {
        let (reasoning, text) = self.divided(text, reasons);
        let (text, calls) = match self.calls {
            _ if tools.is_empty() => (text.to_owned(), Vec::new()),
            CallFormat::Hermes => hermes::read(text),
            CallFormat::Llama => llama::read(text, tools),
            CallFormat::MistralList | CallFormat::MistralNamed => mistral::read(text),
        };
        ReadAnswer { reasoning, text, calls }
    }

    /// Reasoning and the rest. An answer that ends within its reasoning has no more.
    fn divided<'a>(&self, text: &'a str, reasons: bool) -> (Option<String>, &'a str) {
        let Some(marks) = self.reasoning else { return (None, text) };
        let opened = text.trim_start().strip_prefix(marks.open);
        let Some(inside) = opened.or(reasons.then_some(text)) else { return (None, text) };
        let (reasoning, rest) = inside.split_once(marks.close).unwrap_or((inside, ""));
        (Some(reasoning.trim().to_owned()), rest.trim_start_matches('\n'))
    }

    /// An answer as the family writes it: its text, then its calls. `harmless` makes what comes from outside inert.
    pub(crate) fn written(&self, text: &str, calls: &[ToolCall], harmless: impl Fn(&str) -> String) -> String {
        let object = |call: &ToolCall, arguments_name: &str| {
            let arguments =
                serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::from(call.arguments.as_str()));
            harmless(&serde_json::json!({ "name": call.name, arguments_name: arguments }).to_string())
        };
        let said = harmless(text);
        let all: Vec<String> = match self.calls {
            _ if calls.is_empty() => return said,
            CallFormat::Hermes => calls.iter().map(|call| hermes::written(&object(call, "arguments"))).collect(),
            CallFormat::Llama => {
                vec![calls.iter().map(|call| object(call, "parameters")).collect::<Vec<_>>().join("; ")]
            }
            CallFormat::MistralList => {
                let objects: Vec<String> = calls.iter().map(|call| object(call, "arguments")).collect();
                vec![format!("{} [{}]", mistral::CALLS, objects.join(", "))]
            }
            CallFormat::MistralNamed => {
                let one = |call: &ToolCall| {
                    let (name, arguments) = (harmless(&call.name), harmless(&call.arguments));
                    format!("{}{name}{}{arguments}", mistral::CALLS, mistral::ARGUMENTS)
                };
                vec![calls.iter().map(one).collect()]
            }
        };
        std::iter::once(said).filter(|said| !said.is_empty()).chain(all).collect::<Vec<_>>().join("\n")
    }
}

/// The reasoning of an earlier answer, as its model or a client gave it: the attribute of a local model, the field of the OpenAI dialect, or the
/// blocks of the Anthropic dialect.
pub(crate) fn reasoning_of(message: &Message) -> Option<String> {
    let attribute = |name: &str| message.extra.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str());
    let field = || {
        let fields: Value = serde_json::from_str(attribute("openai")?).ok()?;
        let names = ["reasoning_content", "reasoning"];
        names.iter().find_map(|name| fields.get(name)?.as_str().map(str::to_owned))
    };
    let blocks = || {
        let all: Vec<String> = message.parts.iter().filter_map(thought).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    };
    attribute(REASONING).map(str::to_owned).or_else(field).or_else(blocks)
}

/// The text of a block of thinking of the Anthropic dialect.
pub(crate) fn thought(part: &Part) -> Option<String> {
    let Part::Other(text) = part else { return None };
    let found: Value = serde_json::from_str(text).ok()?;
    let block = found.get("anthropic").filter(|block| block.get("type").is_some_and(|kind| kind == "thinking"))?;
    block.get("thinking")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Origin, Role};

    const QWEN_3: &str = "{% if tools %}<tool_call>{% endif %}<think>{{ m }}</think>";

    #[test]
    fn a_family_is_known_by_its_marks() {
        let check = |source: &str, calls: CallFormat, reasons: bool| {
            let found = AnswerFormat::of_template(source);
            assert_eq!((found.calls, found.reasoning.is_some()), (calls, reasons), "{source}");
        };
        check(QWEN_3, CallFormat::Hermes, true);
        check("<|start_header_id|>{{ role }}<|eot_id|>", CallFormat::Llama, false);
        check("[AVAILABLE_TOOLS] [TOOL_CALLS] {{ calls }}", CallFormat::MistralList, false);
        check("[TOOL_CALLS]{{ name }}[ARGS]{{ a }}[THINK]{{ t }}[/THINK]", CallFormat::MistralNamed, true);
        check("{{ messages }}", CallFormat::Hermes, false);
    }

    #[test]
    fn reasoning_is_kept_apart_from_the_answer() {
        let format = AnswerFormat::of_template(QWEN_3);
        let check = |text: &str, reasons: bool, reasoning: Option<&str>, said: &str| {
            let found = format.read(text, reasons, &[]);
            assert_eq!((found.reasoning.as_deref(), found.text.as_str()), (reasoning, said), "{text}");
        };
        check("<think>\nHm.\n</think>\n\nFour.", false, Some("Hm."), "Four.");
        check("Hm.\n</think>\n\nFour.", true, Some("Hm."), "Four.");
        check("Four.", false, None, "Four.");
        check("Hm, and no end", true, Some("Hm, and no end"), "");
        check("<think>Hm, and no end", false, Some("Hm, and no end"), "");
        check("Four. <think>x</think>", false, None, "Four. <think>x</think>");
        check("<think></think>", false, Some(""), "");
        assert!(format.reasons_at_the_end_of("<|im_start|>assistant\n<think>\n"));
        assert!(format.has_reasoned_at_the_end_of("<think>\n\n</think>\n\n"));
        let plain = AnswerFormat { reasoning: None, ..format };
        assert_eq!(plain.read("<think>x</think>y", true, &[]).text, "<think>x</think>y");
    }

    #[test]
    fn every_family_reads_the_calls_that_it_writes() {
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: "{}".to_owned(),
            extra: Vec::new(),
        };
        let call = |name: &str, arguments: &str| ToolCall {
            id: String::new(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            extra: Vec::new(),
        };
        let calls = [call("a", r#"{"x":"y"}"#), call("b", "{}")];
        for format in [CallFormat::Hermes, CallFormat::Llama, CallFormat::MistralList, CallFormat::MistralNamed] {
            let format = AnswerFormat { reasoning: None, calls: format };
            // An answer of Llama is text or calls.
            let said = if format.calls == CallFormat::Llama { "" } else { "I look." };
            let written = format.written(said, &calls, str::to_owned);
            let read = format.read(&written, false, &[tool("a"), tool("b")]);
            let found: Vec<_> = read.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!((read.text.as_str(), found), (said, vec![("a", r#"{"x":"y"}"#), ("b", "{}")]), "{written}");
            assert!(format.read(&written, false, &[]).calls.is_empty(), "no tool may be called");
        }
    }

    #[test]
    fn reasoning_of_earlier_answers_is_found_where_clients_put_it() {
        let said = || Message::text(Role::Assistant, Origin::Policy, "Four.");
        let with = |name: &str, text: &str| Message { extra: vec![(name.to_owned(), text.to_owned())], ..said() };
        let block = r#"{"anthropic":{"type":"thinking","thinking":"Hm.","signature":""}}"#;
        let blocks = Message { parts: vec![Part::Other(block.to_owned()), Part::Text("Four.".to_owned())], ..said() };
        for message in [
            with(REASONING, "Hm."),
            with("openai", r#"{"reasoning_content":"Hm."}"#),
            with("openai", r#"{"reasoning":"Hm."}"#),
            blocks,
        ] {
            assert_eq!(reasoning_of(&message).as_deref(), Some("Hm."), "{message:?}");
        }
        assert_eq!(reasoning_of(&said()), None);
    }
}
