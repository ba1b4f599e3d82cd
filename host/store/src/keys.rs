//! Ids of episodes in rows and indexes. The ids that runs assign, `ep-` and 16 hexadecimal digits, are stored as 8
//! bytes. All others, such as those of agents' sessions, are text. SQLite distinguishes bytes and text, so ids stay
//! distinct.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Value, ValueRef};

/// Prefix of ids that this program assigns.
const PREFIX: &str = "ep-";

/// An id in the form of its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EpisodeKey(pub(crate) String);

impl EpisodeKey {
    /// The key of an id.
    pub(crate) fn of(id: &str) -> Self {
        Self(id.to_owned())
    }

    /// Its value in a column.
    pub(crate) fn value(&self) -> Value {
        self.bytes().map_or_else(|| Value::Text(self.0.clone()), Value::Blob)
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        let digits = self.0.strip_prefix(PREFIX)?;
        let is_short = digits.len() == 16 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        is_short.then(|| u64::from_str_radix(digits, 16).ok().map(|number| number.to_be_bytes().to_vec()))?
    }
}

impl ToSql for EpisodeKey {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(self.value()))
    }
}

impl FromSql for EpisodeKey {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Blob(bytes) => {
                let bytes: [u8; 8] = bytes
                    .try_into()
                    .map_err(|_| FromSqlError::InvalidBlobSize { expected_size: 8, blob_size: bytes.len() })?;
                Ok(Self(format!("{PREFIX}{:016x}", u64::from_be_bytes(bytes))))
            }
            _ => String::column_result(value).map(Self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_reads_back_and_ids_of_runs_are_bytes() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let check = |id: &str, bytes: i64| {
            let key = EpisodeKey::of(id);
            let sql = "SELECT ?1, CASE typeof(?1) WHEN 'blob' THEN octet_length(?1) ELSE 0 END";
            let found: (EpisodeKey, i64) =
                connection.query_row(sql, [&key], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(found, (key, bytes), "{id}");
        };
        check("ep-00000000000000a1", 8);
        check("ep-ffffffffffffffff", 8);
        for other in
            ["", "ep-", "ep-0001", "ep-00000000000000A1", "ep-00000000000000a1b", "ep-+000000000000001", "session 7"]
        {
            check(other, 0);
        }
    }
}
