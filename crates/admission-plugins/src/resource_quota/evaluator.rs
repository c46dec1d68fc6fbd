//! Quota evaluators: the usage of objects by kind (upstream: quota.Evaluator).

use kevel_api::quantity::{Format, Quantity};
use kevel_api::value::Value;
use kevel_registry::admission::{Attributes, Operation};

use super::super::resource_list::ResourceList;
use super::scopes::Scope;

/// Usage of one object.
pub(super) const ONE: Quantity = Quantity::new(1, Format::DecimalSi);

/// Evaluator of a kind's usage.
pub trait Evaluator: Send + Sync {
    /// True if the write may change usage.
    fn handles(&self, attributes: &Attributes<'_>, object: &Value) -> bool;

    /// True if the evaluator measures this resource name.
    fn limited_by(&self, name: &str) -> bool;

    /// Names in `hard` that the evaluator measures, in order.
    fn limited<'q>(&self, hard: &'q ResourceList) -> Vec<&'q str> {
        let names = hard.keys().inspect(|_| kevel_compute::charge(1));
        names.map(String::as_str).filter(|name| self.limited_by(name)).collect()
    }

    /// True if the evaluator measures any name in `hard`.
    fn is_limited(&self, hard: &ResourceList) -> bool {
        hard.keys().inspect(|_| kevel_compute::charge(1)).any(|name| self.limited_by(name))
    }

    /// Usage of an object.
    fn usage(&self, object: &Value) -> ResourceList;

    /// True if the evaluator supports the scope and the object matches it.
    fn is_in(&self, _scope: &Scope, _object: &Value) -> bool {
        false
    }

    /// Checks that an object sets what quotas on these names require, such as requests of its containers.
    fn check(&self, _limited: &[&str], _object: &Value) -> Result<(), String> {
        Ok(())
    }
}

/// Evaluator that counts objects.
#[derive(Debug)]
pub(super) struct Count {
    names: Vec<String>,
}

/// Kinds of the core group that can also be counted under their plain names.
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

    /// Looks names up instead of iterating: this runs for every new object, and a quota may limit very many names.
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

/// Resource name that counts a resource's objects.
pub(super) fn count(group: &str, plural: &str) -> String {
    match group {
        "" => format!("count/{plural}"),
        group => format!("count/{plural}.{group}"),
    }
}
