//! The HTTPS port (upstream: `SecureServingInfo`): from a socket to a [`Handler`].
//!
//! One task accepts; each connection has a task of its own, so that a slow or silent client costs only its connection.
//! The limits per client are in [`Limits`].
//!
//! HTTP/2 output of one turn is sent in one write (`gather.rs`); large writers take turns (`turns.rs`); a connection
//! that does not read stops the production of its response (`backlog.rs`).

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
use kevel_component::signals::Signal;
use ongoing::{Connections, Order};

/// Resource limits per client. The numbers are the reference's, where it has any.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest size of a request's headers in bytes.
    pub header_bytes: u32,
    /// Time to receive a request's headers, and to complete the TLS handshake.
    pub header_read: Duration,
    /// Idle time of a connection.
    pub idle: Duration,
    /// `--http2-max-streams-per-connection`: concurrent requests on an HTTP/2 connection. Reset streams count until
    /// their handlers have ended.
    pub streams: u32,
    /// Flow control window of an HTTP/2 stream; nearly all objects are smaller. (Frames stay at HTTP/2's 16 KiB: the
    /// reference's larger ones would only be buffered.)
    pub stream_window: u32,
    /// Time to receive an unread request body after the response.
    pub unread_body: Duration,
    /// Bytes of a response buffered for an HTTP/2 client, besides one or two pieces that could not be sent at all. So a
    /// connection holds at most this and [two pieces](crate::body::PIECE) for each of its streams.
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

/// Configuration of the HTTPS port (upstream: `SecureServingInfo`).
#[derive(Debug)]
pub struct SecureServing {
    /// Listener of connections.
    pub listener: TcpListener,
    /// Serving certificates.
    pub tls: Arc<Tls>,
    /// Limits per client.
    pub limits: Limits,
    /// Time for requests to end after `stop`; then their connections are closed.
    pub shutdown_timeout: Duration,
    /// Counter of failed TLS handshakes.
    pub handshake_errors: Arc<HandshakeErrors>,
    /// Clock of the server.
    pub clock: Clock,
}

/// A running HTTPS port.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Address that it listens on.
    pub address: SocketAddr,
    /// Signaled when connections are no longer accepted.
    pub stopped_listening: Signal,
    /// Signaled when no connection is left.
    pub stopped: Signal,
    /// Counter of failed TLS handshakes.
    pub handshake_errors: Arc<HandshakeErrors>,
    connections: Arc<Connections>,
}

impl Serving {
    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.count()
    }

    /// Closes connections after their running requests, watches included, so that their clients reconnect elsewhere
    /// instead of sending requests to a server that no longer answers.
    pub fn finish_busy(&self) {
        self.connections.finish_busy();
    }
}

/// Serves until `stop` is signaled: then no connection is accepted, idle ones are closed, and busy ones are closed
/// after their running requests.
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
