//! Linearizability checker, after Wing and Gong, with Lowe's cache of tried configurations.
//!
//! Searches an order of the operations in which each takes effect between its call and its return and the model allows
//! every outcome. A tried configuration is the set of operations that have taken effect and the resulting state. In a
//! long history nearly all of that set is a prefix of it, so it is stored as the length of the prefix and the few
//! operations beyond: memory grows with concurrency, not with length.
//!
//! Written here because existing crates lack operations with unknown outcome, which may or may not have happened, and
//! histories of 100,000 operations.

use std::collections::HashSet;
use std::hash::Hash;

use crate::history::{NEVER, Nanos};

/// Sequential specification of an object.
pub trait Model {
    /// State of the object.
    type State: Clone + Eq + Hash;
    /// An operation with its outcome.
    type Input;

    /// State after an operation; `None` if the operation cannot have this outcome in this state.
    fn step(&self, state: &Self::State, input: &Self::Input) -> Option<Self::State>;
}

/// An operation with its times.
#[derive(Debug, Clone)]
pub struct Timed<I> {
    /// Earliest time of its effect.
    pub call: Nanos,
    /// Latest time of its effect; [`NEVER`] without a limit.
    pub ret: Nanos,
    /// Whether it may not have happened at all.
    pub maybe: bool,
    /// Operation with its outcome.
    pub input: I,
}

/// Failed search: the furthest point that it reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// Operations that cannot be ordered, in the order of calls: positions in the input.
    pub around: Vec<usize>,
    /// Whether the search was given up because of its size rather than for lack of an order.
    pub gave_up: bool,
}

/// Limit on tried configurations: beyond it, the checker is inadequate for the history.
const MAX_TRIED: usize = 20_000_000;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration<S> {
    /// All operations before this one, in the order of calls, have taken effect.
    done: usize,
    /// Further operations that have taken effect.
    beyond: Vec<u32>,
    /// Operations without a time limit that have taken effect.
    loose: Vec<u32>,
    state: S,
}

/// Checks that a linearization exists.
pub fn check<M: Model>(
    model: &M,
    initial: M::State,
    operations: &[Timed<M::Input>],
) -> Result<(), Stuck> {
    let by_call = |wanted: bool| {
        let all = operations.iter().enumerate();
        let mut some: Vec<usize> = all
            .filter(|(_, o)| (o.maybe && o.ret == NEVER) == wanted)
            .map(|(place, _)| place)
            .collect();
        some.sort_by_key(|place| operations[*place].call);
        some
    };
    let (bound, loose) = (by_call(false), by_call(true));
    let search = Search { model, operations, bound, loose };
    search.run(initial)
}

struct Search<'a, M: Model> {
    model: &'a M,
    operations: &'a [Timed<M::Input>],
    /// Operations with an end, in order of calls.
    bound: Vec<usize>,
    /// Operations that may never have happened and have no end.
    loose: Vec<usize>,
}

