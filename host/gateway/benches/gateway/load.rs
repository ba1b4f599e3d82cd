//! The load: requests one after another on some connections, or at fixed times. Times at fixed rates count from when a request was due, so
//! that a slow answer does not hide the wait of the next ones.

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Longest time of an answer. Some gateways never end one.
const LIMIT: Duration = Duration::from_secs(20);
/// Time of a load, after which no more requests are sent: slow gateways get fewer.
const LOAD: Duration = Duration::from_secs(45);

/// What to send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) address: String,
    pub(crate) path: String,
    pub(crate) model: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) connections: usize,
    pub(crate) requests: u64,
    /// Requests per second; 0: each connection sends the next one when it has its answer.
    pub(crate) rate: f64,
    pub(crate) stream: bool,
    /// Number of the first request, so that no two plans send equal ones.
    pub(crate) first: u64,
}

/// What came of it. Times in microseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Heard {
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
    /// Until the whole answer; of streams until the first event.
    pub(crate) times: Vec<u32>,
    /// Between events of streams.
    pub(crate) gaps: Vec<u32>,
    /// Streams with every event.
    pub(crate) whole: u64,
}

fn body(plan: &Plan, number: u64) -> Bytes {
    // 800 bytes of system prompt.
    let system = "You are a helpful assistant. Answer briefly and plainly. ".repeat(15);
    let system = &system[..800];
    let text = format!("Question {number}: what is the capital of Norway, and since when?");
    let body = match plan.path.ends_with("/messages") {
        true => serde_json::json!({
            "model": plan.model, "max_tokens": 100, "system": system, "stream": plan.stream,
            "messages": [{"role": "user", "content": text}],
        }),
        false => serde_json::json!({
            "model": plan.model, "max_tokens": 100, "stream": plan.stream,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}],
        }),
    };
    Bytes::from(body.to_string())
}

async fn connect(address: &str) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn ask(sender: &mut SendRequest<Full<Bytes>>, plan: &Plan, number: u64, due: Instant, heard: &mut Heard) {
    let mut request =
        Request::post(&plan.path).header("host", &plan.address).header("content-type", "application/json");
    for (name, value) in &plan.headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(body(plan, number))).unwrap();
    if sender.ready().await.is_err() {
        *sender = connect(&plan.address).await;
    }
    let Ok(answer) = sender.send_request(request).await else {
        heard.failed += 1;
        return;
    };
    let success = answer.status().is_success();
    let mut body = answer.into_body();
    let (mut last, mut events) = (None, 0);
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref().filter(|_| plan.stream) else { continue };
        let now = Instant::now();
        // Several events may come at once.
        events += data.windows(6).filter(|window| *window == b"word \"").count();
        match last {
            None => heard.times.push(due.elapsed().as_micros() as u32),
            Some(last) => heard.gaps.push(now.duration_since(last).as_micros() as u32),
        }
        last = Some(now);
    }
    heard.whole += u64::from(events == crate::mock::EVENTS);
    if success {
        heard.answered += 1;
        if !plan.stream {
            heard.times.push(due.elapsed().as_micros() as u32);
        }
    } else {
        heard.failed += 1;
    }
}

async fn run(plan: Plan) -> Heard {
    let next = Arc::new(AtomicU64::new(0));
    let mut senders = Vec::new();
    for _ in 0..plan.connections {
        senders.push(connect(&plan.address).await);
    }
    let plan = Arc::new(plan);
    let started = Instant::now();
    let mut workers = Vec::new();
    for mut sender in senders {
        let (plan, next) = (plan.clone(), next.clone());
        workers.push(tokio::spawn(async move {
            let mut heard = Heard::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= plan.requests || started.elapsed() > LOAD {
                    return heard;
                }
                let mut due = Instant::now();
                if plan.rate > 0.0 {
                    due = started + Duration::from_secs_f64(number as f64 / plan.rate);
                    tokio::time::sleep_until(due.into()).await;
                }
                let asked = ask(&mut sender, &plan, plan.first + number, due, &mut heard);
                if tokio::time::timeout(LIMIT, asked).await.is_err() {
                    heard.failed += 1;
                    sender = connect(&plan.address).await;
                }
            }
        }));
    }
    let mut all = Heard::default();
    for worker in workers {
        let heard = worker.await.unwrap();
        all.answered += heard.answered;
        all.failed += heard.failed;
        all.whole += heard.whole;
        all.times.extend(heard.times);
        all.gaps.extend(heard.gaps);
    }
    all.seconds = started.elapsed().as_secs_f64();
    all.times.sort_unstable();
    all.gaps.sort_unstable();
    all
}

/// `load PLAN`, with the plan as JSON.
pub(crate) fn main(arguments: &[String]) {
    let plan: Plan = serde_json::from_str(&arguments[0]).unwrap();
    let heard = crate::runtime().block_on(run(plan));
    println!("{}", serde_json::to_string(&heard).unwrap());
}

impl Heard {
    /// A quantile of the times, in microseconds.
    pub(crate) fn time(&self, share: f64) -> f64 {
        quantile(&self.times, share)
    }

    /// A quantile of the gaps.
    pub(crate) fn gap(&self, share: f64) -> f64 {
        quantile(&self.gaps, share)
    }
}

fn quantile(sorted: &[u32], share: f64) -> f64 {
    let at = ((sorted.len() as f64 - 1.0) * share).round().max(0.0) as usize;
    sorted.get(at).map_or(f64::NAN, |value| f64::from(*value))
}
