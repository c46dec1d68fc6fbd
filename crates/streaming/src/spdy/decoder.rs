//! Decoder of SPDY frames from bytes in arbitrary pieces.

use super::error::Error;
use super::frame::{self, CONTROL, FLAG_FIN, Frame, HEAD, MAX_STREAM, ResetStatus, VERSION};
use super::headers::Inflater;

/// Maximum size of a control frame, which is buffered as a whole.
pub const MAX_CONTROL_FRAME: usize = 16 << 10;

/// Decoder of frames. Does no I/O and buffers no data: they are returned as they come.
///
/// ```
/// use kevel_streaming::spdy::{Decoder, Frame};
/// let mut decoder = Decoder::default();
/// let mut bytes: &[u8] = b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x02\0\0\0\x01\x01\0\0\x02hi";
/// assert_eq!(decoder.next(&mut bytes).unwrap(), Some(Frame::Ping { id: 2 }));
/// let data = Frame::Data { stream: 1, bytes: b"hi", fin: true };
/// assert_eq!(decoder.next(&mut bytes).unwrap(), Some(data));
/// assert_eq!(decoder.next(&mut bytes).unwrap(), None);
/// ```
#[derive(Default)]
pub struct Decoder {
    state: State,
    inflater: Inflater,
}

enum State {
    /// Bytes of a frame's head so far.
    Head { bytes: [u8; HEAD], filled: usize },
    /// Data of a stream follow.
    Data { stream: u32, fin: bool, left: usize },
    /// The rest of a control frame follows.
    Control { kind: u16, flags: u8, length: usize, body: Vec<u8> },
}

impl Default for State {
    fn default() -> Self {
        State::Head { bytes: [0; HEAD], filled: 0 }
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("spdy::Decoder")
    }
}

impl Decoder {
    /// The next frame or piece of data; advances the input. `None` if the input ends before. An error is final.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Frame<'a>>, Error> {
        loop {
            match &mut self.state {
                State::Head { bytes, filled } => {
                    let part = take(input, HEAD - *filled);
                    bytes[*filled..*filled + part.len()].copy_from_slice(part);
                    *filled += part.len();
                    if *filled < HEAD {
                        return Ok(None);
                    }
                    self.state = begin(*bytes)?;
                }
                State::Data { left, .. } if *left > 0 && input.is_empty() => return Ok(None),
                State::Data { stream, fin, left } => {
                    let (stream, bytes) = (*stream, take(input, *left));
                    *left -= bytes.len();
                    let last = *left == 0;
                    let fin = *fin && last;
                    if last {
                        self.state = State::default();
                    }
                    return Ok(Some(Frame::Data { stream, bytes, fin }));
                }
                State::Control { length, body, .. } => {
                    body.extend_from_slice(take(input, *length - body.len()));
                    if body.len() < *length {
                        return Ok(None);
                    }
                    let State::Control { kind, flags, body, .. } = std::mem::take(&mut self.state)
                    else {
                        return Ok(None);
                    };
                    return self.control(kind, flags, &body).map(Some);
                }
            }
        }
    }

    fn control(&mut self, kind: u16, flags: u8, body: &[u8]) -> Result<Frame<'static>, Error> {
        let fin = flags & FLAG_FIN != 0;
        match kind {
            frame::SYN_STREAM => {
                let (stream, rest) = stream_of(body)?;
                // A parent, a priority and a slot, which Kubernetes does not use.
                let (_, compressed) = rest.split_first_chunk::<6>().ok_or(INVALID)?;
                let headers = self.inflater.read(compressed)?;
                Ok(Frame::SynStream { stream, headers, fin })
            }
            frame::SYN_REPLY => {
                let (stream, compressed) = stream_of(body)?;
                self.inflater.read(compressed)?;
                Ok(Frame::SynReply { stream, fin })
            }
            frame::HEADERS => {
                let (stream, compressed) = stream_of(body)?;
                self.inflater.read(compressed)?;
                Ok(Frame::Headers { stream, fin })
            }
            frame::RST_STREAM => {
                let (stream, status) = stream_of(body)?;
                match u32::from_be_bytes(exactly(status)?) {
                    0 => Err(INVALID),
                    status => Ok(Frame::RstStream { stream, status: ResetStatus(status) }),
                }
            }
            frame::PING => match u32::from_be_bytes(exactly(body)?) {
                0 => Err(Error::Protocol("stream id zero is disallowed")),
                _ if flags != 0 => Err(INVALID),
                id => Ok(Frame::Ping { id }),
            },
            frame::GOAWAY => {
                let [a, b, c, d, ..]: [u8; 8] = exactly(body)?;
                match flags {
                    0 => Ok(Frame::GoAway { last_good: u32::from_be_bytes([a, b, c, d]) }),
                    _ => Err(INVALID),
                }
            }
            frame::SETTINGS => {
                let (count, settings) = body.split_first_chunk().ok_or(INVALID)?;
                match u32::from_be_bytes(*count) as usize > settings.len() / 8 {
                    true => Err(INVALID),
                    false => Ok(Frame::Ignored),
                }
            }
            frame::WINDOW_UPDATE => exactly::<8>(body).map(|_| Frame::Ignored),
            _ => Err(INVALID),
        }
    }
}

const INVALID: Error = Error::Protocol("invalid control frame");

/// State after a frame's head.
fn begin(bytes: [u8; HEAD]) -> Result<State, Error> {
    let [a, b, c, d, flags, e, f, g] = bytes;
    let first = u32::from_be_bytes([a, b, c, d]);
    let length = u32::from_be_bytes([0, e, f, g]) as usize;
    if first & CONTROL == 0 {
        return match first {
            0 => Err(Error::Protocol("stream id zero is disallowed")),
            stream => Ok(State::Data { stream, fin: flags & FLAG_FIN != 0, left: length }),
        };
    }
    let (version, kind) = ((first >> 16) as u16 & 0x7fff, first as u16);
    if version != VERSION {
        return Err(Error::Protocol("unsupported version"));
    }
    if length > MAX_CONTROL_FRAME {
        return Err(INVALID);
    }
    Ok(State::Control { kind, flags, length, body: Vec::new() })
}

/// Stream ID of a control frame, and the rest of its body.
fn stream_of(body: &[u8]) -> Result<(u32, &[u8]), Error> {
    let (stream, rest) = body.split_first_chunk().ok_or(INVALID)?;
    match u32::from_be_bytes(*stream) & MAX_STREAM {
        0 => Err(Error::Protocol("stream id zero is disallowed")),
        stream => Ok((stream, rest)),
    }
}

fn exactly<const N: usize>(body: &[u8]) -> Result<[u8; N], Error> {
    body.try_into().map_err(|_| INVALID)
}

/// Takes up to `count` bytes of the input.
fn take<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    taken
}
