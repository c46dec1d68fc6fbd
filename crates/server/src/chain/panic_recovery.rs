//! Panic recovery: a panic ends one request, not the server (upstream: `WithPanicRecovery`).

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Once;
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode, header};
use http_body::Body as _;

use super::audit_init::logged;
use super::{cache_control, plain};
use crate::body::{Body, Broken, Piece, Pieces};
use crate::handler::{Abort, Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

const PANICKED: &str = "This request caused apiserver to panic. Look in the logs for details.";

/// Bytes of a stack trace in the log.
const MAX_STACK: usize = 64 << 10;

/// Responds 500 to a request that panics, and logs the stack.
#[derive(Debug)]
pub(super) struct PanicRecovery(());

impl PanicRecovery {
    pub(super) fn new() -> Self {
        keep_stacks();
        PanicRecovery(())
    }
}

impl Filter for PanicRecovery {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let whose = Whose::of(&request);
        // Filters may do work in `filter` itself, before their future is polled.
        let pending = match watched(|| next.handle(request)) {
            Ok(pending) => pending,
            Err(panic) => return Box::pin(std::future::ready(whose.answer(panic))),
        };
        Box::pin(async move {
            match caught(pending).await {
                Ok(response) if response.body().size_hint().exact().is_some() => response,
                Ok(response) => {
                    response.map(|body| Body::pieces(Recovering { body, whose: Some(whose) }))
                }
                Err(panic) => whose.answer(panic),
            }
        })
    }
}

/// Fields of the request for the log.
struct Whose {
    method: http::Method,
    uri: http::Uri,
    audit_id: String,
}

impl Whose {
    fn of(request: &Request) -> Self {
        Whose {
            method: request.parts.method.clone(),
            uri: request.parts.uri.clone(),
            audit_id: logged(&request.audit_id).to_owned(),
        }
    }

    fn log(&self, panic: &Panic) {
        let Whose { method, uri, audit_id } = self;
        if panic.is::<Abort>() {
            tracing::error!(%method, URI = %uri, auditID = audit_id, "Timeout or abort while handling");
            return;
        }
        let stack = STACK.take().unwrap_or_else(|| message(panic));
        tracing::error!(%method, URI = %uri, auditID = audit_id, stack, "apiserver panic'd");
    }

    fn answer(&self, panic: Panic) -> Response {
        self.log(&panic);
        if panic.is::<Abort>() {
            let mut response = http::Response::new(Body::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response.headers_mut().insert(header::CONNECTION, plain::CLOSE);
            response.extensions_mut().insert(Abort);
            return response;
        }
        let mut response = plain::text(StatusCode::INTERNAL_SERVER_ERROR, PANICKED);
        response.headers_mut().insert(header::CACHE_CONTROL, cache_control::NO_CACHE);
        response
    }
}

/// A body that ends with an error if one of its pieces panics.
struct Recovering {
    body: Body,
    whose: Option<Whose>,
}

impl Pieces for Recovering {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        if self.whose.is_none() {
            return Poll::Ready(None);
        }
        watched(|| self.body.poll_piece(context)).unwrap_or_else(|panic| {
            if let Some(whose) = self.whose.take() {
                whose.log(&panic);
            }
            Poll::Ready(Some(Err(Broken("panicked"))))
        })
    }

    fn trailers(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Option<HeaderMap> {
        self.body.trailers(context)
    }
}

/// Payload of a panic.
pub(super) type Panic = Box<dyn Any + Send>;

/// The future's output, or its panic.
pub(super) async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    poll_fn(|context| match watched(|| future.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Message of a panic, if its payload is text.
pub(super) fn message(panic: &Panic) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

thread_local! {
    /// Number of nested requests that this thread is polling.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    /// Message and stack of the latest panic of a request on this thread.
    static STACK: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn watched<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    INSIDE.set(INSIDE.get() + 1);
    // Unwind safe: a future or body that has panicked is not polled again.
    let result = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(INSIDE.get() - 1);
    result
}

/// Installs a panic hook that keeps the stack, which is gone when a panic is caught. Panics outside of requests go to
/// the previous hook.
fn keep_stacks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if INSIDE.get() == 0 {
                return before(info);
            }
            let mut stack = format!("{info}\n{}", Backtrace::force_capture());
            let end = (0..=MAX_STACK.min(stack.len())).rev().find(|&at| stack.is_char_boundary(at));
            stack.truncate(end.unwrap_or(0));
            STACK.replace(Some(stack));
        }));
    });
}
