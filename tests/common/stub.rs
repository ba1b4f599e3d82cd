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
    /// A stream of events that nobody asked for, which breaks off.
    HalfStream,
}

/// One message of a model in either dialect: words, tool calls (id, name, arguments), or both.
pub(crate) fn says(request: &Received, text: &str, calls: &[(&str, &str, &str)]) -> Reply {
    let body = if request.is_anthropic() {
        let mut content: Vec<serde_json::Value> = Vec::new();
        if !text.is_empty() {
            content.push(serde_json::json!({"type": "text", "text": text}));
        }
        content.extend(calls.iter().map(|(id, name, arguments)| {
            let input: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
            serde_json::json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }));
        serde_json::json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "stub", "content": content,
            "stop_reason": if calls.is_empty() { "end_turn" } else { "tool_use" }, "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 2},
        })
    } else {
        let tool_calls: Vec<serde_json::Value> = calls
            .iter()
            .map(|(id, name, arguments)| {
                serde_json::json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        let mut message = serde_json::json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = tool_calls.into();
        }
        serde_json::json!({
            "id": "chatcmpl-1", "object": "chat.completion", "model": "stub",
            "choices": [{"index": 0, "message": message, "finish_reason": if calls.is_empty() { "stop" } else { "tool_calls" }}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        })
    };
    Reply::Http(200, vec![], body.to_string())
}

impl Received {
    /// Whether it came in the messages dialect.
    pub(crate) fn is_anthropic(&self) -> bool {
        self.path.ends_with("/messages")
    }

    /// Everything that was said to the model, in order: role and text, in the terms of the chat dialect.
    pub(crate) fn conversation(&self) -> Vec<(String, String)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let mut said = Vec::new();
        if let Some(system) = self.body.get("system") {
            said.push(("system".to_owned(), text(system)));
        }
        for message in self.body["messages"].as_array().into_iter().flatten() {
            let role = text(&message["role"]);
            match message["content"].as_array() {
                None => said.push((role, text(&message["content"]))),
                Some(blocks) => said.extend(blocks.iter().filter_map(|block| match block["type"].as_str()? {
                    "text" => Some((role.clone(), text(&block["text"]))),
                    "tool_result" => Some(("tool".to_owned(), text(&block["content"]))),
                    _ => None,
                })),
            }
        }
        said
    }

    /// Names of the tools on offer.
    pub(crate) fn tools(&self) -> Vec<String> {
        let name = |tool: &serde_json::Value| {
            tool.pointer("/function/name").or_else(|| tool.get("name"))?.as_str().map(str::to_owned)
        };
        self.body["tools"].as_array().into_iter().flatten().filter_map(name).collect()
    }
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
        Self::serve(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    /// The same at a port of its own; none if somebody took the port.
    pub(crate) fn start_at(
        port: u16,
        answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
    ) -> Option<Self> {
        Some(Self::serve(TcpListener::bind(("127.0.0.1", port)).ok()?, answer))
    }

    fn serve(listener: TcpListener, answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static) -> Self {
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
            Reply::HalfStream => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                let event = "data: {\"choices\": [{\"delta\": {\"content\": \"4\"}}]}\n\n";
                write!(stream, "{head}{:x}\r\n{event}\r\n", event.len()).ok();
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
