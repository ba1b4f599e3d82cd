//! Steps as a table in Parquet: a row per step, its tokens as lists, and everything else of it as JSON.

use ::parquet::basic::Compression;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The columns.
const SCHEMA: &str = "message steps {
    REQUIRED BYTE_ARRAY owner (UTF8);
    REQUIRED BYTE_ARRAY trajectory (UTF8);
    REQUIRED BYTE_ARRAY group (UTF8);
    REQUIRED BYTE_ARRAY channel (UTF8);
    REQUIRED BYTE_ARRAY state (UTF8);
    OPTIONAL DOUBLE trajectory_reward;
    REQUIRED BYTE_ARRAY metadata (JSON);
    REQUIRED INT64 created_at (TIMESTAMP_MILLIS);
    REQUIRED INT64 position;
    REQUIRED BOOLEAN trainable;
    OPTIONAL INT64 policy_version;
    OPTIONAL DOUBLE reward;
    OPTIONAL GROUP prompt_ids (LIST) { REPEATED GROUP list { REQUIRED INT64 element; } }
    OPTIONAL GROUP response_ids (LIST) { REPEATED GROUP list { REQUIRED INT64 element; } }
    OPTIONAL GROUP log_probs (LIST) { REPEATED GROUP list { REQUIRED DOUBLE element; } }
    REQUIRED BYTE_ARRAY rest (JSON);
}";

/// Fields of a step with a column of their own.
const OWN: [&str; 7] = ["position", "trainable", "policy_version", "reward", "prompt_ids", "response_ids", "log_probs"];

/// A step with its trajectory.
struct Row<'a> {
    trajectory: &'a Value,
    step: &'a Value,
}

impl Row<'_> {
    fn text(value: &Value, name: &str) -> ByteArray {
        ByteArray::from(value.get(name).and_then(Value::as_str).unwrap_or_default())
    }

    fn number(value: &Value, name: &str) -> Option<i64> {
        value.get(name).and_then(Value::as_i64)
    }

    /// What has no column of its own.
    fn rest(&self) -> ByteArray {
        let fields = self.step.as_object().into_iter().flatten().filter(|(name, _)| !OWN.contains(&name.as_str()));
        let rest: Map<String, Value> = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        ByteArray::from(Value::Object(rest).to_string().as_str())
    }

    /// The step whether trainers get it, for which its trajectory decides, too.
    fn trainable(&self) -> bool {
        [self.trajectory, self.step].iter().all(|value| value.get("trainable") != Some(&Value::Bool(false)))
    }
}

/// The table of the steps of some trajectories.
///
/// # Errors
/// The library refuses what this writes.
pub(crate) fn table(trajectories: &[Value]) -> Result<Vec<u8>, ParquetError> {
    let steps_of =
        |trajectory: &Value| trajectory.get("steps").and_then(Value::as_array).map_or(&[][..], Vec::as_slice).len();
    let mut rows = Vec::with_capacity(trajectories.iter().map(steps_of).sum());
    for trajectory in trajectories {
        let steps = trajectory.get("steps").and_then(Value::as_array).into_iter().flatten();
        rows.extend(steps.map(|step| Row { trajectory, step }));
    }
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let of = |name: &'static str| rows.iter().map(move |row| Row::text(row.trajectory, name));
    for name in ["owner", "trajectory", "group", "channel", "state"] {
        let key = if name == "trajectory" { "id" } else { name };
        texts(&mut group, of(key))?;
    }
    optional_doubles(&mut group, rows.iter().map(|row| row.trajectory.get("reward").and_then(Value::as_f64)))?;
    let json = |row: &Row<'_>| row.trajectory.get("metadata").map_or_else(|| "{}".to_owned(), Value::to_string);
    texts(&mut group, rows.iter().map(|row| ByteArray::from(json(row).as_str())))?;
    numbers(&mut group, rows.iter().map(|row| Row::number(row.trajectory, "created_at").unwrap_or(0)))?;
    numbers(&mut group, rows.iter().map(|row| Row::number(row.step, "position").unwrap_or(0)))?;
    let flags: Vec<bool> = rows.iter().map(Row::trainable).collect();
    column(&mut group, |writer| writer.typed::<BoolType>().write_batch(&flags, None, None).map(|_| ()))?;
    optional_numbers(&mut group, rows.iter().map(|row| Row::number(row.step, "policy_version")))?;
    optional_doubles(&mut group, rows.iter().map(|row| row.step.get("reward").and_then(Value::as_f64)))?;
    for name in ["prompt_ids", "response_ids"] {
        let lists = Lists::of(&rows, name, Value::as_i64);
        column(&mut group, |writer| lists.write(|values, d, r| writer.typed::<Int64Type>().write_batch(values, d, r)))?;
    }
    let lists = Lists::of(&rows, "log_probs", Value::as_f64);
    column(&mut group, |writer| lists.write(|values, d, r| writer.typed::<DoubleType>().write_batch(values, d, r)))?;
    texts(&mut group, rows.iter().map(Row::rest))?;
    group.close()?;
    writer.into_inner()
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

/// Writes the next column.
fn column(
    group: &mut Group<'_>,
    write: impl FnOnce(&mut ::parquet::file::writer::SerializedColumnWriter<'_>) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let mut writer = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("there are more columns than the schema has".into()))?;
    write(&mut writer)?;
    writer.close()
}

fn texts(group: &mut Group<'_>, values: impl Iterator<Item = ByteArray>) -> Result<(), ParquetError> {
    let values: Vec<ByteArray> = values.collect();
    column(group, |writer| writer.typed::<ByteArrayType>().write_batch(&values, None, None).map(|_| ()))
}

fn numbers(group: &mut Group<'_>, values: impl Iterator<Item = i64>) -> Result<(), ParquetError> {
    let values: Vec<i64> = values.collect();
    column(group, |writer| writer.typed::<Int64Type>().write_batch(&values, None, None).map(|_| ()))
}

/// The values that are there, and for every row whether it has one.
fn optional<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut present, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    (present, levels)
}

fn optional_numbers(group: &mut Group<'_>, values: impl Iterator<Item = Option<i64>>) -> Result<(), ParquetError> {
    let (values, levels) = optional(values);
    column(group, |writer| writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None).map(|_| ()))
}

