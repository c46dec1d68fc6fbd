//! Audit of a write: what plug-ins and handlers of objects may ask and add (upstream: `audit.AddAuditAnnotation`).

use std::fmt::Debug;

/// Audit level (upstream: `audit.Level`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No event.
    #[default]
    None,
    /// Metadata: user, request and response code.
    Metadata,
    /// Metadata, and the request object.
    Request,
    /// Metadata, request object and response object.
    RequestResponse,
}

impl Level {
    /// All levels.
    pub const ALL: [Level; 4] =
        [Level::None, Level::Metadata, Level::Request, Level::RequestResponse];

    /// Name of the level.
    pub const fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

/// Audit event of a request, as far as a write sees it.
pub trait AuditEvent: Debug + Send + Sync {
    /// Audit level of the request.
    fn level(&self) -> Level;

    /// Adds an annotation, unless the key is set.
    fn annotate(&self, key: &str, value: &str);
}

/// Audit event of a request that is not audited.
#[derive(Clone, Copy, Debug)]
pub struct Unaudited;

impl AuditEvent for Unaudited {
    fn level(&self) -> Level {
        Level::None
    }

    fn annotate(&self, _key: &str, _value: &str) {}
}
