//! Auditing: events about requests, by a policy, for backends that keep them.
//!
//! The [`Policy`] says how much of a request is kept, stage by stage; an [`Event`] is what is kept;
//! a [`Backend`] keeps it. Requests carry an [`AuditContext`] to which all on their way may
//! add; without a policy it is nothing, and costs nothing.
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
pub use event::{Event, Level, ObjectReference, ResponseStatus, Stage};
pub use log::{Format, Log, Output};
pub use metrics::AuditMetrics;
pub use policy::{Policy, Verdict};
pub use rotation::{Rotated, Rotation};
pub use truncate::Truncate;
pub use webhook::Webhook;
