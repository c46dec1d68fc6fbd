//! Clients of a kubelet, or of an API server in front of one.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header, response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::port_forward;
use crate::channel::{self, CHANNELS, Demultiplexer, Protocol, Signal};
use crate::remote_command::{STREAM_TYPE, VERSIONS, stream_type};
use crate::spdy::{self, Connection, Stream};
use crate::translator::Options;
use crate::upgrade::Rewound;
use crate::upgrade::backend::{Answer, handshake, spdy_request};
use crate::upgrade::websocket::accept_key;
use crate::websocket::{CloseCode, Received, Role, Socket};

/// Key of all WebSocket requests: the RFC's example.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// Requests an upgrade; any other response is an error that shows it.
async fn ask<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    request: &Request<()>,
) -> io::Result<(response::Parts, Rewound<IO>)> {
    match handshake(io, request).await.map_err(io::Error::other)? {
        Answer::Switched(parts, io) => Ok((parts, io)),
        Answer::Refused(answer) => Err(io::Error::other(shown(&answer))),
    }
}

fn shown(answer: &Response<bytes::Bytes>) -> String {
    format!("{}: {}", answer.status().as_u16(), String::from_utf8_lossy(answer.body()).trim())
}

/// A command's streams over SPDY. A task drives the connection.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct SpdyCommand {
    pub connection: Connection,
    pub driver: JoinHandle<Result<(), spdy::Error>>,
    pub error: Stream,
    pub stdin: Option<Stream>,
    pub stdout: Option<Stream>,
    pub stderr: Option<Stream>,
    pub resize: Option<Stream>,
}

/// Requests a command over SPDY.
pub async fn spdy_command<IO>(io: IO, target: Uri, options: Options) -> io::Result<SpdyCommand>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (_, io) = ask(io, &spdy_request(target, &VERSIONS)).await?;
    let (connection, driver) = spdy::client(io);
    let driver = tokio::spawn(driver);
    let open = async |name: &'static str, wanted: bool| {
        if !wanted {
            return Ok(None);
        }
        let mut headers = HeaderMap::new();
        headers.insert(STREAM_TYPE, HeaderValue::from_static(name));
        let stream = connection.create_stream(&headers).map_err(io::Error::other)?;
        stream.opened().await.map_err(io::Error::other)?;
        Ok::<_, io::Error>(Some(stream))
    };
    let error = open(stream_type::ERROR, true).await?.ok_or(io::ErrorKind::Other)?;
    let stdin = open(stream_type::STDIN, options.stdin).await?;
    let stdout = open(stream_type::STDOUT, options.stdout).await?;
    let stderr = open(stream_type::STDERR, options.stderr && !options.tty).await?;
    let resize = open(stream_type::RESIZE, options.tty).await?;
    Ok(SpdyCommand { connection, driver, error, stdin, stdout, stderr, resize })
}

/// Port forwarding over SPDY, on an upgraded connection.
#[derive(Debug)]
pub struct PortForward {
    connection: Connection,
    driver: JoinHandle<Result<(), spdy::Error>>,
    next: u32,
}

impl PortForward {
    /// Starts port forwarding on a connection.
    pub fn new<IO>(io: IO) -> Self
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (connection, driver) = spdy::client(io);
        PortForward { connection, driver: tokio::spawn(driver), next: 0 }
    }

    /// Connects to a port. Returns the data stream and the error stream.
    pub async fn connect(&mut self, port: u16) -> io::Result<(Stream, Stream)> {
        self.next += 1;
        let open = async |kind| {
            let headers = port_forward::headers(kind, port, self.next);
            let stream = self.connection.create_stream(&headers).map_err(io::Error::other)?;
            stream.opened().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(stream)
        };
        let error = open(port_forward::ERROR).await?;
        error.finish();
        Ok((open(port_forward::DATA).await?, error))
    }

    /// Closes the connection. Returns the driver's result.
    pub async fn close(self) -> Result<(), spdy::Error> {
        self.connection.close();
        self.driver.await.unwrap_or(Err(spdy::Error::Lost))
    }
}

