//! Actions as texts of rules: `answer TEXT` or `call TOOL {"argument": "value"}`, in which values that name the case are replaced by the fact
//! that states them (`<FACT>`). So equal actions in different cases are one action.

use clawhost_sdk::{Message, ToolSpec};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Most different values of an argument that are choices. With more, the argument names something.
const MOST_CHOICES: usize = 8;
/// An argument whose value a fact states in this share of the calls is written as that fact.
const NAMING: f64 = 0.95;
/// Longest answer in bytes that is an action. A longer one is prose.
const LONGEST_ANSWER: usize = 80;
/// Shortest name that is looked for in a text. Shorter ones occur in any text.
const SHORTEST_NAME: usize = 3;

/// Facts by name, with their values as they were written.
pub(crate) type Stated = BTreeMap<String, String>;

/// What a policy did in a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Did {
    /// It answered a text, in lower case.
    Answer(String),
    /// It called a tool. Of several calls in a turn the last one counts.
    Call(String, Map<String, Value>),
}

impl Did {
    /// `None`: prose, or arguments that are no object.
    pub(crate) fn of(action: &Message) -> Option<Self> {
        match action.tool_calls.last() {
            Some(call) => Some(Self::Call(call.name.clone(), serde_json::from_str(&call.arguments).ok()?)),
            None => {
                let text = action.plain_text().trim().trim_end_matches('.').to_lowercase();
                let is_action = (1..=LONGEST_ANSWER).contains(&text.len()) && !text.contains('\n');
                is_action.then_some(Self::Answer(text))
            }
        }
    }
}

/// Which arguments are written as facts, and what the tools take.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    /// By tool and argument.
    facts: BTreeMap<(String, String), String>,
    /// Arguments of each tool on offer, with their choices if the tool lists them.
    tools: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

fn schema(tool: &ToolSpec) -> BTreeMap<String, Vec<String>> {
    let schema: Value = serde_json::from_str(&tool.input_schema).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let needed = required.iter().filter_map(Value::as_str).map(|name| {
        let choices = properties.get(name).and_then(|property| property.get("enum")).and_then(Value::as_array);
        let choices = choices.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        (name.to_owned(), choices)
    });
    needed.collect()
}

/// The fact that stated this argument's value in nearly all calls, rather one with the argument's name.
fn naming(uses: &[(&str, &Stated)], argument: &str) -> Option<String> {
    let (_, first) = uses.first()?;
    let states = |fact: &&String| {
        let stating =
            uses.iter().filter(|(value, stated)| stated.get(*fact).is_some_and(|known| known == value)).count();
        stating as f64 >= NAMING * uses.len() as f64
    };
    let named = first.get_key_value(&argument.to_lowercase()).map(|(fact, _)| fact).filter(states);
    named.or_else(|| first.keys().find(states)).cloned()
}

impl Writing {
    /// From all actions with the facts that were known before them.
    pub(crate) fn learn<'a>(actions: impl Iterator<Item = (&'a Did, &'a Stated)>, tools: &[ToolSpec]) -> Self {
        let mut uses: BTreeMap<(String, String), Vec<(&str, &Stated)>> = BTreeMap::new();
        for (did, stated) in actions {
            let Did::Call(tool, arguments) = did else { continue };
            for (name, value) in arguments {
                if let Some(text) = value.as_str() {
                    uses.entry((tool.clone(), name.clone())).or_default().push((text, stated));
                }
            }
        }
        let mut facts = BTreeMap::new();
        for ((tool, argument), uses) in uses {
            let different: BTreeSet<&str> = uses.iter().map(|(value, _)| *value).collect();
            let fact = naming(&uses, &argument);
            // An argument with few values is a choice, unless it bears the name of the fact.
            if let Some(fact) = fact.filter(|fact| *fact == argument.to_lowercase() || different.len() > MOST_CHOICES) {
                facts.insert((tool, argument), fact);
            }
        }
        Self { facts, tools: tools.iter().map(|tool| (tool.name.clone(), schema(tool))).collect() }
    }

    /// The action as a text.
    pub(crate) fn write(&self, did: &Did) -> String {
        let (tool, arguments) = match did {
            Did::Answer(text) => return format!("answer {text}"),
            Did::Call(tool, arguments) => (tool, arguments),
        };
        let argument = |(name, value): (&String, &Value)| {
            let fact = self.facts.get(&(tool.clone(), name.clone()));
            let value = fact.map_or_else(|| value.to_string(), |fact| Value::from(format!("<{fact}>")).to_string());
            format!("{}: {value}", Value::from(name.as_str()))
        };
        // Sorted: two orders of the same arguments are one action.
        let sorted: BTreeMap<&String, &Value> = arguments.iter().collect();
        let arguments: Vec<String> = sorted.into_iter().map(argument).collect();
        format!("call {tool} {{{}}}", arguments.join(", "))
    }

    /// The call of a tool on offer that nobody called, if its arguments follow from what is known: each is a fact of that name, or one that
    /// names the case in calls of other tools.
    pub(crate) fn derived(&self, tool: &str, stated: &Stated) -> Option<String> {
        let argument = |name: &String| {
            let known = self.facts.iter().find(|((_, argument), _)| argument == name).map(|(_, fact)| fact.clone());
            let fact = known.or_else(|| stated.contains_key(&name.to_lowercase()).then(|| name.to_lowercase()))?;
            Some(format!("{}: {}", Value::from(name.as_str()), Value::from(format!("<{fact}>"))))
        };
        let arguments: Option<Vec<String>> = self.tools.get(tool)?.keys().map(argument).collect();
        Some(format!("call {tool} {{{}}}", arguments?.join(", ")))
    }

    /// The names of the tools on offer.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// The one other action that a text names: another choice, another tool, or another value of an argument that lists its values. `None`: it
    /// names none, or several. `chosen` are the choices that the policy had.
    pub(crate) fn named(&self, text: &str, did: &Did, chosen: &[String], stated: &Stated) -> Option<String> {
        let text = text.to_lowercase();
        let names = |name: &str| name.len() >= SHORTEST_NAME && has_word(&text, &name.to_lowercase());
        let found: BTreeSet<String> = match did {
            Did::Answer(answer) => {
                let others = chosen.iter().filter(|choice| *choice != answer && names(choice));
                others.map(|choice| format!("answer {choice}")).collect()
            }
            Did::Call(tool, arguments) => {
                let others = self.tools().filter(|other| other != tool && names(other));
                let tools = others.filter_map(|other| self.derived(other, stated));
                let choices = self.tools.get(tool).into_iter().flatten().flat_map(|(argument, choices)| {
                    let did = arguments.get(argument).and_then(Value::as_str);
                    let others = choices.iter().filter(move |choice| Some(choice.as_str()) != did && names(choice));
                    others.map(move |choice| (argument.clone(), choice.clone()))
                });
                let choices = choices.map(|(argument, choice)| {
                    let mut changed = arguments.clone();
                    changed.insert(argument, choice.into());
                    self.write(&Did::Call(tool.clone(), changed))
                });
                tools.chain(choices).collect()
            }
        };
        let mut found = found.into_iter();
        found.next().filter(|_| found.next().is_none())
    }
}

