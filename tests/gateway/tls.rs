//! Encrypted connections, with a client of rustls.

use crate::client::user;
use crate::stub::{Stub, says};
use crate::{Bench, served};
use clawhost_gateway::{GatewayChange, RecordPolicy, TlsIdentity};
use clawhost_providers::Dialect;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// A certificate for `localhost` that signs itself.
struct Certificate {
    pem: String,
    key: String,
    der: CertificateDer<'static>,
}

impl Certificate {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self { pem: made.cert.pem(), key: made.signing_key.serialize_pem(), der: made.cert.der().clone() }
    }

    fn identity(&self) -> TlsIdentity {
        TlsIdentity::of_pem(&self.pem, &self.key).unwrap()
    }

    /// What a client that trusts this certificate alone gets for a request to a model.
    fn ask(&self, address: &str) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let name = ServerName::try_from("localhost").unwrap();
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut stream = StreamOwned::new(ClientConnection::new(config, name).unwrap(), socket);
        let body = json!({"model": "m", "messages": [user("hi")]}).to_string();
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json";
        stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

async fn bench(certificate: &Certificate, stub: &Stub, head_time: Duration) -> Bench {
    let identity = certificate.identity();
    Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], |config| {
        config.tls = Some(identity);
        config.limits.head_time = head_time;
    })
    .await
}

fn model() -> Stub {
    Stub::start(|_, request| says(request, "encrypted", &[]))
}

/// The answer in a thread of its own: the client blocks.
async fn ask(certificate: Arc<Certificate>, bench: &Bench) -> std::io::Result<String> {
    let address = bench.address.clone();
    tokio::task::spawn_blocking(move || certificate.ask(&address)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_encrypted_with_the_certificate_and_others_are_not_answered() {
    let (certificate, stub) = (Arc::new(Certificate::new()), model());
    let bench = bench(&certificate, &stub, Duration::from_secs(10)).await;
    let answer = ask(certificate.clone(), &bench).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("encrypted"), "{answer}");
    assert!(ask(Arc::new(Certificate::new()), &bench).await.is_err(), "the client does not trust it");
    let address = bench.address.clone();
    let plain = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        answer
    });
    let plain = plain.await.unwrap();
    assert!(!plain.starts_with(b"HTTP"), "{plain:?}");
    assert_eq!(stub.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_ends_its_handshake_is_closed() {
    let (certificate, stub) = (Certificate::new(), model());
    let bench = bench(&certificate, &stub, Duration::from_millis(100)).await;
    let address = bench.address.clone();
    let closed = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The first bytes of a record that never comes.
        stream.write_all(&[22, 3, 1]).unwrap();
        stream.read(&mut [0; 16]).map_err(|error| error.kind())
    });
    let closed = closed.await.unwrap();
    assert!(matches!(closed, Ok(0) | Err(std::io::ErrorKind::ConnectionReset)), "{closed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_while_it_runs() {
    let (old, new, stub) = (Arc::new(Certificate::new()), Arc::new(Certificate::new()), model());
    let bench = bench(&old, &stub, Duration::from_secs(10)).await;
    assert!(ask(old.clone(), &bench).await.is_ok());
    let change = GatewayChange {
        models: vec![served(Dialect::OpenAi, &stub.base_url())],
        hosts: Vec::new(),
        session_idle_ms: 60_000,
        record: RecordPolicy::All,
        tls: Some(new.identity()),
    };
    bench.change(change).unwrap();
    assert!(ask(new, &bench).await.is_ok());
    assert!(ask(old, &bench).await.is_err());
}

#[test]
fn certificates_and_keys_that_do_not_fit_are_refused() {
    let (one, other) = (Certificate::new(), Certificate::new());
    let check = |certificate: &str, key: &str, says: &str| {
        let error = TlsIdentity::of_pem(certificate, key).unwrap_err();
        assert_eq!(error.code(), "gateway-tls");
        assert!(error.to_string().contains(says) && !error.to_string().contains("PRIVATE"), "{error}");
    };
    check("", &one.key, "no certificate");
    check(&one.key, &one.key, "no certificate");
    check(&one.pem, "", "none that can be read");
    check(&one.pem, &one.pem, "none that can be read");
    check(&one.pem, &other.key, "");
    check("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &one.key, "");
}
