//! The process around the server: system signals, and systemd.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tokio::signal::unix::{SignalKind, signal};

/// Completes at the first SIGTERM or SIGINT. The second one ends the process at once, with exit code 1.
pub async fn stop_requested() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut received = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    received().await;
    tokio::spawn(async move {
        received().await;
        std::process::exit(1);
    });
    Ok(())
}

/// Tells systemd that the server has started, if `NOTIFY_SOCKET` is set.
pub fn notify_ready() -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(path) => notify(path.as_bytes(), b"READY=1\n"),
        None => Ok(()),
    }
}

/// Sends a message to a datagram socket; `@` begins the name of an abstract one.
fn notify(path: &[u8], message: &[u8]) -> io::Result<()> {
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_is_told_on_a_path_and_on_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("kevel-test-{}", std::process::id());
        for (socket, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes().to_vec()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
                format!("@{name}").into_bytes(),
            ),
        ] {
            notify(&address, b"READY=1\n").unwrap();
            let mut buffer = [0; 64];
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1\n");
        }
    }
}