/// Whether a text has this word, or these words, between others.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(word).any(|(at, found)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + found.len()..).and_then(|after| after.chars().next());
        !is_part(before) && !is_part(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stated(facts: &[(&str, &str)]) -> Stated {
        facts.iter().map(|(fact, value)| ((*fact).to_owned(), (*value).to_owned())).collect()
    }

    fn call(tool: &str, arguments: Value) -> Did {
        Did::of(&Message::calling("c", tool, arguments.to_string())).unwrap()
    }

    /// Ten calls about ten orders of two kinds.
    fn writing() -> Writing {
        let tools = [
            ToolSpec::new(
                "send",
                "",
                json!({"required": ["id", "how"], "properties": {"how": {"enum": ["fast", "slow"]}}}).to_string(),
            ),
            ToolSpec::new("drop", "", json!({"required": ["id"]}).to_string()),
            ToolSpec::new("ask", "", json!({"required": ["whom"]}).to_string()),
        ];
        let facts = (0..10).map(|number| {
            let (id, kind) = (format!("A{number}"), if number < 5 { "fast" } else { "slow" });
            (call("send", json!({"id": id, "how": kind})), stated(&[("order", &id), ("kind", kind)]))
        });
        let uses: Vec<(Did, Stated)> = facts.collect();
        Writing::learn(uses.iter().map(|(did, stated)| (did, stated)), &tools)
    }

    #[test]
    fn a_value_that_names_the_case_is_written_as_its_fact() {
        let writing = writing();
        let check = |did: Did, expect: &str| assert_eq!(writing.write(&did), expect);
        check(call("send", json!({"id": "A3", "how": "slow"})), r#"call send {"how": "slow", "id": "<order>"}"#);
        check(Did::of(&Message::assistant("Push.")).unwrap(), "answer push");
        assert_eq!(Did::of(&Message::assistant("One.\nTwo.")), None, "prose");
        let named = [(call("send", json!({"kind": "fast"})), stated(&[("kind", "fast")]))];
        let writing = Writing::learn(named.iter().map(|(did, stated)| (did, stated)), &[]);
        assert_eq!(writing.write(&named[0].0), r#"call send {"kind": "<kind>"}"#, "by the name of the argument");
    }

    #[test]
    fn a_call_that_nobody_made_follows_from_others() {
        let facts = stated(&[("order", "A1"), ("kind", "fast")]);
        assert_eq!(writing().derived("drop", &facts).as_deref(), Some(r#"call drop {"id": "<order>"}"#));
        assert_eq!(writing().derived("ask", &facts), None);
        assert_eq!(
            writing().derived("ask", &stated(&[("whom", "Bo")])).as_deref(),
            Some(r#"call ask {"whom": "<whom>"}"#)
        );
    }

    #[test]
    fn a_text_that_names_one_other_action_is_a_hint() {
        let check = |text: &str, did: &Did, expect: Option<&str>| {
            let choices = ["push", "pull", "wait here"].map(str::to_owned);
            let facts = stated(&[("order", "A1")]);
            assert_eq!(writing().named(text, did, &choices, &facts).as_deref(), expect, "{text}");
        };
        let send = call("send", json!({"id": "A3", "how": "slow"}));
        check("Better: drop it.", &send, Some(r#"call drop {"id": "<order>"}"#));
        check("It should have been fast.", &send, Some(r#"call send {"how": "fast", "id": "<order>"}"#));
        check("Drop it, or send it fast.", &send, None);
        check("The slow send was a droplet.", &send, None);
        let push = Did::Answer("push".into());
        check("Marks say: PULL.", &push, Some("answer pull"));
        check("You should wait here.", &push, Some("answer wait here"));
        check("You push.", &push, None);
    }
}
