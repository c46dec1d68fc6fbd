//! Termination of watches during shutdown (upstream: `WithWatchTerminationDuringShutdown`).

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::wait_group::shutting_down;
use crate::body::{Body, Piece, Pieces};
use crate::handler::{Filter, Handler, Response};
use crate::lifecycle::{InFlight, RequestGroup};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::verb::Verb;

/// Counts watches, and ends them one after the other, so that their clients do not all reconnect at once.
#[derive(Debug)]
pub(super) struct WatchTermination(pub RequestGroup);

impl Filter for WatchTermination {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if request.info.verb != Verb::Watch {
            return next.handle(request);
        }
        let Some(in_flight) = self.0.enter() else {
            return Box::pin(std::future::ready(shutting_down()));
        };
        let pending = next.handle(request);
        Box::pin(async move {
            pending.await.map(|body| match body.bytes() {
                Some(_) => body,
                None => {
                    let turn = Box::pin(in_flight.turn());
                    Body::pieces(Watch { body, turn: Some((turn, in_flight)), woken: None })
                }
            })
        })
    }
}

struct Watch {
    body: Body,
    /// Future that completes when the watch must end; `None` after the end.
    turn: Option<(Pending<'static, ()>, InFlight)>,
    /// Waker registered with `turn`.
    woken: Option<Waker>,
}

impl Pieces for Watch {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let this = &mut *self;
        let Some((turn, in_flight)) = &mut this.turn else {
            return Poll::Ready(None);
        };
        // Pending events are sent before the watch ends; it ends between events.
        let piece = this.body.poll_piece(context);
        let over = match &piece {
            Poll::Ready(piece) => !matches!(piece, Some(Ok(_))),
            // Polling `turn` takes a lock shared by all watches, so it is polled once for each waker.
            Poll::Pending if !in_flight.leaves_soon() && is(&this.woken, context) => false,
            Poll::Pending => {
                this.woken = Some(context.waker().clone());
                turn.as_mut().poll(context).is_ready()
            }
        };
        if over {
            this.turn = None;
        }
        match piece {
            Poll::Pending if over => Poll::Ready(None),
            piece => piece,
        }
    }
}

fn is(waker: &Option<Waker>, context: &Context<'_>) -> bool {
    waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()))
}
