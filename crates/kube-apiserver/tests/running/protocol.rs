//! Compression, WebSockets, the log and the metrics.

use std::io::Read as _;

use flate2::read::GzDecoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderValue, Method};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Client, Version, config_map, read, request};
use crate::{Server, soon};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn with_maps(count: usize, size: usize) -> (Server, Client) {
    let server = Server::start(&["-v=3"]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http2).await.unwrap();
    for number in 0..count {
        let made = client.post(MAPS, config_map(&format!("map-{number}"), size)).await.unwrap();
        assert_eq!(made.status(), 201);
    }
    (server, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn large_responses_are_compressed_if_the_client_accepts_it() {
    let (server, mut client) = with_maps(4, 50_000).await;
    let ask = async |client: &mut Client, path: &str, accept: &'static str, encoding| {
        let mut asked = request(Method::GET, path, "");
        asked.headers_mut().insert("accept", HeaderValue::from_static(accept));
        asked.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
        soon(client.send(asked)).await.unwrap()
    };
    let two = format!("{MAPS}?limit=2");
    for (path, accept, encoding, compressed) in [
        (MAPS, "application/json", "gzip", true),
        (MAPS, "application/json", "deflate, gzip", true),
        (MAPS, "application/vnd.kubernetes.protobuf", "gzip", true),
        (MAPS, "application/json", "br", false),
        // At most 128 KiB.
        (&two, "application/json", "gzip", false),
    ] {
        let plain = read(ask(&mut client, path, accept, "identity").await).await.unwrap();
        let answer = ask(&mut client, path, accept, encoding).await;
        assert_eq!(answer.status(), 200);
        let headers = answer.headers().clone();
        let mut body = soon(read(answer)).await.unwrap().to_vec();
        assert_eq!(headers.contains_key(CONTENT_ENCODING), compressed, "{path} {encoding}");
        if compressed {
            assert_eq!(headers[CONTENT_ENCODING], "gzip");
            assert_eq!(headers[VARY], "Accept-Encoding");
            assert!(body.len() < plain.len() / 20);
            let packed = std::mem::take(&mut body);
            GzDecoder::new(&*packed).read_to_end(&mut body).unwrap();
        }
        // Tokens and the like may differ, the objects do not.
        assert_eq!(body.len(), plain.len(), "{path} {accept} {encoding}");
    }
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let watched = ask(&mut client, &watch, "application/json", "gzip").await;
    assert!(!watched.headers().contains_key(CONTENT_ENCODING));
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_watches_over_a_websocket() {
    let (server, mut client) = with_maps(1, 10).await;
    let mut asked = request(Method::GET, &format!("{MAPS}?watch=1"), "");
    for (name, value) in [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("origin", "https://example.com"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ] {
        asked.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let mut page = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let mut homeless = asked.clone();
    homeless.headers_mut().remove("origin");
    assert_eq!(soon(page.send(homeless)).await.unwrap().status(), 403);

    let mut page = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let answer = soon(page.send(asked)).await.unwrap();
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let mut socket = TokioIo::new(soon(hyper::upgrade::on(answer)).await.unwrap());
    let (kind, event) = soon(message(&mut socket)).await;
    assert_eq!(kind, 0x81);
    // The first one is what there is: the ConfigMap of the root CA comes by itself, perhaps.
    assert!(event.starts_with(b"{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\","));
    assert!(event.ends_with(b"}\n"));
    client.post(MAPS, config_map("new", 70_000)).await.unwrap();
    while !soon(message(&mut socket)).await.1.windows(12).any(|part| part == b"\"name\":\"new\"") {}
    // A ping, masked with 1, 2, 3, 4, comes back as it was meant.
    socket.write_all(&[0x89, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2]).await.unwrap();
    assert_eq!(soon(message(&mut socket)).await, (0x8a, b"hi".to_vec()));

    let metrics = read(client.get("/metrics").await.unwrap()).await.unwrap();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let labels = "{group=\"\",resource=\"configmaps\",version=\"v1\"}";
    let total = format!("apiserver_watch_events_total{labels} ");
    let total = metrics.lines().find_map(|line| line.strip_prefix(&total)).unwrap();
    assert!(total.parse::<u64>().unwrap() >= 2, "{total}");
    assert!(metrics.contains("apiserver_watch_events_sizes_bucket"));
    let watching = metrics.lines().find(|line| {
        line.starts_with("apiserver_longrunning_requests{")
            && line.contains("resource=\"configmaps\"")
    });
    assert!(watching.unwrap().ends_with(" 1"), "{watching:?}");

    // A server that stops says goodbye.
    server.terminate();
    assert_eq!(soon(message(&mut socket)).await, (0x88, 1000u16.to_be_bytes().to_vec()));
    assert_eq!(soon(socket.read(&mut [0])).await.unwrap(), 0);
    let log = {
        let path = server.folder.path().join("log");
        let (status, _folder) = server.ended().await;
        assert!(status.success(), "{status}");
        std::fs::read_to_string(path).unwrap()
    };
    let line = log.lines().find(|line| line.contains("hijacked=true")).unwrap();
    for part in [
        "] \"HTTP\" verb=\"WATCH\" URI=\"",
        "latency=\"",
        "userAgent=\"\" audit-ID=\"",
        "srcIP=\"127.0.0.1:",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(log.contains("resp=201"), "{log}");
}

/// A message of the server, which does not mask.
async fn message(socket: &mut (impl tokio::io::AsyncRead + Unpin)) -> (u8, Vec<u8>) {
    let kind = socket.read_u8().await.unwrap();
    let length = match socket.read_u8().await.unwrap() {
        126 => u64::from(socket.read_u16().await.unwrap()),
        127 => socket.read_u64().await.unwrap(),
        length => u64::from(length),
    };
    let mut payload = vec![0; length as usize];
    socket.read_exact(&mut payload).await.unwrap();
    (kind, payload)
}
