//! A model that answers at once, in both dialects: some 300 bytes, or a stream of 64 events 20 ms apart.

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;

/// Events of a stream, without its first and last ones.
pub(crate) const EVENTS: usize = 64;
/// Between two of them.
pub(crate) const GAP: Duration = Duration::from_millis(20);
const TEXT: &str =
    "The capital of Norway is Oslo. It has been the capital since 1814, and about 700,000 people live there.";

fn whole(anthropic: bool) -> String {
    match anthropic {
        true => json!({
            "id": "msg_bench", "type": "message", "role": "assistant", "model": "bench", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": TEXT}], "usage": {"input_tokens": 210, "output_tokens": 26},
        }),
        false => json!({
            "id": "chatcmpl-bench", "object": "chat.completion", "created": 1, "model": "bench",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 210, "completion_tokens": 26, "total_tokens": 236},
        }),
    }
    .to_string()
}

fn chunk(text: &str, finish: Option<&str>) -> Bytes {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": finish});
    let chunk =
        json!({"id": "chatcmpl-bench", "object": "chat.completion.chunk", "model": "bench", "choices": [choice]});
    Bytes::from(format!("data: {chunk}\n\n"))
}

async fn answer(request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let anthropic = request.uri().path().ends_with("/messages");
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let streams = body.windows(13).any(|window| window == b"\"stream\":true" || window == b"\"stream\": tru");
    if !streams {
        let body = Full::new(Bytes::from(whole(anthropic))).boxed();
        return Ok(Response::builder().header("content-type", "application/json").body(body).unwrap());
    }
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(4);
    tokio::spawn(async move {
        let mut clock = tokio::time::interval(GAP);
        for _ in 0..EVENTS {
            clock.tick().await;
            if sender.send(chunk("word ", None)).await.is_err() {
                return;
            }
        }
        let _ = sender.send(chunk("", Some("stop"))).await;
        let usage = json!({"id": "chatcmpl-bench", "model": "bench", "choices": [], "usage": {"prompt_tokens": 210, "completion_tokens": 64}});
        let _ = sender.send(Bytes::from(format!("data: {usage}\n\ndata: [DONE]\n\n"))).await;
    });
    let body = Pieces(receiver).boxed();
    Ok(Response::builder().header("content-type", "text/event-stream").body(body).unwrap())
}

/// A body whose pieces come from a channel.
struct Pieces(tokio::sync::mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

pub(crate) fn main() {
    crate::runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        std::io::stdout().flush().unwrap();
        // It ends with the process that started it.
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(0);
        });
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = stream.set_nodelay(true);
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer)),
            );
        }
    });
}
