//! Generated worlds: cases that are closed with one of five tools, by hidden rules. Everything is drawn from one number: the names of
//! facts, values and tools, the rules, the sentences. So nobody, and no reflector, can know a world beforehand.
//!
//! A case has seven facts. Two of them are shown only by a look-up, each by a tool of its own. Five hidden rules decide which tool is right
//! (two on one shown fact, an exception to one of them, two on hidden facts); the more specific rule wins. Otherwise the default is right,
//! and the policy's prompt names it. No text says what a tool does.
//!
//! The signal `score` is 1 if the case was closed with the right tool, else 0. With `hints=on` (the default) a case that was closed wrongly
//! ends with a sentence that names the right tool; with `hints=off` the signal is all there is to learn from.

mod names;
mod world;

use clawhost_sdk::{
    Action, Context, MessageEnvironment, Opening, OptionSpec, Params, Random, Result, Signals, Split, Status, Step,
    Task, ToolCall, ToolSpec, export_environment,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use world::World;

/// Default number of messages before a case is closed without a tool.
const DEFAULT_PATIENCE: u32 = 8;

/// One case.
#[derive(Debug)]
pub struct Worlds {
    world: World,
    /// The name of the case.
    case: String,
    values: Vec<usize>,
    settings: Settings,
    state: State,
}

/// What changes during an episode.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    actions: u32,
    /// The tool that closed the case.
    closed: Option<String>,
}

#[derive(Debug)]
struct Settings {
    world: u64,
    patience: u32,
    hints: bool,
    all: bool,
}

fn settings(context: &Context) -> Result<Settings> {
    let patience = context.option_or("patience", DEFAULT_PATIENCE)?;
    if !(1..=100).contains(&patience) {
        return Err("patience must be 1 to 100".into());
    }
    Ok(Settings {
        world: context.world("world")?,
        patience,
        hints: !context.is_other("hints", ["on", "off"])?,
        all: context.is_other("handbook", ["default", "all"])?,
    })
}

/// Name and values of the case at a position of a split.
fn case(number: u64, world: &World, split: &str, position: u64) -> (String, Vec<usize>) {
    let mut random = Random::at(number, split, position);
    let values = world.draw(&mut random);
    (random.between(10_000, 99_999).to_string(), values)
}

impl MessageEnvironment for Worlds {
    const NAME: &'static str = "env-worlds";
    const SUMMARY: &'static str =
        "close cases of a generated world with tools, by rules, names and words drawn from a number";
    const SNAPSHOT: bool = true;

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("world", "", "which world: a number that decides everything; empty: from the run's seed"),
            OptionSpec::new("hints", "on", "on: a case closed wrongly ends with the name of the right tool; or off"),
            OptionSpec::new(
                "handbook",
                "default",
                "what the policy is told: `default`, or `all` the rules, to see what could be learned at best",
            ),
            OptionSpec::new("patience", DEFAULT_PATIENCE.to_string(), "messages before the case ends, 1 to 100"),
        ]
    }

    fn check(context: &Context) -> Result<()> {
        settings(context).map(|_| ())
    }

    fn splits() -> Vec<Split> {
        vec![Split::new("train", 2000), Split::new("val", 1000), Split::new("test", 1000)]
    }

    fn tasks(context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>> {
        let number = settings(context)?.world;
        let world = World::new(number);
        let size = Self::splits().iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let end = size.min(offset.saturating_add(u64::from(limit)));
        let task = |position| {
            let (_, values) = case(number, &world, split, position);
            Task::new(split, format!("{split}-{position}"), "")
                .with_reference(Value::from(world.right(&values)).to_string())
                // The environment finds the world with this attribute. The policy never sees it.
                .with_extra("world", number.to_string())
        };
        Ok((offset..end).map(task).collect())
    }

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let episode = Self::begin(params)?;
        let world = &episode.world;
        let mut text = format!("{}\n{}: {}\n", world.wording.opening, world.key, episode.case);
        for (fact, value) in world.facts.iter().zip(&episode.values) {
            let value = if fact.look.is_some() { None } else { fact.values.get(*value) };
            text.push_str(&format!("{}: {}\n", fact.name, value.map_or(world.wording.open, String::as_str)));
        }
        let mut hint = format!("Close every case with one tool. Where you know no better:\n{}", world.habit());
        if episode.settings.all {
            hint.push('\n');
            hint.push_str(&world.all());
        }
        let opening = Opening { tools: episode.tools(), system_hint: Some(hint), ..Opening::text(text.trim_end()) };
        Ok((episode, opening))
    }

    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step> {
        self.state.actions += 1;
        let mut step = Step::silent();
        for call in &action.tool_calls {
            let answer = self.run(call).unwrap_or_else(|error| error.message().to_owned());
            step = step.answer(call, answer);
        }
        if action.tool_calls.is_empty() && action.refused.is_empty() {
            step = step.say("Nothing happened.");
        }
        let Wording { praise, blame, hint } = Wording::of(&self.world);
        if let Some(tool) = &self.state.closed {
            let right = self.world.right(&self.values);
            let is_right = tool == right;
            signals.set("score", f64::from(u8::from(is_right)));
            let hinted = format!("{blame} {}", hint.replace("{}", right));
            let text = if is_right {
                praise
            } else if self.settings.hints {
                &hinted
            } else {
                blame
            };
            return Ok(step.say(text).with_status(Status::Terminated));
        }
        if self.state.actions >= self.settings.patience {
            signals.set("score", 0.0);
            let reason = format!("{} messages", self.settings.patience);
            return Ok(step.say(blame).with_status(Status::Truncated(reason)));
        }
        Ok(step)
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(&self.state)?)
    }

    fn restore(params: &Params, state: &[u8]) -> Result<Self> {
        let state = serde_json::from_slice(state)?;
        Ok(Self { state, ..Self::begin(params)? })
    }
}

