//! HTTP CONNECT to a proxy.

use kevel_api::quote::quote;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::dialer::DIAL_TIMEOUT;
use super::failure;
use super::stream::Connection;

/// Largest head of a response: proxies send little more than a code.
const MAX_HEAD: usize = 64 << 10;
/// Headers that konnectivity's proxies are sent.
pub(super) const EGRESS_HEADERS: &str = "Host: 127.0.0.1\r\n";
/// Bytes read at a time.
const PIECE: usize = 1 << 10;

/// Asks a proxy to connect to an address; `proxy` is its name in errors, `headers` are whole lines.
pub(super) async fn connect<IO: Connection>(
    mut io: IO,
    proxy: &str,
    address: &str,
    headers: &str,
) -> Result<IO, String> {
    let unread = |why: String| {
        format!("reading HTTP response from CONNECT to {address} via proxy {proxy} failed: {why}")
    };
    let ask = async {
        let request = format!("CONNECT {address} HTTP/1.1\r\n{headers}\r\n");
        io.write_all(request.as_bytes()).await?;
        io.flush().await?;
        read_head(&mut io).await
    };
    let head = timeout(DIAL_TIMEOUT, ask).await.map_err(|_| unread("i/o timeout".to_owned()))?;
    let head = head.map_err(|error| unread(failure::of_connection(&error, proxy)))?;
    let Some((head, beyond)) = head else { return Err(unread("unexpected EOF".to_owned())) };
    let (code, status) = read_status(&head).map_err(unread)?;
    if code != 200 {
        return Err(format!(
            "proxy error from {proxy} while dialing {address}, code {code}: {status}"
        ));
    }
    // The target waits for the client to send first, so such bytes would come from the proxy.
    if beyond > 0 {
        return Err(format!(
            "unexpected {beyond} bytes of buffered data from CONNECT proxy {}",
            quote(proxy)
        ));
    }
    Ok(io)
}

/// Head of a response, and the number of bytes read beyond it; `None` if it is truncated or too long.
async fn read_head(io: &mut impl Connection) -> std::io::Result<Option<(Vec<u8>, usize)>> {
    let mut head = Vec::new();
    while head.len() < MAX_HEAD {
        // Continues where the last search ended, minus a possibly split end.
        let seen = head.len().saturating_sub(3);
        head.reserve(PIECE);
        if io.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
        if let Some(end) = end_of_head(&head, seen) {
            let beyond = head.len() - end;
            head.truncate(end);
            return Ok(Some((head, beyond)));
        }
    }
    Ok(None)
}

/// End of the empty line after a head. Lines may end without a carriage return.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let line_ends = bytes.iter().enumerate().skip(from).filter(|(_, byte)| **byte == b'\n');
    line_ends.map(|(at, _)| at + 1).find_map(|at| match bytes.get(at..)? {
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        _ => None,
    })
}

/// Code and text of a response: `200 OK`.
fn read_status(head: &[u8]) -> Result<(u16, String), String> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let malformed = |what: &str, text: &str| format!("malformed {what} {}", quote(text));
    let (version, status) =
        first.split_once(' ').ok_or_else(|| malformed("HTTP response", first))?;
    let status = status.trim_start_matches(' ');
    let code = status.split(' ').next().unwrap_or_default();
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    let number = code.parse().ok().filter(|_| is_code);
    let number = number.ok_or_else(|| malformed("HTTP status code", code))?;
    if !matches!(version.as_bytes(), [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'])
    {
        return Err(malformed("HTTP version", version));
    }
    // Lines that begin with a space continue the previous one.
    let headers = lines.filter(|line| !line.is_empty() && !line.starts_with([' ', '\t']));
    match headers.into_iter().find(|line| !line.contains(':')) {
        Some(line) => Err(format!("malformed MIME header: missing colon: {}", quote(line))),
        None => Ok((number, status.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// Result of a proxy's response, sent in pieces of a size.
    async fn answered(answer: &[u8], piece: usize) -> Result<(), String> {
        let (near, mut far) = duplex(1 << 20);
        let ask = connect(near, "proxy:1", "10.0.0.1:443", EGRESS_HEADERS);
        let say = async {
            let expected = b"CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
            let mut asked = vec![0; expected.len()];
            far.read_exact(&mut asked).await.unwrap();
            assert_eq!(asked, expected);
            for piece in answer.chunks(piece) {
                // The other side may have closed already.
                let _ = far.write_all(piece).await;
                tokio::task::yield_now().await;
            }
            drop(far);
        };
        tokio::join!(ask, say).0.map(drop)
    }

    const UNREAD: &str =
        "reading HTTP response from CONNECT to 10.0.0.1:443 via proxy proxy:1 failed: ";

    #[tokio::test]
    async fn an_answer_is_read_as_the_reference_reads_it() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\n", ""),
            ("HTTP/1.0 200 Connection established\nVia: x\n folded\n\n", ""),
            (
                "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nno agents",
                "proxy error from proxy:1 while dialing 10.0.0.1:443, code 503: 503 Service Unavailable",
            ),
            ("", "~unexpected EOF"),
            ("HTTP/1.1 200 OK\r\nA: b\r\n", "~unexpected EOF"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "~malformed HTTP response \"SSH-2.0-OpenSSH\""),
            ("HTTP/1.1 20 OK\r\n\r\n", "~malformed HTTP status code \"20\""),
            ("HTTP/1.1 2xx OK\r\n\r\n", "~malformed HTTP status code \"2xx\""),
            ("HTTQ/1.1 200 OK\r\n\r\n", "~malformed HTTP version \"HTTQ/1.1\""),
            ("HTTP/1.1 200 OK\r\nno\r\n\r\n", "~malformed MIME header: missing colon: \"no\""),
        ] {
            let expected = expected.replacen('~', UNREAD, 1);
            for piece in [1, 7, 1000] {
                let told = answered(answer.as_bytes(), piece).await.err().unwrap_or_default();
                assert_eq!(told, expected, "{answer:?} by {piece}");
            }
        }
    }

    #[tokio::test]
    async fn early_bytes_behind_the_connect_response_are_refused() {
        let told = answered(b"HTTP/1.1 200 OK\r\n\r\nhello", 1000).await.unwrap_err();
        assert_eq!(told, "unexpected 5 bytes of buffered data from CONNECT proxy \"proxy:1\"");
    }

    #[tokio::test]
    async fn a_head_has_an_end() {
        let endless = [b"HTTP/1.1 200 OK\r\nA: ".to_vec(), vec![b'a'; 1 << 20]].concat();
        let told = answered(&endless, 1 << 20).await.unwrap_err();
        assert_eq!(told, format!("{UNREAD}unexpected EOF"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_proxy_that_hangs_is_left() {
        let (near, _far) = duplex(1 << 10);
        let told = connect(near, "proxy:1", "10.0.0.1:443", EGRESS_HEADERS).await.err().unwrap();
        assert_eq!(told, format!("{UNREAD}i/o timeout"));
    }
}
