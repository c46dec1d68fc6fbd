//! Errors of SPDY connections.

use std::io;

/// Error that ends a connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The peer violates SPDY/3.1 as Kubernetes uses it, or exceeds a limit.
    #[error("SPDY protocol error: {0}")]
    Protocol(&'static str),
    /// The peer closed the connection without GOAWAY.
    #[error("SPDY connection closed unexpectedly")]
    Lost,
    /// I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Error of opening a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The peer refused the stream.
    #[error("Stream reset")]
    Reset,
    /// The connection has ended, or is about to.
    #[error("connection closed")]
    Closed,
    /// The headers are larger than [`MAX_HEADER_BYTES`](super::MAX_HEADER_BYTES), or no stream ID is left.
    #[error("Unable to get new stream id")]
    Exhausted,
}
