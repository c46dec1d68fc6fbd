//! Requests that are made up of pieces of requests, to a whole server on its port. The fuzz target `http`
//! knows better where to look; this one sees what only a running server has. `KEVEL_FUZZED_REQUESTS` sets how
//! many, `KEVEL_FUZZED_SEED` which.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Client, Version, connect, read};
use crate::{Server, amount, soon};

/// Most memory that the server may gain.
const MOST: u64 = 256 << 20;
/// An answer that takes longer is not waited for: a watch, say.
const PATIENCE: Duration = Duration::from_millis(300);

const METHODS: [&str; 9] =
    ["GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "FROB"];
const PARTS: [&str; 48] = [
    "api",
    "apis",
    "v1",
    "apps",
    "batch",
    "namespaces",
    "default",
    "kube-system",
    "pods",
    "configmaps",
    "secrets",
    "services",
    "nodes",
    "deployments",
    "jobs",
    "events",
    "watch",
    "proxy",
    "status",
    "scale",
    "log",
    "exec",
    "binding",
    "eviction",
    "finalize",
    "token",
    "serviceaccounts",
    "apiextensions.k8s.io",
    "example.com",
    "customresourcedefinitions",
    "authorization.k8s.io",
    "selfsubjectaccessreviews",
    "openapi",
    "v3",
    "v2",
    "livez",
    "metrics",
    "version",
    "a",
    "",
    ".",
    "..",
    "%2e%2e",
    "%2f",
    "%00",
    "%zz",
    "\u{e9}",
    "*",
];
/// Paths of objects, with the suffixes that may follow a name.
const PLACES: [&str; 16] = [
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/serviceaccounts",
    "/api/v1/namespaces/default/events",
    "/api/v1/nodes",
    "/api/v1/watch/namespaces/default/configmaps",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/example.com/v1/namespaces/default/foos",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/apiregistration.k8s.io/v1/apiservices",
];
const NAMES: [&str; 8] = ["a", "p", "d", "default", "foos.example.com", "v1.apps", "A_", "%2e%2e"];
const BELOW: [&str; 8] =
    ["status", "scale", "binding", "eviction", "token", "log", "finalize", "x"];
const QUERIES: [&str; 24] = [
    "watch=true",
    "watch=1",
    "limit=1",
    "limit=-1",
    "limit=9223372036854775808",
    "continue=eyJ2IjoibWV0YSJ9",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=%3D%3D",
    "labelSelector=a%20in%20(b,c)",
    "labelSelector=!",
    "resourceVersion=0",
    "resourceVersion=1",
    "resourceVersion=x",
    "resourceVersionMatch=Exact",
    "sendInitialEvents=true",
    "timeoutSeconds=1",
    "timeout=1ms",
    "dryRun=All",
    "fieldManager=a",
    "force=true",
    "fieldValidation=Strict",
    "propagationPolicy=Orphan",
    "pretty=true",
    "%zz=%zz",
];
const HEADERS: [(&str, &str); 16] = [
    ("accept", "application/yaml"),
    ("accept", "application/vnd.kubernetes.protobuf"),
    ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    ("accept", "text/html;q=0.1,*/*;q=x"),
    ("accept-encoding", "gzip"),
    ("content-type", "application/json"),
    ("content-type", "application/yaml"),
    ("content-type", "application/vnd.kubernetes.protobuf"),
    ("content-type", "application/merge-patch+json"),
    ("content-type", "application/json-patch+json"),
    ("content-type", "application/strategic-merge-patch+json"),
    ("content-type", "application/apply-patch+yaml"),
    ("impersonate-user", "jane"),
    ("authorization", "Bearer x"),
    ("if-none-match", "\"a\""),
];
const BODIES: [&str; 14] = [
    "",
    "{}",
    "null",
    "[]",
    r#"{"metadata":{"name":"a"}}"#,
    r#"{"metadata":{"generateName":"a-","labels":{"a":"b"}},"data":{"k":"v"}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
    r#"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"","path":"/x"}]"#,
    r#"{"spec":{"containers":[{"$patch":"delete","name":"c"}],"$setElementOrder/containers":[{"name":"x"}]}}"#,
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: &a v, l: *a}\n",
    "k8s\0\n\u{9}\n\u{2}v1\u{12}\u{3}Pod\u{12}\0\u{1a}\0\"\0",
    r#"{"metadata":{"name":"foos.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#,
    r#"{"gracePeriodSeconds":0,"preconditions":{"uid":"x"},"propagationPolicy":"Foreground"}"#,
];

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())]
    }

    /// A path that may be one of the API, or of nothing.
    fn path(&mut self) -> String {
        let mut path = match self.roll(4) {
            0 => self.pick(&["/api/v1", "/apis/apps/v1", "/apis", ""]).to_owned(),
            _ => self.pick(&PLACES).to_owned(),
        };
        let steps: &[&[&str]] = match self.roll(6) {
            0 => &[],
            1 | 2 => &[&NAMES],
            3 => &[&NAMES, &BELOW],
            4 => &[&PARTS],
            _ => &[&PARTS, &PARTS, &PARTS],
        };
        for step in steps {
            path = format!("{path}/{}", self.pick(step));
        }
        for number in 0..self.roll(4) {
            let separator = if number == 0 { '?' } else { '&' };
            path = format!("{path}{separator}{}", self.pick(&QUERIES));
        }
        if path.starts_with('/') { path } else { format!("/{path}") }
    }

    /// A body, whole or damaged.
    fn body(&mut self) -> Vec<u8> {
        let mut body = self.pick(&BODIES).as_bytes().to_vec();
        for _ in 0..self.roll(4) * self.roll(2) {
            let at = self.roll(body.len() + 1);
            match self.roll(4) {
                0 => body.truncate(at),
                1 => body.insert(at, self.roll(256) as u8),
                2 => body.extend_from_slice(self.pick(&BODIES).as_bytes()),
                _ => body.extend(std::iter::repeat_n(b'[', self.roll(2000))),
            }
        }
        body
    }

    fn request(&mut self) -> Option<Request<Full<Bytes>>> {
        let method = Method::from_bytes(self.pick(&METHODS).as_bytes()).ok()?;
        let uri: http::Uri = format!("https://localhost{}", self.path()).parse().ok()?;
        let mut request = Request::new(Full::new(Bytes::from(self.body())));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        request.headers_mut().insert("host", HeaderValue::from_static("localhost"));
        for _ in 0..self.roll(4) {
            let (name, value) = self.pick(&HEADERS);
            request
                .headers_mut()
                .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Some(request)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_the_server_answers_and_lives() {
    let count = amount("KEVEL_FUZZED_REQUESTS", 2000);
    let seed = amount("KEVEL_FUZZED_SEED", 1);
    let server = Server::start(&[]).await;
    let before = server.resident();
    let mut dice = Dice(seed as u64 | 0x9e37_79b9_7f4a_7c15);
    let mut answers = std::collections::BTreeMap::<u16, usize>::new();
    let mut client = fresh(&server, &mut dice).await;
    for number in 0..count {
        let Some(request) = dice.request() else { continue };
        let asked = format!("{number} (seed {seed}): {} {}", request.method(), request.uri());
        match tokio::time::timeout(PATIENCE, answer(&mut client, request)).await {
            Ok(Ok((status, body))) => {
                *answers.entry(status).or_default() += 1;
                assert!((200..600).contains(&status), "{asked}: {status}");
                assert!(status != 500 || !body.contains("panic"), "{asked}: {body}");
            }
            // Given up, or the connection is over: the next is asked on another.
            _ => client = fresh(&server, &mut dice).await,
        }
        if number % 40 == 0 {
            rubbish(&server, &mut dice).await;
        }
    }
    println!("{count} requests, answers by code: {answers:?}");
    assert!(!server.log().contains("panicked"), "{}", server.log());
    let mut client = fresh(&server, &mut dice).await;
    assert_eq!(soon(client.get("/livez")).await.unwrap().status(), 200);
    let now = server.resident();
    assert!(now <= before + MOST, "{before} bytes became {now}");
}

async fn fresh(server: &Server, dice: &mut Dice) -> Client {
    let version = dice.pick(&[Version::Http1, Version::Http2]);
    soon(Client::connect(server.port, &server.tls, version)).await.unwrap()
}

async fn answer(
    client: &mut Client,
    request: Request<Full<Bytes>>,
) -> hyper::Result<(u16, String)> {
    let answer = client.send(request).await?;
    let status = answer.status().as_u16();
    let body = read(answer).await?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Connection that sends random bytes instead of HTTP.
async fn rubbish(server: &Server, dice: &mut Dice) {
    let version = dice.pick(&[Version::Http1, Version::Http2]);
    let mut stream = soon(connect(server.port, &server.tls, version)).await.unwrap();
    let mut bytes = match version {
        Version::Http1 => b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        Version::Http2 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x04\x01\x05\0\0\0\x01\x82\x87\x84\x41".to_vec(),
    };
    for _ in 0..1 + dice.roll(8) {
        let at = dice.roll(bytes.len());
        bytes[at] = dice.roll(256) as u8;
    }
    let _ = stream.write_all(&bytes).await;
    let _ = stream.shutdown().await;
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
}
