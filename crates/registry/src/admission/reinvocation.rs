//! Reinvocation of mutating plug-ins after a later plug-in changed the object.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// State shared by the rounds of one write (upstream: `ReinvocationContext`). There are at most two rounds.
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

    /// Requests a second round.
    pub fn request(&self) {
        self.requested.store(true, Relaxed);
    }

    /// Whether a second round is requested.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Relaxed)
    }

    /// Calls `work` with the state that a plug-in keeps across rounds.
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

    /// Begins the second round, if requested in the first.
    pub(super) fn begin_second_round(&self) -> bool {
        self.is_requested() && !self.is_reinvoke.swap(true, Relaxed)
    }
}
#[cfg(test)]
mod tests;
