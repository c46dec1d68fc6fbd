//! Ports of the stand-in, which echo their input.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::JoinSet;

use crate::remote_command::STREAM_TYPE;
use crate::spdy::{Connection, Stream};

pub(super) const PORT: HeaderName = HeaderName::from_static("port");
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("requestid");
pub(super) const DATA: &str = "data";
pub(super) const ERROR: &str = "error";

/// Headers of one of the two streams of a forwarded connection.
pub(super) fn headers(kind: &'static str, port: u16, id: u32) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(STREAM_TYPE, HeaderValue::from_static(kind));
    headers.insert(PORT, port.into());
    headers.insert(REQUEST_ID, id.into());
    headers
}

/// Serves forwarded connections until the SPDY connection ends. A connection to a port has two streams with the same
/// request ID.
pub(super) async fn serve(connection: Connection) {
    let mut halves: HashMap<String, Stream> = HashMap::new();
    let mut forwards = JoinSet::new();
    while let Some(incoming) = connection.accept().await {
        let text = |name: &str| {
            let value = incoming.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (kind, port, id) = (text(STREAM_TYPE), text("port"), text("requestid"));
        if !matches!(&*kind, DATA | ERROR) || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            incoming.refuse();
            continue;
        }
        let stream = incoming.accept();
        match halves.remove(&id) {
            None => drop(halves.insert(id, stream)),
            Some(other) if kind == DATA => drop(forwards.spawn(forward(port, stream, other))),
            Some(other) => drop(forwards.spawn(forward(port, other, stream))),
        }
        while forwards.try_join_next().is_some() {}
    }
}

async fn forward(port: String, data: Stream, error: Stream) {
    if port == "1" {
        let why = format!("error forwarding port {port} to pod: connection refused");
        let _ = error.send(why.as_bytes());
    } else {
        let _ = tokio::io::copy(&mut &data, &mut &data).await;
    }
    data.finish();
    error.finish();
    // Until the client has ended its side, too.
    let _ = tokio::io::copy(&mut &data, &mut tokio::io::sink()).await;
}
