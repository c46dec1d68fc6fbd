//! Objects that cannot be read: who is told of them.

use std::sync::OnceLock;

use super::Object;

type Count = Box<dyn Fn(&str) + Send + Sync>;

/// Tells the log and whoever counts.
#[derive(Default)]
pub(super) struct Damage(OnceLock<Count>);

impl std::fmt::Debug for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Damage")
    }
}

impl Damage {
    /// Calls `count` with the prefix of the resource for each object that cannot be read, whenever one
    /// is met. The first who asks for it is told.
    pub fn count(&self, count: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(count));
    }

    /// Tells of an object that was taken in, if it cannot be read.
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
