//! SPDY/3.1 frames.

use bytes::BytesMut;
use http::HeaderMap;

use super::headers::Deflater;

/// The only supported version.
pub(super) const VERSION: u16 = 3;
/// Length of a frame's head.
pub(super) const HEAD: usize = 8;
/// Bit of control frames.
pub(super) const CONTROL: u32 = 1 << 31;
/// Maximum stream ID.
pub(super) const MAX_STREAM: u32 = (1 << 31) - 1;
/// The sender has ended its side of the stream.
pub(super) const FLAG_FIN: u8 = 0x01;

/// Types of control frames.
pub(super) const SYN_STREAM: u16 = 1;
pub(super) const SYN_REPLY: u16 = 2;
pub(super) const RST_STREAM: u16 = 3;
pub(super) const SETTINGS: u16 = 4;
pub(super) const PING: u16 = 6;
pub(super) const GOAWAY: u16 = 7;
pub(super) const HEADERS: u16 = 8;
pub(super) const WINDOW_UPDATE: u16 = 9;

/// Status code of a reset stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetStatus(pub u32);

impl ResetStatus {
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: ResetStatus = ResetStatus(1);
    /// The stream is refused.
    pub const REFUSED_STREAM: ResetStatus = ResetStatus(3);
    /// The stream is no longer needed.
    pub const CANCEL: ResetStatus = ResetStatus(5);
}

/// A received frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// A piece of a stream's data: frames are not buffered. `fin` is set with the last piece.
    #[allow(missing_docs)]
    Data { stream: u32, bytes: &'a [u8], fin: bool },
    /// Opens a stream.
    #[allow(missing_docs)]
    SynStream { stream: u32, headers: HeaderMap, fin: bool },
    /// Accepts a stream.
    #[allow(missing_docs)]
    SynReply { stream: u32, fin: bool },
    /// Ends a stream in both directions.
    #[allow(missing_docs)]
    RstStream { stream: u32, status: ResetStatus },
    /// A ping or its reply: IDs are odd for pings of clients.
    #[allow(missing_docs)]
    Ping { id: u32 },
    /// Ends the connection.
    #[allow(missing_docs)]
    GoAway { last_good: u32 },
    /// Further headers of a stream, which Kubernetes does not use.
    #[allow(missing_docs)]
    Headers { stream: u32, fin: bool },
    /// `SETTINGS` or `WINDOW_UPDATE`, which Kubernetes does not use: there is no flow control.
    Ignored,
}

/// Head of a data frame.
pub(super) fn data_head(stream: u32, fin: bool, length: usize) -> [u8; HEAD] {
    head(stream & MAX_STREAM, if fin { FLAG_FIN } else { 0 }, length)
}

pub(super) fn rst_stream(stream: u32, status: ResetStatus, out: &mut BytesMut) {
    control(RST_STREAM, &[&stream.to_be_bytes(), &status.0.to_be_bytes()], out);
}

pub(super) fn ping(id: u32, out: &mut BytesMut) {
    control(PING, &[&id.to_be_bytes()], out);
}

pub(super) fn goaway(last_good: u32, out: &mut BytesMut) {
    const OK: [u8; 4] = [0; 4];
    control(GOAWAY, &[&last_good.to_be_bytes(), &OK], out);
}

/// Writes SYN_STREAM; `None` if the headers are too large.
pub(super) fn syn_stream(
    stream: u32,
    headers: &HeaderMap,
    deflater: &mut Deflater,
    out: &mut BytesMut,
) -> Option<()> {
    // No parent, the highest priority, no certificate slot: peers ignore them.
    const REST: [u8; 6] = [0; 6];
    let headers = deflater.write(headers)?;
    control(SYN_STREAM, &[&stream.to_be_bytes(), &REST, &headers], out);
    Some(())
}

pub(super) fn syn_reply(stream: u32, deflater: &mut Deflater, out: &mut BytesMut) {
    let headers = deflater.write(&HeaderMap::new()).unwrap_or_default();
    control(SYN_REPLY, &[&stream.to_be_bytes(), &headers], out);
}

fn control(kind: u16, parts: &[&[u8]], out: &mut BytesMut) {
    let first = CONTROL | u32::from(VERSION) << 16 | u32::from(kind);
    let length = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&head(first, 0, length));
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn head(first: u32, flags: u8, length: usize) -> [u8; HEAD] {
    let [a, b, c, d] = first.to_be_bytes();
    let [_, e, f, g] = (length as u32).to_be_bytes();
    [a, b, c, d, flags, e, f, g]
}
