//! A FlowSchema, compiled.

use std::fmt;
use std::sync::Arc;

use kevel_api::value::Value;

use super::rule::PolicyRule;
use crate::digest::RequestDigest;
use crate::observer::FlowObserver;
use crate::priority_level::PriorityLevel;

/// A flow schema of the configuration in effect, with its priority level.
pub struct FlowSchema {
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    pub(super) distinguisher: Option<Distinguisher>,
    pub(super) rules: Arc<[PolicyRule]>,
    pub(crate) level: Arc<PriorityLevel>,
    pub(crate) level_uid: Box<str>,
    /// Number of queues of the level; 0 without queues.
    pub(crate) queues: u32,
    pub(crate) max_seats: u32,
    pub(crate) observer: Arc<dyn FlowObserver>,
}

/// Flow distinguisher method of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distinguisher {
    User,
    Namespace,
}

impl FlowSchema {
    /// Name of the FlowSchema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// UID, for `X-Kubernetes-PF-FlowSchema-UID`; empty if the object does not exist.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Name of the priority level.
    pub fn priority_level(&self) -> &str {
        self.level.name()
    }

    /// UID of the priority level, for `X-Kubernetes-PF-PriorityLevel-UID`.
    pub fn priority_level_uid(&self) -> &str {
        &self.level_uid
    }

    /// Whether the priority level is exempt.
    pub fn is_exempt(&self) -> bool {
        self.level.is_exempt()
    }

    /// Maximum seats for the estimate of a request of this priority level; 0: only the estimator's own limit applies.
    pub fn max_seats(&self) -> u32 {
        self.max_seats
    }

    /// Observer of this flow schema's requests.
    pub fn observer(&self) -> &dyn FlowObserver {
        &*self.observer
    }

    /// Whether a request matches this flow schema.
    pub(crate) fn matches(&self, digest: &RequestDigest<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(digest))
    }

    /// Flow distinguisher of a request; empty if the level has at most one queue.
    pub(crate) fn flow_distinguisher<'a>(&self, digest: &RequestDigest<'a>) -> &'a str {
        match self.distinguisher {
            _ if self.queues <= 1 => "",
            Some(Distinguisher::User) => digest.user,
            Some(Distinguisher::Namespace) => digest.namespace,
            None => "",
        }
    }
}

impl Distinguisher {
    pub(super) fn new(spec: &Value) -> Option<Self> {
        match spec.str_at(&["distinguisherMethod", "type"]) {
            "ByUser" => Some(Distinguisher::User),
            "ByNamespace" => Some(Distinguisher::Namespace),
            _ => None,
        }
    }
}

impl fmt::Debug for FlowSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlowSchema {} of {}", self.name, self.level.name())
    }
}
