//! SQLite's integers are signed; those of the types here are unsigned, and never use the top bit.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of a column, which is never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsigned(pub(crate) u64);

impl FromSql for Unsigned {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        u64::try_from(number).map(Self).map_err(|_| FromSqlError::OutOfRange(number))
    }
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
