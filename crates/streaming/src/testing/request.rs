//! HTTP/1.1 requests and responses of the stand-in.

use std::io;

use bytes::{Bytes, BytesMut};
use http::{HeaderName, Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::upgrade::Rewound;

const MAX_HEAD: usize = 64 << 10;

/// Reads the head of a request.
pub(super) async fn read<IO: AsyncRead + Unpin>(
    mut io: IO,
) -> io::Result<(Request<()>, Rewound<IO>)> {
    let mut read = BytesMut::new();
    loop {
        if let Some((request, length)) = parse(&read)? {
            let ahead = Bytes::copy_from_slice(&read[length..]);
            return Ok((request, Rewound::new(ahead, io)));
        }
        if read.len() > MAX_HEAD || io.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn parse(read: &[u8]) -> io::Result<Option<(Request<()>, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(read).map_err(io::Error::other)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let mut request = Request::builder()
        .method(parsed.method.unwrap_or_default())
        .uri(parsed.path.unwrap_or_default());
    for header in parsed.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(io::Error::other)?;
        request = request.header(name, header.value);
    }
    Ok(Some((request.body(()).map_err(io::Error::other)?, length)))
}

/// Writes a response.
pub(super) async fn answer(
    io: &mut (impl AsyncWrite + Unpin),
    response: &Response<impl AsRef<[u8]>>,
) -> io::Result<()> {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let mut out = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in response.headers() {
        out.extend_from_slice(format!("{name}: ").as_bytes());
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    let body = response.body().as_ref();
    if status.as_u16() != 101 {
        out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    io.write_all(&out).await?;
    io.flush().await
}

/// Values of a query parameter.
pub(super) fn query(request: &Request<()>, key: &str) -> Vec<String> {
    let pairs = request.uri().query().unwrap_or_default().split('&');
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == key).map(|(_, value)| unescape(value)).collect()
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let escaped = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
