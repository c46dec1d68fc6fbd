//! konnectivity tunnels: a gRPC connection to the proxy server for each proxied connection.
//!
//! The protocol has neither half-closed connections nor flow control: a proxy server forwards an agent's packet before
//! it reads the next one, for all connections of that agent. So a connection whose reader is too slow is closed
//! ([`READ_TIMEOUT`]), as in the reference.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{PathAndQuery, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{
    AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::dialer::DIAL_TIMEOUT;
use super::failure;
use super::proto::{CloseDial, CloseRequest, Data, DialRequest, Packet, Payload};

const PROXY: PathAndQuery = PathAndQuery::from_static("/ProxyService/Proxy");

/// Interval of retries while the proxy server is unavailable.
const RETRY: Duration = Duration::from_secs(1);
/// Time for the proxy server to confirm that a connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the reader to take received data.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes buffered for the reader, and as many for the proxy server.
const BUFFER: usize = 32 << 10;
/// Most bytes of a packet.
const PIECE: usize = 16 << 10;
/// Packets queued for the connection to the proxy server.
const QUEUE: usize = 2;
/// HTTP/2 window: with the default 64 KiB, copies would wait for window updates.
const WINDOW: u32 = 256 << 10;

const CLOSED: &str = "tunnel closed";

/// Connects to the proxy server on a socket, with retries while the socket does not exist.
pub(super) async fn connect(path: &Path) -> Result<Channel, String> {
    let endpoint = Endpoint::from_static("http://localhost").initial_stream_window_size(WINDOW);
    let mut last = None;
    let attempts = async {
        loop {
            match endpoint.connect_with_connector(Socket(path.to_owned())).await {
                Ok(channel) => return channel,
                Err(error) => last = Some(error),
            }
            sleep(RETRY).await;
        }
    };
    let connected = timeout(DIAL_TIMEOUT, attempts).await;
    connected.map_err(|_| {
        let late = "context deadline exceeded";
        let Some(error) = last else { return late.to_owned() };
        let mut causes =
            std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
        let cause = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
        let why = cause.map_or_else(|| error.to_string(), failure::of_socket);
        let path = path.display();
        format!(
            "{late}: connection error: desc = \"transport: error while dialing: dial unix {path}: \
             connect: {why}\""
        )
    })
}

/// Asks the proxy server to connect to `host:port`. The task of the tunnel ends with the connection, or when the caller
/// is cancelled.
pub(super) async fn dial(channel: Channel, address: &str) -> Result<Tunnel, String> {
    let (result, dialled) = oneshot::channel();
    tokio::spawn(run(channel, address.to_owned(), result));
    dialled.await.unwrap_or_else(|_| Err(CLOSED.to_owned()))
}

/// A connection through the proxy server.
pub(super) struct Tunnel {
    io: DuplexStream,
    /// Dropped with the connection, which ends the task.
    _held: oneshot::Sender<Infallible>,
}

impl Tunnel {
    /// A tunnel, its other end, and a receiver that completes when the tunnel is dropped.
    fn new() -> (Self, DuplexStream, oneshot::Receiver<Infallible>) {
        let (io, far) = duplex(BUFFER);
        let (_held, gone) = oneshot::channel();
        (Tunnel { io, _held }, far, gone)
    }
}

async fn run(
    channel: Channel,
    address: String,
    mut result: oneshot::Sender<Result<Tunnel, String>>,
) {
    let random = i64::try_from(uuid::Uuid::new_v4().as_u128() >> 65).unwrap_or_default();
    let (requests, packets) = mpsc::channel(QUEUE);
    let request = DialRequest { protocol: "tcp".to_owned(), address, random };
    // The channel is new and has room.
    let _ = requests.try_send(Payload::DialRequest(request).into());
    // The proxy server may send nothing, not even headers, before it has connected.
    let mut dialling = Box::pin(async {
        let mut responses = open(channel.clone(), packets).await?;
        let id = dial_response(&mut responses, random).await?;
        Ok::<_, String>((responses, id))
    });
    let given_up = tokio::select! {
        dialled = &mut dialling => {
            match dialled {
                Ok((responses, id)) => {
                    let (tunnel, far, gone) = Tunnel::new();
                    // A cancelled caller has dropped the tunnel, which is handled like any other end.
                    let _ = result.send(Ok(tunnel));
                    pass_on(far, gone, requests, responses, id).await;
                }
                Err(error) => drop(result.send(Err(error))),
            }
            return;
        }
        () = sleep(DIAL_TIMEOUT) => "dial timeout, backstop",
        () = result.closed() => "dial timeout, context",
    };
    let _ = result.send(Err(given_up.to_owned()));
    let _ = requests.try_send(Payload::CloseDial(CloseDial { random }).into());
    drop(requests);
    // The packet is sent while the response is awaited.
    let _ = timeout(CLOSE_TIMEOUT, dialling).await;
}

