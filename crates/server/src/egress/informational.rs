//! Limit on informational responses (1xx).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use tokio::sync::Notify;

/// Most 1xx responses before the final one. HTTP has four of them, each useful once; the client's own timeouts would
/// not end a server that sends them without end.
const MAX_INFORMATIONAL: usize = 100;

/// Text of Go's client, which limits the bytes of all such responses.
pub const TOO_MANY: &str = "net/http: server response headers exceeded 10485760 bytes; aborted";

/// Counts the 1xx responses to a request that is about to be sent by HTTP/1.1. The future completes when there are too
/// many; the request must then be dropped.
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
