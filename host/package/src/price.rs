//! What tokens cost, as `--price` says it.

use crate::limits::MONEY;
use std::fmt;
use std::str::FromStr;

/// Money per million tokens, each from 0 to a thousand million.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// For tokens that the model reads.
    pub input: f64,
    /// For tokens that it writes.
    pub output: f64,
}

impl fmt::Display for Price {
    /// As it is written: `0.15,0.6`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.input, self.output)
    }
}

impl FromStr for Price {
    /// It is no price.
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (input, output) = text.split_once(',').ok_or(())?;
        let money = |text: &str| text.trim().parse().ok().filter(|money| MONEY.contains(money)).ok_or(());
        Ok(Self { input: money(input)?, output: money(output)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_two_sums_of_money() {
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
