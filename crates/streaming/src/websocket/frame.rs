//! WebSocket frames.

use bytes::BytesMut;

/// Maximum payload of a ping, pong or close frame.
pub const MAX_CONTROL: usize = 125;

/// Types of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Opcode {
    Continuation = 0x0,
    Text = 0x1,
    Binary = 0x2,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xa,
}

impl Opcode {
    pub(super) fn of(number: u8) -> Option<Self> {
        use Opcode::*;
        [Continuation, Text, Binary, Close, Ping, Pong].into_iter().find(|op| *op as u8 == number)
    }

    pub(super) fn is_control(self) -> bool {
        self as u8 & 0x8 != 0
    }
}

/// Role of an endpoint: clients mask their frames, servers do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Role {
    Server,
    Client,
}

/// Close code of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// Normal closure.
    pub const NORMAL: CloseCode = CloseCode(1000);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// A close frame had no code. Never sent.
    pub const NO_STATUS: CloseCode = CloseCode(1005);
    /// The close reason is not UTF-8.
    pub const INVALID_DATA: CloseCode = CloseCode(1007);
    /// A message is too large.
    pub const TOO_BIG: CloseCode = CloseCode(1009);

    /// Whether a peer may send it (RFC 6455, 7.4).
    pub(super) fn may_be_sent(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

/// Violation of the protocol by the peer, with the close code for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("WebSocket {what}")]
pub struct Violation {
    /// Close code sent to the peer.
    pub code: CloseCode,
    /// Description of the violation.
    pub what: &'static str,
}

/// Appends a frame that is a whole message, of two parts, as a server sends it. The first part is a prefix of the
/// payload, such as a channel number.
///
/// ```
/// use kevel_streaming::websocket::{Opcode, write_frame};
/// let mut out = bytes::BytesMut::new();
/// write_frame(Opcode::Binary, &[1], b"hi", &mut out);
/// assert_eq!(&out[..], b"\x82\x03\x01hi");
/// ```
pub fn write_frame(opcode: Opcode, before: &[u8], payload: &[u8], out: &mut BytesMut) {
    write_head(opcode, before.len() + payload.len(), 0, out);
    out.extend_from_slice(before);
    out.extend_from_slice(payload);
}

/// Appends a masked frame, as a client sends it.
pub(super) fn write_masked(
    opcode: Opcode,
    mask: [u8; 4],
    before: &[u8],
    payload: &[u8],
    out: &mut BytesMut,
) {
    const MASKED: u8 = 0x80;
    write_head(opcode, before.len() + payload.len(), MASKED, out);
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(before);
    out.extend_from_slice(payload);
    unmask(&mut out[start..], mask, 0);
}

fn write_head(opcode: Opcode, length: usize, masked: u8, out: &mut BytesMut) {
    const LAST: u8 = 0x80;
    let first = LAST | opcode as u8;
    match length {
        0..=125 => out.extend_from_slice(&[first, masked | length as u8]),
        126..=0xffff => {
            out.extend_from_slice(&[first, masked | 126]);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.extend_from_slice(&[first, masked | 127]);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Applies or removes a mask on a part of a payload that begins at `offset`.
pub(super) fn unmask(part: &mut [u8], mut mask: [u8; 4], offset: usize) {
    mask.rotate_left(offset % 4);
    // Eight bytes at a time: for most copied data this is the only work.
    let [a, b, c, d] = mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = part.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    rest.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}
