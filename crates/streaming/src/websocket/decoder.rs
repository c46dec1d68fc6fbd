//! Decoder of WebSocket frames from bytes in arbitrary pieces.

use super::frame::{CloseCode, MAX_CONTROL, Opcode, Role, Violation, unmask};

/// Maximum message size, the reference's. Data are returned in pieces, so that a message costs no memory.
pub const MAX_MESSAGE: u64 = 32 << 20;

/// A received event.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A piece of a message; `last` marks its end. Messages are not buffered.
    #[allow(missing_docs)]
    Data { text: bool, bytes: &'a [u8], last: bool },
    /// A ping, to be answered with a pong of the same payload.
    Ping(Vec<u8>),
    /// Reply to a ping.
    Pong,
    /// A close frame.
    Close(CloseCode),
}

/// Decoder of frames. Does no I/O and buffers only control frames; masks are removed in place.
///
/// ```
/// use kevel_streaming::websocket::{Decoder, Event, Role};
/// let mut decoder = Decoder::new(Role::Client);
/// let mut bytes: &mut [u8] = &mut b"\x82\x02hi".to_owned();
/// let message = Event::Data { text: false, bytes: b"hi", last: true };
/// assert_eq!(decoder.next(&mut bytes), Ok(Some(message)));
/// assert_eq!(decoder.next(&mut bytes), Ok(None));
/// ```
#[derive(Debug)]
pub struct Decoder {
    role: Role,
    head: [u8; MAX_HEAD],
    filled: usize,
    frame: Option<Frame>,
    /// The unfinished message: whether it is text, and its length so far.
    message: Option<(bool, u64)>,
    control: Vec<u8>,
}

/// Maximum length of a frame's head: two bytes, a length of eight, a mask.
const MAX_HEAD: usize = 14;

#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: Opcode,
    last: bool,
    mask: [u8; 4],
    length: u64,
    read: u64,
}

impl Decoder {
    /// A decoder for the given own role.
    pub fn new(role: Role) -> Self {
        let head = [0; MAX_HEAD];
        Decoder { role, head, filled: 0, frame: None, message: None, control: Vec::new() }
    }

    /// The next event; advances the input. `None` if the input ends before. A violation is final.
    pub fn next<'a>(&mut self, input: &mut &'a mut [u8]) -> Result<Option<Event<'a>>, Violation> {
        loop {
            let Some(frame) = &mut self.frame else {
                if !self.fill_head(input)? {
                    return Ok(None);
                }
                continue;
            };
            if input.is_empty() && frame.read < frame.length {
                return Ok(None);
            }
            let left = usize::try_from(frame.length - frame.read).unwrap_or(usize::MAX);
            let part = take(input, left);
            unmask(part, frame.mask, (frame.read % 4) as usize);
            frame.read += part.len() as u64;
            let frame = *frame;
            let ended = frame.read == frame.length;
            if ended {
                self.frame = None;
            }
            if !frame.opcode.is_control() {
                let last = ended && frame.last;
                let text = self.message.is_some_and(|(text, _)| text);
                if last {
                    self.message = None;
                }
                // An empty frame in the middle of a message has no content.
                if part.is_empty() && !last {
                    continue;
                }
                return Ok(Some(Event::Data { text, bytes: part, last }));
            }
            self.control.extend_from_slice(part);
            if ended {
                let payload = std::mem::take(&mut self.control);
                return control(frame.opcode, payload).map(Some);
            }
        }
    }

    /// Reads the head of a frame. Returns whether it is complete.
    fn fill_head(&mut self, input: &mut &mut [u8]) -> Result<bool, Violation> {
        loop {
            let needed = self.needed();
            if self.filled == needed {
                break;
            }
            let part = take(input, needed - self.filled);
            if part.is_empty() {
                return Ok(false);
            }
            self.head[self.filled..self.filled + part.len()].copy_from_slice(part);
            self.filled += part.len();
        }
        let frame = self.begin()?;
        self.filled = 0;
        self.frame = Some(frame);
        Ok(true)
    }

    fn needed(&self) -> usize {
        let [_, second, ..] = self.head;
        if self.filled < 2 {
            return 2;
        }
        let length = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if second & 0x80 != 0 { 4 } else { 0 }
    }

    fn begin(&mut self) -> Result<Frame, Violation> {
        let [first, second, rest @ ..] = self.head;
        let [a, b, c, d, e, f, g, h, ..] = rest;
        let (length, mask_at) = match second & 0x7f {
            126 => (u64::from(u16::from_be_bytes([a, b])), 2),
            127 => (u64::from_be_bytes([a, b, c, d, e, f, g, h]), 8),
            length => (u64::from(length), 0),
        };
        let masked = second & 0x80 != 0;
        if masked != (self.role == Role::Server) {
            return Err(violation("frame is not masked as it must be"));
        }
        if first & 0x70 != 0 {
            return Err(violation("frame is of an extension that was not negotiated"));
        }
        let opcode = Opcode::of(first & 0x0f).ok_or(violation("frame is of an unknown kind"))?;
        let last = first & 0x80 != 0;
        if opcode.is_control() {
            if !last || length > MAX_CONTROL as u64 {
                return Err(violation("control frame is too long"));
            }
        } else {
            self.count(opcode, length)?;
        }
        let mask = match masked {
            true => [rest[mask_at], rest[mask_at + 1], rest[mask_at + 2], rest[mask_at + 3]],
            false => [0; 4],
        };
        Ok(Frame { opcode, last, mask, length, read: 0 })
    }

    /// Starts or continues a message.
    fn count(&mut self, opcode: Opcode, length: u64) -> Result<(), Violation> {
        let (text, before) = match (opcode, self.message) {
            (Opcode::Continuation, Some(message)) => message,
            (Opcode::Continuation, None) => {
                return Err(violation("frame continues what has not begun"));
            }
            (_, Some(_)) => return Err(violation("message begins inside of another")),
            (_, None) => (opcode == Opcode::Text, 0),
        };
        let length = before.saturating_add(length);
        if length > MAX_MESSAGE {
            return Err(Violation { code: CloseCode::TOO_BIG, what: "message is too large" });
        }
        self.message = Some((text, length));
        Ok(())
    }
}

fn control(opcode: Opcode, payload: Vec<u8>) -> Result<Event<'static>, Violation> {
    match opcode {
        Opcode::Ping => Ok(Event::Ping(payload)),
        Opcode::Close => close(&payload).map(Event::Close),
        _ => Ok(Event::Pong),
    }
}

fn close(payload: &[u8]) -> Result<CloseCode, Violation> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(CloseCode::NO_STATUS),
            _ => Err(violation("close frame is too short")),
        };
    };
    let code = CloseCode(u16::from_be_bytes(*code));
    if !code.may_be_sent() {
        return Err(violation("close frame has a bad code"));
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(code),
        Err(_) => Err(Violation { code: CloseCode::INVALID_DATA, what: "reason is not text" }),
    }
}

fn violation(what: &'static str) -> Violation {
    Violation { code: CloseCode::PROTOCOL_ERROR, what }
}

/// Takes up to `count` bytes of the input.
fn take<'a>(input: &mut &'a mut [u8], count: usize) -> &'a mut [u8] {
    let count = count.min(input.len());
    let (taken, rest) = std::mem::take(input).split_at_mut(count);
    *input = rest;
    taken
}
