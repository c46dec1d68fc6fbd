//! Answers on the client URLs.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use thiserror::Error;

use crate::flags::StandInFlags;
use crate::folder::{self, FolderError};
use crate::{ANSWER, END, ETCD_VERSION, parent};

/// Longest head of a request; those of health checks have a few hundred bytes.
const HEAD_BYTES: usize = 8 << 10;

/// Time to receive a request and to send its response. On loopback it takes microseconds; a test machine may be busy.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// Maximum number of open connections, each of which has a thread: a test has a few.
const CONNECTIONS: usize = 128;

/// Pause after an error of `accept` (no file descriptor is left), so that it does not repeat at full speed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time that API servers have to end after the parent process has, before its folder is removed.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// Stack of a thread that answers.
const STACK: usize = 64 << 10;

/// Beginning of HTTP/2, which gRPC clients of etcd speak.
const HTTP2: &[u8] = b"PRI * HTTP/2.0";

/// Reason that the stand-in cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The address cannot be listened on.
    #[error("cannot listen on http://{0}: {1}")]
    Listen(String, io::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// Serves until the process that started this one ends. SIGTERM and SIGINT have their default action, which ends the
/// process at once: an etcd dies of them as well, and there is nothing to put in order.
pub fn serve(options: &StandInFlags) -> Result<(), ServeError> {
    // First of all: it may end any time.
    let parent = parent::parent();
    let store = folder::prepare(&options.data_dir)?;
    let server = Arc::new(StandInServer { store, held: Mutex::default(), left: Condvar::new() });
    for address in &options.addresses {
        let listener =
            listen(address).map_err(|error| ServeError::Listen(address.clone(), error))?;
        if let Ok(address) = listener.local_addr() {
            eprintln!(
                "kevel-etcd: stand-in for etcd {ETCD_VERSION} on http://{address}, store in {}",
                server.store.display()
            );
        }
        let server = server.clone();
        spawn(move || server.accept(&listener))?;
    }
    match parent {
        Some(parent) => parent::wait_for_end(parent),
        // The first process of a container ends with all others.
        None => loop {
            thread::park();
        },
    }
    server.send_away();
    folder::remove_if_temporary(&options.data_dir);
    Ok(())
}

/// Listens on the first address of a name, as etcd does; IPv4 comes first for `localhost`.
fn listen(address: &str) -> io::Result<TcpListener> {
    let mut addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    TcpListener::bind(addresses.as_slice())
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), ServeError> {
    let spawned = thread::Builder::new().stack_size(STACK).spawn(work);
    spawned.map(|_| ()).map_err(ServeError::Thread)
}

struct StandInServer {
    /// Folder of the store.
    store: PathBuf,
    /// Connections of API servers that have the store open, and the number of all connections.
    held: Mutex<HeldConnections>,
    /// Told when a connection has ended.
    left: Condvar,
}

#[derive(Default)]
struct HeldConnections {
    connections: usize,
    servers: Vec<(SocketAddr, TcpStream)>,
}

impl StandInServer {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        loop {
            let Ok((stream, peer)) = listener.accept() else {
                thread::sleep(ACCEPT_PAUSE);
                continue;
            };
            if !self.enter() {
                continue;
            }
            let server = self.clone();
            let spawned = spawn(move || {
                // A connection that breaks is over.
                let _ = server.answer(stream, peer);
                server.leave(peer);
            });
            if spawned.is_err() {
                self.leave(peer);
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, HeldConnections> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection, unless there are too many.
    fn enter(&self) -> bool {
        let mut held = self.held();
        let free = held.connections < CONNECTIONS;
        held.connections += usize::from(free);
        free
    }

    fn leave(&self, peer: SocketAddr) {
        let mut held = self.held();
        held.connections = held.connections.saturating_sub(1);
        held.servers.retain(|(server, _)| *server != peer);
        self.left.notify_all();
    }

    /// Answers one request. Only the connection of an API server goes on.
    fn answer(&self, mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        stream.set_read_timeout(Some(REQUEST_TIME))?;
        stream.set_write_timeout(Some(REQUEST_TIME))?;
        let head = head(&mut stream)?;
        let mut words = head.split(|byte| byte.is_ascii_whitespace());
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if (method, path) == (b"GET", b"/kevel/store") {
            return self.hold(stream, peer);
        }
        if head.starts_with(HTTP2) {
            refuse_grpc();
            return Ok(());
        }
        let (status, kind, body) = response(method, path);
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    }

    /// Names the folder of the store to an API server, and waits until it ends.
    fn hold(&self, mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        self.held().servers.push((peer, stream.try_clone()?));
        let mut answer = ANSWER.as_bytes().to_vec();
        answer.extend_from_slice(self.store.as_os_str().as_bytes());
        answer.push(END);
        stream.write_all(&answer)?;
        stream.set_read_timeout(None)?;
        while stream.read(&mut [0; 64])? > 0 {}
        Ok(())
    }

    /// Closes the connections of API servers, which ends these, and waits until it has.
    fn send_away(&self) {
        let held = self.held();
        for (_, stream) in &held.servers {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let present = |held: &mut HeldConnections| !held.servers.is_empty();
        let _ = self.left.wait_timeout_while(held, LEAVE_TIME, present);
    }
}

/// Reads up to the empty line, or to the beginning of HTTP/2.
fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.starts_with(HTTP2) && !head.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut buffer)?;
        head.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if count == 0 || head.len() > HEAD_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(head)
}

/// Status, media type and body, as etcd's.
fn response(method: &[u8], path: &[u8]) -> (&'static str, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    const JSON: &str = "application/json";
    if method != b"GET" {
        return ("405 Method Not Allowed", TEXT, "Method Not Allowed\n".to_owned());
    }
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    match path {
        b"/health" => ("200 OK", JSON, r#"{"health":"true","reason":""}"#.to_owned()),
        b"/livez" | b"/readyz" => ("200 OK", TEXT, "ok\n".to_owned()),
        b"/version" => {
            let cluster = ETCD_VERSION.rsplit_once('.').map_or(ETCD_VERSION, |(minor, _)| minor);
            let body = format!(
                r#"{{"etcdserver":"{ETCD_VERSION}","etcdcluster":"{cluster}.0","kevel":"stand-in"}}"#
            );
            ("200 OK", JSON, body)
        }
        _ => ("404 Not Found", TEXT, "404 page not found\n".to_owned()),
    }
}

/// Says once why a client of etcd gets no answer.
fn refuse_grpc() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        eprintln!(
            "kevel-etcd: refused a gRPC client: this is Kevel's stand-in for controller tests, which only Kevel's \
             kube-apiserver can use. Other clients need a real etcd"
        );
    });
}
