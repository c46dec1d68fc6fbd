//! Reading without a buffer of one's own: what is idle holds none.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// The most that is read at once: two records of TLS, and what Go's `io.Copy` moves.
pub(crate) const CHUNK: usize = 32 << 10;

/// Reads what is there, `limit` bytes at most, and shows it to `take`; nothing is there at the end.
/// The bytes live as long as this call.
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