/// Requests a WebSocket with subprotocols. Returns the chosen one.
pub async fn websocket<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    target: Uri,
    protocols: &str,
) -> io::Result<(String, Socket<Rewound<IO>>)> {
    let mut request = Request::new(());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = target;
    let headers = request.headers_mut();
    for (name, value) in [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
        (header::SEC_WEBSOCKET_KEY, KEY),
        (header::SEC_WEBSOCKET_PROTOCOL, protocols),
    ] {
        if !value.is_empty() {
            headers.insert(name, HeaderValue::from_str(value).map_err(io::Error::other)?);
        }
    }
    let (parts, io) = ask(io, &request).await?;
    let text = |name| {
        let value = parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    if text(header::SEC_WEBSOCKET_ACCEPT) != accept_key(KEY) {
        return Err(io::Error::other("wrong Sec-WebSocket-Accept"));
    }
    Ok((text(header::SEC_WEBSOCKET_PROTOCOL), Socket::new(io, Role::Client)))
}

/// A command over a WebSocket with channels.
#[derive(Debug)]
pub struct WebSocketCommand<IO> {
    socket: Socket<IO>,
    protocol: Protocol,
    demultiplexer: Demultiplexer,
    heard: [Vec<u8>; CHANNELS as usize],
}

impl<IO: AsyncRead + AsyncWrite + Unpin> WebSocketCommand<IO> {
    /// Starts on a WebSocket with an agreed subprotocol.
    pub fn new(socket: Socket<IO>, protocol: Protocol) -> Self {
        let demultiplexer = Demultiplexer::new(Protocol { close: false, ..protocol });
        WebSocketCommand { socket, protocol, demultiplexer, heard: Default::default() }
    }

    /// Data received on a channel so far.
    pub fn heard(&self, channel: u8) -> &[u8] {
        &self.heard[usize::from(channel)]
    }

    /// Drops the data received so far.
    pub fn forget(&mut self) {
        self.heard = Default::default();
    }

    /// Sends data on a channel.
    pub async fn say(&mut self, channel: u8, bytes: &[u8]) -> io::Result<()> {
        self.protocol.send(&mut self.socket, channel, bytes);
        poll_fn(|context| self.socket.poll_flush(context)).await
    }

    /// Closes the connection.
    pub async fn close(&mut self, code: CloseCode) -> io::Result<()> {
        self.socket.close(code);
        poll_fn(|context| self.socket.poll_flush(context)).await
    }

    /// Sends bytes that need not be a frame.
    pub async fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send_raw(bytes);
        poll_fn(|context| self.socket.poll_flush(context)).await
    }

    /// Ends stdin, in v5.
    pub async fn end_stdin(&mut self) -> io::Result<()> {
        self.protocol.send_end(&mut self.socket, channel::STDIN);
        poll_fn(|context| self.socket.poll_flush(context)).await
    }

    /// Sends `stdin` and receives concurrently until the server closes the connection, or `enough` was received.
    /// Returns the close code; `None` if the connection ended without a close frame.
    pub async fn converse(
        &mut self,
        mut stdin: &[u8],
        enough: impl Fn(&[Vec<u8>]) -> bool,
    ) -> io::Result<Option<CloseCode>> {
        const MESSAGE: usize = 32 << 10;
        poll_fn(|context| {
            loop {
                while !stdin.is_empty() && !self.socket.is_full() {
                    let (message, rest) = stdin.split_at(stdin.len().min(MESSAGE));
                    self.protocol.send(&mut self.socket, channel::STDIN, message);
                    stdin = rest;
                    if stdin.is_empty() {
                        self.protocol.send_end(&mut self.socket, channel::STDIN);
                    }
                }
                let full = self.socket.is_full();
                let _ = self.socket.poll_flush(context)?;
                let WebSocketCommand { socket, demultiplexer, heard, .. } = self;
                let received = socket.poll_receive(context, MESSAGE, |_, bytes, last| {
                    let _ = demultiplexer.read(bytes, last, |signal| {
                        if let Signal::Data(channel, bytes) = signal {
                            heard[usize::from(channel)].extend_from_slice(bytes);
                        }
                    });
                });
                match received {
                    Poll::Ready(received) => match received? {
                        Ok(Received::Some) if enough(heard) => return Poll::Ready(Ok(None)),
                        Ok(Received::Some) => {}
                        Ok(Received::Closed(code)) => return Poll::Ready(Ok(Some(code))),
                        Ok(Received::Gone) => return Poll::Ready(Ok(None)),
                        Err(violation) => return Poll::Ready(Err(io::Error::other(violation))),
                    },
                    Poll::Pending if full && !self.socket.is_full() => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }
}
