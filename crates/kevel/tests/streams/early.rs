//! Servers that speak too early: before they are asked, before they agree to go on in another protocol, and in the
//! same breath.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kevel_streaming::channel::V5;
use kevel_streaming::testing::client::websocket;
use kevel_streaming::tunnel::PORT_FORWARD;
use kevel_test_support::{soon, until};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::hostile::create_web;
use super::{Node, PODS, reachable, start};

const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\
                      x-stream-protocol-version: v4.channel.k8s.io\r\n\r\n";

/// Bytes behind the agreement that no single read of a server takes.
const MUCH: usize = 1 << 20;

/// Behaviour of a server: its writes before and after it has read the request, and whether it closes then.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    unasked: Vec<u8>,
    writes: Vec<Vec<u8>>,
    closes: bool,
}

impl Manner {
    fn says(writes: &[&str]) -> Self {
        let writes = writes.iter().map(|text| text.as_bytes().to_vec()).collect();
        Manner { writes, ..Manner::default() }
    }

    pub async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(self, mut io: IO) {
        let _ = io.write_all(&self.unasked).await;
        let _ = io.flush().await;
        if read_head(&mut io).await.is_some() {
            self.answer(io).await;
        }
    }

    /// Answers a request that has been read.
    pub async fn answer<IO: AsyncRead + AsyncWrite + Unpin>(self, mut io: IO) {
        for write in &self.writes {
            let _ = io.write_all(write).await;
            let _ = io.flush().await;
        }
        match self.closes {
            true => drop(io.shutdown().await),
            false => drop(io.read_to_end(&mut Vec::new()).await),
        }
    }
}

/// The head of a request; `None` if the connection ends before it does.
pub async fn read_head(io: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if !matches!(io.read_buf(&mut head).await, Ok(1..)) {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// TLS with a certificate and key (PEM).
pub fn tls((certificate, key): &(String, String)) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A node whose kubelet has this manner, with a pod of the same name; the number of its connections.
async fn kubelet(node: &Node, name: &str, manner: Manner) -> Arc<AtomicUsize> {
    let acceptor = tls(&node.ca.server("127.0.0.1"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let object = json!({
        "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": listener.local_addr().unwrap().port()}},
        },
    });
    node.cluster.admin.create("/api/v1/nodes", &object).await;
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": name, "containers": [{"name": "c", "image": "i"}]},
    });
    node.cluster.admin.create(PODS, &pod).await;
    let present = Arc::<AtomicUsize>::default();
    let count = present.clone();
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            let (acceptor, manner, count) = (acceptor.clone(), manner.clone(), count.clone());
            tokio::spawn(async move {
                let Ok(io) = acceptor.accept(io).await else { return };
                count.fetch_add(1, Ordering::SeqCst);
                manner.serve(io).await;
                count.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    present
}

/// A server in a pod with this manner; its port.
async fn backend(address: IpAddr, manner: Manner) -> u16 {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            tokio::spawn(manner.clone().serve(io));
        }
    });
    port
}

/// A request for another protocol.
fn request(target: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nhost: k\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\
         x-stream-protocol-version: v4.channel.k8s.io\r\ncontent-length: 0\r\n\r\n"
    )
}

