//! Handshake with a backend, as a client, on a dedicated connection.

use std::io;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, response};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::body::Body;
use super::{PROTOCOL_VERSION, Rewound, SPDY_31, drop_hop_by_hop};

/// Maximum size of a response's head. A kubelet's has 150 bytes.
pub const MAX_HEAD: usize = 64 << 10;
/// Maximum number of headers of a response.
pub const MAX_HEADERS: usize = 100;
/// Maximum size of the passed-on body of a response that is not an upgrade; it holds an error message, and is buffered.
pub const MAX_BODY: usize = 1 << 20;
/// Time limit for that body. The part received by then is passed on.
pub const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// Response of a backend.
#[derive(Debug)]
pub enum Answer<IO> {
    /// 101: the connection was upgraded.
    Switched(response::Parts, Rewound<IO>),
    /// Any other response, without hop-by-hop headers.
    Refused(Response<Bytes>),
}

/// Error without a response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The backend does not speak HTTP/1.1.
    #[error("malformed HTTP response: {0}")]
    Malformed(httparse::Error),
    /// The head of the response is too large.
    #[error("header size limit exceeded")]
    TooLarge,
}

/// A request for SPDY with protocol versions in order of preference. Contains nothing of the client's request.
pub fn spdy_request(target: http::Uri, versions: &[&'static str]) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target;
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(SPDY_31));
    for version in versions {
        headers.append(PROTOCOL_VERSION, HeaderValue::from_static(version));
    }
    request
}

/// Sends an upgrade request without a body, and reads the response. Has no time limit of its own.
pub async fn handshake<IO: AsyncRead + AsyncWrite + Unpin>(
    mut io: IO,
    request: &Request<()>,
) -> Result<Answer<IO>, Error> {
    io.write_all(&request_head(request)).await?;
    io.flush().await?;
    const READ: usize = 4 << 10;
    let mut read = BytesMut::with_capacity(READ);
    let mut searched = 0;
    while !has_end(&read[searched..]) {
        searched = read.len().saturating_sub(2);
        if read.len() > MAX_HEAD {
            return Err(Error::TooLarge);
        }
        if io.read_buf(&mut (&mut read).limit(READ)).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
    let (mut parts, length) = parse(&read)?;
    let rest = read.split_off(length);
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        // A copy, mostly empty, so that the buffer is not kept.
        let ahead = Bytes::copy_from_slice(&rest);
        return Ok(Answer::Switched(parts, Rewound::new(ahead, io)));
    }
    let mut body = Body::new(&parts.headers, rest, MAX_BODY);
    // An answer that announces another one has no body to wait for.
    if !parts.status.is_informational() {
        let _ = timeout(BODY_DEADLINE, body.read_to_end(&mut io)).await;
    }
    drop_hop_by_hop(&mut parts.headers);
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Answer::Refused(Response::from_parts(parts, body.into_bytes())))
}

/// Encodes the request. Headers about a body are left out: there is none.
fn request_head(request: &Request<()>) -> Vec<u8> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let mut out = format!("{} {target} HTTP/1.1\r\n", request.method()).into_bytes();
    let mut line = |name: &str, value: &[u8]| {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    };
    let headers = request.headers();
    if let Some(authority) =
        request.uri().authority().filter(|_| !headers.contains_key(header::HOST))
    {
        line("host", authority.as_str().as_bytes());
    }
    const OF_BODIES: [HeaderName; 3] =
        [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::EXPECT];
    for (name, value) in headers.iter().filter(|(name, _)| !OF_BODIES.contains(name)) {
        line(name.as_str(), value.as_bytes());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        line("content-length", b"0");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Whether an empty line was received: parsing is only worthwhile then.
fn has_end(read: &[u8]) -> bool {
    read.windows(2).any(|pair| pair == b"\n\n") || read.windows(3).any(|end| end == b"\n\r\n")
}

/// Head of a response, and its length.
fn parse(read: &[u8]) -> Result<(response::Parts, usize), Error> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let length = match parsed.parse(read).map_err(Error::Malformed)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Err(Error::Malformed(httparse::Error::Status)),
    };
    let status = StatusCode::from_u16(parsed.code.unwrap_or_default());
    let status = status.map_err(|_| Error::Malformed(httparse::Error::Status))?;
    let mut response = Response::new(());
    *response.status_mut() = status;
    for header in parsed.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let name = name.map_err(|_| Error::Malformed(httparse::Error::HeaderName))?;
        let value = HeaderValue::from_bytes(header.value);
        let value = value.map_err(|_| Error::Malformed(httparse::Error::HeaderValue))?;
        response.headers_mut().append(name, value);
    }
    Ok((response.into_parts().0, length))
}
