//! TCP proxy in front of servers, as a load balancer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Listens, and forwards connections round robin. Ends with its connections when dropped.
#[derive(Debug)]
pub struct Relay {
    /// Port that it listens on.
    pub port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    servers: Mutex<Vec<SocketAddr>>,
    turn: AtomicUsize,
    connections: Mutex<Vec<JoinHandle<()>>>,
}

impl Relay {
    /// Listens on a local port; nothing is forwarded yet.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Relay { port, shared, accepting }
    }

    /// Sets the servers to which new connections are forwarded.
    pub fn lead_to(&self, servers: Vec<SocketAddr>) {
        *self.shared.servers.lock().unwrap() = servers;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.connections.lock().unwrap().iter().for_each(JoinHandle::abort);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        let connection = tokio::spawn(pass_on(client, shared.clone()));
        let mut connections = shared.connections.lock().unwrap();
        connections.retain(|connection| !connection.is_finished());
        connections.push(connection);
    }
}

async fn pass_on(mut client: TcpStream, shared: Arc<Shared>) {
    let servers = shared.servers.lock().unwrap().clone();
    let turn = shared.turn.fetch_add(1, Ordering::Relaxed);
    // A server that refuses the connection is skipped, as by load balancers.
    for at in 0..servers.len() {
        if let Ok(mut server) = TcpStream::connect(servers[(turn + at) % servers.len()]).await {
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}
