//! A panic ends one request, not the server.

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
use crate::future::Pending;
use crate::handler::{Abort, Filter, Handler, Response};
use crate::request::Request;

const PANICKED: &str = "This request caused apiserver to panic. Look in the logs for details.";

/// How much of a stack the log shows.
const MAX_STACK: usize = 64 << 10;

/// Answers 500 for a request that panics, and logs the stack.
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
        // Filters may do some of their work when they are called.
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

/// What the log says about the request.
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

/// A body whose pieces may panic: it breaks off then.
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

/// What was panicked with.
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

/// What a panic says, if it is text.
pub(super) fn message(panic: &Panic) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

thread_local! {
    /// How many requests this thread is inside of: one, or that of a request within.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    /// The latest panic of a request on this thread, and where it happened.
    static STACK: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn watched<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    INSIDE.set(INSIDE.get() + 1);
    // A future that has panicked is not polled again, a body neither.
    let result = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(INSIDE.get() - 1);
    result
}

/// The stack is gone when a panic is caught: it is kept when the panic happens. Panics outside of
/// requests are left to the hook that was there before.
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
