//! A FlowSchema, compiled: requests that are treated alike.

use std::fmt;
use std::sync::Arc;

use kevel_api::value::Value;

use super::rule::PolicyRule;
use crate::digest::RequestDigest;
use crate::observer::FlowObserver;
use crate::priority_level::PriorityLevel;

/// A flow schema in the configuration that is in effect, with the priority level that it leads to.
pub struct FlowSchema {
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    pub(super) distinguisher: Option<Distinguisher>,
    pub(super) rules: Arc<[PolicyRule]>,
    pub(crate) level: Arc<PriorityLevel>,
    pub(crate) level_uid: Box<str>,
    /// How many queues the level has; 0 where requests do not wait.
    pub(crate) queues: u32,
    pub(crate) max_seats: u32,
    pub(crate) observer: Arc<dyn FlowObserver>,
}

/// What tells flows of a schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distinguisher {
    User,
    Namespace,
}

impl FlowSchema {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UID, for `X-Kubernetes-PF-FlowSchema-UID`; empty where the object is missing.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The name of its priority level.
    pub fn priority_level(&self) -> &str {
        self.level.name()
    }

    /// The UID of its priority level, for `X-Kubernetes-PF-PriorityLevel-UID`.
    pub fn priority_level_uid(&self) -> &str {
        &self.level_uid
    }

    /// Whether its priority level has no limits.
    pub fn is_exempt(&self) -> bool {
        self.level.is_exempt()
    }

    /// The most seats that a request of its priority level should be estimated at; 0 where the
    /// estimator's own limit is the only one.
    pub fn max_seats(&self) -> u32 {
        self.max_seats
    }

    /// Who is told about its requests.
    pub fn observer(&self) -> &dyn FlowObserver {
        &*self.observer
    }

    /// Whether a request is one of its.
    pub(crate) fn matches(&self, digest: &RequestDigest<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(digest))
    }

    /// What tells the request's flow from others; nothing where that makes no difference.
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
