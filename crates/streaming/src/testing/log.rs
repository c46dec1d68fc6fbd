//! Logs of the stand-in's containers.

use std::io;

use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::request::query;

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &[u8] = b"0\r\n\r\n";

/// Sends the request's URI as the log. A followed log ends only with the client; the log of container `flood` is
/// endless, and that of `broken` breaks off.
pub(super) async fn serve<IO>(request: &Request<()>, io: &mut IO) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    io.write_all(HEAD).await?;
    chunk(io, format!("{}\n", request.uri()).as_bytes()).await?;
    io.flush().await?;
    let container = request.uri().path().rsplit('/').next().unwrap_or_default();
    match container {
        "flood" => loop {
            chunk(io, &[b'x'; 16 << 10]).await?;
        },
        "broken" => return Ok(()),
        _ => {}
    }
    if query(request, "follow").iter().any(|value| value == "true") {
        io.read_to_end(&mut Vec::new()).await?;
    }
    io.write_all(END).await?;
    io.flush().await
}

async fn chunk<IO: AsyncWrite + Unpin>(io: &mut IO, bytes: &[u8]) -> io::Result<()> {
    io.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
    io.write_all(bytes).await?;
    io.write_all(b"\r\n").await
}
