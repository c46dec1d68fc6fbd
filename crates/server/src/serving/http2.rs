//! HTTP/2 connections: many streams, written together.
//!
//! Handlers run in tasks of their own. Responses are written by the connection's task: streams that become ready
//! together, such as hundreds of watches of one resource, cost one wake-up and one write, not one each.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use kevel_compute::{ComputeMeter, ComputeTurn};
use tokio::task::JoinHandle;

use super::Limits;
use super::connection::{HttpConnection, Transport, connection_meter};
use super::gather::Gather;
use super::requests::{Requests, ResponseBody};
use super::streams::{Start, Streams};
use super::turns::Turns;
use crate::body::Broken;
use kevel_component::future::Pending;

/// Rounds of streams before the output is sent.
const MOST_TURNS: usize = 16;
/// Bytes of a connection written before other connections get their turn: a twentieth of a millisecond of encryption.
/// While many lists are sent, a small request waits for one or two such turns ([`Turns`]). With four times as much, one
/// in a hundred waited for a quarter to four fifths longer (bench `fairness`).
const MOST_WRITTEN: usize = 64 << 10;

/// An HTTP/2 connection.
pub(super) struct Http2Connection {
    http: http2::Connection<TokioIo<Gather>, RequestSpawner, Start>,
    streams: Streams,
    output: Gather,
    turns: Turns,
    meter: ComputeMeter,
}

impl Http2Connection {
    pub fn new(stream: Box<dyn Transport>, requests: Requests, limits: &Limits) -> Self {
        let meter = connection_meter(&requests.connection);
        let (streams, output) = (Streams::default(), Gather::new(stream));
        let builder = builder(limits, streams.start());
        let service = RequestSpawner { requests, resets: Arc::default() };
        let http = builder.serve_connection(TokioIo::new(output.clone()), service);
        Http2Connection { http, streams, output, turns: Turns::default(), meter }
    }
}

impl Future for Http2Connection {
    type Output = Result<(), String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let _turn = ComputeTurn::begin(&this.meter, kevel_compute::leave_worker);
        ready!(this.turns.poll_begin(context));
        this.streams.poll(context);
        this.output.begin_turn();
        let (mut turns, mut written) = (0, 0);
        let more = loop {
            if let Poll::Ready(ended) = Pin::new(&mut this.http).poll(context) {
                return Poll::Ready(ended.map_err(|error| error.to_string()));
            }
            written += this.output.take_written();
            // New streams may have begun, and others become ready while some are polled.
            if !this.streams.poll(context) {
                break false;
            }
            turns += 1;
            if turns == MOST_TURNS || written >= MOST_WRITTEN {
                break true;
            }
        };
        this.turns.end(written, more, context);
        let _: () = ready!(this.output.poll_send(context)).map_err(|error| error.to_string())?;
        Poll::Pending
    }
}

impl HttpConnection for Http2Connection {
    fn finish(mut self: Pin<&mut Self>) {
        Pin::new(&mut self.http).graceful_shutdown();
    }
}

fn builder(limits: &Limits, start: Start) -> http2::Builder<Start> {
    let mut builder = http2::Builder::new(start);
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .initial_stream_window_size(limits.stream_window)
        .initial_connection_window_size(
            limits.stream_window.saturating_mul(limits.streams).min(i32::MAX as u32),
        )
        .max_send_buf_size(limits.send_buffer)
        // Limits on streams that a client opens and resets at once, and on errors of a connection; beyond them the
        // connection ends.
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(1024);
    builder
}

/// Runs each request in a task of its own, so that one connection's requests use all processors.
struct RequestSpawner {
    requests: Requests,
    resets: Arc<RapidResetGuard>,
}

type Handled = Result<http::Response<ResponseBody>, Broken>;

impl Service<http::Request<Incoming>> for RequestSpawner {
    type Response = http::Response<ResponseBody>;
    type Error = Broken;
    type Future = Handling;

    fn call(&self, request: http::Request<Incoming>) -> Handling {
        let handler = self.requests.call(request);
        let state = match self.resets.is_tripped() {
            true => State::Held(handler, RapidResetGuard::TURNS),
            false => State::Begun(tokio::spawn(handler)),
        };
        Handling { state, resets: self.resets.clone() }
    }
}

/// Guard against Rapid Reset (CVE-2023-44487): counts how many more streams a client has recently reset than awaited.
/// The requests of a client that resets too many are delayed for some turns of the connection: those reset meanwhile
/// cost no work.
#[derive(Default)]
struct RapidResetGuard(AtomicU32);

impl RapidResetGuard {
    /// Resets that are allowed at a time, as when a client ends its watches.
    const MOST: u32 = 64;
    /// In the first turn the client's frames are read, in the second the reset has taken effect.
    const TURNS: u8 = 2;

    fn is_tripped(&self) -> bool {
        self.0.load(Ordering::Relaxed) > Self::MOST
    }

    fn reset(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&self) {
        let less = |count: u32| count.checked_sub(1);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// A request being handled; dropping it aborts the handler.
struct Handling {
    state: State,
    resets: Arc<RapidResetGuard>,
}

enum State {
    /// Starts after so many turns.
    Held(Pending<'static, Handled>, u8),
    Begun(JoinHandle<Handled>),
    Ended,
}

impl Future for Handling {
    type Output = Handled;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Handled> {
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::Held(handler, 0) => State::Begun(tokio::spawn(handler)),
            State::Held(handler, turns) => {
                context.waker().wake_by_ref();
                self.state = State::Held(handler, turns - 1);
                return Poll::Pending;
            }
            state => state,
        };
        let State::Begun(task) = &mut self.state else { return Poll::Pending };
        let ended = ready!(Pin::new(task).poll(context));
        self.state = State::Ended;
        self.resets.answered();
        Poll::Ready(ended.unwrap_or(Err(Broken("the handler has ended without an answer"))))
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        match &self.state {
            State::Ended => return,
            State::Begun(task) => task.abort(),
            State::Held(..) => {}
        }
        self.resets.reset();
    }
}
