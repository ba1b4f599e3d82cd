//! A proxy that only forwards, on the same HTTP library: what any gateway costs at least on this machine.

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};

type Idle = Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>;

async fn forward(request: Request<Incoming>, to: Arc<String>, idle: Idle) -> hyper::Result<Response<Incoming>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let known = idle.lock().unwrap().pop();
    let mut sender = match known {
        Some(sender) if !sender.is_closed() => sender,
        _ => {
            let stream = TcpStream::connect(to.as_str()).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            sender
        }
    };
    sender.ready().await?;
    let mut request = Request::from_parts(parts, Full::new(body));
    request.headers_mut().remove("content-length");
    let answer = sender.send_request(request).await?;
    // The connection is ready again when the answer has been read; the next request waits for that.
    idle.lock().unwrap().push(sender);
    Ok(answer)
}

/// `bare MOCK`.
pub(crate) fn main(arguments: &[String]) {
    let to = Arc::new(arguments[0].clone());
    crate::runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        std::io::stdout().flush().unwrap();
        let idle = Idle::default();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = stream.set_nodelay(true);
            let (to, idle) = (to.clone(), idle.clone());
            let service = hyper::service::service_fn(move |request| forward(request, to.clone(), idle.clone()));
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
}
