//! A command's streams in a WebSocket, on the kubelet's side.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};

use super::command::Streams;
use crate::channel::{self, CHANNELS, Demultiplexer, Protocol, Signal};
use crate::chunk::{CHUNK, poll_chunk};
use crate::remote_command::Outcome;
use crate::websocket::{CloseCode, Received, Role, Socket};

/// Size of the pipe between a command and its channel.
const PIPE: usize = 64 << 10;

/// A WebSocket with channels.
pub(super) struct Channels<IO> {
    socket: Socket<IO>,
    protocol: Protocol,
    demultiplexer: Demultiplexer,
    inputs: [Option<Input>; CHANNELS as usize],
    outputs: [Option<DuplexStream>; CHANNELS as usize],
    /// The command's ends of the pipes.
    pub streams: Streams,
}

/// Data of the client on a channel, and the pipe to the command.
struct Input {
    pending: BytesMut,
    ended: bool,
    pipe: DuplexStream,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Channels<IO> {
    pub fn new(io: IO, protocol: Protocol) -> Self {
        let ((stdin, to_stdin), (resize, to_resize)) = (duplex(PIPE), duplex(PIPE));
        let ((from_stdout, stdout), (from_stderr, stderr)) = (duplex(PIPE), duplex(PIPE));
        let input = |pipe| Some(Input { pending: BytesMut::new(), ended: false, pipe });
        let mut channels = Channels {
            socket: Socket::new(io, Role::Server),
            protocol,
            demultiplexer: Demultiplexer::new(protocol),
            inputs: [input(to_stdin), None, None, None, input(to_resize)],
            outputs: [None, Some(from_stdout), Some(from_stderr), None, None],
            streams: Streams {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                resize: Box::new(resize),
            },
        };
        channels.send(channel::STDOUT, &[]);
        channels
    }

    fn send(&mut self, channel: u8, bytes: &[u8]) {
        self.protocol.send(&mut self.socket, channel, bytes);
    }

    /// Moves data until the client is gone.
    pub async fn drive(&mut self) {
        poll_fn(|context| self.poll(context)).await;
    }

    /// Sends the remaining output and the command's result, and closes.
    pub async fn end(mut self, outcome: &Outcome) {
        poll_fn(|context| match self.poll(context) {
            Poll::Pending if self.outputs.iter().any(Option::is_some) => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
        match (self.protocol.status, outcome) {
            (true, outcome) => self.send(channel::ERROR, &outcome.status()),
            (false, Outcome::Success) => {}
            (false, outcome) => self.send(channel::ERROR, format!("{outcome:?}").as_bytes()),
        }
        self.socket.close(CloseCode::NORMAL);
        let _ = poll_fn(|context| self.socket.poll_shutdown(context)).await;
        // Until the client has received it.
        poll_fn(|context| {
            loop {
                match self.socket.poll_receive(context, CHUNK, |_, _, _| {}) {
                    Poll::Ready(Ok(Ok(Received::Some))) => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let full = self.socket.is_full();
            let mut moved = self.poll_outputs(context);
            if let Poll::Ready(Err(_)) = self.socket.poll_flush(context) {
                return Poll::Ready(());
            }
            moved |= full != self.socket.is_full();
            if self.poll_inputs(context) {
                let Channels { socket, demultiplexer, inputs, .. } = self;
                let received = socket.poll_receive(context, CHUNK, |_, bytes, last| {
                    let _ = demultiplexer.read(bytes, last, |signal| match signal {
                        Signal::Data(channel, bytes) => {
                            if let Some(input) = &mut inputs[usize::from(channel)] {
                                input.pending.extend_from_slice(bytes);
                            }
                        }
                        Signal::End(channel) => {
                            if let Some(input) = &mut inputs[usize::from(channel)] {
                                input.ended = true;
                            }
                        }
                    });
                });
                match received {
                    Poll::Ready(Ok(Ok(Received::Some))) => moved = true,
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    fn poll_outputs(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        for channel in 0..CHANNELS {
            while let Some(pipe) = &mut self.outputs[usize::from(channel)] {
                if self.socket.is_full() {
                    break;
                }
                match poll_chunk(pipe, context, CHUNK, |_, bytes| bytes.to_vec()) {
                    Poll::Ready(Ok(bytes)) if !bytes.is_empty() => {
                        self.send(channel, &bytes);
                        moved = true;
                    }
                    Poll::Ready(_) => self.outputs[usize::from(channel)] = None,
                    Poll::Pending => break,
                }
            }
        }
        moved
    }

    /// Writes the client's data to the command. Returns whether all were written.
    fn poll_inputs(&mut self, context: &mut Context<'_>) -> bool {
        let mut empty = true;
        for slot in self.inputs.iter_mut() {
            while let Some(input) = slot {
                if input.pending.is_empty() && !input.ended {
                    break;
                }
                if input.pending.is_empty() {
                    *slot = None;
                    break;
                }
                match Pin::new(&mut input.pipe).poll_write(context, &input.pending) {
                    Poll::Ready(Ok(count)) if count > 0 => drop(input.pending.split_to(count)),
                    Poll::Ready(_) => *slot = None,
                    Poll::Pending => {
                        empty = false;
                        break;
                    }
                }
            }
        }
        empty
    }
}