/// The answer to a request for another protocol: its head, and as many bytes behind it, or all that came.
pub async fn upgraded(node: &Node, target: &str, behind: usize) -> (String, Vec<u8>) {
    let mut client = node.connect().await;
    client.write_all(request(target).as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let whole = |heard: &[u8]| {
        let end = heard.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
        (heard.len() >= end + behind).then_some(end)
    };
    while whole(&heard).is_none() {
        if !matches!(soon(client.read_buf(&mut heard)).await, Ok(1..)) {
            break;
        }
    }
    let end = heard.windows(4).position(|end| end == b"\r\n\r\n").map_or(heard.len(), |at| at + 4);
    let rest = heard.split_off(end);
    (String::from_utf8(heard).unwrap(), rest)
}

/// Manners, and the bytes that a client must get behind the agreement; `None` where it must be refused.
pub fn manners() -> Vec<(&'static str, Manner, Option<Vec<u8>>)> {
    let much = "x".repeat(MUCH);
    let early = |text: &str| Some(text.as_bytes().to_vec());
    vec![
        ("same-segment", Manner::says(&[&format!("{AGREED}early")]), early("early")),
        ("right-behind", Manner::says(&[AGREED, "early"]), early("early")),
        (
            "split-head",
            Manner::says(&[
                "HTTP/1.1 101 X\r\nconnec",
                "tion: Upgrade\r\nupgrade: SPDY/3.1\r",
                "\n\r\nearly",
            ]),
            early("early"),
        ),
        ("much", Manner::says(&[&format!("{AGREED}{much}")]), early(&much)),
        (
            "unasked",
            Manner { unasked: format!("{AGREED}early").into_bytes(), ..Manner::default() },
            early("early"),
        ),
        ("before", Manner::says(&[&format!("early{AGREED}")]), None),
        ("closes", Manner { closes: true, ..Manner::says(&["early"]) }, None),
        ("closes-at-once", Manner { closes: true, ..Manner::default() }, None),
        ("half-a-head", Manner { closes: true, ..Manner::says(&["HTTP/1.1 101 Switching"]) }, None),
        (
            "announced",
            Manner::says(&[&format!("HTTP/1.1 103 Early Hints\r\n\r\n{AGREED}early")]),
            None,
        ),
    ]
}

/// Asserts that a client got the agreement with all that is behind it, or was refused with a code.
pub fn assert_answer(
    what: &str,
    expected: Option<&[u8]>,
    refused: u16,
    (head, rest): &(String, Vec<u8>),
) {
    match expected {
        Some(expected) => {
            assert!(head.starts_with("HTTP/1.1 101 "), "{what}: {head}");
            assert!(*rest == expected, "{what}: {} bytes", rest.len());
        }
        None => {
            assert!(head.starts_with(&format!("HTTP/1.1 {refused} ")), "{what}: {head}");
            assert!(!rest.starts_with(b"early"), "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_around_the_agreement_are_neither_lost_nor_harmful() {
    let node = start(&[]).await;
    let address = reachable();
    if let Some(address) = address {
        create_web(&node, address).await;
    }
    for (name, manner, expected) in manners() {
        kubelet(&node, name, manner.clone()).await;
        let mut targets = vec![format!("{PODS}/{name}/exec?command=x&stdout=1")];
        if let Some(address) = address {
            targets.push(format!("{PODS}/web:{}/proxy/", backend(address, manner).await));
        }
        for target in targets {
            let behind = expected.as_ref().map_or(0, Vec::len);
            let answer = upgraded(&node, &target, behind).await;
            assert_answer(&format!("{name} {target}"), expected.as_deref(), 500, &answer);
        }
    }
    assert_eq!(node.cluster.admin.get(&format!("{PODS}/same-segment")).await.0, 200);
    node.cluster.stop().await;
}

/// Neither the reference nor this server has a deadline for the head of a kubelet's answer: it is the client's.
#[tokio::test(flavor = "multi_thread")]
async fn kubelets_with_half_a_head_are_left_with_the_client() {
    let node = start(&[]).await;
    let present = kubelet(&node, "half", Manner::says(&["HTTP/1.1 101 Swit"])).await;
    let target = format!("{PODS}/half/exec?command=x&stdout=1");
    let mut client = node.connect().await;
    client.write_all(request(&target).as_bytes()).await.unwrap();
    until(async || present.load(Ordering::SeqCst) == 1).await;
    drop(client);
    until(async || present.load(Ordering::SeqCst) == 0).await;
    // A command over a WebSocket, which is translated.
    let (io, uri) = (node.connect().await, format!("https://127.0.0.1{target}").parse().unwrap());
    let asking = tokio::spawn(async move {
        let _held = websocket(io, uri, V5.name).await;
        std::future::pending::<()>().await;
    });
    until(async || present.load(Ordering::SeqCst) == 1).await;
    asking.abort();
    until(async || present.load(Ordering::SeqCst) == 0).await;
    node.cluster.stop().await;
}

/// The same where the client has a tunnel in a WebSocket: the bytes are its first message.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_behind_the_agreement_pass_through_a_tunnel() {
    let node = start(&[]).await;
    let agreed = AGREED.replace("v4.channel.k8s.io", PORT_FORWARD);
    kubelet(&node, "tunnel", Manner::says(&[&format!("{agreed}early")])).await;
    let target = format!("https://127.0.0.1{PODS}/tunnel/portforward").parse().unwrap();
    let protocol = format!("SPDY/3.1+{PORT_FORWARD}");
    let (chosen, socket) = soon(websocket(node.connect().await, target, &protocol)).await.unwrap();
    assert_eq!(chosen, protocol);
    let mut tunnel = kevel_streaming::websocket::Tunnel::new(socket);
    let mut heard = [0; 5];
    soon(tunnel.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"early");
    drop(tunnel);
    node.cluster.stop().await;
}
