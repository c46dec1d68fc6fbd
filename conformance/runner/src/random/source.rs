//! Random numbers that are the same for the same seed on every machine forever, because recordings depend on them.

/// SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Source(u64);

impl Source {
    /// Generator with a seed.
    pub fn new(seed: u64) -> Self {
        Source(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Random number below a limit; 0 if the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let drawn = u128::from(self.next()) * limit as u128;
        (drawn >> 64) as usize
    }

    /// True with a probability in percent.
    pub fn percent(&mut self, times: usize) -> bool {
        self.below(100) < times
    }

    /// Random element.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_its_numbers() {
        let drawn = |seed| {
            let mut source = Source::new(seed);
            [source.below(1000), source.below(1000), source.below(1000), source.below(0)]
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_eq!(drawn(3)[3], 0);
    }
}
