//! Trajectories as a file: JSON lines, or a table of steps in Parquet.

use super::native::{ListQuery, query, reply};
use super::parquet;
use super::party::{caught_up, read, trainer};
use super::view::{self, Steps};
use crate::http::{Inner, Refusal, set};
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use clawhost_core::TRAJECTORY_STEPS;
use clawhost_wire::ErrorKind;
use serde_json::Value;
use std::sync::Arc;

/// The header with the number behind which the next page begins.
const NEXT: &str = "x-clawhost-next";
/// Largest file in bytes. A page that would be larger ends before: the next one begins there.
const FILE_BYTES: usize = 256 << 20;
/// All steps, with those that trainers do not get.
const ALL: Steps = Steps { from: 0, limit: TRAJECTORY_STEPS, only_trainable: false };

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    JsonLines,
    Parquet,
}

pub(crate) async fn export(
    State(gateway): State<Arc<Inner>>,
    headers: HeaderMap,
    asked: Result<Query<ListQuery>, QueryRejection>,
) -> Response<Body> {
    let answer = async {
        let reader = trainer(&gateway, &headers)?;
        let asked = query(asked)?;
        let format = match asked.format.as_deref() {
            None | Some("jsonl") => Format::JsonLines,
            Some("parquet") => Format::Parquet,
            Some(_) => return Err(Refusal::new(ErrorKind::InvalidRequest, "format: jsonl or parquet")),
        };
        let mut filter = asked.filter(reader)?;
        caught_up(&gateway).await?;
        let most = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        filter.limit += 1;
        let (file, next) = read(&gateway, move |reader| {
            let rows = reader.trajectories(&filter)?;
            let (mut shown, mut bytes, mut last) = (Vec::new(), 0, None);
            for row in rows.iter().take(most) {
                let trajectory = view::trajectory(reader, row, ALL)?;
                let line = trajectory.to_string();
                if bytes + line.len() > FILE_BYTES && !shown.is_empty() {
                    break;
                }
                bytes += line.len() + 1;
                shown.push((trajectory, line));
                last = Some(row.number);
            }
            let next = last.filter(|_| shown.len() < rows.len());
            Ok((shown, next))
        })
        .await?;
        let (bytes, kind) = match format {
            Format::JsonLines => {
                let lines = file.into_iter().map(|(_, line)| line + "\n");
                (lines.collect::<String>().into_bytes(), "application/jsonl")
            }
            Format::Parquet => {
                let trajectories: Vec<Value> = file.into_iter().map(|(trajectory, _)| trajectory).collect();
                let table = parquet::table(&trajectories).map_err(|error| {
                    Refusal::new(ErrorKind::Internal, format!("the table cannot be written: {error}"))
                })?;
                (table, "application/vnd.apache.parquet")
            }
        };
        let mut answer = Response::new(Body::from(bytes));
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(next) = next {
            set(&mut answer, NEXT, &next.to_string());
        }
        Ok(answer)
    };
    reply(answer.await)
}
