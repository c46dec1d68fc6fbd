//! A SPDY connection, for users of its streams.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::HeaderMap;

use super::driver::Driver;
use super::error::CreateError;
use super::state::Shared;
use super::stream::Stream;

/// The side that opens streams: the API server towards a kubelet, and a client of either.
pub fn client<IO>(io: IO) -> (Connection, Driver<IO>) {
    connection(io, false)
}

/// The side that accepts streams.
pub fn server<IO>(io: IO) -> (Connection, Driver<IO>) {
    connection(io, true)
}

fn connection<IO>(io: IO, server: bool) -> (Connection, Driver<IO>) {
    let shared = Arc::new(Shared::new(server));
    (Connection { shared: shared.clone() }, Driver::new(io, shared))
}

/// A SPDY connection. Closed when it and all of its streams are dropped.
pub struct Connection {
    shared: Arc<Shared>,
}

impl Connection {
    /// Opens a stream. The request is sent at once; [`Stream::opened`] waits for the peer's reply.
    pub fn create_stream(&self, headers: &HeaderMap) -> Result<Stream, CreateError> {
        let id = self.shared.lock().create(headers)?;
        Ok(Stream::new(&self.shared, id, headers.clone()))
    }

    /// The next stream that the peer opens; `None` after the end of the connection.
    pub async fn accept(&self) -> Option<Incoming> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&self, context: &Context<'_>) -> Poll<Option<Incoming>> {
        let mut state = self.shared.lock();
        if let Some((id, headers)) = state.incoming.pop_front() {
            drop(state);
            return Poll::Ready(Some(Incoming(Stream::new(&self.shared, id, headers))));
        }
        if state.ended.is_some() {
            return Poll::Ready(None);
        }
        state.acceptor = Some(context.waker().clone());
        Poll::Pending
    }

    /// Resets all streams and sends GOAWAY. The driver sends these frames, and ends.
    pub fn close(&self) {
        self.shared.lock().close();
    }

    /// Number of received bytes that were not read from the streams yet.
    pub fn unread(&self) -> usize {
        self.shared.lock().unread
    }

    /// Number of bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        let state = self.shared.lock();
        state.out.len() + state.replies.len()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.lock().release();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("spdy::Connection")
    }
}

/// A stream that the peer opens. Reset if dropped.
#[derive(Debug)]
pub struct Incoming(Stream);

impl Incoming {
    /// Headers of the stream.
    pub fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// Accepts the stream.
    pub fn accept(self) -> Stream {
        self.0.reply();
        self.0
    }

    /// Refuses the stream.
    pub fn refuse(self) {
        self.0.refuse();
    }
}
