//! WASI for guests built with a standard library: an empty world. No arguments, no environment, no files, no sockets;
//! randomness from the seed; stdout and stderr go to the log.

use super::log::{Log, Stream};
use crate::state::State;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

/// Bytes a stream takes at a time.
const CHUNK_BYTES: usize = 4096;

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        // Built on first use: most guests never ask.
        let ctx = self.wasi.get_or_insert_with(|| build(self.seed, self.limits.random_bytes, &self.log));
        WasiCtxView { ctx, table: &mut self.table }
    }
}

fn build(seed: u64, random_bytes: u64, log: &Arc<Mutex<Log>>) -> WasiCtx {
    let sink = |stream| LogStream { log: log.clone(), stream };
    WasiCtxBuilder::new()
        .stdout(sink(Stream::Stdout))
        .stderr(sink(Stream::Stderr))
        .secure_random(ChaCha12Rng::seed_from_u64(seed))
        .insecure_random(ChaCha12Rng::seed_from_u64(seed.wrapping_add(1)))
        // The hash order of HashMap follows from it.
        .insecure_random_seed(u128::from(seed))
        .max_random_size(random_bytes)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

#[derive(Clone)]
struct LogStream {
    log: Arc<Mutex<Log>>,
    stream: Stream,
}

impl LogStream {
    fn keep(&self, bytes: &[u8]) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).stream(self.stream, bytes);
    }
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for LogStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.keep(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[async_trait::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

#[async_trait::async_trait]
impl OutputStream for LogStream {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.keep(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK_BYTES)
    }
}
