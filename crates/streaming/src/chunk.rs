//! Reads into a temporary buffer, so that idle connections hold none.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Maximum bytes of one read: two TLS records, and the buffer size of Go's `io.Copy`.
pub(crate) const CHUNK: usize = 32 << 10;

/// Reads up to `limit` bytes and passes them to `take`; an empty slice at the end. The bytes live as long as this call.
pub(crate) fn poll_chunk<R: AsyncRead + Unpin, T>(
    reader: &mut R,
    context: &mut Context<'_>,
    limit: usize,
    take: impl FnOnce(&mut Context<'_>, &mut [u8]) -> T,
) -> Poll<io::Result<T>> {
    let mut space = [MaybeUninit::<u8>::uninit(); CHUNK];
    let mut buffer = ReadBuf::uninit(&mut space[..limit.min(CHUNK)]);
    ready!(Pin::new(reader).poll_read(context, &mut buffer))?;
    Poll::Ready(Ok(take(context, buffer.filled_mut())))
}
