//! An environment with tools.

use crate::environments::Counting;
use crate::identity::identity;
use async_trait::async_trait;
use clawhost_core::{
    Context, Environment, EnvironmentDescription, Failure, LiveEpisode, Message, Opening, Origin, PluginIdentity, Role,
    StartParams, Status, StepResult, Task, ToolCall, ToolSpec,
};
use std::sync::{Arc, Mutex};

/// The steps of an environment: the names of the calls, and the number of answers that the host gave itself.
pub type SeenCalls = Arc<Mutex<Vec<(Vec<String>, usize)>>>;

/// Offers two tools. Answers calls in reverse order, after another message.
pub struct Handy {
    identity: PluginIdentity,
    description: EnvironmentDescription,
    /// The received steps, in order.
    pub seen: SeenCalls,
}

impl Default for Handy {
    fn default() -> Self {
        let Counting { description, .. } = Counting::default();
        Self { identity: identity("handy"), description, seen: Arc::default() }
    }
}

#[async_trait]
impl Environment for Handy {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &EnvironmentDescription {
        &self.description
    }

    async fn tasks(&self, context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        Counting::default().tasks(context, split, offset, limit).await
    }

    async fn start(&self, _: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: "{}".into(),
            extra: vec![],
        };
        let opening = Opening { tools: vec![tool("look"), tool("stop")], ..Opening::text("go") };
        Ok((Box::new(Handling(self.seen.clone())), opening))
    }
}

struct Handling(SeenCalls);

#[async_trait]
impl LiveEpisode for Handling {
    async fn step(&mut self, action: &Message, answered: &[Message]) -> Result<StepResult, Failure> {
        let names: Vec<String> = action.tool_calls.iter().map(|call| call.name.clone()).collect();
        let over = names.contains(&"stop".to_owned());
        self.0.lock().unwrap().push((names, answered.len()));
        let answer = |call: &ToolCall| Message {
            tool_call_id: Some(call.id.clone()),
            ..Message::text(Role::Tool, Origin::Environment, format!("did {}", call.id))
        };
        // Another message first, then the answers in reverse order.
        let mut observation = vec![Message::text(Role::User, Origin::Environment, "and now?")];
        observation.extend(action.tool_calls.iter().rev().map(answer));
        let status = if over { Status::Terminated } else { Status::Running };
        Ok(StepResult { observation, status, signals: vec![], artefacts: vec![] })
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(5)
    }
}
