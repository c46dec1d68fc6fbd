//! Ranges of sizes and costs; values that overflow are unbounded.

/// Range of costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// Minimum cost.
    pub min: u64,
    /// Maximum cost.
    pub max: u64,
}

/// Range of sizes.
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

    /// Multiplies by a factor, rounding up.
    pub(super) fn scale(self, factor: f64) -> Self {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// Smallest range that contains both.
    pub(super) fn union(self, other: CostEstimate) -> Self {
        CostEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

fn scale(value: u64, factor: f64) -> u64 {
    let value = value as f64;
    if value > 0.0 && factor > 0.0 && value > u64::MAX as f64 / factor {
        return u64::MAX;
    }
    // The conversion saturates.
    (value * factor).ceil() as u64
}
