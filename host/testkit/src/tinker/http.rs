//! A small HTTP server on loopback, with threads of the standard library alone: tests are about clients, over real sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its path.
    pub path: String,
    /// Its headers, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Request {
    /// A header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A status, a content type and a body.
    Http(u16, &'static str, Vec<u8>),
    /// None, until the server ends.
    Hang,
}

/// Wakes those who hang.
#[derive(Default)]
struct End {
    is_over: Mutex<bool>,
    changed: Condvar,
}

/// A server. It ends when it is dropped.
pub(super) struct Server {
    pub(super) port: u16,
    end: Arc<End>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(answer: impl Fn(Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let end = Arc::new(End::default());
        let (ends, answer) = (end.clone(), Arc::new(answer));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if *ends.is_over.lock().unwrap() {
                    return;
                }
                let (ends, answer) = (ends.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &*answer, &ends));
            }
        });
        Self { port, end, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *self.end.is_over.lock().unwrap() = true;
        self.end.changed.notify_all();
        // Wakes up the listener.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn serve(mut stream: TcpStream, answer: &(dyn Fn(Request) -> Reply + Send + Sync), end: &End) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read(&mut reader) {
        match answer(request) {
            Reply::Http(status, kind, body) => {
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} Stub\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
                if stream.write_all(&[head.as_bytes(), &body].concat()).is_err() {
                    return;
                }
            }
            Reply::Hang => {
                let is_over = end.is_over.lock().unwrap();
                drop(end.changed.wait_while(is_over, |is_over| !*is_over));
                return;
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut headers = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let (name, value) = (name.to_lowercase(), value.trim().to_owned());
        if name == "content-length" {
            length = value.parse().ok()?;
        }
        headers.push((name, value));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { path, headers, body })
}
