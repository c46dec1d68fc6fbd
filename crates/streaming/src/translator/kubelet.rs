//! The kubelet's side of the translator.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::Client;
use super::{Options, PING_PERIOD};
use crate::channel;
use crate::rate::{Meter, Rate};
use crate::remote_command::{Outcome, STREAM_TYPE, Version, stream_type};
use crate::spdy::{self, Connection, CreateError, Driver, Ending, MAX_DATA, Stream};

/// Maximum size of the error stream's content: a `Status`, whose message has a line or two.
pub const MAX_STATUS: usize = 64 << 10;

/// A connection to a kubelet, with a command's streams.
pub(super) struct Kubelet<K> {
    version: Version,
    connection: Connection,
    driver: Driver<K>,
    /// Result of the connection, if it has ended.
    driven: Option<Result<(), spdy::Error>>,
    refused: Option<CreateError>,
    error: Option<Stream>,
    message: Vec<u8>,
    stdin: Option<Stream>,
    /// Whether the kubelet has ended its side of stdin, on which it never sends data.
    stdin_closed: bool,
    resize: Option<Stream>,
    outputs: Vec<Output>,
}

/// An output stream of the command.
struct Output {
    stream: Stream,
    channel: u8,
    meter: Option<Meter>,
    ended: bool,
}

impl<K: AsyncRead + AsyncWrite + Unpin> Kubelet<K> {
    /// Opens all streams.
    pub fn new(io: K, version: Version, options: Options, rate: Option<Rate>) -> Self {
        let (connection, driver) = spdy::client(io);
        let mut kubelet = Kubelet {
            version,
            connection,
            driver: driver.with_pings(PING_PERIOD),
            driven: None,
            refused: None,
            error: None,
            message: Vec::new(),
            stdin: None,
            stdin_closed: false,
            resize: None,
            outputs: Vec::new(),
        };
        kubelet.error = kubelet.create(stream_type::ERROR, true);
        kubelet.stdin = kubelet.create(stream_type::STDIN, options.stdin);
        let outputs = [
            (stream_type::STDOUT, channel::STDOUT, options.stdout),
            (stream_type::STDERR, channel::STDERR, options.stderr && !options.tty),
        ];
        for (name, channel, wanted) in outputs {
            if let Some(stream) = kubelet.create(name, wanted) {
                let meter = rate.map(Meter::new);
                kubelet.outputs.push(Output { stream, channel, meter, ended: false });
            }
        }
        let resize = options.tty && version >= Version::V3;
        kubelet.resize = kubelet.create(stream_type::RESIZE, resize);
        kubelet
    }

    fn create(&mut self, name: &'static str, wanted: bool) -> Option<Stream> {
        if !wanted {
            return None;
        }
        let mut headers = HeaderMap::new();
        headers.insert(STREAM_TYPE, HeaderValue::from_static(name));
        let created = self.connection.create_stream(&headers);
        created.map_err(|error| self.refused = Some(error)).ok()
    }

    /// Whether the kubelet has accepted all streams.
    pub fn poll_opened(&mut self, context: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.poll_drive(context);
        if let Some(error) = self.refused {
            return Poll::Ready(Err(error.to_string()));
        }
        let single = [&self.error, &self.stdin, &self.resize].into_iter().flatten();
        for stream in single.chain(self.outputs.iter().map(|output| &output.stream)) {
            if let Err(error) = ready!(stream.poll_opened(context)) {
                return Poll::Ready(Err(error.to_string()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads and writes the connection.
    pub fn poll_drive(&mut self, context: &mut Context<'_>) {
        if self.driven.is_none()
            && let Poll::Ready(ended) = Pin::new(&mut self.driver).poll(context)
        {
            self.driven = Some(ended);
        }
    }

    pub fn stdin(&self) -> Option<&Stream> {
        self.stdin.as_ref()
    }

    pub fn resize(&self) -> Option<&Stream> {
        self.resize.as_ref()
    }

    /// Sends output to the client, as much as it accepts. Returns whether there was any.
    pub fn poll_output<C>(&mut self, client: &mut Client<C>, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        for output in &mut self.outputs {
            while !output.ended && !client.is_full() {
                let wanted = match &mut output.meter {
                    Some(meter) => meter.poll_allowed(MAX_DATA, context),
                    None => Poll::Ready(MAX_DATA),
                };
                let Poll::Ready(wanted) = wanted else { break };
                match output.stream.poll_chunk(wanted, context) {
                    Poll::Ready(Some(bytes)) => {
                        client.send(output.channel, &bytes);
                        if let Some(meter) = &mut output.meter {
                            meter.spend(bytes.len());
                        }
                        moved = true;
                    }
                    Poll::Ready(None) => output.ended = true,
                    Poll::Pending => break,
                }
            }
        }
        self.poll_error(context);
        moved
    }

    fn poll_error(&mut self, context: &mut Context<'_>) {
        let Some(error) = &self.error else { return };
        while let Poll::Ready(Some(bytes)) = error.poll_chunk(MAX_DATA, context) {
            let room = MAX_STATUS - self.message.len();
            self.message.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Ends stdin when the kubelet does: the command reads no more.
    pub fn poll_stdin_closed(&mut self, context: &mut Context<'_>) {
        let Some(stdin) = self.stdin.as_ref().filter(|_| !self.stdin_closed) else { return };
        while let Poll::Ready(read) = stdin.poll_chunk(MAX_DATA, context) {
            if read.is_none() {
                stdin.finish();
                self.stdin_closed = true;
                return;
            }
        }
    }

    /// Result of the command, once all output was sent to the client.
    pub fn outcome(&self) -> Option<Outcome> {
        let ending = self.error.as_ref().map_or(Some(Ending::Lost), Stream::ending)?;
        if !self.outputs.iter().all(|output| output.ended) {
            return None;
        }
        // The reference takes a broken connection for success.
        if ending == Ending::Lost && self.message.is_empty() {
            let why = match &self.driven {
                Some(Err(error)) if !matches!(error, spdy::Error::Lost) => error.to_string(),
                _ => "unexpected EOF".to_owned(),
            };
            return Some(Outcome::Failure(format!("error reading from error stream: {why}")));
        }
        Some(self.version.outcome(&self.message))
    }

    /// Resets the streams and closes the connection.
    pub async fn close(&mut self) {
        self.connection.close();
        poll_fn(|context| {
            self.poll_drive(context);
            if self.driven.is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
