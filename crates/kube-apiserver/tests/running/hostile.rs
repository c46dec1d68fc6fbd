//! Clients that mean no good, while others want to work.

use std::future::Future;
use std::net::Ipv4Addr;
use std::time::Duration;

use http::{HeaderValue, Method};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::{Client, Version, config_map, connect, read, request};
use crate::{Server, soon};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/map";

/// Most memory that a server may gain.
const MOST: u64 = 64 << 20;
/// Time that a busy machine may add to a request.
const NOISE: Duration = Duration::from_millis(20);
/// Most attempts to measure that other clients are served as before.
const ATTEMPTS: usize = 10;

/// A server, and a well-behaved client of it.
struct Scene {
    server: Server,
    client: Client,
    before: (u64, Duration),
}

impl Scene {
    async fn begin() -> Self {
        let server = Server::start(&[]).await;
        let mut client = Client::connect(server.port, &server.tls, Version::Http2).await.unwrap();
        assert_eq!(client.post(MAPS, config_map("map", 100)).await.unwrap().status(), 201);
        let latency = median(&mut client).await;
        let before = (server.resident(), latency);
        Scene { server, client, before }
    }

    async fn tls(&self, version: Version) -> tokio_rustls::client::TlsStream<TcpStream> {
        soon(connect(self.server.port, &self.server.tls, version)).await.unwrap()
    }

    async fn client(&self, version: Version) -> Client {
        soon(Client::connect(self.server.port, &self.server.tls, version)).await.unwrap()
    }

    /// Others are served as before, and the server has not grown.
    async fn holds(&mut self) {
        let (memory, latency) = self.before;
        let most = (latency * 2).max(latency + NOISE);
        let mut found = Vec::new();
        while found.len() < ATTEMPTS && found.last().is_none_or(|last| *last > most) {
            found.push(median(&mut self.client).await);
        }
        assert!(found.last().is_some_and(|last| *last <= most), "{latency:?} became {found:?}");
        let now = self.server.resident();
        assert!(now <= memory + MOST, "{memory} bytes became {now}");
    }
}

/// Median duration of a request.
async fn median(client: &mut Client) -> Duration {
    let mut all = Vec::new();
    for _ in 0..51 {
        let start = kevel_clock::monotonic_now();
        let answer = soon(client.get(MAP)).await.unwrap();
        assert_eq!(answer.status(), 200);
        soon(read(answer)).await.unwrap();
        all.push(start.elapsed());
    }
    all.sort();
    all[all.len() / 2]
}

/// Does the same at many places at a time.
async fn everywhere<F: Future<Output = ()> + Send + 'static>(
    count: usize,
    what: impl Fn(usize) -> F,
) {
    let mut all: JoinSet<()> = (0..count).map(what).collect();
    while let Some(done) = soon(all.join_next()).await {
        done.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_cost_little() {
    let mut scene = Scene::begin().await;
    // What a TLS client says first, or a part of it.
    let hello = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[7; 100]].concat();
    let mut silent = Vec::new();
    for number in 0..2000 {
        let mut stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, scene.server.port)).await.unwrap();
        stream.write_all(hello.get(..number % 50).unwrap_or_default()).await.unwrap();
        silent.push(stream);
    }
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(scene.tls(Version::Http1).await);
    }
    scene.holds().await;
    // Clients that disconnect in the middle of it.
    drop(silent);
    drop(idle);
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_request_heads_delay_no_other_client() {
    let mut scene = Scene::begin().await;
    let mut dripping = JoinSet::new();
    for _ in 0..100 {
        let mut stream = scene.tls(Version::Http1).await;
        dripping.spawn(async move {
            for byte in b"GET /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nX: "
                .iter()
                .chain(std::iter::repeat(&b'x'))
            {
                if stream.write_all(&[*byte]).await.is_err() || stream.flush().await.is_err() {
                    break;
                }
                // A byte at a time, each in a packet of its own.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    scene.holds().await;
    assert_eq!(dripping.len(), 100);
    dripping.shutdown().await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_and_invalid_bodies_are_refused() {
    let mut scene = Scene::begin().await;
    let nested = |depth: usize| format!(r#"{{"data":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let invalid =
        b"{\"metadata\":{\"name\":\"\xff\xfe\"},\"data\":{\"\xc3\x28\":\"\xed\xa0\x80\"}}";
    for (body, code) in [
        (vec![b' '; 4 << 20], 413),
        (nested(10_000).into_bytes(), 400),
        (nested(1_000_000).into_bytes(), 400),
        (invalid.to_vec(), 422),
    ] {
        for version in [Version::Http1, Version::Http2] {
            let mut client = scene.client(version).await;
            let answer = soon(client.post(MAPS, body.clone())).await.unwrap();
            assert_eq!(answer.status(), code);
        }
    }
    let (port, tls) = (scene.server.port, scene.server.tls.clone());
    everywhere(40, |number| {
        let tls = tls.clone();
        let version = if number % 2 == 0 { Version::Http1 } else { Version::Http2 };
        async move {
            let mut client = Client::connect(port, &tls, version).await.unwrap();
            let _ = client.post(MAPS, vec![b'['; 6 << 20]).await;
            let mut client = Client::connect(port, &tls, version).await.unwrap();
            let mut large = request(Method::GET, MAP, "");
            let value = HeaderValue::from_bytes(&vec![b'x'; 2 << 20]).unwrap();
            large.headers_mut().insert("x", value);
            if let Ok(answer) = client.send(large).await {
                assert_eq!(answer.status(), 431);
            }
        }
    })
    .await;
    scene.holds().await;
}

/// A document that nests as deep as is allowed goes through every kind of write, with the stack that the server gives its threads.
#[tokio::test(flavor = "multi_thread")]
async fn what_nests_deep_needs_no_more_stack_than_there_is() {
    let mut scene = Scene::begin().await;
    for depth in [500, 900, 990, 3_000] {
        let nested = format!(r#"{}"a"{}"#, r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let object = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"map","annotations":{nested}}},"data":{nested}}}"#
        );
        for kind in ["json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"] {
            let method = if kind == "json" { Method::PUT } else { Method::PATCH };
            let path = format!("{MAP}?fieldManager=test");
            let mut asked = request(method, &path, object.clone());
            let media = HeaderValue::from_str(&format!("application/{kind}")).unwrap();
            asked.headers_mut().insert("content-type", media);
            let answer = soon(scene.client.send(asked)).await.unwrap();
            let code = answer.status().as_u16();
            assert!((400..=500).contains(&code), "{kind}, {depth} levels: {code}");
            read(answer).await.unwrap();
        }
    }
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_do_not_pile_up() {
    let mut scene = Scene::begin().await;
    let (port, tls) = (scene.server.port, scene.server.tls.clone());
    let flood = tokio::spawn(everywhere(10, move |_| {
        let tls = tls.clone();
        async move {
            for _ in 0..5 {
                let mut client = Client::connect(port, &tls, Version::Http2).await.unwrap();
                for _ in 0..500 {
                    // Asked, and given up.
                    let asked = client.get("/api/v1/namespaces?watch=1");
                    if let Ok(Err(_)) = tokio::time::timeout(Duration::from_micros(10), asked).await
                    {
                        break;
                    }
                }
            }
        }
    }));
    scene.holds().await;
    flood.await.unwrap();
    scene.holds().await;
}