async fn open(
    channel: Channel,
    packets: mpsc::Receiver<Packet>,
) -> Result<Streaming<Packet>, String> {
    let mut grpc = Grpc::new(channel);
    let closed = |why: &dyn std::fmt::Display| {
        tracing::debug!("tunnel to the proxy server: {why}");
        CLOSED.to_owned()
    };
    grpc.ready().await.map_err(|error| closed(&error))?;
    let packets = tonic::Request::new(ReceiverStream::new(packets));
    let opened = grpc.streaming(packets, PROXY, ProstCodec::default()).await;
    opened.map(tonic::Response::into_inner).map_err(|status| closed(&status))
}

/// Waits for the connection's ID.
async fn dial_response(responses: &mut Streaming<Packet>, random: i64) -> Result<i64, String> {
    while let Ok(Some(packet)) = responses.message().await {
        match packet.payload {
            Some(Payload::DialResponse(response)) if response.random == random => {
                return match response.error.is_empty() {
                    true => Ok(response.connect_id),
                    false => Err(response.error),
                };
            }
            Some(Payload::CloseDial(close)) if close.random == random => {
                return Err("dial closed".to_owned());
            }
            _ => {}
        }
    }
    Err(CLOSED.to_owned())
}

/// Copies data in both directions until the proxy server reports that the connection is closed. A reader that is too
/// slow ends the tunnel.
async fn pass_on(
    far: DuplexStream,
    gone: oneshot::Receiver<Infallible>,
    requests: mpsc::Sender<Packet>,
    responses: Streaming<Packet>,
    id: i64,
) {
    let (reader, writer) = split(far);
    tokio::select! {
        () = send(reader, requests, id) => {}
        () = receive(writer, responses, id) => {}
        () = async {
            let _ = gone.await;
            sleep(CLOSE_TIMEOUT).await;
        } => {}
    }
}

async fn send(mut reader: ReadHalf<DuplexStream>, requests: mpsc::Sender<Packet>, id: i64) {
    while let Ok(data) = read(&mut reader).await
        && !data.is_empty()
    {
        let data = Data { connect_id: id, error: String::new(), data };
        if requests.send(Payload::Data(data).into()).await.is_err() {
            return;
        }
    }
    let close = Payload::CloseRequest(CloseRequest { connect_id: id });
    if requests.send(close.into()).await.is_ok() {
        sleep(CLOSE_TIMEOUT).await;
    }
}

/// Data to send; empty at the end. No buffer is held while waiting.
async fn read(reader: &mut ReadHalf<DuplexStream>) -> io::Result<Bytes> {
    poll_fn(|context| {
        let mut piece = [0; PIECE];
        let mut buffer = ReadBuf::new(&mut piece);
        let read = Pin::new(&mut *reader).poll_read(context, &mut buffer);
        read.map_ok(|()| Bytes::copy_from_slice(buffer.filled()))
    })
    .await
}

async fn receive(mut writer: WriteHalf<DuplexStream>, mut responses: Streaming<Packet>, id: i64) {
    while let Ok(Some(packet)) = responses.message().await {
        match packet.payload {
            Some(Payload::Data(data)) if data.connect_id == id => {
                // An error means that the reader is gone, which the other task reports to the proxy server.
                let written = timeout(READ_TIMEOUT, writer.write_all(&data.data)).await;
                if written.is_err() {
                    tracing::warn!("a tunnel is closed: it has not been read for {READ_TIMEOUT:?}");
                    return;
                }
            }
            Some(Payload::CloseResponse(close)) if close.connect_id == id => return,
            _ => {}
        }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// Connector to a Unix socket.
struct Socket(PathBuf);

impl Service<Uri> for Socket {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_proxy_server_that_does_not_come_is_given_up() {
        let told = connect(Path::new("/nowhere/proxy.sock")).await.unwrap_err();
        assert_eq!(
            told,
            "context deadline exceeded: connection error: desc = \"transport: error while dialing: \
             dial unix /nowhere/proxy.sock: connect: no such file or directory\""
        );
    }
}
