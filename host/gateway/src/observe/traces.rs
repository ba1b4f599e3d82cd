//! Exports spans in the background: a bounded queue, batches, and a limit of time. Spans that do not fit are lost and counted; no request
//! waits for them.

use super::Counter;
use super::span::{RequestSpans, document};
use clawhost_core::{KnownSecrets, Secret};
use clawhost_providers::{ProviderError, TraceCollector};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Requests whose spans wait for their export: a few seconds of a busy gateway, about two megabytes.
const WAITING: usize = 4_096;
/// Requests of one batch.
const BATCH: usize = 512;
/// How long spans gather before they are sent.
const GATHER: Duration = Duration::from_secs(2);
/// How long the end of the gateway waits for the last batch.
const STOP_TIME: Duration = Duration::from_secs(3);

/// Where traces are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// Address of a collector that takes OTLP over HTTP, without `/v1/traces`.
    pub endpoint: String,
    /// Further headers as `NAME=VALUE,NAME=VALUE`, with values in percent encoding.
    pub headers: Option<Secret>,
    /// Name of this service.
    pub service: String,
}

/// Takes spans.
#[derive(Debug, Clone)]
pub(crate) struct Spans(mpsc::Sender<RequestSpans>);

impl Spans {
    /// Takes the spans of a request, unless its caller wants none. Returns whether there was room.
    pub(crate) fn push(&self, spans: RequestSpans) -> bool {
        !spans.is_sampled() || self.0.try_send(spans).is_ok()
    }
}

/// An export that is set up.
#[derive(Debug)]
pub(crate) struct Export {
    collector: TraceCollector,
    service: String,
    secrets: KnownSecrets,
    spans: Spans,
    waiting: mpsc::Receiver<RequestSpans>,
}

/// An export that runs.
#[derive(Debug)]
pub(crate) struct Exporting {
    stopping: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Export {
    /// Sets an export up.
    pub(crate) fn new(settings: &TraceSettings, secrets: &KnownSecrets) -> Result<Self, ProviderError> {
        let collector = TraceCollector::new(&settings.endpoint, settings.headers.as_ref(), secrets)?;
        let (sender, waiting) = mpsc::channel(WAITING);
        Ok(Self {
            collector,
            service: settings.service.clone(),
            secrets: secrets.clone(),
            spans: Spans(sender),
            waiting,
        })
    }

    /// Where its spans are taken.
    pub(crate) fn spans(&self) -> Spans {
        self.spans.clone()
    }

    /// Starts it. Requests whose spans the collector did not take are counted.
    pub(crate) fn start(self, lost: Arc<Counter>) -> Exporting {
        let (stopping, stop) = oneshot::channel();
        Exporting { stopping, task: tokio::spawn(self.run(lost, stop)) }
    }

    async fn run(mut self, lost: Arc<Counter>, mut stop: oneshot::Receiver<()>) {
        let mut was_taken = true;
        loop {
            let mut batch = Vec::new();
            let is_last = tokio::select! {
                _ = self.waiting.recv_many(&mut batch, 1) => false,
                _ = &mut stop => true,
            };
            if !is_last && batch.len() < BATCH {
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    _ = &mut stop => return self.finish(batch, &lost).await,
                }
            }
            if is_last {
                return self.finish(batch, &lost).await;
            }
            self.take(&mut batch);
            let sent = self.send(&batch).await;
            if let Err(why) = &sent {
                lost.add(batch.len() as u64);
                // Once, and not for every batch.
                if was_taken {
                    tracing::warn!("traces are not exported: {why}");
                }
            }
            was_taken = sent.is_ok();
        }
    }

    /// Adds what waits to a batch.
    fn take(&mut self, batch: &mut Vec<RequestSpans>) {
        while batch.len() < BATCH
            && let Ok(spans) = self.waiting.try_recv()
        {
            batch.push(spans);
        }
    }

    /// Sends everything that waits.
    async fn finish(mut self, mut batch: Vec<RequestSpans>, lost: &Counter) {
        loop {
            self.take(&mut batch);
            if batch.is_empty() {
                return;
            }
            if self.send(&batch).await.is_err() {
                lost.add(batch.len() as u64);
                return;
            }
            batch.clear();
        }
    }

    async fn send(&self, batch: &[RequestSpans]) -> Result<(), String> {
        let text = document(&self.service, batch).to_string();
        let text = self.secrets.secrets().scrub(&text).into_owned();
        self.collector.send(text).await.map_err(|error| error.to_string())
    }
}

impl Exporting {
    /// Sends what waits, within a limit of time.
    pub(crate) async fn stop(self) {
        let Self { stopping, mut task } = self;
        // The task has ended otherwise.
        let _ = stopping.send(());
        if tokio::time::timeout(STOP_TIME, &mut task).await.is_err() {
            task.abort();
        }
    }
}
