//! Warnings of a write (upstream: `warning.Recorder`).

use std::sync::{Arc, Mutex, PoisonError};

use kevel_api::warning::WarningList;

/// Warnings for the client (`Warning` headers).
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<WarningList>>);

impl Warnings {
    /// Adds a warning, unless it is a duplicate.
    pub fn add(&self, warning: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(warning);
    }

    /// Takes the warnings, truncated as they are sent.
    pub fn take(&self) -> Vec<String> {
        let warnings = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(warnings).into_said()
    }
}