/// The sentences at the end of a case.
struct Wording<'a> {
    praise: &'a str,
    blame: &'a str,
    hint: &'a str,
}

impl<'a> Wording<'a> {
    fn of(world: &'a World) -> Self {
        let world::Wording { praise, blame, hint, .. } = &world.wording;
        Self { praise, blame, hint }
    }
}

impl Worlds {
    /// A case before the first action: a function of the params alone.
    fn begin(params: &Params) -> Result<Self> {
        let Params { task, context, .. } = params;
        let settings = settings(context)?;
        let unknown = || format!("`{}` is no task of these worlds", task.id);
        let number = task.extra("world").and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let position = task.id.rsplit('-').next().and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let world = World::new(number);
        let (case, values) = case(number, &world, &task.split, position);
        Ok(Self { world, case, values, settings, state: State::default() })
    }

    /// The tools, in an order that tells nothing about them.
    fn tools(&self) -> Vec<ToolSpec> {
        let key = self.world.key.as_str();
        let schema = serde_json::json!({
            "type": "object", "properties": {key: {"type": "string"}}, "required": [key], "additionalProperties": false,
        });
        let looks = self.world.facts.iter().filter_map(|fact| fact.look.as_ref());
        let mut names: Vec<&String> = self.world.closing.iter().chain(looks).collect();
        names.sort();
        names.into_iter().map(|name| ToolSpec::new(name.as_str(), "", schema.to_string())).collect()
    }

    /// Runs one tool.
    ///
    /// # Errors
    /// The arguments are invalid, or the case is closed. The text is for the policy.
    fn run(&mut self, call: &ToolCall) -> Result<String> {
        if self.state.closed.is_some() {
            return Err("error: it is closed".into());
        }
        let arguments: Map<String, Value> = call.read()?;
        if arguments.get(&self.world.key).and_then(Value::as_str) != Some(&self.case) {
            return Err(format!("error: {} must be {}", self.world.key, self.case).into());
        }
        let seen = self.world.facts.iter().zip(&self.values).find(|(fact, _)| fact.look.as_ref() == Some(&call.name));
        if let Some((fact, value)) = seen {
            return Ok(format!("{}: {}", fact.name, fact.values.get(*value).map_or("?", String::as_str)));
        }
        self.state.closed = Some(call.name.clone());
        Ok("done".to_owned())
    }
}

export_environment!(Worlds);

#[cfg(test)]
mod tests;
