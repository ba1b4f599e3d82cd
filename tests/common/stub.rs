//! A real HTTP server on loopback as a model endpoint: it answers, refuses, stalls, or sends invalid responses.
//!
//! It uses plain threads and std only: the test is about the client, over real sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: serde_json::Value,
}

/// A response.
pub(crate) enum Reply {
    /// A status, further headers, and a body.
    Http(u16, Vec<(&'static str, String)>, String),
    /// A body that is no text.
    Bytes(Vec<u8>),
    /// No response for a long time.
    Stall,
    /// Half an answer, then the connection is closed.
    Half,
    /// An event stream that was not requested and breaks off.
    HalfStream,
    /// A stream in these fragments, each sent after the previous one; an iterator may wait in between. Then its end, or
    /// the connection is closed.
    Stream { fragments: Box<dyn Iterator<Item = Vec<u8>> + Send>, ends: bool },
}

/// A complete stream of these texts.
pub(crate) fn stream(fragments: impl IntoIterator<Item = String>) -> Reply {
    let fragments: Vec<Vec<u8>> = fragments.into_iter().map(String::into_bytes).collect();
    Reply::Stream { fragments: Box::new(fragments.into_iter()), ends: true }
}

/// The message of [`says`] as events, in the dialect of the request: texts of two characters, arguments too.
pub(crate) fn events(request: &Received, text: &str, calls: &[(&str, &str, &str)]) -> Vec<String> {
    let pieces = |text: &str| -> Vec<String> {
        let characters: Vec<char> = text.chars().collect();
        characters.chunks(2).map(|two| two.iter().collect()).collect()
    };
    let mut events: Vec<serde_json::Value> = Vec::new();
    if request.is_anthropic() {
        let usage = serde_json::json!({"input_tokens": 10, "output_tokens": 1});
        let message =
            serde_json::json!({"id": "msg_1", "role": "assistant", "model": "stub", "content": [], "usage": usage});
        events.push(serde_json::json!({"type": "message_start", "message": message}));
        let mut blocks = Vec::new();
        if !text.is_empty() {
            let deltas = pieces(text).into_iter().map(|text| serde_json::json!({"type": "text_delta", "text": text}));
            blocks.push((serde_json::json!({"type": "text", "text": ""}), deltas.collect::<Vec<_>>()));
        }
        blocks.extend(calls.iter().map(|(id, name, arguments)| {
            let delta = |json| serde_json::json!({"type": "input_json_delta", "partial_json": json});
            let begin = serde_json::json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            (begin, pieces(arguments).into_iter().map(delta).collect())
        }));
        for (index, (begin, deltas)) in blocks.into_iter().enumerate() {
            let delta = |delta| serde_json::json!({"type": "content_block_delta", "index": index, "delta": delta});
            events.push(serde_json::json!({"type": "content_block_start", "index": index, "content_block": begin}));
            events.extend(deltas.into_iter().map(delta));
            events.push(serde_json::json!({"type": "content_block_stop", "index": index}));
        }
        let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
        let usage = serde_json::json!({"output_tokens": 2});
        events.push(serde_json::json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}));
        events.push(serde_json::json!({"type": "message_stop"}));
        let named = |event: serde_json::Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
        return events.into_iter().map(named).collect();
    }
    let chunk = |delta: serde_json::Value, finish: Option<&str>| {
        let choice = serde_json::json!({"index": 0, "delta": delta, "finish_reason": finish});
        serde_json::json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "stub", "choices": [choice]})
    };
    events.push(chunk(serde_json::json!({"role": "assistant", "content": ""}), None));
    events.extend(pieces(text).into_iter().map(|text| chunk(serde_json::json!({"content": text}), None)));
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let function = serde_json::json!({"name": name, "arguments": ""});
        let call = serde_json::json!({"index": index, "id": id, "type": "function", "function": function});
        events.push(chunk(serde_json::json!({"tool_calls": [call]}), None));
        for arguments in pieces(arguments) {
            let call = serde_json::json!({"index": index, "function": {"arguments": arguments}});
            events.push(chunk(serde_json::json!({"tool_calls": [call]}), None));
        }
    }
    events.push(chunk(serde_json::json!({}), Some(if calls.is_empty() { "stop" } else { "tool_calls" })));
    if request.body.pointer("/stream_options/include_usage").is_some_and(|wanted| wanted == true) {
        let usage = serde_json::json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12});
        events.push(serde_json::json!({"model": "stub", "choices": [], "usage": usage}));
    }
    let mut events: Vec<String> = events.into_iter().map(|event| format!("data: {event}\n\n")).collect();
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// One message of a model in either dialect: text, tool calls (id, name, arguments), or both.
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
    /// Whether it uses the messages dialect.
    pub(crate) fn is_anthropic(&self) -> bool {
        self.path.ends_with("/messages")
    }

    /// All messages to the model, in order: role and text, in the terms of the chat dialect.
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

    /// Names of the available tools.
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
    /// Starts a server. `answer` gets the number of the request, from 0, and the request.
    pub(crate) fn start(answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    /// The same at a given port. `None` if the port is in use.
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
        // Wakes up the listener.
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
            Reply::Bytes(body) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all(&[head.as_bytes(), &body].concat())
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
            Reply::Stream { fragments, ends } => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                let mut sent = stream.write_all(head.as_bytes());
                for fragment in fragments.filter(|fragment| !fragment.is_empty()) {
                    let chunk = [format!("{:x}\r\n", fragment.len()).as_bytes(), &fragment, b"\r\n"].concat();
                    sent = sent.and_then(|()| stream.write_all(&chunk)).and_then(|()| stream.flush());
                    if sent.is_err() {
                        return;
                    }
                }
                if !ends {
                    return;
                }
                sent.and_then(|()| stream.write_all(b"0\r\n\r\n"))
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
