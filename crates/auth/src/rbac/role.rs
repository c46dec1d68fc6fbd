//! Roles, and the indexes of their rules, which all subjects share.

use std::fmt;
use std::sync::OnceLock;

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_server::authorization::Attributes;

use super::lookup::Lookup;
use crate::GROUP;
use crate::rule::{self, Coverage, PolicyRule};

/// Beyond this many rules, those of a role that matter are looked up rather than searched for.
const SEARCHED_RULES: usize = 16;

/// A role, or a cluster role.
#[derive(Debug, Default)]
pub(crate) struct Role {
    pub rules: Vec<PolicyRule>,
    /// Index of many rules. A role of a megabyte has some ten thousand, and a binding may give it to as many users: it is
    /// made once for the role, when the first of them asks.
    lookup: OnceLock<Lookup>,
    coverage: OnceLock<Coverage>,
}

impl Role {
    pub fn read(object: &Value) -> Self {
        Role { rules: rule::rules(object), ..Role::default() }
    }

    /// Whether the role has an index of its own.
    pub fn is_large(&self) -> bool {
        self.rules.len() > SEARCHED_RULES
    }

    /// Whether one of the rules allows something.
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !self.is_large() {
            return self.rules.iter().any(|rule| rule.allows(asked));
        }
        let index = || Lookup::new([(0, self.rules.as_slice())].into_iter());
        let mut candidates = kevel_compute::filled(&self.lookup, index).candidates(asked);
        candidates.any(|place| self.rules.get(place.rule).is_some_and(|rule| rule.allows(asked)))
    }

    /// Coverage of the rules, for escalation checks.
    pub fn coverage(&self) -> &Coverage {
        kevel_compute::filled(&self.coverage, || Coverage::new(&self.rules))
    }
}

/// The role that a binding binds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RoleRef {
    pub kind: String,
    pub name: String,
}

impl RoleRef {
    pub fn of(binding: &Value) -> Self {
        let text = |field| binding.str_at(&["roleRef", field]).to_owned();
        RoleRef { kind: text("kind"), name: text("name") }
    }

    /// The resource that the role is one of.
    pub fn resource(&self) -> Option<&'static str> {
        match self.kind.as_str() {
            "Role" => Some("roles"),
            "ClusterRole" => Some("clusterroles"),
            _ => None,
        }
    }
}

/// Name of a role in messages.
impl fmt::Display for RoleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.as_str() {
            "Role" | "ClusterRole" => {
                write!(f, "{}.{GROUP} {} not found", self.kind.to_lowercase(), quote(&self.name))
            }
            kind => write!(f, "unsupported role reference kind: {}", quote(kind)),
        }
    }
}
