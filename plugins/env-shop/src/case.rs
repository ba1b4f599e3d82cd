//! A case: one customer with one order and a wish, and the shop's records.

use crate::desk::Talk;
use crate::house::{FACTS, Facts, House, RESOLUTIONS, Record, told};
use clawhost_sdk::{Random, Result};
use serde_json::{Value, json};

/// What a case is about.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Its house.
    pub(crate) house: House,
    /// Its facts.
    pub(crate) facts: Facts,
    /// Its order.
    pub(crate) order: String,
    /// The customer.
    pub(crate) customer: String,
    /// The product.
    pub(crate) item: &'static str,
    /// The price in cents.
    pub(crate) cents: u64,
    /// Two orders of other customers, which do not belong to this case.
    pub(crate) others: [String; 2],
}

const ITEMS: [&str; 8] =
    ["an atlas", "a kite", "a raincoat", "a chess set", "a cookbook", "a scarf", "a puzzle", "a sketchbook"];

impl Case {
    /// The case at a position of a split, in the house with this number.
    pub(crate) fn new(house: u64, split: &str, position: u64) -> Self {
        let mut random = Random::at(house, split, position);
        let house = House::new(house);
        let facts = house.draw(&mut random);
        let first = random.between(1000, 8999) as u64;
        Self {
            house,
            facts,
            order: format!("A{first}"),
            customer: format!("C{}", random.between(100, 999)),
            item: random.choose(&ITEMS).copied().unwrap_or("an atlas"),
            cents: random.between(500, 19_999) as u64,
            others: [format!("A{}", first + 101), format!("A{}", first + 205)],
        }
    }

    /// The price in the usual notation.
    pub(crate) fn amount(&self) -> String {
        format!("{}.{:02}", self.cents / 100, self.cents % 100)
    }

    /// The value of a fact.
    pub(crate) fn value(&self, fact: usize, talk: Talk) -> String {
        told(&(fact, self.facts.get(fact).copied().unwrap_or(0)), talk)
    }

    /// The shop's records before the first action.
    pub(crate) fn records(&self) -> Value {
        let order = |customer: &str, amount: String| json!({"customer": customer, "amount": amount, "status": "open"});
        json!({
            "orders": {
                &self.order: order(&self.customer, self.amount()),
                &self.others[0]: order("C998", "12.00".into()),
                &self.others[1]: order("C999", "34.50".into()),
            },
            "credit": {},
            "tickets": [],
        })
    }

    /// The expected final records, and what the customer should be told; nothing in terse talk.
    pub(crate) fn reference(&self, talk: Talk) -> String {
        let mut records = self.records();
        let resolution = RESOLUTIONS.get(self.house.expected(&self.facts)).copied().unwrap_or("deny");
        // The case's own order is open at the beginning.
        let _ = book(&mut records, &self.order, resolution);
        let communicate = match talk {
            Talk::Full => vec![self.order.clone(), self.amount()],
            Talk::Terse => Vec::new(),
        };
        json!({"state": records, "communicate": communicate}).to_string()
    }

    /// The facts of one record as lines.
    pub(crate) fn lines(&self, record: Record, talk: Talk) -> String {
        let of_record = (0..).zip(&FACTS).filter(|(_, fact)| fact.record == record);
        of_record.map(|(position, fact)| format!("{}: {}\n", fact.name, self.value(position, talk))).collect()
    }
}

/// Closes an order in the records.
///
/// # Errors
/// There is no such order, or it is closed.
pub(crate) fn book(records: &mut Value, order: &str, resolution: &str) -> Result<()> {
    let entry =
        records.pointer_mut(&format!("/orders/{order}")).ok_or_else(|| format!("error: there is no order {order}"))?;
    if entry.get("status").and_then(Value::as_str) != Some("open") {
        return Err(format!("error: order {order} is closed already").into());
    }
    let text = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (customer, amount) = (text(entry, "customer"), text(entry, "amount"));
    let status = match resolution {
        "refund" => "refunded",
        "replace" => "replaced",
        "escalate" => "escalated",
        "offer_credit" => "credited",
        _ => "denied",
    };
    if let Some(fields) = entry.as_object_mut() {
        fields.insert("status".to_owned(), status.into());
    }
    match resolution {
        "offer_credit" => {
            if let Some(credit) = records.get_mut("credit").and_then(Value::as_object_mut) {
                credit.insert(customer, amount.into());
            }
        }
        "escalate" => {
            if let Some(tickets) = records.get_mut("tickets").and_then(Value::as_array_mut) {
                tickets.push(json!({"order": order}));
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_positions_give_equal_cases_and_splits_do_not_share_them() {
        let text = |house, split, position| format!("{:?}", Case::new(house, split, position));
        assert_eq!(text(1, "train", 5), text(1, "train", 5));
        assert_ne!(text(1, "train", 5), text(1, "train", 6));
        assert_ne!(text(1, "train", 5), text(1, "test", 5));
        assert_ne!(text(1, "train", 5), text(2, "train", 5));
    }

    #[test]
    fn a_resolution_is_booked_once() {
        let case = Case::new(3, "train", 0);
        let mut records = case.records();
        book(&mut records, &case.order, "offer_credit").unwrap();
        assert_eq!(records["orders"][&case.order]["status"], "credited");
        assert_eq!(records["credit"][&case.customer], Value::from(case.amount()));
        assert!(book(&mut records, &case.order, "refund").unwrap_err().message().contains("closed already"));
        assert!(book(&mut records, "A1/status", "refund").unwrap_err().message().contains("no order"));
    }
}
