//! Stand-in for a kubelet.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::channels::Channels;
use super::command::{self, Streams};
use super::request::{answer, query, read};
use super::{log, port_forward};
use crate::channel::{self, KUBELET, Protocol};
use crate::remote_command::{KUBELET_VERSIONS, Outcome, STREAM_TYPE, Version, stream_type};
use crate::spdy::{self, Connection, Driver, Stream};
use crate::tunnel::PORT_FORWARD;
use crate::upgrade::websocket;
use crate::upgrade::{
    PROTOCOL_VERSION, Refusal, Rewound, SPDY_31, is_spdy, protocol_version, refuse,
};

/// Time limit for a client to open a command's streams.
const CREATE_STREAMS: Duration = Duration::from_secs(30);

/// Stand-in for a kubelet on a port of its own; [`serve`] is for other connections.
///
/// Serves `/exec/NAMESPACE/POD/CONTAINER`, `/attach/...`, `/portForward/NAMESPACE/POD` and `/containerLogs/...`, whose
/// log is the request's URI. Commands are `cat`, `echo WORDS`, `complain TEXT` (on stderr), `exit CODE`, `yes COUNT`
/// (bytes), `hash` (of stdin), `sizes COUNT` (of the terminal) and `hang`, and as much of `test` and `tar` as `kubectl
/// cp` needs. Ports echo their input, except port 1, which refuses. Pod `missing` does not exist, `moved` is redirected
/// and `silent` does not answer.
#[derive(Debug)]
pub struct Kubelet {
    /// Address of the listener.
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request<()>>>>,
    connections: Arc<AtomicUsize>,
    /// Ends all open connections.
    disconnect: broadcast::Sender<()>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Starts one without TLS.
    pub async fn start() -> io::Result<Self> {
        Kubelet::start_on("127.0.0.1:0", |io| std::future::ready(Ok(io))).await
    }

    /// Starts one at an address; `begin` prepares each connection, such as with TLS.
    pub async fn start_on<F, IO>(
        address: impl ToSocketAddrs,
        begin: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<IO>> + Send + 'static,
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let (seen, open) = (requests.clone(), connections.clone());
        let disconnect = broadcast::Sender::new(1);
        let ends = disconnect.clone();
        let task = tokio::spawn(async move {
            while let Ok((io, _)) = listener.accept().await {
                let counted = Counted::new(&open);
                let (seen, begun, mut ended) = (seen.clone(), begin(io), ends.subscribe());
                tokio::spawn(async move {
                    let serving = async { serve_seen(begun.await?, Some(&seen)).await };
                    tokio::select! {
                        _ = serving => {}
                        _ = ended.recv() => {}
                    }
                    drop(counted);
                });
            }
        });
        Ok(Kubelet { address, requests, connections, disconnect, task })
    }

    /// Requests so far.
    pub fn requests(&self) -> Vec<Request<()>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Breaks all connections.
    pub fn disconnect(&self) {
        // An error means that no connection is open.
        let _ = self.disconnect.send(());
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Guard that is counted while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves the one request of a connection.
pub async fn serve<IO>(io: IO) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    serve_seen(io, None).await
}

async fn serve_seen<IO>(io: IO, seen: Option<&Mutex<Vec<Request<()>>>>) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (request, mut io) = read(io).await?;
    if let Some(seen) = seen {
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    }
    let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let pod = path.get(2).copied().unwrap_or_default();
    let refusal = match (path.first().copied().unwrap_or_default(), pod) {
        // Until the client has closed the connection.
        (_, "silent") => return io.read_to_end(&mut Vec::new()).await.map(drop),
        (_, "missing") => refuse(StatusCode::NOT_FOUND, format!("pod does not exist: {pod}")),
        (_, "moved") => moved(),
        ("exec", _) => return remote_command(&request, io, query(&request, "command")).await,
        ("attach", _) => return remote_command(&request, io, vec!["attach".to_owned()]).await,
        ("portForward", _) => return forward(&request, io).await,
        ("containerLogs", _) => return log::serve(&request, &mut io).await,
        _ => refuse(StatusCode::NOT_FOUND, "404 page not found".to_owned()),
    };
    answer(&mut io, &refusal).await
}

fn moved() -> Refusal {
    let mut refusal = refuse(StatusCode::FOUND, "Found".to_owned());
    let elsewhere = HeaderValue::from_static("https://169.254.169.254/latest");
    refusal.headers_mut().insert(header::LOCATION, elsewhere);
    refusal
}

