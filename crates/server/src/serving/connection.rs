//! A connection, from the handshake to its end.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use kevel_clock::{Clock, monotonic_now, timer_now};
use kevel_compute::{ComputeFlow, ComputeMeter, ComputeTurn};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::Limits;
use super::backlog::{Backlog, Counted};
use super::handshake_errors::HandshakeErrors;
use super::http2::Http2Connection;
use super::ongoing::{Connections, LINGER, Ongoing, Order, Registered, Verdict};
use super::requests::Requests;
use super::socket::{Socket, linger};
use super::tls::Tls;
use super::upgrade::Next;
use crate::handler::Handler;
use crate::request::Connection;

/// State that all connections share.
pub(super) struct Shared {
    pub tls: Arc<Tls>,
    pub limits: Limits,
    pub handler: Arc<dyn Handler>,
    pub handshake_errors: Arc<HandshakeErrors>,
    pub clock: Clock,
}

/// Serves a connection.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    registered: Registered,
    shared: Arc<Shared>,
) {
    let ongoing = registered.ongoing.clone();
    let handshake = async {
        // A client that connects and sends nothing costs no more than this.
        stream.peek(&mut [0]).await.map_err(|error| error.to_string())?;
        Box::pin(handshake(stream, &ongoing, &shared.tls)).await
    };
    let stream = tokio::select! {
        result = timeout(shared.limits.header_read, handshake) => result,
        // It had no request yet: whatever the order, it ends.
        _ = ongoing.ordered() => return,
    };
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    match stream {
        Ok(Ok(stream)) => Box::pin(serve_http(stream, peer, registered, shared)).await,
        Ok(Err(error)) => shared.handshake_errors.add(peer, &error),
        Err(error) => shared.handshake_errors.add(peer, &error),
    }
}

async fn handshake(
    stream: TcpStream,
    ongoing: &Arc<Ongoing>,
    tls: &Tls,
) -> Result<Box<TlsStream<Socket>>, String> {
    let local = stream.local_addr().map_err(|error| error.to_string())?;
    let socket = Socket::new(stream, ongoing.clone());
    let mut acceptor = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), socket);
    let start = match Pin::new(&mut acceptor).await {
        Ok(start) => start,
        Err(error) => {
            if let Some(mut socket) = acceptor.take_io()
                && socket.speaks_plain_http()
            {
                let _ = socket.refuse_plain_http().await;
                return Err("client sent an HTTP request to an HTTPS server".to_owned());
            }
            return Err(error.to_string());
        }
    };
    let server_name = start.client_hello().server_name().map(str::to_ascii_lowercase);
    let local: IpAddr = local.ip().to_canonical();
    let config = tls.config(server_name.as_deref(), local);
    let stream = start.into_stream(config).await.map_err(|error| error.to_string())?;
    stream.get_ref().0.acknowledge();
    Ok(Box::new(stream))
}

async fn serve_http(
    stream: Box<TlsStream<Socket>>,
    peer: SocketAddr,
    registered: Registered,
    shared: Arc<Shared>,
) {
    let ongoing = &registered.ongoing;
    let tls = stream.get_ref().1;
    let http2 = tls.alpn_protocol() == Some(b"h2");
    let certificates = tls.peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().map(|der| Bytes::copy_from_slice(der)).collect();
    let connection =
        Arc::new(Connection { peer: Some(peer), certificates, clock: shared.clock.clone() });
    let (handler, limits) = (shared.handler.clone(), &shared.limits);
    let served = serve_requests(stream, http2, connection, handler, ongoing, limits);
    if let Err(error) = served.await {
        tracing::debug!(%peer, %error, "connection ended");
        return;
    }
    if let Some(stream) = ongoing.left() {
        tokio::select! {
            // What was answered long ago was taken.
            () = linger(stream, LINGER.saturating_sub(ongoing.waited())) => {}
            () = ongoing.dropped() => {}
        }
    }
}

