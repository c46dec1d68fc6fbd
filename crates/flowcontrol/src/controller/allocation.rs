//! Division of seats among classes (priority levels) by demand, within bounds (upstream: computeConcurrencyAllocation).

/// A class: its target, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Class {
    /// Wanted number of seats, not below the lower bound.
    pub target: f64,
    pub lower: f64,
    pub upper: f64,
}

/// Seats of each class, in the order of the classes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Allocation {
    pub seats: Vec<f64>,
    /// Fraction of its target that each class gets, unless a bound limits it.
    pub fair_fraction: f64,
}

/// Target of a class without demand, so that it can be a divisor.
const MINIMUM_TARGET: f64 = 0.001;
/// Difference below which sums count as equal.
const EPSILON: f64 = 1e-7;

/// Finds the fraction at which the classes, each given that fraction of its target within its bounds, have `total`
/// seats together. `None` if the bounds do not allow it.
///
/// The sum never falls as the fraction grows, and is linear between the fractions at which a class reaches one of its
/// bounds. So those are evaluated, and the result is interpolated in between.
pub(super) fn allocate(total: f64, classes: &[Class]) -> Option<Allocation> {
    let seats_at = |fraction: f64| classes.iter().map(move |class| class.at(fraction));
    let sum_at = |fraction: f64| seats_at(fraction).sum::<f64>();
    let lowest = classes.iter().map(|class| class.lower).sum::<f64>();
    let highest = classes.iter().map(|class| class.upper).sum::<f64>();
    if total < 0.0 || lowest - total > EPSILON || total - highest > EPSILON {
        return None;
    }
    let bounds = |class: &Class| [class.lower / class.wanted(), class.upper / class.wanted()];
    let mut fractions: Vec<f64> = classes.iter().flat_map(bounds).collect();
    fractions.sort_unstable_by(f64::total_cmp);
    let (first, last) = (fractions.first().copied()?, fractions.last().copied()?);
    let solution = |seats: Vec<f64>, fair_fraction| Some(Allocation { seats, fair_fraction });
    if total == 0.0 {
        return solution(vec![0.0; classes.len()], 0.0);
    }
    if total - lowest < EPSILON {
        return solution(classes.iter().map(|class| class.lower).collect(), first);
    }
    if highest - total < EPSILON {
        return solution(classes.iter().map(|class| class.upper).collect(), last);
    }
    // The first fraction that suffices, and the one before it, which does not.
    let above = fractions.partition_point(|&fraction| sum_at(fraction) < total);
    let high = fractions.get(above).copied().unwrap_or(last);
    let low = above.checked_sub(1).and_then(|below| fractions.get(below)).copied().unwrap_or(0.0);
    let (low_sum, high_sum) = (sum_at(low), sum_at(high));
    let fraction = match high_sum - low_sum {
        rise if rise > 0.0 => low + (high - low) * (total - low_sum) / rise,
        _ => high,
    };
    solution(seats_at(fraction).collect(), fraction)
}

impl Class {
    fn wanted(&self) -> f64 {
        self.target.max(MINIMUM_TARGET)
    }

    fn at(&self, fraction: f64) -> f64 {
        (self.wanted() * fraction).min(self.upper).max(self.lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn class(target: f64, lower: f64, upper: f64) -> Class {
        Class { target, lower, upper }
    }

    #[test]
    fn seats_are_divided_by_targets_within_bounds() {
        for (total, classes, expected) in [
            (10.0, vec![class(1.0, 0.0, 9.0), class(4.0, 0.0, 9.0)], Some((vec![2.0, 8.0], 2.0))),
            (12.0, vec![class(1.0, 0.0, 9.0), class(4.0, 0.0, 9.0)], Some((vec![3.0, 9.0], 3.0))),
            (10.0, vec![class(9.0, 9.0, 9.0), class(2.0, 0.0, 9.0)], Some((vec![9.0, 1.0], 0.5))),
            (
                9.0,
                vec![class(9.0, 4.0, 9.0), class(6.0, 5.0, 9.0)],
                Some((vec![4.0, 5.0], 4.0 / 9.0)),
            ),
            (18.0, vec![class(9.0, 4.0, 9.0), class(6.0, 5.0, 9.0)], Some((vec![9.0, 9.0], 1.5))),
            (4.0, vec![class(0.0, 0.0, 9.0), class(0.0, 0.0, 1.0)], Some((vec![3.0, 1.0], 3000.0))),
            (0.0, vec![class(5.0, 0.0, 9.0)], Some((vec![0.0], 0.0))),
            (8.0, vec![class(9.0, 4.0, 9.0), class(6.0, 5.0, 9.0)], None),
            (19.0, vec![class(9.0, 4.0, 9.0), class(6.0, 5.0, 9.0)], None),
            (1.0, vec![], None),
        ] {
            let allocation = allocate(total, &classes);
            let found = allocation.map(|found| (found.seats, found.fair_fraction));
            assert_eq!(found, expected, "{total} {classes:?}");
        }
    }

    /// The definition of the allocation: within bounds, the right sum, and every class that does not get the fair
    /// fraction is at a bound.
    #[test]
    fn every_allocation_is_the_one_that_is_asked_for() {
        let mut random = Random::new(15);
        let mut found = 0;
        for _ in 0..20_000 {
            let classes: Vec<_> = (0..1 + random.below(8))
                .map(|_| {
                    let lower = random.below(20) as f64;
                    let target =
                        if random.below(4) == 0 { lower } else { lower + random.unit() * 30.0 };
                    class(target, lower, lower + random.below(40) as f64)
                })
                .collect();
            let total = random.below(160) as f64;
            let Some(Allocation { seats, fair_fraction }) = allocate(total, &classes) else {
                let lowest: f64 = classes.iter().map(|class| class.lower).sum();
                let highest: f64 = classes.iter().map(|class| class.upper).sum();
                assert!(lowest > total || highest < total);
                continue;
            };
            found += 1;
            assert!((seats.iter().sum::<f64>() - total).abs() < 1e-6);
            for (class, got) in classes.iter().zip(seats) {
                let fair = fair_fraction * class.wanted();
                let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
                let (low, high) = (near(got, class.lower), near(got, class.upper));
                assert!(got >= class.lower && got <= class.upper);
                let right = near(got, fair) || (low && fair < got) || (high && fair > got);
                assert!(right || total == 0.0, "{got} {fair} {class:?}");
            }
        }
        assert!(found > 5_000, "{found}");
    }
}
