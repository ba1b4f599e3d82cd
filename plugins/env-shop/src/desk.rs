//! The desk: its tools, the records that they change, and the state of an episode.

use crate::case::book;
use crate::house::{RESOLUTIONS, Record};
use clawhost_sdk::{Result, ToolCall, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Shows the facts of the order.
pub(crate) const LOOK_UP_ORDER: &str = "look_up_order";
/// Shows the facts of the customer.
pub(crate) const LOOK_UP_CUSTOMER: &str = "look_up_customer";

/// The form of observations and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    /// In sentences, with tools.
    Full,
    /// In few words: an answer is the name of a tool. For tiny models.
    Terse,
}

/// The template of a tool call; `<...>` is replaced by values of the case. In terse talk, an answer.
pub(crate) fn call(tool: &str, talk: Talk) -> String {
    if talk == Talk::Terse {
        return format!("answer {tool}");
    }
    match tool {
        LOOK_UP_ORDER => format!(r#"call {tool} {{"order_id": "<order>"}}"#),
        LOOK_UP_CUSTOMER => format!(r#"call {tool} {{"customer_id": "<customer>"}}"#),
        _ => format!(
            r#"call {tool} {{"order_id": "<order>", "message": "About order <order> of <amount>: we have decided."}}"#
        ),
    }
}

/// The available tools.
pub(crate) fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, description: &str, fields: &[(&str, &str)]| {
        let properties: serde_json::Map<String, Value> = fields
            .iter()
            .map(|(field, what)| ((*field).to_owned(), serde_json::json!({"type": "string", "description": what})))
            .collect();
        let required: Vec<&str> = fields.iter().map(|(field, _)| *field).collect();
        let schema = serde_json::json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        ToolSpec::new(name, description, schema.to_string())
    };
    let order = ("order_id", "the order, as in A1234");
    let message = ("message", "what the customer is told; it names the order and the amount");
    let closing = |name: &str, does: &str| tool(name, &format!("{does} Closes the case."), &[order, message]);
    vec![
        tool(LOOK_UP_ORDER, "Shows everything about an order.", &[order]),
        tool(LOOK_UP_CUSTOMER, "Shows everything about a customer.", &[("customer_id", "the customer, as in C123")]),
        closing("refund", "Pays the amount back."),
        closing("replace", "Sends the item again."),
        closing("escalate", "Hands the case to the manager."),
        closing("deny", "Does nothing for the customer."),
        closing("offer_credit", "Credits the amount for the next order."),
    ]
}

/// The state of an episode.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Desk {
    /// The shop's records.
    pub(crate) records: Value,
    /// Whether each of the two records was looked up: customer, order.
    pub(crate) looked: [bool; 2],
    /// Messages of the policy so far.
    pub(crate) actions: u32,
    /// The resolution with which the policy closed the case.
    pub(crate) closed: Option<String>,
    /// What the customer was told.
    pub(crate) told: String,
}

/// The result of a call.
pub(crate) enum Done {
    /// A record was shown.
    Shown(Record),
    /// An order was closed.
    Closed {
        /// The requested resolution.
        order: String,
        /// The booked resolution; a slip of the till may have changed it.
        booked: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderId {
    order_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomerId {
    customer_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Closing {
    order_id: String,
    message: String,
}

impl Desk {
    /// A desk before the first action.
    pub(crate) fn new(records: Value) -> Self {
        Self { records, looked: [false; 2], actions: 0, closed: None, told: String::new() }
    }

    /// The call that an answer in terse talk stands for. `None`: it names no tool.
    pub(crate) fn meant(answer: &str, order: &str, customer: &str, amount: &str) -> Option<ToolCall> {
        let name = answer.trim();
        let arguments = match name {
            LOOK_UP_ORDER => serde_json::json!({ "order_id": order }),
            LOOK_UP_CUSTOMER => serde_json::json!({ "customer_id": customer }),
            _ if RESOLUTIONS.contains(&name) => {
                serde_json::json!({ "order_id": order, "message": format!("About order {order} of {amount}: we have decided.") })
            }
            _ => return None,
        };
        Some(ToolCall::new("terse", name, arguments.to_string()))
    }

    /// Runs one tool for the case of this order and customer. `slip` is the resolution that the till books instead, if it slips.
    ///
    /// # Errors
    /// The arguments are invalid. The text is for the policy.
    pub(crate) fn run(&mut self, call: &ToolCall, order: &str, customer: &str, slip: Option<&str>) -> Result<Done> {
        if self.closed.is_some() {
            return Err("error: the case is closed".into());
        }
        match call.name.as_str() {
            LOOK_UP_ORDER => {
                let OrderId { order_id } = call.read()?;
                if order_id != order {
                    return Err(format!("error: this case is about order {order}, not {order_id}").into());
                }
                self.looked[1] = true;
                Ok(Done::Shown(Record::Order))
            }
            LOOK_UP_CUSTOMER => {
                let CustomerId { customer_id } = call.read()?;
                if customer_id != customer {
                    return Err(format!("error: this case is about customer {customer}, not {customer_id}").into());
                }
                self.looked[0] = true;
                Ok(Done::Shown(Record::Customer))
            }
            resolution if RESOLUTIONS.contains(&resolution) => {
                let Closing { order_id, message } = call.read()?;
                let booked = slip.unwrap_or(resolution);
                book(&mut self.records, &order_id, booked)?;
                self.told.push_str(&message);
                self.told.push('\n');
                if order_id == order {
                    self.closed = Some(resolution.to_owned());
                }
                Ok(Done::Closed { order: order_id, booked: booked.to_owned() })
            }
            other => Err(format!("error: there is no tool {other}").into()),
        }
    }
}
