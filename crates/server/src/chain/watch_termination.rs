//! Watches end when the server stops, one after the other.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::held::next_piece;
use super::wait_group::shutting_down;
use crate::body::{Body, Pieces};
use crate::handler::{Filter, Handler, Pending, Response};
use crate::lifecycle::{InFlight, RequestGroup};
use crate::request::Request;

/// Counts watches, and ends each in its turn: their clients do not come back all at once.
#[derive(Debug)]
pub(super) struct WatchTermination(pub RequestGroup);

impl Filter for WatchTermination {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if request.info.verb != "watch" {
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
                    Body::pieces(Watch { body, turn: Some((turn, in_flight)) })
                }
            })
        })
    }
}

struct Watch {
    body: Body,
    /// Done when the watch must end; gone when it has ended.
    turn: Option<(Pending<'static, ()>, InFlight)>,
}

impl Pieces for Watch {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let Some((turn, _)) = &mut this.turn else {
            return Poll::Ready(None);
        };
        // What has happened is sent before the end; the end comes between events.
        let piece = next_piece(&mut this.body, context);
        let over = match &piece {
            Poll::Ready(piece) => piece.is_none(),
            Poll::Pending => turn.as_mut().poll(context).is_ready(),
        };
        if over {
            this.turn = None;
            return Poll::Ready(None);
        }
        piece
    }
}
