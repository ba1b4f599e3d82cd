//! Converts between generated WIT types and the types of `core`. Values are moved and not checked (see `check`).

use clawhost_bindings::environment::clawhost::types::types as wit;
use clawhost_core::{
    About, Artefact, Blob, Context, Message, OptionSpec, Origin, Part, Role, Signal, Task, ToolCall, ToolSpec, Usage,
};

pub(crate) fn role_from(role: wit::Role) -> Role {
    match role {
        wit::Role::System => Role::System,
        wit::Role::User => Role::User,
        wit::Role::Assistant => Role::Assistant,
        wit::Role::Tool => Role::Tool,
    }
}

fn role_to(role: Role) -> wit::Role {
    match role {
        Role::System => wit::Role::System,
        Role::User => wit::Role::User,
        Role::Assistant => wit::Role::Assistant,
        Role::Tool => wit::Role::Tool,
    }
}

fn origin_to(origin: Origin) -> wit::Origin {
    match origin {
        Origin::Task => wit::Origin::Task,
        Origin::Environment => wit::Origin::Environment,
        Origin::Policy => wit::Origin::Policy,
        Origin::Tool => wit::Origin::Tool,
        Origin::User => wit::Origin::User,
        Origin::Host => wit::Origin::Host,
    }
}

fn part_from(part: wit::Part) -> Part {
    match part {
        wit::Part::Text(text) => Part::Text(text),
        wit::Part::Json(text) => Part::Json(text),
        wit::Part::Other(text) => Part::Other(text),
        wit::Part::Blob(blob) => Part::Blob(Blob { digest: blob.digest, media_type: blob.media_type, size: blob.size }),
    }
}

fn part_to(part: &Part) -> wit::Part {
    match part {
        Part::Text(text) => wit::Part::Text(text.clone()),
        Part::Json(text) => wit::Part::Json(text.clone()),
        Part::Other(text) => wit::Part::Other(text.clone()),
        Part::Blob(blob) => wit::Part::Blob(wit::Blob {
            digest: blob.digest.clone(),
            media_type: blob.media_type.clone(),
            size: blob.size,
        }),
    }
}

/// A guest's message. The host sets the origin; the guest's value is ignored.
pub(crate) fn message_from(message: wit::Message, origin: Origin) -> Message {
    let call =
        |call: wit::ToolCall| ToolCall { id: call.id, name: call.name, arguments: call.arguments, extra: call.extra };
    Message {
        role: role_from(message.role),
        parts: message.parts.into_iter().map(part_from).collect(),
        tool_calls: message.tool_calls.into_iter().map(call).collect(),
        tool_call_id: message.tool_call_id,
        origin,
        extra: message.extra,
    }
}

pub(crate) fn message_to(message: &Message) -> wit::Message {
    let call = |call: &ToolCall| wit::ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        extra: call.extra.clone(),
    };
    wit::Message {
        role: role_to(message.role),
        parts: message.parts.iter().map(part_to).collect(),
        tool_calls: message.tool_calls.iter().map(call).collect(),
        tool_call_id: message.tool_call_id.clone(),
        origin: origin_to(message.origin),
        extra: message.extra.clone(),
    }
}

pub(crate) fn tool_from(tool: wit::ToolSpec) -> ToolSpec {
    ToolSpec { name: tool.name, description: tool.description, input_schema: tool.input_schema, extra: tool.extra }
}

pub(crate) fn tool_to(tool: &ToolSpec) -> wit::ToolSpec {
    wit::ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        extra: tool.extra.clone(),
    }
}

pub(crate) fn signal_from(signal: wit::Signal) -> Signal {
    Signal { name: signal.name, value: signal.value }
}

pub(crate) fn signal_to(signal: &Signal) -> wit::Signal {
    wit::Signal { name: signal.name.clone(), value: signal.value }
}

pub(crate) fn artefact_from(artefact: wit::Artefact) -> Artefact {
    Artefact { name: artefact.name, media_type: artefact.media_type, bytes: artefact.bytes, extra: artefact.extra }
}

pub(crate) fn artefact_to(artefact: &Artefact) -> wit::Artefact {
    wit::Artefact {
        name: artefact.name.clone(),
        media_type: artefact.media_type.clone(),
        bytes: artefact.bytes.clone(),
        extra: artefact.extra.clone(),
    }
}

pub(crate) fn usage_to(usage: &Usage) -> wit::Usage {
    wit::Usage {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        cached_tokens: usage.cached_tokens,
        extra: Vec::new(),
    }
}

pub(crate) fn task_from(task: wit::Task) -> Task {
    Task {
        id: task.id,
        part: None,
        split: task.split,
        input: task.input,
        reference: task.reference,
        tags: task.tags,
        extra: task.extra,
    }
}

/// A task for guests: without its reference. A reward's view adds it again.
pub(crate) fn task_to(task: &Task) -> wit::Task {
    wit::Task {
        id: task.id.clone(),
        split: task.split.clone(),
        input: task.input.clone(),
        reference: None,
        tags: task.tags.clone(),
        extra: task.extra.clone(),
    }
}

pub(crate) fn context_to(context: &Context) -> wit::Context {
    wit::Context { seed: context.seed, options: context.options.clone(), extra: Vec::new() }
}

pub(crate) fn about_from(about: wit::About) -> About {
    let option = |option: wit::OptionSpec| OptionSpec {
        name: option.name,
        summary: option.summary,
        default_value: option.default_value,
    };
    About {
        name: about.name,
        version: about.version,
        summary: about.summary,
        features: about.features,
        options: about.options.into_iter().map(option).collect(),
        extra: about.extra,
    }
}
