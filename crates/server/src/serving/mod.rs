//! The HTTPS port: from a socket to a [`Handler`].
//!
//! One task accepts; each connection has a task of its own, so that a slow or silent client costs a
//! connection and nothing else. What a client may cost is in [`Limits`].

mod backlog;
mod cipher_suites;
mod client_certificate;
mod connection;
mod gather;
mod handshake_errors;
mod http2;
mod listener;
mod ongoing;
mod requests;
mod socket;
mod streams;
mod tls;
mod turns;
mod upgrade;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kevel_clock::Clock;
use tokio::net::TcpListener;

pub use connection::{Transport, serve_stream};
pub use handshake_errors::HandshakeErrors;
pub use listener::{Listen, listen};
pub use tls::{ServingCertificate, Tls, TlsOptions};
pub use upgrade::{Taken, Upgrade};

use crate::handler::Handler;
use crate::signals::Signal;
use ongoing::{Connections, Order};

/// What a client may cost. The numbers are the reference's, where it has any.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of a request's headers.
    pub header_bytes: u32,
    /// How long a client may take for a request's headers, and for its part of the TLS handshake.
    pub header_read: Duration,
    /// How long a connection may be idle.
    pub idle: Duration,
    /// `--http2-max-streams-per-connection`: how many requests a client may have open at a time on
    /// an HTTP/2 connection. Those that it resets count until they are gone.
    pub streams: u32,
    /// How much of a request's body may wait to be read on an HTTP/2 stream; nearly all objects are
    /// smaller. (Frames stay at HTTP/2's 16 KiB: the reference's large ones would only be buffered.)
    pub stream_window: u32,
    /// How long a client may take to send a body that is not read, after the response.
    pub unread_body: Duration,
    /// How much of an answer waits for an HTTP/2 client to take it, besides a piece or two of which
    /// nothing could be sent. So a connection holds this and [two pieces](crate::body::PIECE) for each
    /// of its streams, at most.
    pub send_buffer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            header_bytes: 1 << 20,
            header_read: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            streams: 100,
            stream_window: 256 << 10,
            unread_body: Duration::from_secs(5),
            send_buffer: 64 << 10,
        }
    }
}

/// What to serve on.
#[derive(Debug)]
pub struct SecureServing {
    /// Where connections come from.
    pub listener: TcpListener,
    /// The certificates.
    pub tls: Arc<Tls>,
    /// What a client may cost.
    pub limits: Limits,
    /// How long requests may take to end after `stop`; then their connections are closed.
    pub shutdown_timeout: Duration,
    /// Where TLS handshakes that fail are counted.
    pub handshake_errors: Arc<HandshakeErrors>,
    /// Time of the server.
    pub clock: Clock,
}

/// A server that serves.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Where it serves.
    pub address: SocketAddr,
    /// Signaled when it does not accept connections any more.
    pub stopped_listening: Signal,
    /// Signaled when no connection is left, either.
    pub stopped: Signal,
    /// The TLS handshakes that failed.
    pub handshake_errors: Arc<HandshakeErrors>,
    connections: Arc<Connections>,
}

impl Serving {
    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.connections.count()
    }

    /// Lets the connections go that requests are under way on, watches among them: when those end their clients go
    /// elsewhere, instead of asking a server again that answers no more.
    pub fn finish_busy(&self) {
        self.connections.finish_busy();
    }
}

/// Serves until `stop` is signaled: no connection is accepted from then on, idle ones are closed,
/// and busy ones are closed after the requests that are under way.
pub fn serve(
    serving: SecureServing,
    handler: Arc<dyn Handler>,
    stop: &Signal,
) -> io::Result<Serving> {
    let SecureServing { listener, tls, limits, shutdown_timeout, handshake_errors, clock } =
        serving;
    let served = Serving {
        address: listener.local_addr()?,
        stopped_listening: Signal::new("StoppedListening"),
        stopped: Signal::new("HTTPServerStopped"),
        handshake_errors: handshake_errors.clone(),
        connections: Arc::default(),
    };
    tracing::info!("Serving securely on {}", served.address);
    let shared = connection::Shared { tls, limits, handler, handshake_errors, clock };
    let stop = stop.wait();
    tokio::spawn({
        let served = served.clone();
        async move {
            listener::accept(listener, &served.connections, Arc::new(shared), stop).await;
            tracing::info!("Stopped listening on {}", served.address);
            served.stopped_listening.signal();
            finish(&served.connections, shutdown_timeout).await;
            served.stopped.signal();
        }
    });
    Ok(served)
}

async fn finish(connections: &Connections, timeout: Duration) {
    connections.order(Order::Finish);
    if tokio::time::timeout(timeout, connections.none_left()).await.is_err() {
        tracing::warn!(connections = connections.count(), "closing busy connections");
        connections.order(Order::Drop);
        connections.none_left().await;
    }
}