impl<M: Model> Search<'_, M> {
    fn run(&self, initial: M::State) -> Result<(), Stuck> {
        let first =
            Configuration { done: 0, beyond: Vec::new(), loose: Vec::new(), state: initial };
        let mut tried = HashSet::new();
        let mut furthest = (0, Vec::new());
        let mut stack = vec![first.clone()];
        tried.insert(first);
        while let Some(configuration) = stack.pop() {
            if configuration.done == self.bound.len() {
                return Ok(());
            }
            let candidates = self.candidates(&configuration);
            if configuration.done >= furthest.0 {
                furthest = (configuration.done, candidates.clone());
            }
            let mut next = self.after(&configuration, &candidates);
            // The first of them is tried first.
            next.reverse();
            for configuration in next {
                if tried.insert(configuration.clone()) {
                    stack.push(configuration);
                }
            }
            if tried.len() > MAX_TRIED {
                return Err(self.stuck(furthest.1, true));
            }
        }
        Err(self.stuck(furthest.1, false))
    }

    fn stuck(&self, candidates: Vec<usize>, gave_up: bool) -> Stuck {
        let around = candidates.iter().map(|place| self.bound[*place]).collect();
        Stuck { around, gave_up }
    }

    /// Positions in `bound` of possible next operations: no other pending operation returned before they were called.
    fn candidates(&self, configuration: &Configuration<M::State>) -> Vec<usize> {
        let mut earliest = NEVER;
        let mut candidates = Vec::new();
        for place in configuration.done..self.bound.len() {
            if configuration.beyond.binary_search(&(place as u32)).is_ok() {
                continue;
            }
            let operation = &self.operations[self.bound[place]];
            if operation.call > earliest {
                break;
            }
            earliest = earliest.min(operation.ret);
            candidates.push(place);
        }
        candidates.sort_by_key(|place| self.operations[self.bound[*place]].ret);
        candidates
    }

    fn after(
        &self,
        configuration: &Configuration<M::State>,
        candidates: &[usize],
    ) -> Vec<Configuration<M::State>> {
        let mut next = Vec::new();
        for &place in candidates {
            let operation = &self.operations[self.bound[place]];
            let state = self.model.step(&configuration.state, &operation.input);
            let stayed = operation.maybe.then(|| configuration.state.clone());
            for state in state.into_iter().chain(stayed) {
                next.push(self.with(configuration, place, state));
            }
        }
        // Operations that need not have happened are tried last.
        let limit = candidates.iter().map(|place| self.operations[self.bound[*place]].ret).min();
        for (number, place) in self.loose.iter().enumerate() {
            let operation = &self.operations[*place];
            if operation.call > limit.unwrap_or(NEVER) {
                break;
            }
            let Err(at) = configuration.loose.binary_search(&(number as u32)) else { continue };
            let Some(state) = self.model.step(&configuration.state, &operation.input) else {
                continue;
            };
            if state == configuration.state {
                continue;
            }
            let mut configuration = configuration.clone();
            configuration.loose.insert(at, number as u32);
            next.push(Configuration { state, ..configuration });
        }
        next
    }

    fn with(
        &self,
        configuration: &Configuration<M::State>,
        place: usize,
        state: M::State,
    ) -> Configuration<M::State> {
        let Configuration { mut done, mut beyond, loose, .. } = configuration.clone();
        if let Err(at) = beyond.binary_search(&(place as u32)) {
            beyond.insert(at, place as u32);
        }
        while beyond.first() == Some(&(done as u32)) {
            beyond.remove(0);
            done += 1;
        }
        Configuration { done, beyond, loose, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register: writes, reads and compare-and-swaps.
    struct Register;

    enum Input {
        Write(u32),
        Read(u32),
        Swap(u32, u32),
    }
    use Input::{Read, Swap, Write};

    impl Model for Register {
        type State = u32;
        type Input = Input;

        fn step(&self, state: &u32, input: &Input) -> Option<u32> {
            match input {
                Write(value) => Some(*value),
                Read(value) => (value == state).then_some(*state),
                Swap(from, to) => (from == state).then_some(*to),
            }
        }
    }

    fn op(call: Nanos, ret: Nanos, input: Input) -> Timed<Input> {
        Timed { call, ret, maybe: false, input }
    }

    fn maybe(call: Nanos, ret: Nanos, input: Input) -> Timed<Input> {
        Timed { call, ret, maybe: true, input }
    }

    fn holds(operations: &[Timed<Input>]) -> bool {
        check(&Register, 0, operations).is_ok()
    }

    #[test]
    fn what_can_be_put_in_order_passes() {
        assert!(holds(&[]));
        assert!(holds(&[op(0, 1, Write(1)), op(2, 3, Read(1))]));
        // Concurrent operations may take effect in either order.
        assert!(holds(&[op(0, 10, Write(1)), op(1, 9, Read(0)), op(2, 8, Read(1))]));
        assert!(holds(&[op(0, 10, Write(1)), op(0, 10, Write(2)), op(11, 12, Read(1))]));
        assert!(holds(&[op(0, 10, Swap(1, 2)), op(5, 6, Write(1)), op(11, 12, Read(2))]));
    }

    #[test]
    fn a_read_of_the_past_fails() {
        let stale = [op(0, 1, Write(1)), op(2, 3, Write(2)), op(4, 5, Read(1))];
        let stuck = check(&Register, 0, &stale).unwrap_err();
        assert_eq!(stuck, Stuck { around: vec![2], gave_up: false });
    }

    #[test]
    fn a_read_of_the_future_fails() {
        assert!(!holds(&[op(0, 1, Read(1)), op(2, 3, Write(1))]));
    }

    #[test]
    fn reads_that_go_back_fail() {
        let both = [op(0, 10, Write(1)), op(1, 2, Read(1)), op(3, 4, Read(0))];
        assert!(!holds(&both));
    }

    #[test]
    fn two_swaps_of_the_same_fail() {
        assert!(!holds(&[op(0, 10, Swap(0, 1)), op(0, 10, Swap(0, 2))]));
    }

    #[test]
    fn a_lost_write_fails() {
        assert!(!holds(&[op(0, 1, Write(1)), op(2, 3, Read(0))]));
    }

    #[test]
    fn write_of_unknown_outcome_may_or_may_not_have_happened() {
        for value in [0, 1] {
            assert!(holds(&[maybe(0, NEVER, Write(1)), op(5, 6, Read(value))]));
            assert!(holds(&[maybe(0, 3, Write(1)), op(5, 6, Read(value))]));
        }
        // It may happen much later, but not before its call, nor after its end.
        assert!(holds(&[maybe(0, NEVER, Write(1)), op(1, 2, Read(0)), op(5, 6, Read(1))]));
        assert!(!holds(&[maybe(3, NEVER, Write(1)), op(1, 2, Read(1))]));
        assert!(!holds(&[maybe(0, 3, Write(1)), op(4, 5, Read(0)), op(6, 7, Read(1))]));
        // It happens only once.
        let twice =
            [maybe(0, NEVER, Write(1)), op(1, 2, Read(1)), op(3, 4, Write(2)), op(5, 6, Read(1))];
        assert!(!holds(&twice));
    }

    #[test]
    fn long_histories_are_no_burden() {
        let mut operations = Vec::new();
        for turn in 0..10_000u64 {
            let at = turn * 10;
            operations.push(op(at, at + 15, Write(turn as u32 + 1)));
            operations.push(op(at + 4, at + 18, Read(turn as u32 + 1)));
            operations.push(maybe(at + 5, at + 8, Swap(7, 9)));
        }
        assert!(holds(&operations));
        operations.push(op(100_100, 100_101, Read(3)));
        assert!(!holds(&operations));
    }
}
