//! This crate's gateway with a real database in a process of its own.

use clawhost_core::{Clock, KnownSecrets, RunId};
use clawhost_gateway::{
    CaptureStore, ClientKeys, Gateway, GatewayConfig, GatewayParts, ModelSource, Redaction, RedactionSettings,
    ServedModel,
};
use clawhost_providers::{Dialect, Endpoint, EndpointConfig, Upstream, UpstreamConfig};
use clawhost_store::{Reader, Store, StoreOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

struct MachineClock(Instant);

impl Clock for MachineClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
    }

    fn monotonic_us(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
}

fn served(dialect: Dialect, alias: &str, base_url: &str) -> ServedModel {
    let (known, silence) = (KnownSecrets::default(), Duration::from_secs(60));
    let config = UpstreamConfig { dialect, base_url: base_url.to_owned(), key: None, silence, known: known.clone() };
    let upstream = Arc::new(Upstream::new(config).unwrap());
    let config =
        EndpointConfig { retries: 0, known, timeout: silence, ..EndpointConfig::new(dialect, "bench", base_url) };
    let client = Arc::new(Endpoint::new(config).unwrap());
    let source = ModelSource::Endpoint { upstream, client, model: "bench".into(), passes_key: false };
    ServedModel::new(alias, source)
}

/// `own MOCK FOLDER`.
pub(crate) fn main(arguments: &[String]) {
    // As in the program.
    clawhost_gateway::return_freed_memory();
    let [mock, folder] = arguments else { panic!("own MOCK FOLDER") };
    let folder = PathBuf::from(folder);
    crate::runtime().block_on(async {
        let store = Arc::new(Store::open(&folder, StoreOptions::default()).unwrap());
        let url = format!("http://{mock}/v1");
        let reader = folder.clone();
        let parts = GatewayParts {
            store: CaptureStore {
                episodes: store.clone(),
                live: store.clone(),
                pool: store.clone(),
                feedback: store,
                reader: Box::new(move || Ok(Box::new(Reader::open(&reader)?))),
            },
            clock: Arc::new(MachineClock(Instant::now())),
            secrets: KnownSecrets::default(),
            capture_key: [7; 32],
            models: vec![served(Dialect::OpenAi, "bench", &url), served(Dialect::Anthropic, "claude", &url)],
            keys: ClientKeys::default(),
            admin: None,
            guide: None,
            memory: None,
            learned: None,
            guidance: Box::new(|| Ok(clawhost_gateway::Guidance::default())),
            judge: None,
            new_run: Box::new(|now| RunId(format!("run-{now}"))),
        };
        let mut config = GatewayConfig::new("127.0.0.1:0", folder.join("spool"));
        // As in the program.
        config.redaction = Arc::new(Redaction::new(&RedactionSettings::default()).unwrap());
        let running = Gateway::start(config, parts).await.unwrap();
        println!("{}", running.address());
        std::io::stdout().flush().unwrap();
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = ended.send(());
        });
        let _ = end.await;
        let counts = running.stop().await;
        println!("{} {}", counts.recorded, counts.missed);
    });
}
