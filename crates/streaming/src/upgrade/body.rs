//! The body of an answer that is not an upgrade.

use std::io;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Collects a body, up to a limit: what is beyond it is not read.
pub(super) struct Body {
    bytes: BytesMut,
    limit: usize,
    framing: Framing,
    /// What was read of the connection and is not yet taken apart.
    raw: BytesMut,
}

/// How the end of a body is known.
enum Framing {
    /// It has so many bytes left.
    Length(u64),
    /// It comes in chunks.
    Chunks(Chunk),
    /// It ends with the connection.
    Close,
    Ended,
}

enum Chunk {
    /// A line says how long it is.
    Size,
    /// So much of it is left.
    Data(u64),
    /// A line end follows.
    End,
}

/// The longest line that says how long a chunk is.
const MAX_SIZE_LINE: usize = 1024;

impl Body {
    /// The body that follows these headers, of which some was read.
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

    /// Reads until the end, the limit, or something that makes no sense.
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

    /// What was read.
    pub fn into_bytes(self) -> Bytes {
        self.bytes.freeze()
    }

    /// Takes something of what was read; `None` if more must be read first, or nothing more need be.
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

    /// Takes bytes of the body, at most so many; how many it were.
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
