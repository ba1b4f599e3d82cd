use clawhost_sdk::{
    Action, Context, MessageEnvironment, Opening, Params, Random, Result, Signals, Status, Step, Task, ToolSpec,
    export_environment,
};
use serde::Deserialize;

/// One episode: an order, and the box in which it is packed.
pub struct {{type}} {
    content: Fruit,
}

/// What is in a box.
#[derive(Default, Deserialize)]
struct Fruit {
    apples: i64,
    pears: i64,
}

impl Fruit {
    fn json(&self) -> String {
        format!(r#"{{"apples":{},"pears":{}}}"#, self.apples, self.pears)
    }
}

impl MessageEnvironment for {{type}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = "0.1.0";
    const SUMMARY: &'static str = "pack what an order asks for, with tools";

    // Equal contexts give equal tasks, and no task is in two splits. The reference is JSON, for rewards only.
    fn tasks(context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>> {
        let size = Self::splits().iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let end = size.min(offset.saturating_add(u64::from(limit)));
        let task = |position| {
            let mut random = Random::at(context.seed, split, position);
            let wanted = Fruit { apples: random.between(1, 9), pears: random.between(1, 9) };
            let id = format!("{split}-{position}");
            let text = format!("Order {id}\napples: {}\npears: {}\npacked: no", wanted.apples, wanted.pears);
            Task::new(split, id, text).with_reference(wanted.json())
        };
        Ok((offset..end).map(task).collect())
    }

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let number = r#"{"type": "integer", "minimum": 0}"#;
        let fruit = format!(
            r#"{{"type": "object", "properties": {{"apples": {number}, "pears": {number}}}, "required": ["apples", "pears"]}}"#
        );
        let tools = vec![
            ToolSpec::new("pack", "Puts so much fruit into the box, in place of what is in it.", fruit),
            ToolSpec::new("send", "Sends the box. This ends the episode.", r#"{"type": "object"}"#),
        ];
        let opening = Opening { tools, ..Opening::text(params.task.input.clone()) };
        let content = Fruit::default();
        // The artefact before the first action. If the policy never acts, it is also the final one.
        let opening = opening.leave("box.json", "application/json", content.json());
        Ok((Self { content }, opening))
    }

    fn step(&mut self, action: &Action, _: &mut Signals) -> Result<Step> {
        let mut step = Step::silent();
        for call in &action.tool_calls {
            step = match (call.name.as_str(), call.read::<Fruit>()) {
                ("pack", Ok(fruit)) => {
                    self.content = fruit;
                    step.answer(call, "packed: yes")
                }
                ("pack", Err(error)) => step.answer(call, error.message()),
                _ => step.answer(call, "The box is on its way.").with_status(Status::Terminated),
            };
        }
        if action.tool_calls.is_empty() && action.refused.is_empty() {
            step = step.say("Nothing happened: use a tool.");
        }
        Ok(step.leave("box.json", "application/json", self.content.json()))
    }
}

export_environment!({{type}});
