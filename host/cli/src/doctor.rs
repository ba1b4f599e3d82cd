//! `clawhost doctor`.

use crate::args::{self, Common};
use crate::data;
use crate::exit::Exit;
use crate::policy::Models;
use clawhost_core::{Message, ModelRequest, Origin, Role, escaped};
use clawhost_devkit::doctor::{Finding, State, examine};
use clawhost_providers::Dialect;
use std::io::Write as _;

pub(crate) fn main(common: &Common, options: &args::Doctor) -> anyhow::Result<Exit> {
    let mut findings = examine(&data::folder(common)?);
    findings.extend(crate::device::examine()?);
    findings.extend(Dialect::ALL.into_iter().map(key));
    if let Some(spec) = &options.policy {
        findings.push(endpoint(spec, options)?);
    }
    let mut out = anstream::stdout().lock();
    let broken = findings.iter().any(|finding| finding.state == State::Broken);
    if common.json {
        writeln!(out, "{:#}", serde_json::json!({ "format": 1, "findings": findings }))?;
        return Ok(if broken { Exit::Other } else { Exit::Ok });
    }
    for Finding { topic, state, says, costs, remedy } in &findings {
        let mark = match state {
            State::Good => "\x1b[32mok\x1b[0m     ",
            State::Missing => "\x1b[33mmissing\x1b[0m",
            State::Broken => "\x1b[1;31mbroken\x1b[0m ",
        };
        writeln!(out, "{mark} \x1b[1m{topic:<14}\x1b[0m {}", escaped(says, 1000))?;
        if let Some(costs) = costs {
            writeln!(out, "                       costs: {costs}")?;
        }
        if let Some(remedy) = remedy {
            writeln!(out, "                       to mend it: {remedy}")?;
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

/// Whether a key is set. What it is, nobody learns.
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

/// Asks a model for one word.
fn endpoint(spec: &str, options: &args::Doctor) -> anyhow::Result<Finding> {
    let model = Models::bare(&options.endpoint).model(spec)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = ModelRequest {
        messages: vec![Message::text(Role::User, Origin::Host, "Reply with one of: ready.")],
        tools: Vec::new(),
        max_tokens: 16,
        temperature: None,
        seed: None,
        stop: Vec::new(),
    };
    let topic = "endpoint";
    Ok(match runtime.block_on(model.complete(&request)) {
        Ok(answer) => {
            let text = escaped(answer.message.plain_text().trim(), 60);
            if text.is_empty() {
                let says = format!("{spec} answers with no text");
                return Ok(Finding::missing(
                    topic,
                    says,
                    "it may act badly",
                    "raise --max-tokens, or choose another model",
                ));
            }
            Finding::good(topic, format!("{spec} answers: `{text}`"))
        }
        Err(error) => {
            Finding::broken(topic, error.to_string(), "this model cannot act or judge", "mend what the message names")
        }
    })
}
