//! Problems: a text, its answer, and a key that is equal for equal problems.

use clawhost_sdk::Random;

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Addition,
    Subtraction,
    Multiplication,
    Brackets,
    Remainder,
    Series,
    Coins,
    Ages,
    Journey,
    Digits,
}

impl Kind {
    pub(crate) const ALL: [Self; 10] = [
        Self::Addition,
        Self::Subtraction,
        Self::Multiplication,
        Self::Brackets,
        Self::Remainder,
        Self::Series,
        Self::Coins,
        Self::Ages,
        Self::Journey,
        Self::Digits,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Multiplication => "multiplication",
            Self::Brackets => "brackets",
            Self::Remainder => "remainder",
            Self::Series => "series",
            Self::Coins => "coins",
            Self::Ages => "ages",
            Self::Journey => "journey",
            Self::Digits => "digits",
        }
    }

    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    fn is_arithmetic(self) -> bool {
        matches!(self, Self::Addition | Self::Subtraction | Self::Multiplication | Self::Brackets)
    }

    /// Whether the operator's option includes this kind.
    pub(crate) fn is(self, wanted: &str) -> bool {
        match wanted {
            "all" => true,
            "arithmetic" => self.is_arithmetic(),
            "words" => !self.is_arithmetic(),
            name => name == self.name(),
        }
    }
}

/// One problem.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) answer: i64,
    /// Equal for problems that differ only in wording or in the order of terms.
    pub(crate) key: String,
}

impl Problem {
    pub(crate) fn draw(kind: Kind, random: &mut Random) -> Self {
        let (text, answer, mut numbers) = match kind {
            Kind::Addition => {
                let (a, b) = (random.between(0, 99), random.between(0, 99));
                (format!("Calculate {a} + {b}."), a + b, vec![a.min(b), a.max(b)])
            }
            Kind::Subtraction => {
                let (a, b) = (random.between(0, 99), random.between(0, 99));
                (format!("Calculate {a} - {b}."), a - b, vec![a, b])
            }
            Kind::Multiplication => {
                let (a, b) = (random.between(2, 30), random.between(2, 30));
                (format!("Calculate {a} * {b}."), a * b, vec![a.min(b), a.max(b)])
            }
            Kind::Brackets => {
                let (a, b, c) = (random.between(2, 20), random.between(1, 50), random.between(1, 50));
                (format!("Calculate {a} * ({b} + {c})."), a * (b + c), vec![a, b.min(c), b.max(c)])
            }
            Kind::Remainder => {
                let (a, b) = (random.between(100, 9999), random.between(3, 97));
                (format!("What is the remainder when {a} is divided by {b}?"), a % b, vec![a, b])
            }
            Kind::Series => {
                let (first, step, count) = (random.between(1, 20), random.between(1, 9), random.between(5, 40));
                let last = first + step * (count - 1);
                let text = format!(
                    "An arithmetic sequence starts with {first}, {}, {} and ends with {last}. What is the sum of all its terms?",
                    first + step,
                    first + 2 * step
                );
                (text, count * (first + last) / 2, vec![first, step, count])
            }
            Kind::Coins => {
                let (fives, twos) = (random.between(2, 30), random.between(2, 30));
                let (coins, value) = (fives + twos, 5 * fives + 2 * twos);
                let text = format!(
                    "A jar holds {coins} coins worth {value} in all. Each coin is worth 5 or 2. How many are worth 5?"
                );
                (text, fives, vec![coins, value])
            }
            Kind::Ages => {
                let (child, factor, years) = (random.between(3, 20), random.between(2, 4), random.between(1, 15));
                let parent = child * factor;
                let sum = child + parent + 2 * years;
                let text = format!(
                    "A mother is {factor} times as old as her child. In {years} years their ages will add up to {sum}. How old is the child now?"
                );
                (text, child, vec![factor, years, sum])
            }
            Kind::Journey => {
                let (slow, faster, hours) = (random.between(4, 30), random.between(2, 30), random.between(1, 9));
                let fast = slow + faster;
                let apart = (slow + fast) * hours;
                let text = format!(
                    "Two cyclists start {apart} km apart and ride towards each other at {slow} and {fast} km per hour. After how many hours do they meet?"
                );
                (text, hours, vec![slow, fast, apart])
            }
            Kind::Digits => {
                let number = random.between(1000, 999_999);
                let sum = number.to_string().bytes().map(|digit| i64::from(digit - b'0')).sum();
                (format!("What is the sum of the digits of {number}?"), sum, vec![number])
            }
        };
        let numbers = numbers.drain(..).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        Self { kind, text, answer, key: format!("{} {numbers}", kind.name()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest number with the property.
    fn first(range: std::ops::RangeInclusive<i64>, property: impl Fn(i64) -> bool) -> Option<i64> {
        range.into_iter().find(|number| property(*number))
    }

    fn numbers(text: &str) -> Vec<i64> {
        text.split(|character: char| !character.is_ascii_digit()).flat_map(str::parse).collect()
    }

    #[test]
    fn every_answer_equals_that_of_a_search() {
        let mut random = Random::new(5);
        for round in 0..2000 {
            let kind = Kind::ALL[round % Kind::ALL.len()];
            let problem = Problem::draw(kind, &mut random);
            let n = numbers(&problem.text);
            let found = match kind {
                Kind::Addition => Some(n[0] + n[1]),
                Kind::Subtraction => Some(n[0] - n[1]),
                Kind::Multiplication => Some(n[0] * n[1]),
                Kind::Brackets => Some(n[0] * n[1] + n[0] * n[2]),
                Kind::Remainder => first(0..=n[1], |rest| (n[0] - rest) % n[1] == 0),
                Kind::Series => {
                    let step = n[1] - n[0];
                    Some((0..).map(|position| n[0] + position * step).take_while(|term| *term <= n[3]).sum())
                }
                Kind::Coins => first(0..=n[0], |fives| 5 * fives + 2 * (n[0] - fives) == n[1]),
                Kind::Ages => first(0..=200, |child| child + n[1] + child * n[0] + n[1] == n[2]),
                Kind::Journey => first(0..=100, |hours| hours * (n[1] + n[2]) == n[0]),
                Kind::Digits => Some(problem.text.chars().filter_map(|c| c.to_digit(10)).map(i64::from).sum()),
            };
            assert_eq!(found, Some(problem.answer), "{}", problem.text);
        }
    }
}
