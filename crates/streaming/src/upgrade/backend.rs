//! The handshake with a backend, as a client: on a connection that is used for nothing else.

use std::io;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, response};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::body::Body;
use super::{PROTOCOL_VERSION, Rewound, SPDY_31, drop_hop_by_hop};

/// The most that stands before an answer's body. A kubelet's is 150 bytes.
pub const MAX_HEAD: usize = 64 << 10;
/// The most headers of an answer.
pub const MAX_HEADERS: usize = 100;
/// The most that is passed on of an answer that is not an upgrade: it says what is wrong, and is whole
/// in memory.
pub const MAX_BODY: usize = 1 << 20;
/// How long a backend may take for that. What has come by then is passed on.
pub const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// What a backend answers.
#[derive(Debug)]
pub enum Answer<IO> {
    /// The connection goes on as something else.
    Switched(response::Parts, Rewound<IO>),
    /// It does not. What was about the backend's connection is gone from the headers.
    Refused(Response<Bytes>),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The backend does not speak HTTP/1.1.
    #[error("malformed HTTP response: {0}")]
    Malformed(httparse::Error),
    /// The backend talks too much.
    #[error("header size limit exceeded")]
    TooLarge,
}

/// The request that asks for SPDY, in one of the versions, those first that are liked best. It has
/// nothing of the client's.
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

/// Sends a request that asks for an upgrade and has no body, and reads the answer. There is no limit
/// of time: that is up to who asks.
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
        // A copy of what is most often nothing: the buffer is not kept.
        let ahead = Bytes::copy_from_slice(&rest);
        return Ok(Answer::Switched(parts, Rewound::new(ahead, io)));
    }
    let mut body = Body::new(&parts.headers, rest, MAX_BODY);
    let _ = timeout(BODY_DEADLINE, body.read_to_end(&mut io)).await;
    drop_hop_by_hop(&mut parts.headers);
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Answer::Refused(Response::from_parts(parts, body.into_bytes())))
}

/// The request as it is sent. What would say something else about its body is left out: there is none.
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

/// Whether an empty line is there: only then it is worth looking.
fn has_end(read: &[u8]) -> bool {
    read.windows(2).any(|pair| pair == b"\n\n") || read.windows(3).any(|end| end == b"\n\r\n")
}

/// The head of an answer, and how long it is.
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
