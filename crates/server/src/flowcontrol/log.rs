//! What the line of a request in the log says about its flow.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_flowcontrol::{FlowSchema, WorkEstimate};

/// How much of a name is written.
const MAX_NAME: usize = 64;

/// Notes of a request, for who writes its line. It is an extension of a request that has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowLog(Arc<Notes>);

#[derive(Debug, Default)]
struct Notes {
    flow: OnceLock<LoggedFlow>,
    initialized: OnceLock<Duration>,
}

/// How a request was classified and estimated.
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

    /// A watch took so long to begin.
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
