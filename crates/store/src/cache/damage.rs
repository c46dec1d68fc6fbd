//! Reports of objects that cannot be read: log line and metric.

use std::sync::OnceLock;

use super::Object;

type Count = Box<dyn Fn(&str) + Send + Sync>;

/// Reporter of unreadable objects: writes a log line and calls the counter.
#[derive(Default)]
pub(super) struct Damage(OnceLock<Count>);

impl std::fmt::Debug for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Damage")
    }
}

impl Damage {
    /// Sets the counter, called with the resource's prefix for each unreadable object that a cache takes in. Only the
    /// first call has an effect.
    pub fn count(&self, count: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(count));
    }

    /// Reports an object that a cache takes in, if it cannot be read.
    pub fn look_at(&self, prefix: &str, object: &Object) {
        let Err(error) = object.wire() else { return };
        tracing::error!(
            key = format!("{prefix}{}", object.key()),
            error,
            "an object cannot be read"
        );
        if let Some(count) = self.0.get() {
            count(prefix);
        }
    }
}
