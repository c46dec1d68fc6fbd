//! `Retry-After` of rejected requests, which grows while many are rejected (upstream: droppedRequestsTracker).

use std::collections::VecDeque;

/// Maximum `Retry-After`, in seconds.
const MAX_RETRY_AFTER: u64 = 32;
/// Rejections per second from which the server counts as overloaded.
const MANY_PER_SECOND: u64 = 3;

/// Recent rejections of a priority level.
///
/// `Retry-After` is doubled after at least three rejections a second over that many seconds, and reduced by a second
/// after less than one: multiplicative increase, additive decrease.
#[derive(Debug)]
pub(crate) struct DroppedRequests {
    retry_after: u64,
    raised: Option<u64>,
    /// The present second, and its number of rejections.
    current: (u64, u64),
    /// Earlier seconds, with their numbers of rejections.
    history: VecDeque<(u64, u64)>,
}

impl Default for DroppedRequests {
    fn default() -> Self {
        DroppedRequests { retry_after: 1, raised: None, current: (0, 0), history: VecDeque::new() }
    }
}

impl DroppedRequests {
    /// Counts a rejection in this second. Returns the seconds for its `Retry-After`.
    pub(crate) fn record(&mut self, second: u64) -> u64 {
        if second <= self.current.0 && self.current.1 > 0 {
            self.current.1 += 1;
            return self.retry_after;
        }
        let ended = std::mem::replace(&mut self.current, (second, 1));
        if ended.1 > 0 {
            self.history.push_back(ended);
            let kept = (2 * self.retry_after).min(MAX_RETRY_AFTER);
            self.history.retain(|(past, _)| ended.0 - past <= kept);
        }
        self.adjust(second);
        self.retry_after
    }

    fn adjust(&mut self, second: u64) {
        let recent = |&&(past, _): &&(u64, u64)| second - past <= self.retry_after;
        let dropped: u64 = self.history.iter().filter(recent).map(|(_, count)| count).sum();
        let settled = self.raised.is_none_or(|raised| second - raised >= self.retry_after);
        if settled && dropped >= MANY_PER_SECOND * self.retry_after {
            self.retry_after = (2 * self.retry_after).min(MAX_RETRY_AFTER);
            self.raised = Some(second);
        } else if dropped < self.retry_after && self.retry_after > 1 {
            self.retry_after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Retry-After` at the end of each second with so many rejections.
    fn run(drops: impl IntoIterator<Item = (u64, u64)>) -> Vec<u64> {
        let mut dropped = DroppedRequests::default();
        let of = |(second, count)| (0..count).map(|_| dropped.record(second)).last().unwrap_or(0);
        drops.into_iter().map(of).collect()
    }

    #[test]
    fn the_wait_grows_under_load_and_shrinks_after_it() {
        let flood = run((0..130).map(|second| (second, 40)));
        let raised: Vec<_> = (0..130).filter(|&at| at > 0 && flood[at] != flood[at - 1]).collect();
        assert_eq!(raised, [1, 3, 7, 15, 31]);
        assert_eq!(flood.last(), Some(&MAX_RETRY_AFTER));

        // One in two seconds is less than one a second.
        let ebb = (0..40).map(|second| (second, 40)).chain((30..130).map(|half| (2 * half, 1)));
        assert_eq!(run(ebb).last(), Some(&1));
        // Two a second are neither many nor few.
        assert_eq!(run((0..50).map(|second| (second, 2))).last(), Some(&1));
    }
}
