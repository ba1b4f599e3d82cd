//! The desk of a shop: customers, orders, tools, and hidden house rules.
//!
//! Every case has eight facts; two of them are shown only after a look-up. Six hidden rules determine how cases are
//! closed (four on one fact, one on two, one exception that contradicts a simpler rule; the more specific rule wins);
//! otherwise the handbook's default applies. Rules, hidden facts and the default are drawn from the run's seed (or the
//! option `house`): no text about one house is true of another. A case that was closed incorrectly ends with a review
//! that names the expected action and at most two facts, not always the right ones: so lessons can be right or wrong.
//!
//! The outcome is the final state of the records and what the customer was told, as in tau-bench: the artefact
//! `state.json` has the records, and the task's reference has the expected ones. In 5 of 100 episodes, depending on the
//! episode's seed, the till slips and books another resolution.

mod case;
mod desk;
mod handbook;
mod house;
mod practice;
mod review;

use case::Case;
use clawhost_sdk::{
    Action, Context, Message, MessageEnvironment, Opening, OptionSpec, Params, Random, Result, Signals, Split, Status,
    Step, Task, ToolCall, export_environment,
};
use desk::{Desk, Done, Talk};
use handbook::{Handbook, Line};
use house::{FACTS, RESOLUTIONS};

/// The artefact that holds the records.
const STATE: &str = "state.json";
/// Default number of slips in 100 episodes.
const DEFAULT_NOISE: u64 = 5;
/// Default number of messages before the customer's patience is used up.
const DEFAULT_PATIENCE: u32 = 8;

/// One case at the desk.
#[derive(Debug)]
pub struct Shop {
    case: Case,
    desk: Desk,
    settings: Settings,
    /// The handbook of a case for practice. Empty otherwise.
    practice: Vec<Line>,
    /// The resolution that the till books instead of the requested one. `None`: it does not slip.
    slip: Option<Slip>,
    /// Random numbers of the review.
    random: Random,
}

/// A slip of the till: this many resolutions further on the list.
#[derive(Debug, Clone, Copy)]
struct Slip(usize);

impl Slip {
    fn instead_of(self, resolution: &str) -> Option<&'static str> {
        let position = RESOLUTIONS.iter().position(|known| *known == resolution)?;
        RESOLUTIONS.get((position + self.0) % RESOLUTIONS.len()).copied()
    }
}

#[derive(Debug)]
struct Settings {
    house: u64,
    noise: u64,
    patience: u32,
    handbook: Handbook,
    talk: Talk,
    practises: bool,
}

fn settings(context: &Context) -> Result<Settings> {
    let house = context.world("house")?;
    let noise = context.option_or("noise", DEFAULT_NOISE)?;
    let patience = context.option_or("patience", DEFAULT_PATIENCE)?;
    if noise > 100 || !(1..=100).contains(&patience) {
        return Err("noise must be 0 to 100, and patience 1 to 100".into());
    }
    let handbook = match context.option("handbook").unwrap_or("default") {
        "default" => Handbook::Default,
        "all" => Handbook::All,
        other => return Err(format!("handbook={other} is neither default nor all").into()),
    };
    let talk = if context.is_other("talk", ["full", "terse"])? { Talk::Terse } else { Talk::Full };
    let practises = context.is_other("practice", ["no", "yes"])?;
    if practises && talk == Talk::Full {
        return Err("practice=yes needs talk=terse".into());
    }
    Ok(Settings { house, noise, patience, handbook, talk, practises })
}