async fn remote_command<IO>(
    request: &Request<()>,
    mut io: Rewound<IO>,
    command: Vec<String>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    if websocket::is_request(request.headers()) {
        // A kubelet that translates itself supports v5 as well.
        let known: Vec<Protocol> = KUBELET.iter().copied().chain([channel::V5]).collect();
        return match websocket::accept(request.method(), request.headers(), &known) {
            Err(refusal) => answer(&mut io, &refusal).await,
            Ok((accepted, protocol)) => {
                answer(&mut io, &accepted.map(|()| "")).await?;
                let mut channels = Channels::new(io, protocol);
                let mut streams = std::mem::take(&mut channels.streams);
                let running = command::run(&command, &mut streams);
                let outcome = tokio::select! {
                    outcome = running => outcome?,
                    () = channels.drive() => return Ok(()),
                };
                drop(streams);
                channels.end(&outcome).await;
                Ok(())
            }
        };
    }
    let (name, io) = match upgrade(request, io, &KUBELET_VERSIONS).await? {
        Some(upgraded) => upgraded,
        None => return Ok(()),
    };
    let version = Version::of(name).unwrap_or(Version::V1);
    let (connection, mut driver) = spdy::server(io);
    let running = run(&connection, request, version, command);
    tokio::select! {
        ended = running => ended?,
        _ = &mut driver => return Ok(()),
    }
    let closing = close(connection, driver);
    let _ = timeout(CREATE_STREAMS, closing).await;
    Ok(())
}

async fn close<IO: AsyncRead + AsyncWrite + Unpin>(connection: Connection, driver: Driver<IO>) {
    connection.close();
    let _ = driver.await;
}

/// Collects the streams, runs the command and sends its result. All streams are reset then, as by a kubelet.
async fn run(
    connection: &Connection,
    request: &Request<()>,
    version: Version,
    command: Vec<String>,
) -> io::Result<()> {
    let has = |key| query(request, key).iter().any(|value| value == "1");
    let tty = has("tty");
    let expected = 1
        + usize::from(has("input"))
        + usize::from(has("output"))
        + usize::from(has("error") && !tty)
        + usize::from(tty && version >= Version::V3);
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let collected = timeout(CREATE_STREAMS, collect(connection, expected)).await;
    let (mut streams, error) = collected.map_err(late)??;
    let outcome = command::run(&command, &mut streams).await?;
    if let Some(error) = error {
        let status = match outcome {
            _ if version >= Version::V4 => outcome.status(),
            Outcome::Success => Vec::new(),
            Outcome::Exit(code) => format!("command terminated with exit code {code}").into_bytes(),
            Outcome::Failure(why) => why.into_bytes(),
        };
        error.send(&status)?;
    }
    Ok(())
}

async fn collect(
    connection: &Connection,
    expected: usize,
) -> io::Result<(Streams, Option<Stream>)> {
    let mut streams = Streams::default();
    let mut error = None;
    for _ in 0..expected {
        let incoming = connection.accept().await.ok_or(io::ErrorKind::UnexpectedEof)?;
        let name = incoming.headers().get(STREAM_TYPE).and_then(|name| name.to_str().ok());
        let name = name.unwrap_or_default().to_owned();
        let stream = incoming.accept();
        match &*name {
            stream_type::STDIN => streams.stdin = Box::new(stream),
            stream_type::STDOUT => streams.stdout = Box::new(stream),
            stream_type::STDERR => streams.stderr = Box::new(stream),
            stream_type::RESIZE => streams.resize = Box::new(stream),
            stream_type::ERROR => error = Some(stream),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok((streams, error))
}

async fn forward<IO>(request: &Request<()>, io: Rewound<IO>) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    if let Some((_, io)) = upgrade(request, io, &[PORT_FORWARD]).await? {
        let (connection, driver) = spdy::server(io);
        tokio::select! {
            _ = driver => {}
            () = port_forward::serve(connection) => {}
        }
    }
    Ok(())
}

/// Upgrades to SPDY. Returns the chosen protocol version.
async fn upgrade<'v, IO: AsyncRead + AsyncWrite + Unpin>(
    request: &Request<()>,
    mut io: Rewound<IO>,
    versions: &[&'v str],
) -> io::Result<Option<(&'v str, Rewound<IO>)>> {
    let agreed = match is_spdy(request.headers()) {
        true => protocol_version(request.headers(), versions),
        false => Err(refuse(
            StatusCode::BAD_REQUEST,
            "unable to upgrade: missing upgrade headers in request".to_owned(),
        )),
    };
    let version = match agreed {
        Ok(version) => version,
        Err(refusal) => return answer(&mut io, &refusal).await.map(|()| None),
    };
    let switching = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, SPDY_31)
        .header(PROTOCOL_VERSION, version);
    answer(&mut io, &switching.body("").map_err(io::Error::other)?).await?;
    Ok(Some((version, io)))
}
