//! Grammars of answers as texts: of JSON schemas, regular expressions, choices, and the tool calls of a family.
//!
//! Reasoning comes first and is free. The grammar begins behind it.

use crate::LocalModelError;
use crate::answers::{AnswerFormat, CallFormat, RequestFields};
use clawhost_core::{ModelRequest, ResponseFormat, ToolChoice, ToolSpec};
use llguidance::regex_to_lark;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most calls of one answer: a model that is forced to call could go on for ever.
const MOST_CALLS: usize = 16;

/// What an answer is to be.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerShape {
    /// JSON of this schema.
    Json(Value),
    /// A text that this regular expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// An answer of this grammar, in the Lark dialect of llguidance.
    Lark(String),
}

/// A text as a terminal. Lark's strings are those of JSON.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// A schema as a rule. JSON is written in one line, with at most one space behind commas and colons: white space without end would be an answer, too.
fn json(schema: &Value) -> String {
    let mut schema = match schema {
        Value::Bool(true) => json!({}),
        other => other.clone(),
    };
    if let Some(fields) = schema.as_object_mut() {
        let spacing = json!({ "whitespace_flexible": false, "item_separator": ", ?", "key_separator": ": ?" });
        fields.insert("x-guidance".to_owned(), spacing);
    }
    format!("%json {schema}")
}

/// A mark of a family: its text, or the control token that has this text.
fn mark(text: &str, control: &BTreeMap<String, u32>) -> String {
    control.get(text).map_or_else(|| literal(text), |token| format!("<[{token}]>"))
}

impl AnswerShape {
    /// The grammar of an answer that is nothing else.
    pub fn text(&self) -> String {
        let mut rules = String::new();
        match self {
            Self::Lark(text) => text.clone(),
            other => {
                let answer = other.rule(&mut rules);
                format!("start: {answer}\n{rules}")
            }
        }
    }

    /// What stands for it in a rule.
    fn rule(&self, rules: &mut String) -> String {
        let body = match self {
            Self::Json(schema) => json(schema),
            Self::Regex(pattern) => format!("/{}/", regex_to_lark(pattern, "")),
            Self::Choice(choices) => choices.iter().map(|choice| literal(choice)).collect::<Vec<_>>().join(" | "),
            Self::Lark(text) => format!("%lark {{\n{text}\n}}"),
        };
        // A text can be written to a string without an error.
        let _ = writeln!(rules, "wanted: {body}");
        "wanted".to_owned()
    }
}

/// The grammar of the answer that a request asks for. `None`: any answer.
///
/// # Errors
/// A tool is required that is not offered, or a field of the request is invalid.
pub(crate) fn of_request(
    request: &ModelRequest,
    fields: &RequestFields,
    format: &AnswerFormat,
    control: &BTreeMap<String, u32>,
    prompt: &str,
) -> Result<Option<String>, LocalModelError> {
    let own = fields.grammar()?;
    let has_own = own.is_some();
    let wanted = match &request.response_format {
        _ if has_own => own,
        None => None,
        Some(ResponseFormat::JsonObject) => Some(AnswerShape::Json(json!({ "type": "object" }))),
        Some(ResponseFormat::JsonSchema { schema, .. }) => Some(AnswerShape::Json(schema.clone())),
    };
    let called: Vec<&ToolSpec> = match &request.tool_choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Auto | ToolChoice::Required => request.tools.iter().collect(),
        ToolChoice::Tool(name) => request.tools.iter().filter(|tool| tool.name == *name).collect(),
    };
    let must_call = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    if must_call && called.is_empty() {
        let why = "tool_choice asks for a call, and there is no such tool among the tools";
        return Err(LocalModelError::Request(why.to_owned()));
    }
    if must_call && has_own {
        let why = "tool_choice asks for a call, and structured_outputs for another answer; leave one of them out";
        return Err(LocalModelError::Request(why.to_owned()));
    }
    let is_strict = called.iter().any(|tool| fields.is_strict(&tool.name));
    let mut rules = String::new();
    let is_one = matches!(request.tool_choice, ToolChoice::Tool(_)) || !fields.may_call_twice();
    let most = if is_one { 1 } else { MOST_CALLS };
    let answer = match wanted {
        _ if must_call => calls(&called, format, control, most, &mut rules).whole(),
        None if is_strict => calls(&called, format, control, most, &mut rules).or_text(format, control, &mut rules),
        None => return Ok(None),
        Some(wanted) if called.is_empty() => wanted.rule(&mut rules),
        Some(wanted) => {
            let calls = calls(&called, format, control, most, &mut rules).whole();
            format!("{} | ({calls})", wanted.rule(&mut rules))
        }
    };
    let begin = reasoning(format, control, prompt, &mut rules);
    Ok(Some(format!("start: {begin}answer\nanswer: {answer}\n{rules}")))
}

