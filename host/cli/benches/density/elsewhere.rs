//! The same environment in other systems: an echo with a counter in native Rust, as a Python class, and over HTTP.

use crate::figures::{ROUNDS, line, rates, shown, spread, table};
use crate::plugins::{action, environment, host, kibibyte, params};
use clawhost_core::Environment as _;
use clawhost_engine::Allocation;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The path of the Python with fastapi and uvicorn.
const PYTHON: &str = "CLAWHOST_BENCH_PYTHON";
/// Steps per round inside a process, and over HTTP.
const STEPS: usize = 50_000;
const REQUESTS: usize = 1_000;

struct Native {
    turns: u64,
}

impl Native {
    fn step(&mut self, action: &str) -> (String, u64) {
        self.turns += 1;
        (action.to_owned(), self.turns)
    }
}

fn native() -> Duration {
    let (mut native, text) = (Native { turns: 0 }, kibibyte());
    let began = Instant::now();
    for _ in 0..STEPS {
        std::hint::black_box(native.step(std::hint::black_box(&text)));
    }
    began.elapsed()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/density").join(name)
}

/// Runs all rounds in one interpreter.
fn in_process(python: &Path) -> Vec<Duration> {
    let output = Command::new(python)
        .arg(script("in_process.py"))
        .args([ROUNDS.to_string(), STEPS.to_string(), kibibyte().len().to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|seconds| Duration::from_secs_f64(seconds.parse().unwrap())).collect()
}

/// A server that ends when this value is dropped. If that fails, it ends when its input closes.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(python: &Path) -> Self {
        let mut child =
            Command::new(python).arg(script("server.py")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let port = first.trim().parse();
        let server = Self { child, port: *port.as_ref().unwrap_or(&0) };
        assert!(port.is_ok(), "the server said {first:?}");
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// One persistent connection: the minimal work of an HTTP client.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> Self {
        // The port is printed before the server listens.
        for _ in 0..200 {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                stream.set_nodelay(true).unwrap();
                return Self(BufReader::new(stream));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server does not listen");
    }

    fn post(&mut self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0.get_mut().write_all((head + &body).as_bytes()).unwrap();
        let mut length = 0;
        let mut header = String::new();
        loop {
            header.clear();
            self.0.read_line(&mut header).unwrap();
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).unwrap();
        serde_json::from_slice(&answer).unwrap()
    }
}

fn over_http(client: &mut Client, episode: u64) -> Duration {
    let body = serde_json::json!({"episode": episode, "text": kibibyte()});
    let began = Instant::now();
    for _ in 0..REQUESTS {
        let answer = client.post("/step", &body);
        assert_eq!(answer["observation"].as_str().map(str::len), Some(1024));
    }
    began.elapsed()
}

pub(crate) async fn measure() {
    table(
        "The same environment in other systems, 1 KiB each way",
        &["what", "steps/s", "least to greatest", "us each", "clawhost is"],
    );
    let python = std::env::var_os(PYTHON).map(PathBuf::from);
    let host = host(Allocation::Pooled, None);
    let plugin = environment(&host, "odd_echo").await;
    let (mut live, _) = plugin.start(params(1)).await.unwrap();
    let action = action(kibibyte());
    let server = python.as_deref().map(Server::start);
    let mut client = server.as_ref().map(|server| Client::connect(server.port));
    let episode =
        client.as_mut().map(|client| client.post("/start", &serde_json::json!({}))["episode"].as_u64().unwrap());
    let (mut ours, mut natives, mut served) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..STEPS {
            live.step(&action, &[]).await.unwrap();
        }
        ours.push(began.elapsed());
        natives.push(native());
        if let (Some(client), Some(episode)) = (&mut client, episode) {
            served.push(over_http(client, episode));
        }
    }
    drop(server);
    let (_, reference, _) = spread(rates(&ours, STEPS));
    let row = |name: &str, rounds: &[Duration], items: usize| {
        let (least, median, most) = spread(rates(rounds, items));
        let times = reference / median;
        let ratio = match times {
            1.0.. => format!("{} times as fast", shown(times)),
            _ => format!("{} times as slow", shown(1.0 / times)),
        };
        let spread = format!("{} to {}", shown(least), shown(most));
        line(&[name.to_owned(), shown(median), spread, shown(1e6 / median), ratio]);
    };
    row("clawhost: odd_echo, one hot instance, fuel, limits and checks on", &ours, STEPS);
    row("native Rust: a function call and a copy", &natives, STEPS);
    match python {
        Some(python) => {
            row("Python: a class in one process", &in_process(&python), STEPS);
            row("FastAPI and uvicorn on loopback, connection kept, one request at a time", &served, REQUESTS);
        }
        None => println!(
            "\nNo {PYTHON}: Python and HTTP were not measured. To get them: `python3 -m venv target/bench-python && \
             target/bench-python/bin/pip install fastapi uvicorn`, then set {PYTHON}=$PWD/target/bench-python/bin/python."
        ),
    }
}
