//! Channels: several streams in the messages of one WebSocket (upstream: remotecommand subprotocols). A message begins
//! with its channel's number; the subprotocol determines the encoding.

use kevel_codec::base64;

use crate::websocket::{Opcode, Socket};

/// Channel of stdin. The numbers are those of a command's file descriptors, and two more.
pub const STDIN: u8 = 0;
/// Channel of stdout.
pub const STDOUT: u8 = 1;
/// Channel of stderr.
pub const STDERR: u8 = 2;
/// Error channel: the command's result, a `Status` from v4 on, before that a text.
pub const ERROR: u8 = 3;
/// Resize channel: sizes of the terminal, as consecutive JSON objects.
pub const RESIZE: u8 = 4;
/// Number of channels.
pub const CHANNELS: u8 = 5;

/// In v5, in place of a channel number: the channel in the next byte has ended.
const CLOSE: u8 = 255;

/// A WebSocket subprotocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Name in `Sec-WebSocket-Protocol`; empty for clients that send none.
    pub name: &'static str,
    /// Whether messages are texts: the channel as a digit, the rest in base64.
    pub base64: bool,
    /// Whether the error channel carries a `Status`.
    pub status: bool,
    /// Whether a client can end one channel alone.
    pub close: bool,
}

/// No subprotocol: [`V1`] for clients that request none.
pub const NONE: Protocol = Protocol { name: "", base64: false, status: false, close: false };
/// `channel.k8s.io`
pub const V1: Protocol = Protocol { name: "channel.k8s.io", ..NONE };
/// `base64.channel.k8s.io`
pub const V1_BASE64: Protocol = Protocol { name: "base64.channel.k8s.io", base64: true, ..NONE };
/// `v4.channel.k8s.io`
pub const V4: Protocol = Protocol { name: "v4.channel.k8s.io", status: true, ..NONE };
/// `v4.base64.channel.k8s.io`
pub const V4_BASE64: Protocol = Protocol { name: "v4.base64.channel.k8s.io", base64: true, ..V4 };
/// `v5.channel.k8s.io`
pub const V5: Protocol = Protocol { name: "v5.channel.k8s.io", close: true, ..V4 };

/// Subprotocols that the API server translates; all others are passed on to the kubelet.
pub const TRANSLATED: &[Protocol] = &[V5];
/// Subprotocols of a kubelet.
pub const KUBELET: &[Protocol] = &[NONE, V1, V1_BASE64, V4, V4_BASE64];

impl Protocol {
    /// Sends a message on a channel.
    pub fn send<IO>(self, socket: &mut Socket<IO>, channel: u8, bytes: &[u8]) {
        match self.base64 {
            false => socket.send(Opcode::Binary, &[channel], bytes),
            true => {
                let digit = channel.wrapping_add(b'0');
                socket.send(Opcode::Text, &[digit], base64::encode(bytes).as_bytes());
            }
        }
    }

    /// Sends the end of a channel, which only v5 supports.
    pub fn send_end<IO>(self, socket: &mut Socket<IO>, channel: u8) {
        if self.close {
            socket.send(Opcode::Binary, &[CLOSE, channel], &[]);
        }
    }
}

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal<'a> {
    /// Data of a channel.
    Data(u8, &'a [u8]),
    /// End of a channel.
    End(u8),
}

/// A close signal without a channel or with an invalid one. The reference ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("close signal of {0} bytes, or for a channel that is not valid")]
pub struct BadClose(usize);

/// Demultiplexer of messages, which arrive in pieces and are not buffered.
#[derive(Debug)]
pub struct Demultiplexer {
    protocol: Protocol,
    message: Message,
}

#[derive(Debug)]
enum Message {
    /// The next byte is a channel's number.
    Begin,
    /// The message is a channel's. In base64, up to three digits wait for the fourth.
    Channel { channel: u8, digits: Vec<u8>, broken: bool },
    /// The message is a close signal.
    Close { length: usize, channel: u8 },
}

impl Demultiplexer {
    /// A demultiplexer for a subprotocol.
    pub fn new(protocol: Protocol) -> Self {
        Demultiplexer { protocol, message: Message::Begin }
    }

    /// Reads a piece of a message; `last` marks its end.
    ///
    /// ```
    /// use kevel_streaming::channel::{Demultiplexer, Signal, V5};
    /// let mut demultiplexer = Demultiplexer::new(V5);
    /// let mut heard = Vec::new();
    /// for (piece, last) in [("\0he", false), ("llo", true)] {
    ///     let each = |signal: Signal<'_>| heard.push(format!("{signal:?}"));
    ///     demultiplexer.read(piece.as_bytes(), last, each).unwrap();
    /// }
    /// assert_eq!(heard, ["Data(0, [104, 101])", "Data(0, [108, 108, 111])"]);
    /// ```
    pub fn read(
        &mut self,
        bytes: &[u8],
        last: bool,
        mut each: impl FnMut(Signal<'_>),
    ) -> Result<(), BadClose> {
        let mut bytes = bytes;
        if let (Message::Begin, Some((first, rest))) = (&self.message, bytes.split_first()) {
            self.message = self.begin(*first);
            bytes = rest;
        }
        match &mut self.message {
            // An empty message has no content.
            Message::Begin => {}
            Message::Close { length, channel } => {
                *length += bytes.len();
                *channel = bytes.last().copied().unwrap_or(*channel);
                if last && (*length != 2 || *channel >= CHANNELS) {
                    return Err(BadClose(*length));
                }
                if last {
                    each(Signal::End(*channel));
                }
            }
            Message::Channel { channel, .. } if *channel >= CHANNELS => {}
            Message::Channel { channel, .. } if !self.protocol.base64 => {
                if !bytes.is_empty() {
                    each(Signal::Data(*channel, bytes));
                }
            }
            Message::Channel { channel, digits, broken } => {
                // Data that cannot be decoded are dropped.
                match decode(digits, bytes, last).filter(|_| !*broken) {
                    Some((data, ended)) => {
                        *broken = ended;
                        if !data.is_empty() {
                            each(Signal::Data(*channel, &data));
                        }
                    }
                    None => *broken = true,
                }
            }
        }
        if last {
            self.message = Message::Begin;
        }
        Ok(())
    }

    fn begin(&self, first: u8) -> Message {
        if self.protocol.close && first == CLOSE {
            return Message::Close { length: 1, channel: CHANNELS };
        }
        let channel = if self.protocol.base64 { first.wrapping_sub(b'0') } else { first };
        Message::Channel { channel, digits: Vec::new(), broken: false }
    }
}

/// Decodes whole groups of base64 digits. Also returns whether they end with padding. Remaining digits wait for the
/// next piece.
fn decode(digits: &mut Vec<u8>, bytes: &[u8], last: bool) -> Option<(Vec<u8>, bool)> {
    digits.extend(bytes.iter().filter(|byte| !matches!(byte, b'\r' | b'\n')));
    let whole = if last { digits.len() } else { digits.len() / 4 * 4 };
    let rest = digits.split_off(whole);
    let group = std::mem::replace(digits, rest);
    let mut data = Vec::new();
    base64::decode_into(std::str::from_utf8(&group).ok()?, &mut data).ok()?;
    Some((data, group.ends_with(b"=")))
}
