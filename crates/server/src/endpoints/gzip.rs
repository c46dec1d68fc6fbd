//! Gzip compression of large responses for clients that accept it.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue};
use http_body::Body as _;

use crate::body::{Body, Broken, Piece, Pieces};
use crate::handler::Response;

/// Smallest body that is compressed: below it, compressing takes longer than sending.
const THRESHOLD: u64 = 128 << 10;
/// Input bytes compressed per step.
const INPUT: usize = 64 << 10;
/// Input bytes after which the task yields: some milliseconds of work.
const TURN: usize = 256 << 10;
/// Input bytes per unit charged to the compute budget: some 100 ns.
const BYTES_PER_CHARGE: usize = 16;
/// Output bytes collected before a piece is sent.
const OUTPUT: usize = 16 << 10;

/// Whether the client accepts gzip. As in the reference, quality values are ignored.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let header = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    header.unwrap_or_default().split(',').any(|encoding| encoding.trim() == "gzip")
}

/// Compresses the response body if it is large.
pub(super) fn compress(mut response: Response) -> Response {
    if response.body().size_hint().lower() <= THRESHOLD {
        return response;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    // The fastest level gains most of the possible reduction.
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    response.map(|body| {
        Body::pieces(Gzip { body, input: Bytes::new(), worked: 0, encoder: Some(encoder) })
    })
}

/// A body compressed while it is read.
struct Gzip {
    body: Body,
    /// Remainder of the last piece, not compressed yet.
    input: Bytes,
    /// Input bytes compressed since the task last yielded.
    worked: usize,
    /// `None` at the end of the body.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Pieces for Gzip {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let this = &mut *self;
        let failed = |_| Broken("an answer cannot be compressed");
        while let Some(encoder) = &mut this.encoder {
            // Well-compressible input rarely waits for the client, so the task must yield by itself.
            if this.worked >= TURN {
                this.worked = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if this.input.is_empty() {
                match ready!(this.body.poll_piece(context)) {
                    Some(Ok(piece)) => this.input = piece,
                    Some(Err(broken)) => {
                        this.encoder = None;
                        return Poll::Ready(Some(Err(broken)));
                    }
                    None => {
                        let rest = this.encoder.take().map(GzEncoder::finish);
                        let rest = rest.map(|rest| rest.map(Bytes::from).map_err(failed));
                        return Poll::Ready(rest);
                    }
                }
            }
            let input = this.input.split_to(this.input.len().min(INPUT));
            this.worked += input.len();
            kevel_compute::charge(input.len() / BYTES_PER_CHARGE);
            if let Err(error) = encoder.write_all(&input) {
                this.encoder = None;
                return Poll::Ready(Some(Err(failed(error))));
            }
            if encoder.get_ref().len() >= OUTPUT {
                let output = std::mem::take(encoder.get_mut());
                return Poll::Ready(Some(Ok(output.into())));
            }
        }
        Poll::Ready(None)
    }
}
