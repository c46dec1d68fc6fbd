//! Progress of maintenance that may take long.

/// A report of running maintenance, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaintenanceProgress {
    /// A step that begins.
    Note(String),
    /// Progress of the present step.
    Counted {
        /// Participle of the work on the units, as in "checked".
        verb: &'static str,
        /// Name of the units, as in "records".
        units: &'static str,
        /// Units that are done.
        done: u64,
        /// All units, as far as known when the work began.
        total: u64,
    },
}

/// Receives the progress of maintenance. It is called often: a receiver that writes leaves most reports out.
pub type Report<'a> = &'a (dyn Fn(MaintenanceProgress) + Sync);

/// Receiver that ignores all progress.
pub const UNREPORTED: Report<'static> = &|_| {};

/// Units between two reports of counted work.
pub(crate) const REPORT_EVERY: u64 = 1024;
