//! Data cleaning: records whose cells are repaired with tools, in a house style that nobody tells.
//!
//! A record has four cells, which are opened one after the other. A cell shows its column, how it is written, and the repair that an old
//! script proposes, which is right as often as chance. How a cell is repaired depends on how it is written, with two exceptions: one for
//! records of one source, which is seen at once, and one for records of one locale, which only a look at the record's origin shows. All
//! of it is drawn from the run's seed (or the option `house`).
//!
//! The signal `share` is the share of cells that were repaired rightly, from 0 to 1: partial credit.

mod house;

use clawhost_sdk::{
    Action, Context, MessageEnvironment, Opening, OptionSpec, Params, Random, Result, Signals, Split, Status, Step,
    Task, ToolCall, ToolSpec, export_environment,
};
use house::{COLUMNS, Cell, House, LOCALES, REPAIRS, Record, SOURCES, UNSEEN};
use serde::{Deserialize, Serialize};

/// Messages for a record: a look, the first cell, its cells, and as many mistakes.
const MESSAGES: u32 = 12;
/// Shows the locale.
const LOOK: &str = "look_at_origin";
/// Shows the first cell.
const OPEN: &str = "open_record";
/// Repairs the open cell, and shows the next one.
const REPAIR: &str = "repair";

/// One record.
#[derive(Debug)]
pub struct Clean {
    house: House,
    record: Record,
    settings: Settings,
    state: State,
}

/// What changes during an episode.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    /// The open cell. `None`: the record is not open.
    at: Option<usize>,
    right: u32,
    messages: u32,
}

#[derive(Debug)]
struct Settings {
    house: u64,
    hints: bool,
    each: bool,
    all: bool,
}

fn settings(context: &Context) -> Result<Settings> {
    Ok(Settings {
        house: context.world("house")?,
        hints: context.is_other("hints", ["off", "on"])?,
        each: !context.is_other("score", ["each", "end"])?,
        all: context.is_other("handbook", ["default", "all"])?,
    })
}

/// The record at a position of a split.
fn record(number: u64, house: &House, split: &str, position: u64) -> Record {
    house.draw(&mut Random::at(number, split, position))
}

fn name_of<const N: usize>(names: [&'static str; N], position: usize) -> &'static str {
    names.get(position).copied().unwrap_or("?")
}

/// The name of the cell's column, and how it is written.
fn written(cell: &Cell) -> (&'static str, &'static str) {
    COLUMNS.get(cell.column).map_or(("?", "?"), |column| (column.name, name_of(column.patterns, cell.pattern)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repair {
    column: String,
    how: String,
}

impl MessageEnvironment for Clean {
    const NAME: &'static str = "env-clean";
    const SUMMARY: &'static str =
        "repair the cells of records with tools, in a house style that nobody tells, for partial credit";
    const SNAPSHOT: bool = true;

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("house", "", "whose style: a number that decides it; empty: from the run's seed"),
            OptionSpec::new("hints", "off", "off, or on: after a wrong repair a text names the right one"),
            OptionSpec::new("score", "each", "when the signal `share` is set: after each cell, or only at the end"),
            OptionSpec::new(
                "handbook",
                "default",
                "what the policy is told: `default`, or `all` of the style, to see what could be learned at best",
            ),
        ]
    }

    fn check(context: &Context) -> Result<()> {
        settings(context).map(|_| ())
    }

    fn splits() -> Vec<Split> {
        vec![Split::new("train", 2000), Split::new("val", 1000), Split::new("test", 1000)]
    }

    fn tasks(context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>> {
        let number = settings(context)?.house;
        let house = House::new(number);
        let size = Self::splits().iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let end = size.min(offset.saturating_add(u64::from(limit)));
        let task = |position| {
            let record = record(number, &house, split, position);
            let right = |cell: &Cell| (written(cell).0.to_owned(), name_of(REPAIRS, house.right(&record, cell)).into());
            let reference: serde_json::Map<String, serde_json::Value> = record.cells.iter().map(right).collect();
            Task::new(split, format!("{split}-{position}"), "")
                .with_reference(serde_json::Value::Object(reference).to_string())
                // The environment finds the house with this attribute. The policy never sees it.
                .with_extra("house", number.to_string())
        };
        Ok((offset..end).map(task).collect())
    }

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let episode = Self::begin(params)?;
        let text = format!(
            "A record waits.\nrecord: {}\nsource: {}\nlocale: {UNSEEN}\ncolumn: not opened\npattern: not opened\nproposal: not opened",
            episode.record.name,
            name_of(SOURCES, episode.record.source),
        );
        let mut hint = format!(
            "You clean records with tools. The cells of a record are opened one after the other; each is repaired once. An old script makes \
             proposals. Where you know no better:\n\
             always: call {REPAIR} {{\"column\": \"<column>\", \"how\": \"<proposal>\"}}\n\
             when column is not opened: call {OPEN} {{}}"
        );
        if episode.settings.all {
            hint.push('\n');
            hint.push_str(&episode.house.all());
        }
        Ok((episode, Opening { tools: tools(), system_hint: Some(hint), ..Opening::text(text) }))
    }

    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step> {
        self.state.messages += 1;
        let mut step = Step::silent();
        for call in &action.tool_calls {
            let answer = self.run(call).unwrap_or_else(|error| error.message().to_owned());
            step = step.answer(call, answer);
        }
        if action.tool_calls.is_empty() && action.refused.is_empty() {
            step = step.say("Nothing happened: records are cleaned with tools.");
        }
        let is_done = self.state.at.is_some_and(|at| at >= self.record.cells.len());
        let is_over = is_done || self.state.messages >= MESSAGES;
        if self.settings.each || is_over {
            signals.set("share", f64::from(self.state.right) / self.record.cells.len().max(1) as f64);
        }
        signals.set("messages", f64::from(self.state.messages));
        Ok(match is_over {
            true if is_done => step.say("The record is stored.").with_status(Status::Terminated),
            true => step.with_status(Status::Truncated(format!("{MESSAGES} messages"))),
            false => step,
        })
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(&self.state)?)
    }

    fn restore(params: &Params, state: &[u8]) -> Result<Self> {
        let state = serde_json::from_slice(state)?;
        Ok(Self { state, ..Self::begin(params)? })
    }
}

/// The available tools.
fn tools() -> Vec<ToolSpec> {
    let schema = |properties: serde_json::Value, required: &[&str]| {
        serde_json::json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })
        .to_string()
    };
    let columns: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    let repair = serde_json::json!({
        "column": {"type": "string", "enum": columns, "description": "the open cell's column"},
        "how": {"type": "string", "enum": REPAIRS, "description": "the repair"},
    });
    let nothing = || schema(serde_json::json!({}), &[]);
    vec![
        ToolSpec::new(OPEN, "Opens the record and shows its first cell.", nothing()),
        ToolSpec::new(LOOK, "Shows where the record was written.", nothing()),
        ToolSpec::new(REPAIR, "Repairs the open cell and shows the next one.", schema(repair, &["column", "how"])),
    ]
}

