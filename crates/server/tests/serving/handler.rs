//! Test handler whose responses depend on the path.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{StatusCode, header};
use http_body_util::BodyExt as _;
use kevel_component::future::Pending;
use kevel_component::signals::Signal;
use kevel_server::body::{Body, Broken, Piece, Pieces};
use kevel_server::certificates::Certificate;
use kevel_server::handler::Abort;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;
use kevel_server::serving::{Taken, Upgrade};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// `/wait` responds once `go` is signaled; `/stream` sends a piece, and a second one then; `/close` closes the
/// connection; `/refuse` responds 403 without reading the body; `/abort` is aborted before a response, and `/broken`
/// after a piece; `/upgrade` upgrades and echoes a byte twice; all other paths return the HTTP version, the common name
/// of the client's certificate and the length of the body.
#[derive(Clone)]
pub struct Paths {
    /// A request for `/wait` or `/stream` has arrived.
    pub arrived: Signal,
    /// Lets waiting requests continue.
    pub go: Signal,
    /// A waiting request was dropped.
    pub dropped: Signal,
    /// Most requests waiting at a time.
    pub most: Arc<AtomicUsize>,
    waiting: Arc<AtomicUsize>,
}

impl Default for Paths {
    fn default() -> Self {
        Paths {
            arrived: Signal::new("arrived"),
            go: Signal::new("go"),
            dropped: Signal::new("dropped"),
            most: Arc::default(),
            waiting: Arc::default(),
        }
    }
}

impl Handler for Paths {
    fn handle<'a>(&'a self, mut request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            match request.parts.uri.path() {
                "/wait" => {
                    let here = self.enter();
                    self.go.wait().await;
                    std::mem::forget(here);
                    Response::new(Body::from("done"))
                }
                "/stream" => Response::new(Body::pieces(Stream {
                    pieces: ["first", "second"].map(Bytes::from).into(),
                    go: Box::pin(self.go.wait()),
                    here: self.enter(),
                })),
                "/abort" => {
                    let mut response = Response::new(Body::empty());
                    response.extensions_mut().insert(Abort);
                    response
                }
                "/broken" => Response::new(Body::pieces(Breaking(Some(Bytes::from("first"))))),
                "/upgrade" => {
                    let mut response = Response::new(Body::pieces(Stream {
                        pieces: ["first", "second"].map(Bytes::from).into(),
                        go: Box::pin(self.go.wait()),
                        here: self.enter(),
                    }));
                    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                    response.headers_mut().insert(header::UPGRADE, "echo".parse().unwrap());
                    response.headers_mut().insert(header::CONNECTION, "upgrade".parse().unwrap());
                    response.extensions_mut().insert(Upgrade::new(echo));
                    response
                }
                "/refuse" => {
                    let mut response = Response::new(Body::from("no"));
                    *response.status_mut() = StatusCode::FORBIDDEN;
                    response
                }
                "/close" => {
                    let mut response = Response::new(Body::from("closing"));
                    response.headers_mut().insert(header::CONNECTION, "close".parse().unwrap());
                    let uid = "x-kubernetes-pf-flowschema-uid";
                    response.headers_mut().insert(uid, "0Aa".parse().unwrap());
                    response
                }
                _ => {
                    let length = request.read_body().await.map_or(0, |body| body.len());
                    let own = request.connection.certificates.first();
                    let own = own.and_then(|der| Some(Certificate::read(der)?.subject()));
                    let who = own.map_or("nobody".to_owned(), |name| name.common_name);
                    let version = request.parts.version;
                    Response::new(Body::from(format!("{version:?} {who} {length}")))
                }
            }
        })
    }
}

impl Paths {
    fn enter(&self) -> Here {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(waiting, Ordering::SeqCst);
        self.arrived.signal();
        Here { dropped: self.dropped.clone(), waiting: self.waiting.clone() }
    }
}

struct Here {
    dropped: Signal,
    waiting: Arc<AtomicUsize>,
}

impl Drop for Here {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.dropped.signal();
    }
}

/// Sends the body, and echoes the first byte twice.
async fn echo(mut taken: Taken, mut body: Body) {
    while let Some(Ok(frame)) = body.frame().await {
        taken.write_all(&frame.into_data().unwrap()).await.unwrap();
    }
    let byte = taken.read_u8().await.unwrap();
    taken.write_all(&[byte, byte]).await.unwrap();
    taken.shutdown().await.unwrap();
}

/// A piece, then an error.
struct Breaking(Option<Bytes>);

impl Pieces for Breaking {
    fn poll_piece(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
        Poll::Ready(Some(self.0.take().ok_or(Broken("on purpose"))))
    }
}

struct Stream {
    pieces: VecDeque<Bytes>,
    go: Pin<Box<dyn Future<Output = ()> + Send>>,
    #[expect(dead_code, reason = "held until the stream ends")]
    here: Here,
}

impl Pieces for Stream {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        // Only the last piece waits.
        if self.pieces.len() == 1 && self.go.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(self.pieces.pop_front().map(Ok))
    }
}
