//! Listening and accepting of connections.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

use super::connection::{self, Shared};
use super::ongoing::Connections;

/// Idle time after which TCP keep-alive probes are sent.
const KEEP_ALIVE: Duration = Duration::from_secs(3 * 60);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Connections waiting to be accepted; limited further by the system.
const BACKLOG: i32 = 4096;

/// Address to listen on.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// `--bind-address`; unspecified means all addresses of both families.
    pub address: IpAddr,
    /// `--secure-port`; 0 means any.
    pub port: u16,
    /// `--permit-port-sharing`.
    pub share_port: bool,
}

/// Opens the listener.
pub fn listen(listen: Listen) -> io::Result<TcpListener> {
    if listen.address.is_unspecified() {
        let both = Listen { address: Ipv6Addr::UNSPECIFIED.into(), ..listen };
        match bind(both) {
            // The machine has no IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse && listen.address.is_ipv4() => {}
            bound => return bound,
        }
    }
    bind(listen)
}

fn bind(listen: Listen) -> io::Result<TcpListener> {
    let address = SocketAddr::new(listen.address, listen.port);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!listen.address.is_unspecified())?;
    }
    // A restarted server need not wait for the connections of its predecessor.
    socket.set_reuse_address(true)?;
    if listen.share_port {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts connections until `stop` completes.
pub(super) async fn accept(
    listener: TcpListener,
    connections: &Arc<Connections>,
    shared: Arc<Shared>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = std::pin::pin!(stop);
    let mut pause = Duration::ZERO;
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pause = Duration::ZERO;
                // Errors of a connection that is already closed do not matter.
                let _ = set_options(&stream);
                let ongoing = connections.add();
                tokio::spawn(connection::serve(stream, peer, ongoing, shared.clone()));
            }
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                // Most likely no file descriptors are left: some are freed when connections end.
                pause = (pause * 2).clamp(Duration::from_millis(5), Duration::from_secs(1));
                tracing::error!(%error, ?pause, "accepting failed");
                tokio::select! {
                    () = &mut stop => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keep_alive)
}

fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
