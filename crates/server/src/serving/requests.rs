//! Conversion of a connection's requests and responses.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Version, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::upgrade::OnUpgrade;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::backlog::Backlog;
use super::ongoing::{Exchange, Ongoing, Order};
use super::upgrade::Next;
use crate::body::{Body, Broken};
use crate::handler::Abort;
use crate::handler::{Handler, Response};
use crate::incoming::IncomingBody;
use crate::request::{Connection, Request, RequestBody};
use kevel_component::future::Pending;

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Passes a connection's requests to the handler.
pub(super) struct Requests {
    pub handler: Arc<dyn Handler>,
    pub connection: Arc<Connection>,
    pub ongoing: Arc<Ongoing>,
    pub http2: bool,
    /// Slots of running requests. HTTP/2 does not count reset streams whose handlers still run.
    pub slots: Arc<Semaphore>,
    /// Requests above this number end the connection.
    pub most: usize,
    /// Backlog of HTTP/1.1 connections.
    pub backlog: Option<Arc<Backlog>>,
    /// Time to receive an unread request body.
    pub patience: Duration,
    /// Protocol upgrade after the last response.
    pub next: Arc<Next>,
}

impl Service<http::Request<Incoming>> for Requests {
    type Response = http::Response<ResponseBody>;
    type Error = Broken;
    type Future = Pending<'static, Result<Self::Response, Broken>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let exchange = self.ongoing.enter();
        if self.ongoing.in_flight() > self.most {
            self.ongoing.order(Order::Drop);
        }
        let (mut parts, body) = request.into_parts();
        let has_host = parts.headers.contains_key(header::HOST);
        let bad_request = |exchange, why| -> Self::Future {
            let answer = bad_request(why).map(|body| ResponseBody {
                body,
                backlog: None,
                _exchange: Some(exchange),
                _slot: None,
            });
            Box::pin(std::future::ready(Ok(answer)))
        };
        if parts.version == Version::HTTP_11 && !has_host {
            return bad_request(exchange, ": missing required Host header");
        }
        let on_upgrade = parts.extensions.remove::<OnUpgrade>();
        let (body, left) = IncomingBody::new(body, &parts.headers);
        let head = parts.method == Method::HEAD;
        let body = RequestBody::Incoming(body);
        let Some(request) = Request::new(parts, body, self.connection.clone()) else {
            return bad_request(exchange, "");
        };
        let handler = self.handler.clone();
        let next = self.next.clone();
        let (slots, backlog) = (self.slots.clone(), self.backlog.clone());
        let patience = self.patience;
        let http2 = self.http2.then(|| self.ongoing.clone());
        Box::pin(async move {
            let slot = slots.acquire_owned().await.ok();
            let mut response = handler.handle(request).await;
            if response.extensions().get::<Abort>().is_some() {
                // Without a response: the stream is reset, or the connection closed.
                return Err(Broken("aborted"));
            }
            let unread = left.take();
            if let Some(ongoing) = http2 {
                unread.into_iter().for_each(|unread| unread.beside_answer(patience));
                close_by_goaway(&mut response, &ongoing);
            } else if let Some(unread) = unread
                && !unread.before_answer(patience).await
            {
                response.headers_mut().insert(header::CONNECTION, CLOSE);
            }
            if head {
                drop_body(&mut response);
            }
            let exchange = next.plan(&mut response, on_upgrade, exchange);
            Ok(response.map(|body| ResponseBody {
                body,
                backlog,
                _exchange: exchange,
                _slot: slot,
            }))
        })
    }
}

/// Replaces `Connection: close`, which HTTP/2 does not have, by a GOAWAY.
fn close_by_goaway(response: &mut Response, ongoing: &Ongoing) {
    if let Some(value) = response.headers_mut().remove(header::CONNECTION)
        && value.as_bytes().eq_ignore_ascii_case(b"close")
    {
        ongoing.order(Order::Finish);
    }
}

/// Drops the body of a response to HEAD, and sets its content length.
fn drop_body(response: &mut Response) {
    let body = std::mem::take(response.body_mut());
    if let Some(bytes) = body.bytes() {
        response.headers_mut().insert(header::CONTENT_LENGTH, bytes.len().into());
    }
}

/// The 400 for a request that cannot be parsed.
fn bad_request(why: &str) -> Response {
    let mut response = Response::new(Body::from(format!("400 Bad Request{why}")));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, plain);
    headers.insert(header::CONNECTION, CLOSE);
    response
}

/// Body of a response; the exchange ends when it has been sent or the client has disconnected, unless the connection is
/// upgraded.
pub(super) struct ResponseBody {
    body: Body,
    backlog: Option<Arc<Backlog>>,
    _exchange: Option<Exchange>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.backlog.as_ref().is_some_and(|backlog| backlog.is_full(context)) {
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let (Some(backlog), Some(Ok(frame))) = (&self.backlog, &frame) {
            backlog.given(frame.data_ref().map_or(0, Bytes::len));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
