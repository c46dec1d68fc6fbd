//! Clients who want more than they may have.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kevel_test_support::{soon, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Node, PODS, backend, reachable, start};

/// Request as a server in a pod receives it, from raw bytes of a client.
async fn heard(node: &Node, head: &str, body: &str) -> Result<Value, String> {
    let mut client = node.connect().await;
    let request = format!("{head} HTTP/1.1\r\nhost: kubernetes\r\nconnection: close\r\n{body}");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = soon(client.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let start = body.find('{').unwrap_or_default();
    let end = body.rfind('}').map_or(0, |end| end + 1);
    match serde_json::from_str(body.get(start..end).unwrap_or_default()) {
        Ok(told) if head.starts_with("HTTP/1.1 203") => Ok(told),
        _ => Err(head.lines().next().unwrap_or_default().to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_cannot_forge_proxy_headers() {
    let Some(address) = reachable() else { return };
    let node = start(&[]).await;
    let address = backend::start(address).await;
    create_web(&node, address.ip()).await;
    let path = format!("{PODS}/web:{}/proxy/x", address.port());

    let sent = "x-remote-user: admin\r\nx-remote-group: system:masters\r\nx-remote-extra-a: b\r\n\
                authorization: Basic eDp5\r\nproxy-authorization: Basic eDp5\r\nkeep-alive: 1\r\n\
                te: trailers, gzip\r\nx-mine: 1\r\n\r\n";
    let told = heard(&node, &format!("GET {path}"), sent).await.unwrap();
    let headers = told["headers"].to_string();
    for gone in ["x-remote", "authorization", "keep-alive", "gzip"] {
        assert!(!headers.contains(gone), "{gone}: {headers}");
    }
    assert!(headers.contains("x-mine: 1") && headers.contains("te: trailers"), "{headers}");

    // One body is one body.
    let two = "content-length: 5\r\ncontent-length: 9\r\n\r\nhelloGET ";
    assert_eq!(
        heard(&node, &format!("POST {path}"), two).await,
        Err("HTTP/1.1 400 Bad Request".into())
    );
    let both = "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    if let Ok(told) = heard(&node, &format!("POST {path}"), both).await {
        assert_eq!(told["body"], "hello");
        assert!(!told["headers"].to_string().contains("content-length: 3"), "{told}");
    }
    let told =
        heard(&node, &format!("POST {path}"), "content-length: 5\r\n\r\nhello").await.unwrap();
    assert_eq!(told["body"], "hello");
    // A path is a path, whatever it is written like.
    for (written, expected) in [("%0d%0ax-a:%20b", "/%0D%0Ax-a:%20b"), ("a%3Fb%23c", "/a%3Fb%23c")]
    {
        let path = format!("{PODS}/web:{}/proxy/{written}", address.port());
        let told = heard(&node, &format!("GET {path}"), "\r\n").await.unwrap();
        assert_eq!(told["uri"], expected);
    }
    node.cluster.stop().await;
}

/// A pod `web` at an address.
pub async fn create_web(node: &Node, ip: IpAddr) {
    let pod = json!({
        "metadata": {"name": "web"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    node.cluster.admin.create(PODS, &pod).await;
    let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}).to_string();
    node.cluster.ok("admin", &format!("PATCH {PODS}/web/status"), &status).await;
}

/// A server that says the same to everybody, whatever they ask, and counts who is there.
pub async fn says(address: IpAddr, said: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let present = Arc::<AtomicUsize>::default();
    let count = present.clone();
    tokio::spawn(async move {
        while let Ok((mut io, _)) = listener.accept().await {
            let count = count.clone();
            tokio::spawn(async move {
                count.fetch_add(1, Ordering::SeqCst);
                let mut asked = [0; 4096];
                let _ = io.read(&mut asked).await;
                let _ = io.write_all(said).await;
                if said.is_empty() {
                    while io.read(&mut asked).await.is_ok_and(|read| read > 0) {}
                }
                count.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    (at, present)
}

/// A server that announces its answer without end, and counts connections that are open.
async fn announces(address: IpAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let present = Arc::<AtomicUsize>::default();
    let count = present.clone();
    tokio::spawn(async move {
        while let Ok((mut io, _)) = listener.accept().await {
            let count = count.clone();
            tokio::spawn(async move {
                count.fetch_add(1, Ordering::SeqCst);
                let mut asked = [0; 4096];
                let _ = io.read(&mut asked).await;
                while io.write_all(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n").await.is_ok()
                {
                }
                count.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    (at, present)
}

/// These were read for as long as they came.
#[tokio::test(flavor = "multi_thread")]
async fn informational_answers_without_end_are_given_up() {
    let Some(address) = reachable() else { return };
    let node = start(&[]).await;
    create_web(&node, address).await;
    let (at, present) = announces(address).await;
    let path = format!("GET {PODS}/web:{}/proxy/", at.port());
    let told = soon(node.cluster.refused("admin", &path, "")).await;
    assert!(told.starts_with("503 "), "{told}");
    assert!(told.contains("server response headers exceeded 10485760 bytes"), "{told}");
    until(async || present.load(Ordering::SeqCst) == 0).await;
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_make_no_sense_are_told_of() {
    let Some(address) = reachable() else { return };
    let node = start(&[]).await;
    create_web(&node, address).await;
    for (said, code) in [
        (
            &b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"[..],
            500,
        ),
        (b"SSH-2.0-OpenSSH\r\n", 503),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxy", 503),
    ] {
        let (at, _) = says(address, said).await;
        let path = format!("GET {PODS}/web:{}/proxy/", at.port());
        let told = node.cluster.refused("admin", &path, "").await;
        assert!(told.starts_with(&format!("{code} ")), "{told}");
    }
    // One that says nothing is left when its client is.
    let (at, present) = says(address, b"").await;
    let mut client = node.connect().await;
    let upgrade = "connection: upgrade\r\nupgrade: x\r\n";
    let mut upgrading = node.connect().await;
    for (client, headers) in [(&mut client, ""), (&mut upgrading, upgrade)] {
        let path = format!("GET {PODS}/web:{}/proxy/", at.port());
        let request = format!("{path} HTTP/1.1\r\nhost: k\r\n{headers}\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
    }
    until(async || present.load(Ordering::SeqCst) == 2).await;
    drop((client, upgrading));
    until(async || present.load(Ordering::SeqCst) == 0).await;
    node.cluster.stop().await;
}
