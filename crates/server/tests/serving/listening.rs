//! Tests of listening.

use std::net::{IpAddr, Ipv4Addr};

use kevel_server::serving::{Listen, listen};
use kevel_test_support::soon;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

fn at(port: u16, share_port: bool) -> Listen {
    Listen { address: IpAddr::from(Ipv4Addr::LOCALHOST), port, share_port }
}

#[tokio::test]
async fn port_can_be_reused_while_old_connections_close() {
    let first = listen(at(0, false)).unwrap();
    let address = first.local_addr().unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    // The side that closes first keeps the connection in TIME_WAIT.
    drop(soon(first.accept()).await.unwrap());
    assert_eq!(soon(client.read(&mut [0])).await.unwrap(), 0);
    drop((client, first));
    let again = listen(at(address.port(), false)).unwrap();
    assert_eq!(again.local_addr().unwrap(), address);
}

#[tokio::test]
async fn a_port_is_shared_if_both_permit_it() {
    let first = listen(at(0, true)).unwrap();
    let port = first.local_addr().unwrap().port();
    listen(at(port, true)).unwrap();
    let refused = listen(at(port, false)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
}
