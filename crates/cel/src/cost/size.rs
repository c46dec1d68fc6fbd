//! Ranges of sizes and costs; what is too large to count is unbounded.

/// A range of costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// The least that it may cost.
    pub min: u64,
    /// The most that it may cost.
    pub max: u64,
}

/// A range of sizes.
pub(super) type SizeEstimate = CostEstimate;

impl CostEstimate {
    pub(super) const UNKNOWN: CostEstimate = CostEstimate { min: 0, max: u64::MAX };

    pub(super) const fn fixed(cost: u64) -> Self {
        CostEstimate { min: cost, max: cost }
    }

    pub(super) fn add(self, other: CostEstimate) -> Self {
        CostEstimate {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn multiply(self, other: CostEstimate) -> Self {
        CostEstimate {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Times a factor, rounded up.
    pub(super) fn scale(self, factor: f64) -> Self {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// The range that holds both.
    pub(super) fn union(self, other: CostEstimate) -> Self {
        CostEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

fn scale(value: u64, factor: f64) -> u64 {
    let value = value as f64;
    if value > 0.0 && factor > 0.0 && value > u64::MAX as f64 / factor {
        return u64::MAX;
    }
    // Converting saturates.
    (value * factor).ceil() as u64
}
