//! The best of many, in bounded memory.

/// Entries kept for each one that is wanted, between two sortings.
const SLACK: usize = 4;

/// Collects the entries with the highest scores.
pub(super) struct Tops<T> {
    entries: Vec<(u32, T)>,
    most: usize,
}

impl<T> Tops<T> {
    pub(super) fn new(most: usize) -> Self {
        Tops { entries: Vec::new(), most }
    }

    /// Whether as many as wanted were added.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.most
    }

    /// Adds an entry; drops the worst if there are too many.
    pub(super) fn add(&mut self, score: u32, entry: T) {
        self.entries.push((score, entry));
        if self.entries.len() >= self.most * SLACK {
            self.shrink();
        }
    }

    /// The best entries, the first added among equals.
    pub(super) fn into_vec(mut self) -> Vec<T> {
        self.shrink();
        self.entries.into_iter().map(|(_, entry)| entry).collect()
    }

    fn shrink(&mut self) {
        self.entries.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        self.entries.truncate(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_are_kept() {
        let mut tops = Tops::new(3);
        for score in (0..50).chain([49]) {
            tops.add(score, score);
        }
        assert!(tops.is_full());
        assert_eq!(tops.into_vec(), [49, 49, 48]);
    }
}
