//! Flow control fields of the HTTP log.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_flowcontrol::{FlowSchema, WorkEstimate};

/// Longest name in the log, in bytes.
const MAX_NAME: usize = 64;

/// Flow control facts of a request for its log line, a request extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowLog(Arc<Notes>);

#[derive(Debug, Default)]
struct Notes {
    flow: OnceLock<LoggedFlow>,
    initialized: OnceLock<Duration>,
}

/// Classification and estimate of a request.
#[derive(Debug)]
pub(crate) struct LoggedFlow {
    pub priority_level: String,
    pub flow_schema: String,
    pub estimate: WorkEstimate,
}

impl FlowLog {
    pub(super) fn classified(&self, flow_schema: &FlowSchema, estimate: &WorkEstimate) {
        let _ = self.0.flow.set(LoggedFlow {
            priority_level: cut(flow_schema.priority_level()),
            flow_schema: cut(flow_schema.name()),
            estimate: *estimate,
        });
    }

    /// Records the duration of a watch's initialization.
    pub(super) fn initialized(&self, took: Duration) {
        let _ = self.0.initialized.set(took);
    }

    pub(crate) fn flow(&self) -> Option<&LoggedFlow> {
        self.0.flow.get()
    }

    pub(crate) fn initialization(&self) -> Option<Duration> {
        self.0.initialized.get().copied()
    }
}

fn cut(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}
