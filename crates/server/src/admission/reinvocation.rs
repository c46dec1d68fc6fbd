//! Another round of plug-ins, where a later one changed what an earlier one has seen.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What the rounds of one write know of each other (`ReinvocationContext`). The second round is the last.
#[derive(Default)]
pub struct Reinvocation {
    is_reinvoke: AtomicBool,
    requested: AtomicBool,
    values: Mutex<Vec<(&'static str, Box<dyn Any + Send>)>>,
}

impl std::fmt::Debug for Reinvocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reinvocation").field("round", &self.round()).finish_non_exhaustive()
    }
}

impl Reinvocation {
    /// Whether this is the second round.
    pub fn is_reinvoke(&self) -> bool {
        self.is_reinvoke.load(Relaxed)
    }

    /// 0, or 1 in the second round.
    pub fn round(&self) -> u32 {
        u32::from(self.is_reinvoke())
    }

    /// Asks for a second round.
    pub fn request(&self) {
        self.requested.store(true, Relaxed);
    }

    /// Whether somebody asked for it.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Relaxed)
    }

    /// What a plug-in remembers from round to round.
    pub fn with<T: Default + Send + 'static, R>(
        &self,
        plugin: &'static str,
        work: impl FnOnce(&mut T) -> R,
    ) -> R {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            |(name, value): &(&str, Box<dyn Any + Send>)| *name == plugin && value.is::<T>();
        let index = values.iter().position(known).unwrap_or_else(|| {
            values.push((plugin, Box::new(T::default())));
            values.len() - 1
        });
        match values.get_mut(index).and_then(|(_, value)| value.downcast_mut()) {
            Some(value) => work(value),
            None => work(&mut T::default()),
        }
    }

    /// Begins the second round, if somebody asked for it in the first.
    pub(super) fn begin_second_round(&self) -> bool {
        self.is_requested() && !self.is_reinvoke.swap(true, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a write: whether a second one begins, by who asks for it and when.
    #[test]
    fn a_second_round_begins_once_and_only_if_requested() {
        for (requests, expected) in [
            ([false, false], [false, false]),
            ([true, false], [true, false]),
            ([true, true], [true, false]),
            ([false, true], [false, true]),
        ] {
            let reinvocation = Reinvocation::default();
            assert_eq!((reinvocation.is_reinvoke(), reinvocation.round()), (false, 0));
            let begun = requests.map(|request| {
                if request {
                    reinvocation.request();
                }
                assert_eq!(reinvocation.is_requested(), request || requests[0]);
                reinvocation.begin_second_round()
            });
            assert_eq!(begun, expected, "{requests:?}");
            let second = begun.contains(&true);
            assert_eq!(reinvocation.is_reinvoke(), second, "{requests:?}");
            assert_eq!(reinvocation.round(), u32::from(second), "{requests:?}");
        }
    }

    #[test]
    fn plug_ins_remember_their_own_values_between_rounds() {
        let reinvocation = Reinvocation::default();
        for (plugin, expected) in [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)] {
            let count = reinvocation.with(plugin, |count: &mut u32| {
                *count += 1;
                *count
            });
            assert_eq!(count, expected, "{plugin}");
        }
        // Another type is another memory.
        assert_eq!(reinvocation.with("a", |text: &mut String| text.clone()), "");
        assert_eq!(reinvocation.with("a", |count: &mut u32| *count), 3);
    }
}
