//! A server in a pod: it says what it hears.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

pub const PAGE: &str = "<a href=\"/x\">x</a><a href=\"http://example.com/\">y</a>";

/// A server that runs as long as the test.
pub async fn start(address: IpAddr) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let service =
                    service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
                let server = auto::Builder::new(TokioExecutor::new());
                let io = TokioIo::new(stream);
                let _ = server.serve_connection_with_upgrades(io, service).await;
            });
        }
    });
    at
}

async fn answer(mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let builder = Response::builder();
    match request.uri().path() {
        "/page" => {
            let builder = builder.header("content-type", "text/html; charset=utf-8");
            builder.header("access-control-allow-origin", "*").body(PAGE.into()).unwrap()
        }
        "/moved" => builder.status(302).header("location", "/to/").body(Full::default()).unwrap(),
        "/away" => {
            let to = "https://169.254.169.254/latest";
            builder.status(302).header("location", to).body(Full::default()).unwrap()
        }
        "/talk" => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut io = TokioIo::new(upgrade.await.unwrap());
                while let Ok(byte) = io.read_u8().await {
                    io.write_u8(byte + 1).await.unwrap();
                }
            });
            let builder = builder.status(StatusCode::SWITCHING_PROTOCOLS);
            let builder = builder.header("connection", "Upgrade").header("upgrade", "next");
            builder.body(Full::default()).unwrap()
        }
        _ => {
            let told = json!({
                "method": request.method().as_str(),
                "uri": request.uri().to_string(),
                "headers": shown(request.headers()),
                "body": String::from_utf8_lossy(
                    &request.into_body().collect().await.unwrap().to_bytes()
                ),
            });
            builder.status(203).body(told.to_string().into()).unwrap()
        }
    }
}

fn shown(headers: &HeaderMap) -> Value {
    let lines = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
    lines.collect()
}
