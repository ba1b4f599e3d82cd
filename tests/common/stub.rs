//! A real HTTP server on loopback that plays a model endpoint: answers, refuses, stalls, talks nonsense.
//!
//! Plain threads and std alone: what is tested is the client, over real sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What came in.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: serde_json::Value,
}

/// What goes out.
pub(crate) enum Reply {
    /// A status, further headers, and a body.
    Http(u16, Vec<(&'static str, String)>, String),
    /// Nothing for a long time.
    Stall,
    /// Half an answer, then the line goes dead.
    Half,
}

/// A chat answer with this text.
pub(crate) fn chat(text: &str) -> Reply {
    let body = serde_json::json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "stub",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    });
    Reply::Http(200, vec![], body.to_string())
}

type Answer = dyn Fn(usize, &Received) -> Reply + Send + Sync;

/// The server. Dropping it closes the port.
pub(crate) struct Stub {
    pub(crate) port: u16,
    pub(crate) received: Arc<Mutex<Vec<Received>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stub {
    /// Starts a server; `answer` gets the number of the request, from 0, and the request.
    pub(crate) fn start(answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (received.clone(), stop.clone());
        let answer: Arc<Answer> = Arc::new(answer);
        let count = Arc::new(AtomicUsize::new(0));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (answer, kept, count, stopped) = (answer.clone(), kept.clone(), count.clone(), stopped.clone());
                std::thread::spawn(move || serve(stream, &*answer, &kept, &count, &stopped));
            }
        });
        Self { port, received, stop, thread: Some(thread) }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn serve(stream: TcpStream, answer: &Answer, kept: &Mutex<Vec<Received>>, count: &AtomicUsize, stop: &AtomicBool) {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let reply = answer(number, &request);
        kept.lock().unwrap().push(request);
        let sent = match reply {
            Reply::Http(status, headers, body) => {
                let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} Stub\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
            }
            Reply::Stall => {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                return;
            }
            Reply::Half => {
                let half = "{\"choices\": [{\"message\"";
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{half}").ok();
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut headers = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        let (name, value) = (name.to_lowercase(), value.trim().to_owned());
        if name == "content-length" {
            length = value.parse().ok()?;
        }
        headers.push((name, value));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Received { path, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}
