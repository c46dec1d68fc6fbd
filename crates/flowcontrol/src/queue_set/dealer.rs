//! Shuffle sharding: the few queues of many that a flow may use (upstream: shufflesharding.Dealer).

/// The largest hand that 60 bits can deal: 15 of 16 queues.
const MAX_HAND: usize = 15;
/// Number of bits of the hash that a hand is dealt from. The other bits keep the last card nearly uniform.
const MAX_HASH_BITS: f64 = 60.0;
/// Maximum number of queues.
const MAX_DECK: u32 = 1 << 26;

/// Deals hands of queues, each from a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dealer {
    deck: u32,
    hand: u32,
}

/// Queues, in the order in which they were dealt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hand {
    cards: [u32; MAX_HAND],
    len: usize,
}

impl Dealer {
    /// A dealer; the error says why the sizes are impossible.
    pub(crate) fn new(deck: i64, hand: i64) -> Result<Self, String> {
        if deck <= 0 || hand <= 0 {
            return Err(format!("deckSize {deck} or handSize {hand} is not positive"));
        }
        if hand > deck {
            return Err(format!("handSize {hand} is greater than deckSize {deck}"));
        }
        let (Ok(cards), Ok(size)) = (u32::try_from(deck), u32::try_from(hand)) else {
            return Err(format!("deckSize {deck} is impractically large"));
        };
        if cards > MAX_DECK {
            return Err(format!("deckSize {deck} is impractically large"));
        }
        if (f64::from(cards).log2() * f64::from(size)).ceil() > MAX_HASH_BITS {
            return Err(format!(
                "required entropy bits of deckSize {deck} and handSize {hand} is greater than \
                 {MAX_HASH_BITS}"
            ));
        }
        Ok(Dealer { deck: cards, hand: size })
    }

    /// Number of queues.
    pub(crate) fn deck(self) -> u32 {
        self.deck
    }

    /// Deals a hand: the hash is read as mixed-radix digits, each of which is the number of remaining cards to skip.
    pub(crate) fn deal(self, mut number: u64) -> Hand {
        let mut hand = Hand { cards: [0; MAX_HAND], len: 0 };
        // Cards dealt so far, in ascending order.
        let mut dealt = [0; MAX_HAND];
        for left in (self.deck - self.hand + 1..=self.deck).rev() {
            let base = u64::from(left);
            let mut card = (number % base) as u32;
            number /= base;
            let mut place = 0;
            while place < hand.len && dealt[place] <= card {
                card += 1;
                place += 1;
            }
            dealt.copy_within(place..hand.len, place + 1);
            dealt[place] = card;
            hand.cards[hand.len] = card;
            hand.len += 1;
        }
        hand
    }
}

impl Hand {
    /// The cards, rotated by `by`, so that flows with overlapping hands do not favour one queue.
    pub(crate) fn rotated(&self, by: u64) -> impl Iterator<Item = u32> {
        let cards = &self.cards[..self.len];
        let (before, after) = cards.split_at((by % self.len.max(1) as u64) as usize);
        after.iter().chain(before).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn decks_and_hands_must_be_possible() {
        for (deck, hand, expected) in [
            (64, 6, ""),
            (16, 15, ""),
            (1, 1, ""),
            (-100, 8, "deckSize -100 or handSize 8 is not positive"),
            (100, 0, "deckSize 100 or handSize 0 is not positive"),
            (100, 101, "handSize 101 is greater than deckSize 100"),
            (1 << 27, 2, "deckSize 134217728 is impractically large"),
            (512, 8, "required entropy bits of deckSize 512 and handSize 8 is greater than 60"),
            (16, 16, "required entropy bits of deckSize 16 and handSize 16 is greater than 60"),
        ] {
            let error = Dealer::new(deck, hand).err().unwrap_or_default();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn hands_are_dealt_evenly_and_without_repetition() {
        for (deck, hand) in [(7, 3), (5, 5), (12, 2)] {
            let dealer = Dealer::new(deck, hand).unwrap();
            let orders = (0..hand).map(|dealt| (deck - dealt) as u64).product();
            let mut seen = BTreeMap::new();
            for number in 0..orders {
                let cards: Vec<_> = dealer.deal(number).rotated(0).collect();
                let set: BTreeSet<_> = cards.iter().copied().collect();
                assert_eq!(set.len(), hand as usize);
                assert!(set.iter().all(|&card| i64::from(card) < deck));
                *seen.entry(cards).or_insert(0) += 1;
            }
            assert_eq!(seen.len() as u64, orders, "each order once");
        }
    }

    #[test]
    fn a_hand_can_be_begun_anywhere() {
        let hand = Dealer::new(10, 3).unwrap().deal(0);
        let of = |by| hand.rotated(by).collect::<Vec<_>>();
        assert_eq!((of(0), of(1), of(5)), (vec![0, 1, 2], vec![1, 2, 0], vec![2, 0, 1]));
    }
}