/// Reasoning before the answer: where the prompt opened it, the rest of it; where the prompt closed it, none; else what the model chooses.
fn reasoning(format: &AnswerFormat, control: &BTreeMap<String, u32>, prompt: &str, rules: &mut String) -> &'static str {
    let Some(marks) = format.reasoning.filter(|_| !format.has_reasoned_at_the_end_of(prompt)) else { return "" };
    let _ = match control.get(marks.close) {
        Some(token) => writeln!(rules, "thought: /(?s:.*)/ <[{token}]> /\\n{{0,2}}/"),
        None => writeln!(rules, "thought: inner /\\n{{0,2}}/\ninner[suffix={}]: /(?s:.*)/", literal(marks.close)),
    };
    if format.reasons_at_the_end_of(prompt) {
        return "thought ";
    }
    let _ = writeln!(rules, "thinking: {} thought", mark(marks.open, control));
    "thinking? "
}

/// A text in a regular expression.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        if !character.is_alphanumeric() && character != '<' && character != '>' && character != '_' {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// The schema of a tool's arguments: always an object.
fn arguments(tool: &ToolSpec) -> Value {
    let mut schema: Value = serde_json::from_str(&tool.input_schema).unwrap_or_else(|_| json!({}));
    if !schema.is_object() {
        schema = json!({});
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
    }
    schema
}

/// Calls of an answer.
struct Calls {
    /// The mark before them, if the family has one.
    open: Option<&'static str>,
    /// What follows the mark.
    rest: String,
    /// The mark in a rule.
    opened: String,
}

impl Calls {
    /// An answer of calls alone.
    fn whole(self) -> String {
        format!("{} {}", self.opened, self.rest)
    }

    /// An answer of text, of calls, or of a text followed by calls.
    fn or_text(self, format: &AnswerFormat, control: &BTreeMap<String, u32>, rules: &mut String) -> String {
        let _ = match self.open {
            // Only a whole answer is a call, behind white space or a tag. Any other text begins with something else than a brace or a tag.
            None => writeln!(rules, "other: /(\\s*([^\\s{{<](?s:.*))?)?/"),
            // Text must not hold the mark: spelled in other tokens, it would be read as one.
            Some(open) => {
                let said = match control.contains_key(open) {
                    true => format!("said: OTHER {}", mark(open, control)),
                    false => format!("said[suffix={}]: /(?s:.*)/", literal(open)),
                };
                writeln!(rules, "other: OTHER\nOTHER: /(?s:.*)/ & ~/(?s:.*){}(?s:.*)/\n{said}", escaped(open))
            }
        };
        match format.call_mark() {
            None => format!("other | ({} {})", self.opened, self.rest),
            Some(_) => format!("other | (said {})", self.rest),
        }
    }
}

