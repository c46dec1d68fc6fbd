//! What goes wrong on a SPDY connection.

use std::io;

/// Why a connection ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The peer does not speak SPDY/3.1 as Kubernetes does, or asks for more than it may.
    #[error("SPDY protocol error: {0}")]
    Protocol(&'static str),
    /// The peer went without a word.
    #[error("SPDY connection closed unexpectedly")]
    Lost,
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why there is no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The peer does not want it.
    #[error("Stream reset")]
    Reset,
    /// The connection has ended, or is about to.
    #[error("connection closed")]
    Closed,
    /// Its headers are larger than [`MAX_HEADER_BYTES`](super::MAX_HEADER_BYTES), or no number is
    /// left for it.
    #[error("Unable to get new stream id")]
    Exhausted,
}