impl MessageEnvironment for Shop {
    const NAME: &'static str = "env-shop";
    const SUMMARY: &'static str = "close the cases of a shop's customers with tools, by house rules that nobody tells";
    const SNAPSHOT: bool = true;
    const REVIEWS: bool = true;
    const DEMONSTRATIONS: bool = true;

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new(
                "house",
                "",
                "which house: a number that decides rules and cases; empty: from the run's seed",
            ),
            OptionSpec::new("noise", "5", "in how many of 100 episodes the till slips, 0 to 100"),
            OptionSpec::new(
                "handbook",
                "default",
                "what the policy is told: `default`, or `all` the house's rules, to see what could be learned at best",
            ),
            OptionSpec::new("patience", "8", "messages before the customer leaves, 1 to 100"),
            OptionSpec::new(
                "talk",
                "full",
                "full, or terse: few words, and an answer is the name of a tool; for tiny models",
            ),
            OptionSpec::new(
                "practice",
                "no",
                "no, or yes: cases of many other houses, each with a handbook of its own, and demonstrations that follow it",
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
        let settings = settings(context)?;
        let size = Self::splits().iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let end = size.min(offset.saturating_add(u64::from(limit)));
        let task = |position| {
            let house = if settings.practises { practice::house(position) } else { settings.house };
            let case = Case::new(house, split, position);
            Task::new(split, format!("{split}-{position}"), "")
                .with_reference(case.reference(settings.talk))
                // The environment finds the house with this attribute. The policy never sees it.
                .with_extra("house", house.to_string())
        };
        Ok((offset..end).map(task).collect())
    }

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let shop = Self::begin(params)?;
        let Settings { talk, handbook, .. } = shop.settings;
        let case = &shop.case;
        let mut text = match talk {
            Talk::Terse => String::new(),
            Talk::Full => format!(
                "A customer asks for help with an order.\norder: {}\ncustomer: {}\nitem: {}\namount: {}\n",
                case.order,
                case.customer,
                case.item,
                case.amount()
            ),
        };
        for (position, fact) in FACTS.iter().enumerate() {
            let hidden = case.house.hidden.contains(&position);
            let value = if hidden { "not looked up".to_owned() } else { case.value(position, talk) };
            text.push_str(&format!("{}: {value}\n", fact.name));
        }
        let mut hint = handbook.text(&case.house, talk);
        let (tools, text) = match talk {
            Talk::Terse => {
                hint.push_str(&practice::text(&shop.practice, talk));
                (Vec::new(), text)
            }
            Talk::Full => {
                text.push_str("Close the case with one tool: refund, replace, escalate, deny or offer_credit.");
                (desk::tools(), text)
            }
        };
        let observation = vec![shop.demonstrating(Message::user(text))];
        let records = case.records().to_string();
        let opening = Opening { tools, system_hint: Some(hint), observation, ..Opening::default() };
        // If the policy never acts, the records stay unchanged.
        Ok((shop, opening.leave(STATE, "application/json", records)))
    }

    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step> {
        self.desk.actions += 1;
        let mut step = Step::silent();
        let mut errors = 0u32;
        if self.settings.talk == Talk::Terse {
            step = self.answered(action, &mut errors);
        }
        for call in &action.tool_calls {
            let slip = self.slip.and_then(|slip| slip.instead_of(&call.name));
            match self.desk.run(call, &self.case.order, &self.case.customer, slip) {
                Ok(Done::Shown(record)) => step = step.answer(call, self.case.lines(record, Talk::Full).trim_end()),
                Ok(Done::Closed { order, booked }) => {
                    step = step.answer(call, format!("booked: {booked} for order {order}"));
                }
                Err(error) => {
                    errors += 1;
                    step = step.answer(call, error.message());
                }
            }
        }
        errors += action.refused.len() as u32;
        if self.settings.talk == Talk::Full && action.tool_calls.is_empty() && action.refused.is_empty() {
            errors += 1;
            step = step.say("Nothing happened: cases are closed with tools.");
        }
        signals.set("actions", f64::from(self.desk.actions));
        signals.set("look_ups", self.desk.looked.iter().filter(|looked| **looked).count() as f64);
        signals.set("errors", f64::from(errors));
        step = step.leave(STATE, "application/json", self.desk.records.to_string());
        if self.desk.closed.is_some() {
            let text = self.review();
            return Ok(step.say(text).with_status(Status::Terminated));
        }
        if self.desk.actions >= self.settings.patience {
            let text = format!("The customer has left. {}", self.review());
            return Ok(step.say(text).with_status(Status::Truncated(format!("{} messages", self.settings.patience))));
        }
        Ok(step)
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(&self.desk)?)
    }

    fn restore(params: &Params, state: &[u8]) -> Result<Self> {
        let desk = serde_json::from_slice(state)?;
        Ok(Self { desk, ..Self::begin(params)? })
    }
}

impl Shop {
    /// A case before the first action: a function of the params alone.
    fn begin(params: &Params) -> Result<Self> {
        let Params { task, context, .. } = params;
        let settings = settings(context)?;
        let unknown = || format!("`{}` is no task of this shop", task.id);
        let house = task.extra("house").and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let position = task.id.rsplit('-').next().and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let case = Case::new(house, &task.split, position);
        // Drawn from the episode's seed alone, independent of the policy.
        let mut random = Random::new(context.seed);
        let slips = random.below(100) < settings.noise;
        let further = random.between(1, RESOLUTIONS.len() as i64 - 1) as usize;
        let desk = Desk::new(case.records());
        let mut practice = Vec::new();
        if settings.practises {
            practice = practice::handbook(&case, &mut Random::at(context.seed, "practice", 0));
        }
        Ok(Self { case, desk, settings, practice, slip: slips.then_some(Slip(further)), random })
    }

    /// The message, with what a reader of the handbook would do next, if this is practice.
    fn demonstrating(&self, message: Message) -> Message {
        match self.settings.practises {
            true => message.demonstrating(handbook::followed(&self.practice, &self.case, self.desk.looked)),
            false => message,
        }
    }

    /// Does what an answer in terse talk says.
    fn answered(&mut self, action: &Action, errors: &mut u32) -> Step {
        let (order, customer, amount) = (&self.case.order, &self.case.customer, self.case.amount());
        let slip = |call: &ToolCall| self.slip.and_then(|slip| slip.instead_of(&call.name));
        let done = Desk::meant(&action.plain_text(), order, customer, &amount).map(|call| {
            let slip = slip(&call);
            self.desk.run(&call, order, customer, slip)
        });
        match done {
            Some(Ok(Done::Shown(record))) => {
                let shown = Message::user(self.case.lines(record, Talk::Terse));
                Step { observation: vec![self.demonstrating(shown)], ..Step::silent() }
            }
            Some(Ok(Done::Closed { .. })) => Step::silent(),
            Some(Err(_)) | None => {
                *errors += 1;
                Step { observation: vec![self.demonstrating(Message::user("?\n"))], ..Step::silent() }
            }
        }
    }

    /// The records and messages at the end of the case.
    fn review(&mut self) -> String {
        let expected = RESOLUTIONS.get(self.case.house.expected(&self.case.facts)).copied().unwrap_or("deny");
        let mut should = self.case.records();
        let booked = case::book(&mut should, &self.case.order, expected).is_ok();
        // The format that `reward-state` reads.
        let told = self.desk.told.to_lowercase().replace(',', "");
        let told = told.contains(&self.case.order.to_lowercase()) && told.contains(&self.case.amount());
        if booked && told && should == self.desk.records {
            return "Review: as the house wants it.".to_owned();
        }
        let talk = self.settings.talk;
        review::review(&self.case, &desk::call(expected, talk), &self.desk.looked, talk, &mut self.random).to_string()
    }
}

export_environment!(Shop);

#[cfg(test)]
mod tests;
