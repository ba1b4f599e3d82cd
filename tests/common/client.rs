//! A plain HTTP client: nothing between the test and the bytes.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Comments of a stream of events, one after 15 seconds without an event each, before a wait for an event is given up.
#[allow(dead_code, reason = "each suite uses its part")]
const SILENCE: usize = 4;

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The data of its events.
    pub(crate) fn events(&self) -> Vec<String> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    /// The text of its events, in either dialect.
    pub(crate) fn text(&self) -> String {
        let piece = |data: String| {
            let data: Value = serde_json::from_str(&data).ok()?;
            let text = data.pointer("/choices/0/delta/content").or_else(|| data.pointer("/delta/text"))?;
            text.as_str().map(str::to_owned)
        };
        self.events().into_iter().filter_map(piece).collect()
    }
}

/// A request that was sent, whose answer is read bit by bit.
pub(crate) struct Sent {
    reader: BufReader<TcpStream>,
}

pub(crate) fn send(address: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Sent {
    request("POST", address, path, headers, body)
}

/// Sends a request of another method.
pub(crate) fn request(method: &str, address: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Sent {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !has("host") {
        head.push_str(&format!("host: {address}\r\n"));
    }
    if !has("content-type") {
        head.push_str("content-type: application/json\r\n");
    }
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    // A gateway that has refused the head may have closed.
    let _ = stream.write_all(body);
    Sent { reader: BufReader::new(stream) }
}

impl Sent {
    /// Reads until a text has come, and closes the connection.
    pub(crate) fn until(mut self, text: &str) {
        self.read_until(text);
    }

    /// Reads until a text has come. Returns everything up to its end.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.ends_with(text) {
            let mut byte = [0];
            self.reader.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {seen}"));
            seen.push(char::from(byte[0]));
        }
        seen
    }

    /// Waits for an event of a stream whose name ends so. `false`: the stream has ended. Panics if nothing happens for a minute.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn event(&mut self, ending: &str) -> bool {
        let (mut line, mut silence) = (String::new(), 0);
        loop {
            line.clear();
            if self.reader.read_line(&mut line).unwrap() == 0 {
                return false;
            }
            match line.trim_end() {
                ": keep-alive" if silence == SILENCE => panic!("no event {ending}"),
                ": keep-alive" => silence += 1,
                line if line.starts_with("event: ") && line.ends_with(ending) => return true,
                _ => {}
            }
        }
    }

    /// Reads to the end of the connection.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn rest(mut self) -> String {
        let mut seen = String::new();
        self.reader.read_to_string(&mut seen).unwrap();
        seen
    }

    /// All bytes of the answer, with its head.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn bytes(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// The whole answer.
    pub(crate) fn answer(mut self) -> Answer {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let status = line.split_whitespace().nth(1).unwrap_or_else(|| panic!("no status: {line:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: String::new() };
        let mut body = Vec::new();
        if answer.header("transfer-encoding") == "chunked" {
            loop {
                let mut size = String::new();
                self.reader.read_line(&mut size).unwrap();
                let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
                let mut chunk = vec![0; size + 2];
                if size == 0 || self.reader.read_exact(&mut chunk).is_err() {
                    break;
                }
                body.extend_from_slice(&chunk[..size]);
            }
        } else {
            self.reader.read_to_end(&mut body).unwrap();
        }
        answer.body = String::from_utf8(body).unwrap();
        answer
    }
}

/// A request and its whole answer, off the executor.
pub(crate) async fn post(address: &str, path: &str, headers: &[(&'static str, &str)], body: &Value) -> Answer {
    raw(address, path, headers, body.to_string().into_bytes()).await
}

pub(crate) async fn raw(address: &str, path: &str, headers: &[(&'static str, &str)], body: Vec<u8>) -> Answer {
    let (address, path) = (address.to_owned(), path.to_owned());
    let headers: Vec<(&'static str, String)> =
        headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let asked = move || {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        send(&address, &path, &headers, &body).answer()
    };
    tokio::task::spawn_blocking(asked).await.unwrap()
}

/// A chat request of these messages.
pub(crate) fn chat(messages: &[Value]) -> Value {
    json!({"model": "m", "messages": messages})
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// The text of the answer to a chat request.
#[allow(dead_code, reason = "each suite uses its part")]
pub(crate) fn answer_of(address: &str, body: &Value) -> String {
    let answer = send(address, "/v1/chat/completions", &[], body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}
