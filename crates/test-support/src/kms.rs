//! KMS plug-in (`v2.KeyManagementService` and `v1beta1.KeyManagementService`, gRPC) on a Unix socket. It does not
//! really encrypt, which its clients cannot notice.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::task::{JoinHandle, JoinSet};

/// A KMS plug-in, stopped when dropped.
#[derive(Debug)]
pub struct KmsPlugin {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    serving: Option<JoinHandle<()>>,
}

/// Status codes of gRPC.
const NOT_FOUND: u8 = 5;
const UNIMPLEMENTED: u8 = 12;
const INTERNAL: u8 = 13;

#[derive(Debug)]
struct State {
    /// Version that it reports (v1).
    version: String,
    key_id: String,
    /// Key ID that it encrypts with, if that is not the reported one.
    encrypts_with: Option<String>,
    healthz: String,
    /// Plaintexts by key ID and ciphertext.
    known: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    calls: BTreeMap<String, usize>,
}

impl KmsPlugin {
    /// Starts a plug-in on a socket, with this key ID.
    pub fn start(socket: &Path, key_id: &str) -> Self {
        let state = State {
            version: "v1beta1".to_owned(),
            key_id: key_id.to_owned(),
            encrypts_with: None,
            healthz: "ok".to_owned(),
            known: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        let mut plugin = KmsPlugin {
            socket: socket.to_owned(),
            state: Arc::new(Mutex::new(state)),
            serving: None,
        };
        plugin.resume();
        plugin
    }

    /// Encrypts with another key from now on; earlier ciphertexts can still be decrypted.
    pub fn rotate(&self, key_id: &str) {
        self.state().key_id = key_id.to_owned();
    }

    /// Encrypts with another key than it reports, or with the reported one again.
    pub fn encrypt_with(&self, key_id: Option<&str>) {
        self.state().encrypts_with = key_id.map(str::to_owned);
    }

    /// Sets the version that it reports (v1).
    pub fn set_version(&self, version: &str) {
        self.state().version = version.to_owned();
    }

    /// Sets the health that it reports.
    pub fn set_healthz(&self, healthz: &str) {
        self.state().healthz = healthz.to_owned();
    }

    /// Adds a ciphertext that it can decrypt.
    pub fn know(&self, key_id: &str, ciphertext: &[u8], plaintext: &[u8]) {
        self.state().known.insert((key_id.to_owned(), ciphertext.into()), plaintext.into());
    }

    /// Number of calls of a method.
    pub fn calls(&self, method: &str) -> usize {
        self.state().calls.get(method).copied().unwrap_or(0)
    }

    /// Stops listening and closes all connections.
    pub fn stop(&mut self) {
        self.serving.take().inspect(JoinHandle::abort);
        let _ = std::fs::remove_file(&self.socket);
    }

    /// Listens again.
    pub fn resume(&mut self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        let state = self.state.clone();
        self.serving = Some(tokio::spawn(async move {
            // Dropped with this task, which closes all connections.
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = state.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(state.clone(), request));
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        }));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.stop();
    }
}

impl State {
    /// Response of a method, or its error code.
    fn call(&mut self, method: &str, request: &[u8]) -> Result<Vec<u8>, u8> {
        *self.calls.entry(method.to_owned()).or_default() += 1;
        let request = fields(request);
        let field = |tag: u8| request.get(&tag).cloned().unwrap_or_default();
        Ok(match method {
            "Status" => [
                bytes(1, b"v2"),
                bytes(2, self.healthz.as_bytes()),
                bytes(3, self.key_id.as_bytes()),
            ]
            .concat(),
            "Encrypt" => {
                let key_id = self.encrypts_with.as_ref().unwrap_or(&self.key_id).clone();
                let plain = field(1);
                let sealed: Vec<u8> = plain.iter().map(|byte| byte ^ 0x5a).collect();
                self.known.insert((key_id.clone(), sealed.clone()), plain);
                let note = [bytes(1, b"note.example.com"), bytes(2, b"1")].concat();
                [bytes(1, &sealed), bytes(2, key_id.as_bytes()), bytes(3, &note)].concat()
            }
            "Decrypt" => {
                let key_id = String::from_utf8(field(3)).unwrap();
                bytes(1, self.known.get(&(key_id, field(1))).ok_or(NOT_FOUND)?)
            }
            _ => return Err(UNIMPLEMENTED),
        })
    }

    /// Response of a v1beta1 method: there is no key ID, and an unhealthy plug-in fails all calls.
    fn call_v1(&mut self, method: &str, request: &[u8]) -> Result<Vec<u8>, u8> {
        *self.calls.entry(method.to_owned()).or_default() += 1;
        let request = fields(request);
        let field = |tag: u8| request.get(&tag).cloned().unwrap_or_default();
        if method == "Version" {
            return Ok([bytes(1, self.version.as_bytes()), bytes(2, b"stub")].concat());
        }
        assert_eq!(field(1), b"v1beta1");
        if self.healthz != "ok" {
            return Err(INTERNAL);
        }
        let of_v1 = |sealed: Vec<u8>| (String::new(), sealed);
        Ok(match method {
            "Encrypt" => {
                let plain = field(2);
                let sealed: Vec<u8> = plain.iter().map(|byte| byte ^ 0x5a).collect();
                self.known.insert(of_v1(sealed.clone()), plain);
                bytes(1, &sealed)
            }
            "Decrypt" => bytes(1, self.known.get(&of_v1(field(2))).ok_or(NOT_FOUND)?),
            _ => return Err(UNIMPLEMENTED),
        })
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: http::Request<Incoming>,
) -> Result<http::Response<Answer>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message = body.get(5..).unwrap_or_default();
    let called = match path.split_once(".KeyManagementService/") {
        Some(("/v2", method)) => state.lock().unwrap().call(method, message),
        Some(("/v1beta1", method)) => state.lock().unwrap().call_v1(method, message),
        _ => Err(UNIMPLEMENTED),
    };
    let (message, code) = match called {
        Ok(message) => (Some(message), 0),
        Err(code) => (None, code),
    };
    let data = message.map(|message| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0], &length[..], &message].concat().into()
    });
    let response = http::Response::builder()
        .header("content-type", "application/grpc")
        .body(Answer { data, code: Some(code) });
    Ok(response.unwrap())
}

/// Body with a message and the final status.
struct Answer {
    data: Option<Bytes>,
    code: Option<u8>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let Some(code) = self.code.take() else { return Poll::Ready(None) };
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", code.to_string().parse().unwrap());
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}

/// Encodes a bytes field.
fn bytes(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    let mut length = contents.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(contents);
    out
}

/// Decodes the bytes fields of a message.
fn fields(mut message: &[u8]) -> BTreeMap<u8, Vec<u8>> {
    let mut fields = BTreeMap::new();
    while let [head, rest @ ..] = message {
        assert_eq!(head & 7, 2, "a field of bytes");
        let end = rest.iter().position(|byte| *byte < 0x80).unwrap();
        let digits = rest[..=end].iter().rev();
        let length = digits.fold(0, |sum, digit| sum << 7 | usize::from(digit & 0x7f));
        let (contents, rest) = rest[end + 1..].split_at(length);
        fields.insert(head >> 3, contents.to_vec());
        message = rest;
    }
    fields
}