fn optional_doubles(group: &mut Group<'_>, values: impl Iterator<Item = Option<f64>>) -> Result<(), ParquetError> {
    let (values, levels) = optional(values);
    column(group, |writer| writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None).map(|_| ()))
}

/// Lists of numbers in Parquet's levels. Definition: 0 no list, 1 an empty one, 2 an element; repetition: 0 a row's first, 1 a further one.
struct Lists<T> {
    values: Vec<T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl<T> Lists<T> {
    fn of(rows: &[Row<'_>], name: &str, read: impl Fn(&Value) -> Option<T>) -> Self {
        let mut lists = Self { values: Vec::new(), definitions: Vec::new(), repetitions: Vec::new() };
        for row in rows {
            let elements: Option<Vec<T>> =
                row.step.get(name).and_then(Value::as_array).and_then(|all| all.iter().map(&read).collect());
            let elements = match elements {
                Some(elements) if !elements.is_empty() => elements,
                other => {
                    lists.definitions.push(i16::from(other.is_some()));
                    lists.repetitions.push(0);
                    continue;
                }
            };
            for (at, element) in elements.into_iter().enumerate() {
                lists.definitions.push(2);
                lists.repetitions.push(i16::from(at > 0));
                lists.values.push(element);
            }
        }
        lists
    }

    fn write(
        &self,
        write: impl FnOnce(&[T], Option<&[i16]>, Option<&[i16]>) -> Result<usize, ParquetError>,
    ) -> Result<(), ParquetError> {
        write(&self.values, Some(&self.definitions), Some(&self.repetitions)).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    use ::parquet::record::Field;
    use bytes::Bytes;
    use serde_json::json;

    fn value(field: &Field) -> Value {
        match field {
            Field::Null => Value::Null,
            Field::Bool(flag) => json!(flag),
            Field::Long(number) | Field::TimestampMillis(number) => json!(number),
            Field::Double(number) => json!(number),
            Field::Str(text) => json!(text),
            Field::ListInternal(list) => list.elements().iter().map(value).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// The rows of a table as its reader shows them.
    fn rows(trajectories: &[Value]) -> Vec<Value> {
        let reader = SerializedFileReader::new(Bytes::from(table(trajectories).unwrap())).unwrap();
        let row = |row: ::parquet::record::Row| {
            row.get_column_iter()
                .map(|(name, field)| (name.clone(), value(field)))
                .collect::<Map<String, Value>>()
                .into()
        };
        reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())).collect()
    }

    #[test]
    fn a_table_reads_back_with_its_lists() {
        let trajectory = json!({
            "id": "t1", "group": "g", "channel": "train", "state": "complete", "reward": 0.5, "created_at": 7,
            "metadata": {"a": "\u{e9}"}, "trainable": true,
            "steps": [
                {"position": 0, "trainable": true, "prompt_ids": [1, 2], "response_ids": [3], "log_probs": [-0.5], "x": [1]},
                {"position": 1, "trainable": false, "prompt_ids": [], "policy_version": 4, "reward": 1.0},
            ],
        });
        let none = json!({"id": "t2", "trainable": false, "steps": [{"position": 0, "trainable": true}]});
        let found = rows(&[trajectory, none, json!({"id": "t3"})]);
        let column = |name: &str| found.iter().map(|row| row[name].clone()).collect::<Vec<Value>>();
        assert_eq!(column("trajectory"), ["t1", "t1", "t2"]);
        assert_eq!(column("position"), [0, 1, 0]);
        assert_eq!(column("trainable"), [true, false, false]);
        assert_eq!(column("trajectory_reward"), [json!(0.5), json!(0.5), Value::Null]);
        assert_eq!(column("policy_version"), [Value::Null, json!(4), Value::Null]);
        assert_eq!(column("reward"), [Value::Null, json!(1.0), Value::Null]);
        assert_eq!(column("prompt_ids"), [json!([1, 2]), json!([]), Value::Null]);
        assert_eq!(column("response_ids"), [json!([3]), Value::Null, Value::Null]);
        assert_eq!(column("log_probs"), [json!([-0.5]), Value::Null, Value::Null]);
        assert_eq!(column("rest"), [r#"{"x":[1]}"#, "{}", "{}"]);
        assert_eq!(column("metadata"), [r#"{"a":"é"}"#, r#"{"a":"é"}"#, "{}"]);
        assert_eq!(rows(&[]).len(), 0);
    }
}
