//! Auditing: events about requests, selected by a policy and stored by backends.
//!
//! The [`Policy`] sets the level of a request and its stages; an [`Event`] holds the facts; a [`Backend`] stores it.
//! Requests carry an [`AuditContext`] that handlers add to; without a policy it is empty, and costs nothing.
//!
//! ```text
//! request ─▶ context ─▶ event ─▶ union ─┬─▶ truncate? ─▶ mode ─▶ log      mode: buffered, or blocking,
//!              ▲ annotations, objects   └─▶ truncate? ─▶ mode ─▶ webhook        strictly or not
//! ```

mod auditor;
mod backend;
mod buffered;
mod context;
mod event;
mod log;
mod metrics;
mod object;
mod policy;
mod rotation;
mod source_ips;
mod truncate;
mod webhook;

pub use auditor::Auditor;
pub use backend::{Backend, Errors, IgnoreErrors, Union};
pub use buffered::{Batch, Buffered, Throttle};
pub use context::AuditContext;
pub(crate) use context::AuditedRequest;
pub use event::{Event, ObjectReference, ResponseStatus, Stage};
pub use log::{Format, Log, Output};
pub use metrics::AuditMetrics;
pub use policy::{Policy, Verdict};
pub use rotation::{Rotated, Rotation};
pub(crate) use source_ips::source_ips;
pub use truncate::Truncate;
pub use webhook::Webhook;
