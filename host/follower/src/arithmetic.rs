//! Integer expressions: `+ - * /`, brackets, unary minus. Division must be exact.

/// Largest nesting of brackets and signs: far more than a readable expression has, far less than the stack allows.
const DEPTH: usize = 64;

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

/// The value of the longest expression at the beginning of a text; `None` if there is none.
pub(crate) fn evaluate(text: &str) -> Option<i128> {
    Reader { rest: text, depth: 0 }.sum()
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches(' ');
        self.rest.chars().next()
    }

    fn skip(&mut self, character: char) {
        self.rest = self.rest.strip_prefix(character).unwrap_or(self.rest);
    }

    fn sum(&mut self) -> Option<i128> {
        let mut value = self.product()?;
        while let Some(operator @ ('+' | '-' | '\u{2212}')) = self.peek() {
            self.skip(operator);
            let next = self.product()?;
            value = if operator == '+' { value.checked_add(next)? } else { value.checked_sub(next)? };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<i128> {
        let mut value = self.factor()?;
        while let Some(operator @ ('*' | '×' | '/' | '÷')) = self.peek() {
            self.skip(operator);
            let next = self.factor()?;
            value = if matches!(operator, '*' | '×') {
                value.checked_mul(next)?
            } else {
                let even = next != 0 && value.checked_rem(next)? == 0;
                even.then(|| value.checked_div(next)).flatten()?
            };
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<i128> {
        match self.peek()? {
            minus @ ('-' | '\u{2212}') => {
                self.skip(minus);
                self.deeper(Self::factor)?.checked_neg()
            }
            '(' => {
                self.skip('(');
                let value = self.deeper(Self::sum)?;
                (self.peek()? == ')').then(|| self.skip(')'))?;
                Some(value)
            }
            _ => {
                let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
                let (digits, rest) = self.rest.split_at_checked(end)?;
                self.rest = rest;
                digits.parse().ok()
            }
        }
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Option<i128>) -> Option<i128> {
        self.depth += 1;
        let value = if self.depth > DEPTH { None } else { read(self) };
        self.depth -= 1;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_follow_the_usual_precedence() {
        for (text, value) in [
            ("1 + 2 * 3", Some(7)),
            ("(1 + 2) * 3.", Some(9)),
            ("10 - 3 - 2", Some(5)),
            ("-4 * -5", Some(20)),
            ("84 / 2 / 3", Some(14)),
            ("7 / 2", None),
            ("7 / 0", None),
            ("3 × 4 please", Some(12)),
            ("(1", None),
            ("", None),
            ("x + 1", None),
            ("99999999999999999999999999999999999999999 + 1", None),
        ] {
            assert_eq!(evaluate(text), value, "{text}");
        }
        assert_eq!(evaluate(&"(".repeat(100_000)), None, "deep nesting is rejected");
        assert_eq!(evaluate(&"-".repeat(100_000)), None, "deep nesting is rejected");
    }
}
