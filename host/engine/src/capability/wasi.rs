//! WASI for guests with a standard library: no arguments, environment variables, files or sockets. Randomness comes from the
//! seed; stdout and stderr go to the log.

use super::log::{Log, Stream};
use crate::state::State;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Infallible, SeedableRng as _, TryRng};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

/// Bytes that a stream accepts at a time.
const CHUNK_BYTES: usize = 4096;

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        // Built on first use: most guests never need it.
        let build = || build(self.seed, &self.chance, self.limits.random_bytes, &self.log);
        let ctx = self.wasi.get_or_insert_with(build);
        WasiCtxView { ctx, table: &mut self.table }
    }
}

/// The two random sources of an instance. Their positions are known, so that a snapshot can continue from them.
#[derive(Debug, Clone)]
pub(crate) struct Chance {
    secure: Draws,
    insecure: Draws,
}

/// A generator shared by the WASI context and the host.
#[derive(Debug, Clone)]
pub(crate) struct Draws(Arc<Mutex<ChaCha12Rng>>);

impl Draws {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(ChaCha12Rng::seed_from_u64(seed))))
    }

    fn with<T>(&self, act: impl FnOnce(&mut ChaCha12Rng) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TryRng for Draws {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.with(TryRng::try_next_u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.with(TryRng::try_next_u64)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.with(|random| random.try_fill_bytes(bytes))
    }
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { secure: Draws::new(seed), insecure: Draws::new(seed.wrapping_add(1)) }
    }

    /// Words read so far. Quotas keep them far below 2^64.
    pub(crate) fn positions(&self) -> [u64; 2] {
        [&self.secure, &self.insecure].map(|stream| stream.with(|random| random.get_word_pos() as u64))
    }

    pub(crate) fn set_positions(&self, [secure, insecure]: [u64; 2]) {
        self.secure.with(|random| random.set_word_pos(u128::from(secure)));
        self.insecure.with(|random| random.set_word_pos(u128::from(insecure)));
    }
}

fn build(seed: u64, chance: &Chance, random_bytes: u64, log: &Arc<Mutex<Log>>) -> WasiCtx {
    let sink = |stream| LogStream { log: log.clone(), stream };
    WasiCtxBuilder::new()
        .stdout(sink(Stream::Stdout))
        .stderr(sink(Stream::Stderr))
        .secure_random(chance.secure.clone())
        .insecure_random(chance.insecure.clone())
        // It determines the iteration order of HashMap.
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
