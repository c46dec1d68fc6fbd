//! A whole API server in memory: the real one, asked without a socket.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::{Connection, Request, RequestBody};
use kube_apiserver::options::ServerRunOptions;
use kube_apiserver::server::{self, RunningServer};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// Token file: an administrator, and a user without permissions. Tokens are the users' names.
const TOKENS: &str = "admin,admin,1,\"system:masters\"\njane,jane,2\n";

/// Timeout of a response. Requests that wait for more (such as a future revision) are cancelled, as clients do.
const PATIENCE: Duration = Duration::from_millis(20);
/// Most pieces of a response that are read: a watch has no last one.
const MAX_PIECES: usize = 8;
/// After so many requests the server makes room for a new one.
const MAX_REQUESTS: usize = 20_000;

/// A server that runs.
pub struct Api {
    runtime: Option<Runtime>,
    handler: Arc<dyn Handler>,
    requests: usize,
    _running: RunningServer,
    _folder: TempDir,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("requests", &self.requests).finish_non_exhaustive()
    }
}

impl Api {
    /// Starts a server, ready to be asked.
    pub fn start() -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let folder = TempDir::with_prefix("kevel-fuzz-").expect("a folder");
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, TOKENS).expect("a file");
        let arguments = vec![
            format!("--data-dir={}", folder.path().display()),
            format!("--token-auth-file={}", tokens.display()),
            "--storage=memory".to_owned(),
            "--controllers=".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
        ];
        let mut options = ServerRunOptions::default();
        options.parse(arguments).expect("flags");
        let mut options = options.complete().expect("flags");
        assert_eq!(options.validate(), Vec::<String>::new());
        options.flags.secure_serving.secure_port = 0;
        let (handler, running) = runtime.block_on(async {
            let prepared = server::prepare(options).await.expect("a server");
            let handler = prepared.handler.clone();
            (handler, prepared.start().await.expect("a server"))
        });
        let api = Api {
            runtime: Some(runtime),
            handler,
            requests: 0,
            _running: running,
            _folder: folder,
        };
        let namespace =
            "GET /api/v1/namespaces/default HTTP/1.1\r\nAuthorization: Bearer admin\r\n\r\n";
        for _ in 0..1000 {
            let request = request(namespace.as_bytes()).expect("a request");
            if api.block_on(api.handler.handle(request)).status() == 200 {
                return api;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server has no namespaces");
    }

    /// Whether it has served for long enough.
    pub fn is_old(&self) -> bool {
        self.requests >= MAX_REQUESTS
    }

    /// Asks, and reads the answer as far as it comes at once. `None` if none came.
    pub fn ask(&mut self, request: Request) -> Option<(http::StatusCode, Bytes)> {
        self.requests += 1;
        let answer = async {
            let response: Response = self.handler.handle(request).await;
            let (parts, mut body) = response.into_parts();
            let mut read = Vec::new();
            for _ in 0..MAX_PIECES {
                let Ok(Some(Ok(frame))) = tokio::time::timeout(PATIENCE / 4, body.frame()).await
                else {
                    break;
                };
                read.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
            (parts.status, Bytes::from(read))
        };
        self.block_on(async { tokio::time::timeout(PATIENCE, answer).await.ok() })
    }

    fn block_on<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("a runtime").block_on(what)
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A request out of its text: `GET /path HTTP/1.1`, headers, an empty line, a body. `None` for what an
/// HTTP library refuses.
pub fn request(text: &[u8]) -> Option<Request> {
    let end = text.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = match end {
        Some(end) => (&text[..end], &text[end + 4..]),
        None => (text, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let mut builder = http::Request::builder().method(words.next()?).uri(words.next()?);
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        builder = builder.header(&line[..at], line[at + 1..].trim_ascii());
    }
    let (parts, ()) = builder.body(()).ok()?.into_parts();
    // The HTTP layer passes on no other form.
    parts.uri.path().starts_with('/').then_some(())?;
    let body = RequestBody::Bytes(Bytes::copy_from_slice(body));
    Request::new(parts, body, Arc::new(Connection::default()))
}
