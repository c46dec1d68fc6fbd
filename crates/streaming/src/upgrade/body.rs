//! Body of a response that is not an upgrade.

use std::io;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Buffers a body, up to a limit; the rest is not read.
pub(super) struct Body {
    bytes: BytesMut,
    limit: usize,
    framing: Framing,
    /// Bytes read from the connection and not yet parsed.
    raw: BytesMut,
}

/// Framing of a body.
enum Framing {
    /// Number of bytes left.
    Length(u64),
    /// Chunked encoding.
    Chunks(Chunk),
    /// The body ends with the connection.
    Close,
    Ended,
}

enum Chunk {
    /// A line with the chunk's size follows.
    Size,
    /// Number of bytes of the chunk left.
    Data(u64),
    /// A line end follows.
    End,
}

/// Maximum length of a line with a chunk's size.
const MAX_SIZE_LINE: usize = 1024;

impl Body {
    /// The body that follows these headers, of which `read` was read.
    pub fn new(headers: &HeaderMap, read: BytesMut, limit: usize) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let framing = if headers.contains_key(header::TRANSFER_ENCODING) {
            Framing::Chunks(Chunk::Size)
        } else {
            let length = text(header::CONTENT_LENGTH).and_then(|length| length.trim().parse().ok());
            length.map_or(Framing::Close, Framing::Length)
        };
        Body { bytes: BytesMut::new(), limit, framing, raw: read }
    }

    /// Reads until the end, the limit, or invalid framing.
    pub async fn read_to_end(&mut self, io: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        loop {
            while self.step().is_some() {}
            if matches!(self.framing, Framing::Ended) || self.bytes.len() >= self.limit {
                return Ok(());
            }
            self.raw.reserve(MAX_SIZE_LINE);
            if io.read_buf(&mut self.raw).await? == 0 {
                return Ok(());
            }
        }
    }

    /// The body as far as it was read.
    pub fn into_bytes(self) -> Bytes {
        self.bytes.freeze()
    }

    /// Parses some of the bytes that were read; `None` if more must be read first, or the body has ended.
    fn step(&mut self) -> Option<()> {
        match &mut self.framing {
            Framing::Ended => return None,
            Framing::Close => self.take(u64::MAX).map(drop)?,
            Framing::Length(0) => self.framing = Framing::Ended,
            Framing::Length(left) => {
                let left = *left;
                let taken = self.take(left)?;
                self.framing = Framing::Length(left - taken);
            }
            Framing::Chunks(Chunk::Size) => {
                self.framing = match httparse::parse_chunk_size(&self.raw) {
                    Ok(httparse::Status::Complete((_, 0))) => Framing::Ended,
                    Ok(httparse::Status::Complete((length, size))) => {
                        let _ = self.raw.split_to(length);
                        Framing::Chunks(Chunk::Data(size))
                    }
                    Ok(httparse::Status::Partial) if self.raw.len() < MAX_SIZE_LINE => return None,
                    _ => Framing::Ended,
                }
            }
            Framing::Chunks(Chunk::Data(0)) => self.framing = Framing::Chunks(Chunk::End),
            Framing::Chunks(Chunk::Data(left)) => {
                let left = *left;
                let taken = self.take(left)?;
                self.framing = Framing::Chunks(Chunk::Data(left - taken));
            }
            Framing::Chunks(Chunk::End) => {
                let end = self.raw.split_first_chunk::<2>()?.0;
                self.framing = match end {
                    b"\r\n" => Framing::Chunks(Chunk::Size),
                    _ => Framing::Ended,
                };
                let _ = self.raw.split_to(2);
            }
        }
        Some(())
    }

    /// Takes up to `most` bytes of the body. Returns their number.
    fn take(&mut self, most: u64) -> Option<u64> {
        let room = self.limit - self.bytes.len();
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.raw.len());
        if most == 0 || room == 0 {
            return None;
        }
        let taken = self.raw.split_to(most.min(room));
        self.bytes.extend_from_slice(&taken);
        Some(taken.len() as u64)
    }
}