impl Clean {
    /// A record before the first action: a function of the params alone.
    fn begin(params: &Params) -> Result<Self> {
        let Params { task, context, .. } = params;
        let settings = settings(context)?;
        let unknown = || format!("`{}` is no task of this house", task.id);
        let number = task.extra("house").and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let position = task.id.rsplit('-').next().and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let house = House::new(number);
        let record = record(number, &house, &task.split, position);
        Ok(Self { house, record, settings, state: State::default() })
    }

    /// Runs one tool.
    ///
    /// # Errors
    /// The arguments are invalid, or the call makes no sense now. The text is for the policy.
    fn run(&mut self, call: &ToolCall) -> Result<String> {
        match call.name.as_str() {
            LOOK => {
                let Nothing {} = call.read()?;
                Ok(format!("locale: {}", name_of(LOCALES, self.record.locale)))
            }
            OPEN => {
                let Nothing {} = call.read()?;
                self.state.at.get_or_insert(0);
                Ok(self.open_cell())
            }
            _ => {
                let Repair { column, how } = call.read()?;
                let cell = self.state.at.and_then(|at| self.record.cells.get(at)).ok_or("error: no cell is open")?;
                let expected = written(cell).0;
                if column != expected {
                    return Err(format!("error: the open cell is one of {expected}, not of {column}").into());
                }
                if !REPAIRS.contains(&how.as_str()) {
                    return Err(format!("error: there is no repair {how}; there are {}", REPAIRS.join(", ")).into());
                }
                let right = name_of(REPAIRS, self.house.right(&self.record, cell));
                let hint = match how == right {
                    true => String::new(),
                    false if self.settings.hints => format!("The house wants {right} here.\n"),
                    false => String::new(),
                };
                self.state.right += u32::from(how == right);
                self.state.at = self.state.at.map(|at| at + 1);
                Ok(format!("{hint}{}", self.open_cell()))
            }
        }
    }

    /// The open cell as lines.
    fn open_cell(&self) -> String {
        match self.state.at.and_then(|at| self.record.cells.get(at)) {
            Some(cell) => {
                let (column, pattern) = written(cell);
                format!("column: {column}\npattern: {pattern}\nproposal: {}", name_of(REPAIRS, cell.proposal))
            }
            None => "no cell is left".to_owned(),
        }
    }
}

export_environment!(Clean);

#[cfg(test)]
mod tests;
