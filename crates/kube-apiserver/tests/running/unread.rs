//! Clients that ask for much and do not read it: what waits for them is bounded in bytes, whatever they
//! asked for and however they connected.

use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Method;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Client, Version, read, request};
use crate::{Server, soon};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// So many objects of so many bytes: 50 MB.
const OBJECTS: usize = 5000;
const SIZE: usize = 10_000;
/// Most memory that the server may gain for unread responses: in total, and for each.
const MOST: u64 = 4 << 20;
const MOST_EACH: u64 = 800 << 10;
/// Timeout for the start of all requests of a form.
const PATIENCE: Duration = Duration::from_secs(240);

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Requests, and the number of each at a time: the sockets take some megabytes of each response, and responses that are
/// converted or compressed take long without optimization.
#[rustfmt::skip]
const FORMS: &[Form] = &[
    Form { query: "", accept: "application/json", gzip: false, count: 40 },
    Form { query: "?watch=1", accept: "application/json", gzip: false, count: 40 },
    Form { query: "", accept: "application/json", gzip: true, count: 4 },
    Form { query: "?watch=1", accept: "application/vnd.kubernetes.protobuf;stream=watch", gzip: false, count: 8 },
    Form { query: "?watch=1&includeObject=Object", accept: TABLE, gzip: false, count: 8 },
    Form { query: "?includeObject=Object", accept: TABLE, gzip: false, count: 8 },
    Form { query: "", accept: "application/yaml", gzip: false, count: 4 },
    Form { query: "?pretty=1", accept: "application/json", gzip: false, count: 8 },
    Form { query: "", accept: "application/vnd.kubernetes.protobuf", gzip: false, count: 3 },
];

#[derive(Clone, Copy, Debug)]
struct Form {
    query: &'static str,
    accept: &'static str,
    gzip: bool,
    count: usize,
}

impl Form {
    fn most(&self) -> u64 {
        MOST + MOST_EACH * self.count as u64
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_read_is_not_held() {
    let server = Server::start(&[]).await;
    fill(&server).await;
    for form in FORMS {
        for way in [Way::Http1, Way::NoWindow, Way::NoSocket] {
            let before = settled(&server).await;
            let unread = begin(&server, form, way).await;
            let grown = settled(&server).await.saturating_sub(before);
            println!("{form:?} {way:?}: {} KiB", grown >> 10);
            assert!(grown <= form.most(), "{form:?} {way:?}: {} KiB", grown >> 10);
            drop(unread);
        }
    }
    // Events while no client reads: of all objects, and of one.
    for query in ["?watch=1", "?watch=1&fieldSelector=metadata.name%3Dmap-1"] {
        let form = Form { query, ..FORMS[0] };
        let before = settled(&server).await;
        let unread =
            (begin(&server, &form, Way::Http1).await, begin(&server, &form, Way::NoWindow).await);
        let mut client = Client::connect(server.port, &server.tls, Version::Http2).await.unwrap();
        for round in 0..1000 {
            let patch = format!(r#"{{"data":{{"round":"{round}"}}}}"#);
            let mut request = request(Method::PATCH, &format!("{MAPS}/map-1"), patch);
            let merge = "application/merge-patch+json".parse().unwrap();
            request.headers_mut().insert("content-type", merge);
            assert_eq!(soon(client.send(request)).await.unwrap().status(), 200);
        }
        let grown = settled(&server).await.saturating_sub(before);
        println!("events {query}: {} KiB", grown >> 10);
        assert!(grown <= 2 * form.most(), "events {query}: {} KiB", grown >> 10);
        drop(unread);
    }
}

async fn fill(server: &Server) {
    let mut all = JoinSet::new();
    for part in 0..8 {
        let (port, tls) = (server.port, server.tls.clone());
        all.spawn(async move {
            let mut client = Client::connect(port, &tls, Version::Http2).await.unwrap();
            for number in (part..OBJECTS).step_by(8) {
                let map = config_map(&format!("map-{number}"), &noise(number));
                let answer = client.post(MAPS, map).await.unwrap();
                assert_eq!(answer.status(), 201);
                read(answer).await.unwrap();
            }
        });
    }
    tokio::time::timeout(Duration::from_secs(300), all.join_all()).await.unwrap();
}

/// Text that does not become small when it is compressed.
fn noise(seed: usize) -> String {
    let mut state = seed as u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        char::from(b'0' + (state >> 58) as u8)
    };
    (0..SIZE).map(|_| next()).map(|c| if c == '\\' { '~' } else { c }).collect()
}

fn config_map(name: &str, value: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"value":"{value}"}}}}"#)
}

