//! `--goaway-chance`: rebalances long-lived HTTP/2 connections over servers (upstream: `WithProbabilisticGoaway`).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{Version, header};

use super::plain;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

/// Closes the connection of an HTTP/2 request with the configured probability.
#[derive(Debug)]
pub(super) struct ProbabilisticGoaway {
    chance: f64,
    /// Counter, hashed with a random key to get the random numbers.
    count: AtomicU64,
    hasher: RandomState,
}

impl ProbabilisticGoaway {
    pub(super) fn new(chance: f64) -> Self {
        ProbabilisticGoaway { chance, count: AtomicU64::new(0), hasher: RandomState::new() }
    }

    fn draw(&self) -> f64 {
        let random = self.hasher.hash_one(self.count.fetch_add(1, Relaxed));
        (random >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Filter for ProbabilisticGoaway {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let goaway = request.parts.version == Version::HTTP_2 && self.draw() < self.chance;
        let pending = next.handle(request);
        if !goaway {
            return pending;
        }
        Box::pin(async move {
            let mut response = pending.await;
            response.headers_mut().insert(header::CONNECTION, plain::CLOSE);
            response
        })
    }
}
