//! The house style: how each pattern of a column is repaired. Drawn from one number, so that no text about one style is true of another.

use clawhost_sdk::Random;
use serde::{Deserialize, Serialize};

/// A column of a record.
#[derive(Debug)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: &'static str,
    /// How its cell may be written.
    pub(crate) patterns: [&'static str; 3],
}

/// The columns of a record.
pub(crate) const COLUMNS: [Column; 4] = [
    Column { name: "date", patterns: ["slashes", "dots", "month in words"] },
    Column { name: "amount", patterns: ["decimal comma", "decimal point", "cents"] },
    Column { name: "phone", patterns: ["leading plus", "leading zeros", "local"] },
    Column { name: "surname", patterns: ["capitals", "lower case", "initial only"] },
];

/// Where a record comes from; it is seen at once.
pub(crate) const SOURCES: [&str; 3] = ["web", "branch", "import"];
/// In which language region it was written; only a look at its origin shows it.
pub(crate) const LOCALES: [&str; 3] = ["english", "german", "french"];
/// The repairs.
pub(crate) const REPAIRS: [&str; 5] = ["keep", "swap", "strip", "pad", "retype"];

/// A cell of a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Position in [`COLUMNS`].
    pub(crate) column: usize,
    /// Position in [`Column::patterns`].
    pub(crate) pattern: usize,
    /// The repair that the old script proposes, drawn without regard to anything: a position in [`REPAIRS`].
    pub(crate) proposal: usize,
}

/// A record.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Its name.
    pub(crate) name: String,
    /// Position in [`SOURCES`].
    pub(crate) source: usize,
    /// Position in [`LOCALES`].
    pub(crate) locale: usize,
    /// Its cells, in the order in which they are opened; one of each column.
    pub(crate) cells: Vec<Cell>,
}

/// An exception: of this pattern, records with this value are repaired otherwise.
#[derive(Debug, Clone, Copy)]
struct Exception {
    cell: (usize, usize),
    value: usize,
    repair: usize,
}

/// A house style.
#[derive(Debug, Clone)]
pub(crate) struct House {
    /// The repair of every pattern of every column.
    repairs: [[usize; 3]; COLUMNS.len()],
    /// One exception depends on the source, one on the locale.
    by_source: Exception,
    by_locale: Exception,
}

impl House {
    /// The style with this number.
    pub(crate) fn new(number: u64) -> Self {
        let mut random = Random::new(number ^ 0x0063_6c65_616e);
        let mut draw = |below: usize| random.below(below as u64) as usize;
        let mut repairs = [[0; 3]; COLUMNS.len()];
        repairs.iter_mut().flatten().for_each(|repair| *repair = draw(REPAIRS.len()));
        let first = draw(COLUMNS.len());
        let second = (first + 1 + draw(COLUMNS.len() - 1)) % COLUMNS.len();
        let mut exception = |column: usize| {
            let (pattern, value) = (draw(3), draw(3));
            let usual = repairs.get(column).and_then(|of| of.get(pattern)).copied().unwrap_or(0);
            let repair = (usual + 1 + draw(REPAIRS.len() - 1)) % REPAIRS.len();
            Exception { cell: (column, pattern), value, repair }
        };
        let (by_source, by_locale) = (exception(first), exception(second));
        Self { repairs, by_source, by_locale }
    }

    /// The right repair of a cell, as a position in [`REPAIRS`].
    pub(crate) fn right(&self, record: &Record, cell: &Cell) -> usize {
        let at = (cell.column, cell.pattern);
        for (exception, value) in [(self.by_source, record.source), (self.by_locale, record.locale)] {
            if exception.cell == at && exception.value == value {
                return exception.repair;
            }
        }
        self.repairs.get(cell.column).and_then(|of| of.get(cell.pattern)).copied().unwrap_or(0)
    }

    /// A record. The pattern of each exception is there in three records of five, and the exception applies to one of them, so that both matter.
    pub(crate) fn draw(&self, random: &mut Random) -> Record {
        let mut order: Vec<usize> = (0..COLUMNS.len()).collect();
        for position in (1..order.len()).rev() {
            order.swap(position, random.below(position as u64 + 1) as usize);
        }
        let name = format!("R{}", random.between(10_000, 99_999));
        let mut record =
            Record { name, source: random.below(3) as usize, locale: random.below(3) as usize, cells: Vec::new() };
        for column in order {
            let (mut pattern, proposal) = (random.below(3) as usize, random.below(REPAIRS.len() as u64) as usize);
            for exception in [self.by_source, self.by_locale] {
                // More often than one time in three.
                if exception.cell.0 == column && random.below(5) < 2 {
                    pattern = exception.cell.1;
                }
            }
            record.cells.push(Cell { column, pattern, proposal });
        }
        record
    }

    /// Everything that can be known, one rule per line: the best possible playbook.
    pub(crate) fn all(&self) -> String {
        let line = |conditions: &str, (column, pattern): (usize, usize), repair: usize| {
            let column = COLUMNS.get(column)?;
            let (pattern, repair) = (column.patterns.get(pattern)?, REPAIRS.get(repair)?);
            let column = column.name;
            Some(format!(
                "when {conditions}pattern is {pattern}: call repair {{\"column\": \"{column}\", \"how\": \"{repair}\"}}\n"
            ))
        };
        let cells = self.repairs.iter().enumerate();
        let cells =
            cells.flat_map(|(column, of)| of.iter().enumerate().map(move |(at, repair)| ((column, at), *repair)));
        let plain: String = cells.filter_map(|(cell, repair)| line("", cell, repair)).collect();
        let exception = |fact: &str, values: [&str; 3], one: Exception| {
            let value = values.get(one.value)?;
            line(&format!("{fact} is {value} and "), one.cell, one.repair)
        };
        let by_source = exception("source", SOURCES, self.by_source).unwrap_or_default();
        let by_locale = exception("locale", LOCALES, self.by_locale).unwrap_or_default();
        format!("{plain}{by_source}{by_locale}when locale is {UNSEEN}: call look_at_origin {{}}\n")
    }
}

/// The value of what was not looked at yet.
pub(crate) const UNSEEN: &str = "not looked at";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_exceptions_matter_and_change_the_usual_repair() {
        for number in 0..100 {
            let house = House::new(number);
            assert_ne!(house.by_source.cell.0, house.by_locale.cell.0, "of different columns");
            let mut random = Random::new(5);
            let mut counts = [0, 0];
            for _ in 0..500 {
                let record = house.draw(&mut random);
                assert_eq!(record.cells.len(), COLUMNS.len());
                for cell in &record.cells {
                    let usual = house.repairs[cell.column][cell.pattern];
                    let differs = house.right(&record, cell) != usual;
                    counts[0] += usize::from(differs && cell.column == house.by_source.cell.0);
                    counts[1] += usize::from(differs && cell.column == house.by_locale.cell.0);
                }
            }
            assert!(counts.iter().all(|count| (60..=140).contains(count)), "house {number}: {counts:?}");
        }
    }

    #[test]
    fn styles_differ_so_that_no_text_fits_all() {
        let houses: std::collections::BTreeSet<String> = (0..100).map(|number| House::new(number).all()).collect();
        assert_eq!(houses.len(), 100);
    }

    #[test]
    fn patterns_belong_to_one_column() {
        let patterns: std::collections::BTreeSet<&str> = COLUMNS.iter().flat_map(|column| column.patterns).collect();
        assert_eq!(patterns.len(), 12);
    }
}