/// One to `most` calls of these tools, as the family writes them.
fn calls(
    tools: &[&ToolSpec],
    format: &AnswerFormat,
    control: &BTreeMap<String, u32>,
    most: usize,
    rules: &mut String,
) -> Calls {
    let mut one = Vec::new();
    for (number, tool) in tools.iter().enumerate() {
        // A rule of its own: references in a schema count from its root.
        let _ = writeln!(rules, "arguments{number}: {}", json(&arguments(tool)));
        let name = Value::from(tool.name.as_str()).to_string();
        let field = if format.calls == CallFormat::Llama { "parameters" } else { "arguments" };
        let body = match format.calls {
            CallFormat::MistralNamed => {
                let between = mark("[ARGS]", control);
                format!("{} {between} arguments{number}", literal(&tool.name))
            }
            _ => {
                let head = literal(&format!("{{\"name\": {name}, \"{field}\": "));
                format!("{head} arguments{number} {}", literal("}"))
            }
        };
        one.push(format!("({body})"));
    }
    let _ = writeln!(rules, "call: {}", one.join(" | "));
    let more = |between: &str, call: &str| match most {
        0 | 1 => String::new(),
        most => format!(" ({between} {call}){{0,{}}}", most - 1),
    };
    let open = format.call_mark();
    let opened = open.map(|open| mark(open, control)).unwrap_or_default();
    let rest = match format.calls {
        CallFormat::Hermes => {
            let close = mark("</tool_call>", control);
            let _ = writeln!(rules, "inside: {} call {} {close}", literal("\n"), literal("\n"));
            let next = format!("{} {opened}", literal("\n"));
            format!("inside{}", more(&next, "inside"))
        }
        CallFormat::Llama => format!("call{}", more(&literal("; "), "call")),
        CallFormat::MistralList => format!("/ ?\\[/ call{} {}", more(&literal(", "), "call"), literal("]")),
        CallFormat::MistralNamed => format!("call{}", more(&opened, "call")),
    };
    Calls { open, rest, opened }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grammars;
    use crate::tokens::Tokenizer;
    use clawhost_core::UnknownFields;

    const QWEN: &str = include_str!("../../../../tests/transformers/reference/qwen3/tokenizer.json");

    fn tool(name: &str, schema: Value) -> ToolSpec {
        let (name, input_schema) = (name.to_owned(), schema.to_string());
        ToolSpec { name, description: String::new(), input_schema, extra: Vec::new() }
    }

    fn tools() -> Vec<ToolSpec> {
        let city = json!({ "properties": { "city": { "$ref": "#/$defs/city" } }, "required": ["city"],
            "additionalProperties": false, "$defs": { "city": { "enum": ["Paris", "Rome"] } } });
        vec![
            tool("weather", city),
            tool("time", json!({ "type": "object", "properties": {}, "additionalProperties": false })),
        ]
    }

    /// Whether an answer is one of the grammar, as a whole.
    fn is_answer(grammars: &Grammars, tokenizer: &Tokenizer, grammar: &str, answer: &str) -> bool {
        let mut state = grammars.compile(grammar).unwrap().begin();
        for token in tokenizer.encode(answer).unwrap() {
            if !state.mask().unwrap().allows(token) {
                return false;
            }
            state.accept(token).unwrap();
        }
        let end = tokenizer.token("<|im_end|>").unwrap().unwrap();
        state.mask().unwrap().allows(end)
    }

    struct Case {
        template: &'static str,
        prompt: &'static str,
        request: ModelRequest,
        control: &'static [&'static str],
    }

    impl Default for Case {
        fn default() -> Self {
            Self { template: "<tool_call>", prompt: "", request: ModelRequest::default(), control: &[] }
        }
    }

    fn check(case: &Case, right: &[&str], wrong: &[&str]) {
        let tokenizer = Tokenizer::parse(QWEN).unwrap();
        let end = tokenizer.token("<|im_end|>").unwrap().unwrap();
        let grammars = Grammars::new(tokenizer.clone(), (&[end], &[]), tokenizer.size() + 5);
        let format = AnswerFormat::of_template(case.template);
        let control = case.control.iter().map(|text| ((*text).to_owned(), tokenizer.token(text).unwrap().unwrap()));
        let fields = RequestFields::of(&case.request);
        let grammar = of_request(&case.request, &fields, &format, &control.collect(), case.prompt).unwrap().unwrap();
        for (answers, expect) in [(right, true), (wrong, false)] {
            for answer in answers {
                assert_eq!(is_answer(&grammars, &tokenizer, &grammar, answer), expect, "{answer}\n{grammar}");
            }
        }
    }

    fn asked(fields: Value) -> ModelRequest {
        let Value::Object(fields) = fields else { panic!("no object") };
        ModelRequest { unknown: Some(UnknownFields { dialect: "openai".into(), fields }), ..ModelRequest::default() }
    }

    #[test]
    fn a_required_call_is_one_of_the_tools_with_arguments_of_its_schema() {
        let request = ModelRequest { tools: tools(), tool_choice: ToolChoice::Required, ..ModelRequest::default() };
        let weather = |field: &str| format!(r#"{{"name": "weather", "{field}": {{"city": "Paris"}}}}"#);
        let time = |field: &str| format!(r#"{{"name": "time", "{field}": {{}}}}"#);
        let (hermes, llama) = (weather("arguments"), weather("parameters"));
        let block = format!("<tool_call>\n{hermes}\n</tool_call>");
        let two = format!("{block}\n<tool_call>\n{}\n</tool_call>", time("arguments"));
        let other = block.replace("Paris", "Bonn");
        check(&Case { request: request.clone(), ..Case::default() }, &[&block, &two], &["", "Hi", &hermes, &other]);
        let case = Case { template: "<|python_tag|>", request: request.clone(), ..Case::default() };
        check(&case, &[&llama, &format!("{llama}; {}", time("parameters"))], &["{}", &hermes]);
        let case = Case { template: "[TOOL_CALLS]", request: request.clone(), ..Case::default() };
        let list = format!("[TOOL_CALLS] [{hermes}, {}]", time("arguments"));
        check(&case, &[&format!("[TOOL_CALLS][{hermes}]"), &list], &["[TOOL_CALLS] []", &hermes]);
        let case = Case { template: "[TOOL_CALLS][ARGS]", request: request.clone(), ..Case::default() };
        let named = r#"[TOOL_CALLS]weather[ARGS]{"city": "Rome"}"#;
        check(&case, &[named, &format!("{named}[TOOL_CALLS]time[ARGS]{{}}")], &["[TOOL_CALLS]", "weather"]);
        let fields = serde_json::Map::from_iter([("parallel_tool_calls".to_owned(), false.into())]);
        let unknown = Some(UnknownFields { dialect: "openai".into(), fields });
        let single = ModelRequest { unknown, ..request.clone() };
        check(&Case { request: single, ..Case::default() }, &[&block], &[&two]);
        let only = ModelRequest { tool_choice: ToolChoice::Tool("time".into()), ..request };
        let time = format!("<tool_call>\n{}\n</tool_call>", time("arguments"));
        check(&Case { request: only, ..Case::default() }, &[&time], &[&block, &format!("{time}\n{time}")]);
    }

    #[test]
    fn strict_tools_are_called_rightly_or_not_at_all() {
        let strict = json!({ "tools": [{ "function": { "name": "weather", "strict": true } }] });
        let request = ModelRequest { tools: tools(), ..asked(strict) };
        let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>";
        let (said, wrong) = (format!("I look.\n{call}"), call.replace("Rome", "Bonn"));
        let case = Case { request: request.clone(), ..Case::default() };
        check(&case, &["", "It is warm.", "<tool", call, &said], &[&wrong, "<tool_call>", &format!("I look. {wrong}")]);
        let llama = r#"{"name": "weather", "parameters": {"city": "Rome"}}"#;
        let case = Case { template: "<|python_tag|>", request, ..Case::default() };
        let wrong = llama.replace("Rome", "Bonn");
        let spaced = [" ", "\n ", "<|python_tag|>"].map(|before| format!("{before}{wrong}"));
        check(&case, &["", " It is {warm}.", llama], &["{", &wrong, &spaced[0], &spaced[1], &spaced[2]]);
    }

    #[test]
    fn the_text_of_an_answer_has_the_wanted_format() {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false });
        let named = ResponseFormat::JsonSchema { name: "n".into(), schema, strict: true };
        let request =
            |format: &ResponseFormat| ModelRequest { response_format: Some(format.clone()), ..ModelRequest::default() };
        let case = Case { request: request(&named), ..Case::default() };
        check(&case, &[r#"{"n": 17}"#, r#"{"n":-1}"#], &["{}", r#"{"n": 1.5}"#, "{\n\"n\": 1}", r#"{"n": 1} "#, "x"]);
        let case = Case { request: request(&ResponseFormat::JsonObject), ..Case::default() };
        check(&case, &["{}", r#"{"a": [1, {"b": null}]}"#], &["[]", "1", "{"]);
        let with_tools = Case { request: ModelRequest { tools: tools(), ..request(&named) }, ..Case::default() };
        let call = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";
        check(&with_tools, &[r#"{"n": 17}"#, call], &["{}", "It is warm."]);
        let none = ModelRequest { tool_choice: ToolChoice::None, ..with_tools.request };
        check(&Case { request: none, ..Case::default() }, &[r#"{"n": 17}"#], &[call]);
        let of = |fields: Value| Case { request: asked(fields), ..Case::default() };
        check(
            &of(json!({ "structured_outputs": { "regex": "a/b+\\d{2}" } })),
            &["a/bb17"],
            &["a/b1", "xa/b17", "a/b17x"],
        );
        check(
            &of(json!({ "structured_outputs": { "choice": ["yes", "say \"no\"\n"] } })),
            &["yes", "say \"no\"\n"],
            &["no", "yesyes"],
        );
        check(
            &of(json!({ "structured_outputs": { "grammar": "start: A+\nA: \"a\" | \"b\"" } })),
            &["ab", "b"],
            &["", "c"],
        );
    }

    #[test]
    fn reasoning_comes_before_the_grammar_and_is_free() {
        let request = asked(json!({ "structured_outputs": { "choice": ["yes", "no"] } }));
        let template = "<think></think>";
        let case = |prompt| Case { template, prompt, request: request.clone(), ..Case::default() };
        let thought = "<think>\nyes or <b> no?\n</think>\n\nno";
        check(&case("assistant\n"), &["yes", thought], &["Hm.</think>yes", "<think>yes"]);
        check(&case("assistant\n<think>\n"), &["Hm.</think>yes", "Hm.\n</think>\n\nno"], &["yes", "Hm.</think>Hm."]);
        check(&case("<think>\n\n</think>\n\n"), &["yes"], &["Hm.</think>yes", thought]);
        let lark = asked(json!({ "structured_outputs": { "grammar": "start: \"y\" A\nA: \"es\"" } }));
        check(&Case { template, request: lark, ..Case::default() }, &["yes", "<think>x</think>\nyes"], &["no"]);
    }

    #[test]
    fn marks_that_are_control_tokens_are_written_as_such() {
        let request = ModelRequest { tools: tools(), tool_choice: ToolChoice::Required, ..ModelRequest::default() };
        let format = AnswerFormat::of_template("[TOOL_CALLS]");
        let control = BTreeMap::from([("[TOOL_CALLS]".to_owned(), 9)]);
        let text = of_request(&request, &RequestFields::of(&request), &format, &control, "").unwrap().unwrap();
        assert!(text.contains("answer: <[9]> /"), "{text}");
    }

    #[test]
    fn a_call_needs_a_tool_that_is_offered() {
        for tool_choice in [ToolChoice::Required, ToolChoice::Tool("x".into())] {
            let tools = if tool_choice == ToolChoice::Required { Vec::new() } else { tools() };
            let request = ModelRequest { tools, tool_choice, ..ModelRequest::default() };
            let format = AnswerFormat::of_template("");
            let error = of_request(&request, &RequestFields::of(&request), &format, &BTreeMap::new(), "").unwrap_err();
            assert!(matches!(error, LocalModelError::Request(_)), "{error}");
        }
    }
}
