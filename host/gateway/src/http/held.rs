//! A streamed answer keeps its place among the requests under way until it has ended.

use axum::body::{Body, HttpBody};
use axum::http::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

struct Held {
    body: Body,
    _place: OwnedSemaphorePermit,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Lets a streamed answer keep a place. One that is whole has ended, and gives it back.
pub(crate) fn hold(answer: Response<Body>, place: OwnedSemaphorePermit) -> Response<Body> {
    if answer.body().size_hint().exact().is_some() {
        return answer;
    }
    answer.map(|body| Body::new(Held { body, _place: place }))
}
