//! The price of tokens, in the format of the option `price`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Money per million tokens.
const MONEY: RangeInclusive<f64> = 0.0..=1e9;

/// Money per million tokens, each from 0 to a billion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// For tokens that the model reads.
    pub input: f64,
    /// For tokens that it generates.
    pub output: f64,
}

impl Price {
    /// The expectation in a message.
    pub(crate) const EXPECTED: &str =
        "two prices per million tokens, read and written, each from 0 to 1000000000, as in \"0.15,0.60\"";
}

impl fmt::Display for Price {
    /// In the format of the option: `0.15,0.6`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.input, self.output)
    }
}

impl FromStr for Price {
    /// The expected format.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (input, output) = text.split_once(',').ok_or(Self::EXPECTED)?;
        let money = |text: &str| text.trim().parse().ok().filter(|money| MONEY.contains(money)).ok_or(Self::EXPECTED);
        Ok(Self { input: money(input)?, output: money(output)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_two_amounts() {
        let check = |text: &str, expected: Option<(f64, f64)>| {
            let got = text.parse::<Price>().ok().map(|price| (price.input, price.output));
            assert_eq!(got, expected, "{text}");
        };
        check("0.15,0.60", Some((0.15, 0.6)));
        check(" 1 , 2 ", Some((1.0, 2.0)));
        check("0,1000000000", Some((0.0, 1e9)));
        for odd in ["", "1", "1;2", "1,2,3", "-1,2", "1,-2", "NaN,1", "1,inf", "1,1000000001"] {
            check(odd, None);
        }
    }
}
