//! Requests, as they come out of a connection, and their answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, Version, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;

use super::ongoing::{Exchange, Ongoing, Order};
use crate::body::Body;
use crate::handler::{Handler, Pending, Response};
use crate::request::{Connection, Request, RequestBody};

/// Passes a connection's requests to the handler.
pub(super) struct Requests {
    pub handler: Arc<dyn Handler>,
    pub connection: Arc<Connection>,
    pub ongoing: Arc<Ongoing>,
    pub http2: bool,
}

impl Service<http::Request<Incoming>> for Requests {
    type Response = http::Response<Answer>;
    type Error = Infallible;
    type Future = Pending<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let exchange = self.ongoing.enter();
        let (parts, body) = request.into_parts();
        let has_host = parts.headers.contains_key(header::HOST);
        if parts.version == Version::HTTP_11 && !has_host {
            let answer = missing_host().map(|body| Answer { body, _exchange: exchange });
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let request = Request::new(parts, RequestBody::Incoming(body), self.connection.clone());
        let handler = self.handler.clone();
        let http2 = self.http2.then(|| self.ongoing.clone());
        Box::pin(async move {
            let mut response = handler.handle(request).await;
            if let Some(ongoing) = http2 {
                close_by_goaway(&mut response, &ongoing);
            }
            Ok(response.map(|body| Answer { body, _exchange: exchange }))
        })
    }
}

/// `Connection: close` has no place in HTTP/2: there, the client is told by a GOAWAY.
fn close_by_goaway(response: &mut Response, ongoing: &Ongoing) {
    if let Some(value) = response.headers_mut().remove(header::CONNECTION)
        && value.as_bytes().eq_ignore_ascii_case(b"close")
    {
        ongoing.order(Order::Finish);
    }
}

fn missing_host() -> Response {
    let text = "400 Bad Request: missing required Host header";
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, plain);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The body of an answer; the exchange is over when it has gone out, or nobody wants it any more.
pub(super) struct Answer {
    body: Body,
    _exchange: Exchange,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
