//! HTTP/2: many streams on one connection, written together.
//!
//! Handlers have tasks of their own. What they answer is written by the connection's task: streams
//! that have something to say at the same time, as hundreds of watches of one resource do, cost one
//! wake-up and one write, not one each.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::stream::{FuturesUnordered, Stream as _};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use tokio_rustls::server::TlsStream;

use super::Limits;
use super::connection::HttpConnection;
use super::gather::Gather;
use super::requests::{Answer, Requests};
use super::socket::Socket;
use crate::body::Broken;

/// A connection that speaks HTTP/2.
pub(super) struct Http2Connection {
    http: http2::Connection<TokioIo<Gather>, Apart, Started>,
    output: Gather,
    started: Started,
    streams: FuturesUnordered<Stream>,
}

/// A request and its answer.
type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Http2Connection {
    pub fn new(tls: Box<TlsStream<Socket>>, requests: Requests, limits: &Limits) -> Self {
        let output = Gather::new(tls);
        let started = Started::default();
        let builder = builder(limits, started.clone());
        let http = builder.serve_connection(TokioIo::new(output.clone()), Apart(requests));
        Http2Connection { http, output, started, streams: FuturesUnordered::new() }
    }

    /// Lets every stream that can go on do so.
    fn poll_streams(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = Pin::new(&mut self.streams).poll_next(context) {}
    }
}

impl Future for Http2Connection {
    type Output = Result<(), String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            this.poll_streams(context);
            if let Poll::Ready(ended) = Pin::new(&mut this.http).poll(context) {
                return Poll::Ready(ended.map_err(|error| error.to_string()));
            }
            let started = this.started.take();
            if started.is_empty() {
                break;
            }
            this.streams.extend(started);
        }
        let _: () = ready!(this.output.poll_send(context)).map_err(|error| error.to_string())?;
        Poll::Pending
    }
}

impl HttpConnection for Http2Connection {
    fn finish(mut self: Pin<&mut Self>) {
        Pin::new(&mut self.http).graceful_shutdown();
    }
}

fn builder(limits: &Limits, started: Started) -> http2::Builder<Started> {
    let mut builder = http2::Builder::new(started);
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .initial_stream_window_size(limits.stream_window)
        .initial_connection_window_size(
            limits.stream_window.saturating_mul(limits.streams).min(i32::MAX as u32),
        )
        .max_send_buf_size(limits.send_buffer)
        // Streams that a client opens and resets at once: more of them than this waiting, or more
        // errors than that on one connection, and the connection ends.
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(1024);
    builder
}

/// Streams that have begun, on their way from the connection to its task.
#[derive(Clone, Default)]
struct Started(Arc<Mutex<Vec<Stream>>>);

impl Started {
    fn lock(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Stream> {
        std::mem::take(&mut *self.lock())
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Started {
    fn execute(&self, stream: F) {
        // Streams are bounded by what their clients take; a share of the task's turn would only make
        // a round of many streams into several.
        self.lock().push(Box::pin(tokio::task::unconstrained(stream)));
    }
}

/// Handles each request in a task of its own, so that one connection's requests use all processors.
struct Apart(Requests);

type Answered = Result<http::Response<Answer>, Broken>;

impl Service<http::Request<Incoming>> for Apart {
    type Response = http::Response<Answer>;
    type Error = Broken;
    type Future = Handled;

    fn call(&self, request: http::Request<Incoming>) -> Handled {
        if inline() {
            return Handled::Inline(self.0.call(request));
        }
        Handled::Task(tokio::spawn(self.0.call(request)))
    }
}
fn inline() -> bool {
    static I: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *I.get_or_init(|| std::env::var("KEVEL_INLINE").is_ok())
}

/// A request that is handled; dropped, it is not any more.
enum Handled {
    Task(JoinHandle<Answered>),
    Inline(crate::handler::Pending<'static, Answered>),
}

impl Future for Handled {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        match &mut *self {
            Handled::Inline(f) => f.as_mut().poll(context),
            Handled::Task(t) => {
                let ended = ready!(Pin::new(t).poll(context));
                Poll::Ready(ended.unwrap_or(Err(Broken("the handler has ended without an answer"))))
            }
        }
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        if let Handled::Task(t) = self {
            t.abort();
        }
    }
}
