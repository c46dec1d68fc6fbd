//! Character classes as they are written in an expression.

use std::sync::Arc;

use crate::runes::Runes;

/// A character class. A class with large named sets (`[\pL_]`) takes a dozen bytes in the pattern and thousands as
/// ranges: its ranges are computed when they are needed.
#[derive(Clone, Debug)]
pub(crate) enum Class {
    Whole(Arc<Runes>),
    Parts(Box<Parts>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub ranges: Vec<(u32, u32)>,
    /// Named sets, each once.
    pub named: Vec<Arc<Runes>>,
    pub negated: bool,
}

impl Parts {
    pub fn add(&mut self, runes: Arc<Runes>) {
        if !self.named.iter().any(|known| Arc::ptr_eq(known, &runes)) {
            self.named.push(runes);
        }
    }

    pub fn class(self) -> Class {
        match (self.ranges.as_slice(), self.named.as_slice(), self.negated) {
            ([], [only], false) => Class::Whole(only.clone()),
            (_, [], _) => Class::Whole(self.runes()),
            _ => Class::Parts(Box::new(self)),
        }
    }

    fn runes(&self) -> Arc<Runes> {
        let own = Runes::new(self.ranges.clone());
        let all = self.named.iter().fold(own, |all, named| all.union(named));
        Arc::new(if self.negated { all.negated() } else { all })
    }
}

impl Class {
    pub fn runes(&self) -> Arc<Runes> {
        match self {
            Class::Whole(runes) => runes.clone(),
            Class::Parts(parts) => parts.runes(),
        }
    }

    /// Upper bound of the number of ranges.
    pub fn ranges(&self) -> usize {
        match self {
            Class::Whole(runes) => runes.ranges().len(),
            Class::Parts(parts) => {
                let named: usize = parts.named.iter().map(|named| named.ranges().len()).sum();
                parts.ranges.len() + named + 1
            }
        }
    }
}