/// Serves the requests that come on a stream which is neither a socket nor encrypted: a pipe in memory.
pub async fn serve_stream(
    stream: impl Transport + 'static,
    http2: bool,
    handler: Arc<dyn Handler>,
    limits: Limits,
) {
    let registered = Arc::<Connections>::default().add();
    let (stream, ongoing) = (Box::new(stream), &registered.ongoing);
    let served = serve_requests(stream, http2, Arc::default(), handler, ongoing, &limits);
    if let Err(error) = served.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Serves the requests of a connection to its end.
async fn serve_requests(
    stream: Box<dyn Transport>,
    http2: bool,
    connection: Arc<Connection>,
    handler: Arc<dyn Handler>,
    ongoing: &Arc<Ongoing>,
    limits: &Limits,
) -> Result<(), String> {
    ongoing.speaks(!http2);
    let next = Arc::new(Next::default());
    let backlog = Arc::new(Backlog::default());
    let streams = limits.streams as usize;
    let requests = Requests {
        handler,
        connection,
        ongoing: ongoing.clone(),
        http2,
        slots: Arc::new(Semaphore::new(streams)),
        most: streams.saturating_mul(4),
        backlog: (!http2).then(|| backlog.clone()),
        patience: limits.unread_body,
        next: next.clone(),
    };
    // Boxed apart, so that a connection does not take the room of both versions.
    match http2 {
        true => {
            let connection = Http2Connection::new(stream, requests, limits);
            drive(Box::pin(connection), ongoing, limits).await?;
        }
        false => {
            let stream = TokioIo::new(Counted { stream, backlog });
            let meter = connection_meter(&requests.connection);
            let connection = http1_builder(limits).serve_connection(stream, requests);
            let connection = Http1Connection { http: connection.with_upgrades(), meter };
            drive(Box::pin(connection), ongoing, limits).await?;
        }
    }
    next.go_on(ongoing).await;
    Ok(())
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .max_header_size(limits.header_bytes as usize)
        // The request line is counted apart.
        .max_buf_size(limits.header_bytes as usize * 2)
        // The reference counts bytes only.
        .max_headers(1000)
        // As Go writes names, for clients that look for `Audit-Id`.
        .title_case_headers(true)
        // That is the watch of `drive`.
        .header_read_timeout(None);
    builder
}

/// Meter of a connection's own turns: reading frames, encoding bodies and watch events.
pub(super) fn connection_meter(connection: &Connection) -> ComputeMeter {
    let Some(peer) = connection.peer else { return ComputeMeter::default() };
    let meter = ComputeMeter::of(ComputeFlow::of(&peer.ip().to_string()));
    meter.set_label(|| format!("connection of {peer}"));
    meter
}

/// Byte stream of a connection.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection of either version.
pub(super) trait HttpConnection: Future<Output = Result<(), String>> {
    /// Accepts no further request, and ends after those under way.
    fn finish(self: Pin<&mut Self>);
}

/// A connection that speaks HTTP/1.1.
struct Http1Connection {
    http: http1::UpgradeableConnection<TokioIo<Http1Stream>, Requests>,
    meter: ComputeMeter,
}

type Http1Stream = Counted<Box<dyn Transport>>;

impl Future for Http1Connection {
    type Output = Result<(), String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let _turn = ComputeTurn::begin(&this.meter, kevel_compute::leave_worker);
        Pin::new(&mut this.http).poll(context).map_err(|error| error.to_string())
    }
}

impl HttpConnection for Http1Connection {
    fn finish(mut self: Pin<&mut Self>) {
        Pin::new(&mut self.http).graceful_shutdown();
    }
}

/// Drives a connection to its end, minding orders and the time. The timer is not touched by
/// requests: when it fires, it is set again for the moment at which the connection could have waited
/// for too long by then.
async fn drive(
    mut connection: Pin<Box<impl HttpConnection>>,
    ongoing: &Ongoing,
    limits: &Limits,
) -> Result<(), String> {
    let mut finishing = None;
    let mut timer = std::pin::pin!(sleep_until(timer_now()));
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            order = ongoing.ordered() => match order {
                Order::GoOn => {}
                Order::Finish => {
                    finishing = Some(monotonic_now());
                    connection.as_mut().finish();
                    timer.as_mut().reset(timer_now());
                }
                Order::Drop => return Err("closed by the server".to_owned()),
            },
            () = timer.as_mut() => match ongoing.judge(limits, finishing) {
                Verdict::Wait(until) => timer.as_mut().reset(until.into()),
                Verdict::Finish => ongoing.order(Order::Finish),
                Verdict::Drop => return Err("the client took too long".to_owned()),
            },
        }
    }
}