/// Memory of the server once it does not change any more.
pub(crate) async fn settled(server: &Server) -> u64 {
    let (mut last, mut same) = (server.resident(), 0);
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = server.resident();
        same = if now.abs_diff(last) < 256 << 10 { same + 1 } else { 0 };
        last = now;
        if same == 10 {
            break;
        }
    }
    last
}

/// Behaviour of a client that does not read.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Connections that are not read on.
    Http1,
    /// Streams of one connection whose windows stay closed.
    NoWindow,
    /// Streams with wide windows, of one connection that is not read on.
    NoSocket,
}

/// Requests whose answers have begun and are not read.
#[expect(dead_code, reason = "held so that they stay open")]
enum Unread {
    Connections(Vec<TlsStream<TcpStream>>),
    Streams(
        Vec<http::Response<hyper::body::Incoming>>,
        http2::SendRequest<Full<bytes::Bytes>>,
        End,
    ),
}

/// Ends a connection when it is dropped.
struct End(tokio::task::AbortHandle);

impl Drop for End {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn begin(server: &Server, form: &Form, way: Way) -> Unread {
    let begun = tokio::time::timeout(PATIENCE, unread(server, form, way)).await;
    begun.unwrap_or_else(|_| panic!("{form:?} {way:?} takes too long"))
}

async fn unread(server: &Server, form: &Form, way: Way) -> Unread {
    let encoding = if form.gzip { "gzip" } else { "identity" };
    if let Way::Http1 = way {
        let mut connections = Vec::new();
        for _ in 0..form.count {
            let mut stream = connect(server, b"http/1.1").await.unwrap();
            let head = format!(
                "GET {MAPS}{} HTTP/1.1\r\nHost: localhost\r\nAccept: {}\r\n\
                 Accept-Encoding: {encoding}\r\n\r\n",
                form.query, form.accept
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            assert_eq!(&status, b"HTTP/1.1 200", "{form:?}");
            connections.push(stream);
        }
        return Unread::Connections(connections);
    }
    let closed = Arc::new(AtomicBool::new(false));
    let stream = Gate { stream: connect(server, b"h2").await.unwrap(), closed: closed.clone() };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let window = if let Way::NoWindow = way { 1 << 10 } else { 1 << 30 };
    builder.initial_stream_window_size(window).initial_connection_window_size(1 << 30);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let end = End(tokio::spawn(connection).abort_handle());
    let mut asked = JoinSet::new();
    for number in 0..form.count {
        // The first answer shows that the connection works. Others are not seen.
        closed.store(matches!(way, Way::NoSocket) && number > 0, Ordering::Release);
        let mut asking = request(Method::GET, &format!("{MAPS}{}", form.query), "");
        asking.headers_mut().insert("accept", form.accept.parse().unwrap());
        asking.headers_mut().insert("accept-encoding", encoding.parse().unwrap());
        sender.ready().await.unwrap();
        let answer = sender.send_request(asking);
        match way {
            Way::NoSocket if number > 0 => drop(asked.spawn(answer)),
            _ => {
                let answer = answer.await.unwrap();
                assert_eq!(answer.status(), 200, "{form:?}");
                asked.spawn(std::future::ready(Ok(answer)));
            }
        }
    }
    let mut answers = Vec::new();
    let begun = if let Way::NoSocket = way { 1 } else { form.count };
    while answers.len() < begun {
        answers.push(asked.join_next().await.unwrap().unwrap().unwrap());
    }
    // The rest waits in the background.
    asked.detach_all();
    Unread::Streams(answers, sender, end)
}

/// A connection with little room for what comes.
pub(crate) async fn connect(server: &Server, protocol: &[u8]) -> io::Result<TlsStream<TcpStream>> {
    let mut tls = server.tls.clone();
    tls.alpn_protocols = vec![protocol.to_vec()];
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(8 << 10)?;
    let stream = socket.connect((Ipv4Addr::LOCALHOST, server.port).into()).await?;
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(tls)).connect(name, stream).await
}

/// A stream that is not read on when it is told so.
struct Gate {
    stream: TlsStream<TcpStream>,
    closed: Arc<AtomicBool>,
}

impl AsyncRead for Gate {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.closed.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Gate {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
