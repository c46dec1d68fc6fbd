//! A connection, as those see it who want streams.

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

/// The side that accepts them.
pub fn server<IO>(io: IO) -> (Connection, Driver<IO>) {
    connection(io, true)
}

fn connection<IO>(io: IO, server: bool) -> (Connection, Driver<IO>) {
    let shared = Arc::new(Shared::new(server));
    (Connection { shared: shared.clone() }, Driver::new(io, shared))
}

/// A connection. When it and all of its streams are dropped, it is closed.
pub struct Connection {
    shared: Arc<Shared>,
}

impl Connection {
    /// Opens a stream. The peer is asked at once, but has not yet answered: [`Stream::opened`].
    pub fn create_stream(&self, headers: &HeaderMap) -> Result<Stream, CreateError> {
        let id = self.shared.lock().create(headers)?;
        Ok(Stream::new(&self.shared, id, headers.clone()))
    }

    /// The next stream that the peer wants to open; nothing after the connection's end.
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

    /// Resets all streams and tells the peer that this was it. The driver sends that, and ends.
    pub fn close(&self) {
        self.shared.lock().close();
    }

    /// How many bytes the streams hold that nobody has read.
    pub fn unread(&self) -> usize {
        self.shared.lock().unread
    }

    /// How many bytes wait to be sent.
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

/// A stream that the peer wants to open. Dropped, it is reset.
#[derive(Debug)]
pub struct Incoming(Stream);

impl Incoming {
    /// What the peer says about it.
    pub fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// Accepts it.
    pub fn accept(self) -> Stream {
        self.0.reply();
        self.0
    }

    /// Says that it is not wanted.
    pub fn refuse(self) {
        self.0.refuse();
    }
}
