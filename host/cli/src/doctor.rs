//! `clawhost doctor`.

use crate::args::{DoctorArgs, MachineArgs};
use crate::context::Context;
use crate::exit::{Exit, hint};
use clawhost_app::{ModelFactory, Silent};
use clawhost_core::{KnownSecrets, Message, ModelRequest, Origin, Role, escaped};
use clawhost_devkit::doctor::{Finding, State, examine};
use clawhost_providers::Dialect;
use clawhost_run_config::BudgetSpec;
use std::io::Write as _;

pub(crate) async fn run(context: &Context, arguments: &DoctorArgs) -> anyhow::Result<Exit> {
    let mut findings = examine(&context.folder()?);
    findings.extend(crate::device::examine()?);
    findings.extend(Dialect::ALL.into_iter().map(key));
    if let Some(spec) = &arguments.policy {
        findings.push(endpoint(context, spec, arguments).await?);
    }
    let mut out = crate::terminal::stdout();
    let broken = findings.iter().any(|finding| finding.state == State::Broken);
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "findings": findings }))?;
        return Ok(if broken { Exit::Other } else { Exit::Ok });
    }
    for Finding { topic, state, says, costs, remedy, hints } in &findings {
        let mark = match state {
            State::Good => "\x1b[32mok\x1b[0m     ",
            State::Missing => "\x1b[33mmissing\x1b[0m",
            State::Broken => "\x1b[1;31mbroken\x1b[0m ",
        };
        writeln!(out, "{mark} \x1b[1m{topic:<14}\x1b[0m {}", escaped(says, 1000))?;
        if let Some(costs) = costs {
            writeln!(out, "                       costs: {costs}")?;
        }
        let ways: Vec<String> = remedy.iter().cloned().chain(hints.iter().map(hint)).collect();
        if !ways.is_empty() {
            writeln!(out, "                       to fix it: {}", ways.join(", or "))?;
        }
    }
    let missing = findings.iter().filter(|finding| finding.state == State::Missing).count();
    match (broken, missing) {
        (true, _) => writeln!(out, "\nsomething that is needed does not work: see `broken` above")?,
        (false, 0) => writeln!(out, "\neverything is there")?,
        (false, missing) => writeln!(out, "\neverything that is needed works; {missing} optional things are missing")?,
    }
    Ok(if broken { Exit::Other } else { Exit::Ok })
}

/// Whether a key is set. Its value stays secret.
fn key(dialect: Dialect) -> Finding {
    let topic = format!("{} key", dialect.name());
    let variable = dialect.key_variable();
    match std::env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(_) => Finding::good(&topic, format!("{variable} is set")),
        None => Finding::missing(
            &topic,
            format!("{variable} is not set"),
            &format!("models at {} cannot be asked (local servers seldom need a key)", dialect.home()),
            format!("export {variable}=..., or --api-key-file FILE"),
        ),
    }
}

/// Requests one word from a model.
async fn endpoint(context: &Context, spec: &str, arguments: &DoctorArgs) -> anyhow::Result<Finding> {
    let machine = MachineArgs { endpoint: arguments.endpoint.clone(), ..MachineArgs::default() };
    let budget = BudgetSpec::default();
    let models = ModelFactory::new(context.model_settings(&machine)?, &budget, 1, KnownSecrets::default());
    let model = models.model(spec, &Silent)?;
    let request = ModelRequest {
        messages: vec![Message::text(Role::User, Origin::Host, "Reply with one of: ready.")],
        tools: Vec::new(),
        max_tokens: 16,
        temperature: None,
        seed: None,
        stop: Vec::new(),
        ..ModelRequest::default()
    };
    let topic = "endpoint";
    Ok(match model.complete(&request).await {
        Ok(answer) => {
            let text = escaped(answer.message.plain_text().trim(), 60);
            if text.is_empty() {
                let says = format!("{spec} answers without text");
                let remedy = "raise --max-tokens, or choose another model";
                return Ok(Finding::missing(topic, says, "it may be a bad policy", remedy));
            }
            Finding::good(topic, format!("{spec} answers: `{text}`"))
        }
        Err(error) => {
            Finding::broken(topic, error.to_string(), "this model cannot be used", "fix what the message names")
        }
    })
}
