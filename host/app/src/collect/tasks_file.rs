//! The file of tasks: a JSON object per line.

use crate::{AppError, RequestError};
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;

/// Largest size in bytes.
const BYTES: u64 = 256 << 20;
/// Longest id in bytes: it is part of the name of a trajectory.
const ID_BYTES: usize = 80;

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CollectTask {
    /// Its id, or the number of its line.
    pub(super) id: String,
    /// The line.
    pub(super) text: String,
    /// The same, parsed.
    pub(super) document: Value,
}

/// Reads the tasks of a file.
///
/// # Errors
/// The file cannot be read, has no task, or a line is no task.
pub(super) fn read(path: &Path) -> Result<Vec<CollectTask>, AppError> {
    let wrong = |why: String| AppError::from(RequestError::File { path: path.display().to_string(), why });
    let text = clawhost_files::read_text(path, BYTES).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<Vec<CollectTask>, String> {
    let (mut tasks, mut known) = (Vec::new(), HashSet::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = at + 1;
        let document: Value = serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        if !document.is_object() {
            return Err(format!("line {number}: a task must be a JSON object"));
        }
        let id = match document.get("id") {
            None | Some(Value::Null) => number.to_string(),
            Some(Value::Number(id)) => id.to_string(),
            Some(Value::String(id)) => id.clone(),
            Some(_) => return Err(format!("line {number}: id must be a text or a number")),
        };
        let is_plain = !id.is_empty() && id.len() <= ID_BYTES && !id.chars().any(|c| c.is_control() || c == '/');
        if !is_plain {
            return Err(format!(
                "line {number}: id must have from 1 to {ID_BYTES} bytes, no `/` and no control character"
            ));
        }
        if !known.insert(id.clone()) {
            return Err(format!("line {number}: an earlier task has the id `{id}`, too"));
        }
        tasks.push(CollectTask { id, text: line.to_owned(), document });
    }
    if tasks.is_empty() { Err("there is no task; write a JSON object per line".to_owned()) } else { Ok(tasks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_their_ids_or_the_numbers_of_their_lines() {
        let tasks = parse("{\"id\": \"a\"}\n\n{\"id\": 7, \"x\": 1}\n{\"q\": \"hi\"}\n").unwrap();
        let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["a", "7", "4"]);
        assert_eq!((tasks[1].text.as_str(), &tasks[1].document["x"]), ("{\"id\": 7, \"x\": 1}", &Value::from(1)));
    }

    #[test]
    fn what_is_no_task_is_named_with_its_line() {
        let check = |text: &str, expect: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("", "there is no task");
        check("{}\n[1]", "line 2: a task must be a JSON object");
        check("{}\n{", "line 2: EOF");
        check("{\"id\": [1]}", "line 1: id must be a text or a number");
        check("{\"id\": \"a/b\"}", "line 1: id must have");
        check("{\"id\": \"\"}", "line 1: id must have");
        check("{\"id\": 1}\n{\"id\": \"1\"}", "line 2: an earlier task has the id `1`, too");
    }
}
