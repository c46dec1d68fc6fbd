//! A limit on answers that only announce an answer (1xx).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use tokio::sync::Notify;

/// The most answers with a code below 200 before the one that counts. HTTP knows four of them, each of
/// use once; a server that sends them without end is never waited for by its client's own limits.
const MAX_INFORMATIONAL: usize = 100;

/// The words of the reference's client, which counts the bytes of all such answers.
pub const TOO_MANY: &str = "net/http: server response headers exceeded 10485760 bytes; aborted";

/// Counts the answers that announce an answer to a request which is about to be sent by HTTP/1.1. The
/// future ends when there are too many of them; the request is then to be given up.
pub fn exceeded<B>(request: &mut Request<B>) -> impl Future<Output = ()> + Send + 'static {
    let too_many = Arc::new(Notify::new());
    let (told, count) = (too_many.clone(), AtomicUsize::new(0));
    hyper::ext::on_informational(request, move |_| {
        if count.fetch_add(1, Ordering::Relaxed) >= MAX_INFORMATIONAL {
            told.notify_one();
        }
    });
    async move { too_many.notified().await }
}
