//! `pods/portforward`.

use kevel_streaming::testing::client::{PortForward, websocket};
use kevel_streaming::tunnel::PORT_FORWARD;
use kevel_streaming::upgrade::backend::{Answer, handshake, spdy_request};
use kevel_streaming::websocket::Tunnel;
use kevel_test_support::{soon, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{PODS, start};

async fn converse(mut forward: PortForward) {
    let (mut data, mut error) = soon(forward.connect(8080)).await.unwrap();
    let sent: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    let (mut reading, mut writing) = tokio::io::split(&mut data);
    let mut heard = Vec::new();
    let both = async {
        let write = async {
            writing.write_all(&sent).await?;
            writing.shutdown().await
        };
        tokio::join!(write, reading.read_to_end(&mut heard))
    };
    let (written, read) = soon(both).await;
    written.unwrap();
    read.unwrap();
    assert!(heard == sent, "{} bytes of {}", heard.len(), sent.len());
    let mut told = String::new();
    soon(error.read_to_string(&mut told)).await.unwrap();
    assert_eq!(told, "");
    let (_data, mut error) = soon(forward.connect(1)).await.unwrap();
    soon(error.read_to_string(&mut told)).await.unwrap();
    assert_eq!(told, "error forwarding port 1 to pod: connection refused");
    let _ = soon(forward.close()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_forwarded_by_spdy_and_through_a_tunnel() {
    let node = start(&[]).await;
    let target: http::Uri =
        format!("https://127.0.0.1{PODS}/p/portforward?ports=8080,1").parse().unwrap();
    let request = spdy_request(target.clone(), &[PORT_FORWARD]);
    let answer = soon(handshake(node.connect().await, &request)).await.unwrap();
    let Answer::Switched(_, io) = answer else { panic!("{answer:?}") };
    converse(PortForward::new(io)).await;
    let asked = node.kubelet.requests().pop().unwrap();
    assert_eq!(asked.uri().to_string(), "/portForward/default/p?port=8080%2C1");

    let protocol = format!("SPDY/3.1+{PORT_FORWARD}");
    let io = node.connect().await;
    let (chosen, socket) = soon(websocket(io, target, &protocol)).await.unwrap();
    assert_eq!(chosen, protocol);
    converse(PortForward::new(Tunnel::new(socket))).await;
    until(async || node.kubelet.connections() == 0).await;

    let missing = format!("https://127.0.0.1{PODS}/missing/portforward").parse().unwrap();
    let told = soon(websocket(node.connect().await, missing, &protocol)).await.unwrap_err();
    assert!(told.to_string().contains("404: pod does not exist: missing"), "{told}");
    node.cluster.stop().await;
}
