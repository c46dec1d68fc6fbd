//! Connections that go on in another protocol, from the client to the server behind.

use http::{HeaderMap, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kevel_server::body::Body;
use kevel_server::handler::Response;
use kevel_server::serving::{Taken, Upgrade};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

const UPGRADE: &[u8] = b"upgrade";

/// Whether a request asks for it.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(header::CONNECTION).iter();
    all.any(|value| {
        let said = value.as_bytes().to_ascii_lowercase();
        said.windows(UPGRADE.len()).any(|part| part == UPGRADE)
    })
}

/// Passes the agreement back; what follows goes both ways as it comes.
pub(super) fn go_on(mut answer: http::Response<Incoming>) -> Response {
    let upgraded = hyper::upgrade::on(&mut answer);
    let (parts, _) = answer.into_parts();
    let mut response = http::Response::new(Body::empty());
    *response.status_mut() = parts.status;
    *response.headers_mut() = parts.headers;
    let takeover = async move |client: Taken, _body: Body| match upgraded.await {
        Ok(server) => converse(client, TokioIo::new(server)).await,
        Err(error) => tracing::warn!(%error, "the server of an API service did not go on"),
    };
    response.extensions_mut().insert(Upgrade::new(takeover));
    response
}

/// Until either side has had enough.
async fn converse(client: Taken, server: impl AsyncRead + AsyncWrite) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let ended = tokio::select! {
        ended = tokio::io::copy(&mut from_client, &mut to_server) => ended,
        ended = tokio::io::copy(&mut from_server, &mut to_client) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an upgraded connection broke");
    }
    let _ = tokio::join!(to_client.shutdown(), to_server.shutdown());
}
