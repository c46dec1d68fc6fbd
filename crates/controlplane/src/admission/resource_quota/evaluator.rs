//! What objects of a kind use up.

use kevel_api::quantity::{Format, Quantity};
use kevel_api::value::Value;
use kevel_server::admission::{Attributes, Operation};

use super::super::resource_list::ResourceList;
use super::scopes::Scope;

/// One.
pub(super) const ONE: Quantity = Quantity::new(1, Format::DecimalSi);

/// Knows what objects of a kind use up.
pub(super) trait Evaluator: Send + Sync {
    /// Whether a write may change what is used.
    fn handles(&self, attributes: &Attributes<'_>, object: &Value) -> bool;

    /// Whether something that a quota limits is used by this kind.
    fn limited_by(&self, name: &str) -> bool;

    /// The names of what a quota limits that is used by this kind, in order.
    fn limited<'q>(&self, hard: &'q ResourceList) -> Vec<&'q str> {
        let names = hard.keys().inspect(|_| kevel_compute::charge(1));
        names.map(String::as_str).filter(|name| self.limited_by(name)).collect()
    }

    /// Whether there are any.
    fn is_limited(&self, hard: &ResourceList) -> bool {
        hard.keys().inspect(|_| kevel_compute::charge(1)).any(|name| self.limited_by(name))
    }

    /// What an object uses.
    fn usage(&self, object: &Value) -> ResourceList;

    /// Whether a scope is one of this kind, and an object is in it.
    fn is_in(&self, _scope: &Scope, _object: &Value) -> bool {
        false
    }

    /// What an object must say where these things are limited.
    fn check(&self, _limited: &[&str], _object: &Value) -> Result<(), String> {
        Ok(())
    }
}

/// Objects of which only the number counts.
#[derive(Debug)]
pub(super) struct Count {
    names: Vec<String>,
}

/// Kinds that were counted under names of their own before all could be.
const ALIASES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

impl Count {
    pub fn new(group: &str, plural: &str) -> Self {
        let mut names = vec![count(group, plural)];
        if group.is_empty() && ALIASES.contains(&plural) {
            names.push(plural.to_owned());
        }
        Count { names }
    }
}

impl Evaluator for Count {
    fn handles(&self, attributes: &Attributes<'_>, _: &Value) -> bool {
        attributes.operation == Operation::Create && attributes.subresource.is_empty()
    }

    fn limited_by(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// Looked up, as this is asked of every new object, and a quota may limit very much.
    fn limited<'q>(&self, hard: &'q ResourceList) -> Vec<&'q str> {
        let found = self.names.iter().filter_map(|name| hard.get_key_value(name));
        let mut found: Vec<&str> = found.map(|(name, _)| name.as_str()).collect();
        found.sort_unstable();
        found
    }

    fn is_limited(&self, hard: &ResourceList) -> bool {
        self.names.iter().any(|name| hard.contains_key(name))
    }

    fn usage(&self, _: &Value) -> ResourceList {
        self.names.iter().map(|name| (name.clone(), ONE)).collect()
    }
}

/// What quotas call the number of objects of a resource.
pub(super) fn count(group: &str, plural: &str) -> String {
    match group {
        "" => format!("count/{plural}"),
        group => format!("count/{plural}.{group}"),
    }
}
