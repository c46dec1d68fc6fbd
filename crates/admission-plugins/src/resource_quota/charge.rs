//! Charging a write against the quotas of its namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use kevel_api::quantity::Quantity;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_registry::admission::{Attributes, Operation};

use super::super::resource_list::{self, ResourceList};
use super::configuration::LimitedResource;
use super::evaluator::Evaluator;
use super::scopes::{self, Scope};
use kevel_controlplane::lister::Facts;

/// Facts about a ResourceQuota: about a hundred bytes per amount.
#[derive(Debug)]
pub(super) struct Quota {
    name: String,
    hard: ResourceList,
    used: ResourceList,
    scopes: Vec<Scope>,
}

impl Facts for Quota {
    fn read(quota: &Value) -> Self {
        Quota {
            name: quota.str_at(&["metadata", "name"]).to_owned(),
            hard: resource_list::at(quota, &["status", "hard"]),
            used: resource_list::at(quota, &["status", "used"]),
            scopes: scopes::of(quota),
        }
    }
}

/// A write with its usage.
pub(super) struct Charge<'a> {
    evaluator: &'a dyn Evaluator,
    attributes: &'a Attributes<'a>,
    object: &'a Value,
    /// Usage of the object, and its increase over the old object.
    usage: ResourceList,
    difference: ResourceList,
}

impl<'a> Charge<'a> {
    pub fn new(
        evaluator: &'a dyn Evaluator,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Self {
        let usage = evaluator.usage(object);
        let old = attributes.old.filter(|_| attributes.operation == Operation::Update);
        let difference = without_zeros(difference(&usage, old.map(|old| evaluator.usage(old))));
        Charge { evaluator, attributes, object, usage, difference }
    }

    /// Names of the quotas whose usage the write raises; an error if one is exceeded.
    pub fn check(
        &self,
        quotas: &[Arc<Quota>],
        limited: &[LimitedResource],
    ) -> Result<Vec<String>, StatusError> {
        let (mut about, mut covered) = (Vec::new(), BTreeSet::new());
        for quota in quotas.iter().filter(|quota| self.is_about(quota, self.object)) {
            let names = self.evaluator.limited(&quota.hard);
            let name = &quota.name;
            let checked = self.evaluator.check(&names, self.object);
            checked.map_err(|error| self.forbidden(format!("failed quota: {name}: {error}")))?;
            if names.iter().any(|name| !quota.used.contains_key(*name)) {
                let names = names.join(",");
                let error = format!("status unknown for quota: {name}, resources: {names}");
                return Err(self.forbidden(error));
            }
            about.push(quota);
            if !limited.is_empty() {
                covered.extend(names);
            }
        }
        let negative = self.usage.iter().filter(|(_, amount)| amount.signum() < 0);
        let negative: Vec<&str> = negative.map(|(name, _)| name.as_str()).collect();
        if !negative.is_empty() {
            let negative = negative.join(",");
            let error = format!("quota usage is negative for resource(s): {negative}");
            return Err(self.forbidden(error));
        }
        let charged: Vec<_> = about.iter().filter(|quota| !self.added(quota).is_empty()).collect();
        let uses = match about.is_empty() {
            true => !self.difference.is_empty(),
            false => !charged.is_empty(),
        };
        if !uses {
            return Ok(Vec::new());
        }
        self.check_covered(quotas, limited, &self.usage, &covered)?;
        let mut changed = Vec::new();
        for quota in charged {
            if !self.added_of(quota)?.is_empty() {
                changed.push(quota.name.clone());
            }
        }
        Ok(changed)
    }

    /// Adds the write's usage to `status.used` of a quota, or fails if that exceeds the quota.
    pub fn add(&self, object: &mut Value) -> Result<(), StatusError> {
        let quota = Quota::read(object);
        if !self.is_about(&quota, self.object) {
            return Ok(());
        }
        let added = self.added_of(&quota)?;
        let status = object.make_map(&["status", "used"]);
        for (name, amount) in &added {
            let sum = sum(quota.used.get(name), *amount);
            status.insert(name.as_str(), sum.to_string().as_str().into());
        }
        Ok(())
    }

    /// Increase of the resources that the quota limits; an error if it exceeds the quota.
    fn added_of(&self, quota: &Quota) -> Result<ResourceList, StatusError> {
        let Quota { name, hard, used, .. } = quota;
        let mut added = self.added(quota);
        added.retain(|name, _| hard.contains_key(name));
        let exceeds = |(name, amount): &(&String, &Quantity)| {
            Some(&sum(used.get(*name), **amount)) > hard.get(*name)
        };
        let exceeded: Vec<&String> = added.iter().filter(exceeds).map(|(name, _)| name).collect();
        // A status update is never refused: it reports facts.
        if exceeded.is_empty() || self.attributes.subresource == "status" {
            return Ok(added);
        }
        let print = |list: &ResourceList| {
            let told = exceeded.iter().filter_map(|name| list.get_key_value(*name));
            resource_list::print(&told.map(|(name, amount)| (name.clone(), *amount)).collect())
        };
        Err(self.forbidden(format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            print(&added),
            print(used),
            print(hard)
        )))
    }

    /// Increase to charge to a quota: the difference if the quota matched the old object, otherwise the whole usage.
    fn added(&self, quota: &Quota) -> ResourceList {
        match self.attributes.old {
            Some(old) if self.is_about(quota, old) => self.difference.clone(),
            _ => without_zeros(self.usage.clone()),
        }
    }

    fn is_about(&self, quota: &Quota, object: &Value) -> bool {
        self.evaluator.is_limited(&quota.hard)
            && quota.scopes.iter().all(|scope| self.evaluator.is_in(scope, object))
    }

    /// Checks that quotas cover the limited resources of the configuration.
    fn check_covered(
        &self,
        quotas: &[Arc<Quota>],
        limited: &[LimitedResource],
        usage: &ResourceList,
        covered: &BTreeSet<&str>,
    ) -> Result<(), StatusError> {
        if limited.is_empty() {
            return Ok(());
        }
        let here = limited.iter().filter(|row| self.attributes.concerns(&row.group, &row.resource));
        let used = || usage.iter().filter(|(_, amount)| amount.signum() > 0).map(|(name, _)| name);
        let names: BTreeSet<&String> = here
            .flat_map(|row| used().filter(|name| row.contains.iter().any(|c| name.contains(c))))
            .filter(|name| !covered.contains(name.as_str()))
            .collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
            let error = format!("insufficient quota to consume: {}", names.join(","));
            return Err(self.forbidden(error));
        }
        let applies = |scope: &Scope| self.evaluator.is_in(scope, self.object);
        let found: BTreeSet<&str> = quotas
            .iter()
            .flat_map(|quota| &quota.scopes)
            .filter(|scope| applies(scope))
            .map(|scope| scope.name.as_str())
            .collect();
        let needed = limited.iter().flat_map(|row| &row.scopes).filter(|scope| applies(scope));
        let missing = needed.filter(|scope| !found.contains(scope.name.as_str()));
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(StatusError::unknown(
                500,
                format!("insufficient quota to match these scopes: [{}]", missing.join(" ")),
            )),
        }
    }

    fn forbidden(&self, error: String) -> StatusError {
        self.attributes.forbidden(Some(self.object), error)
    }
}

/// Usage after an addition.
fn sum(used: Option<&Quantity>, added: Quantity) -> Quantity {
    let mut sum = added;
    if let Some(used) = used {
        sum = *used;
        sum += added;
    }
    sum
}

fn without_zeros(mut list: ResourceList) -> ResourceList {
    list.retain(|_, amount| !amount.is_zero());
    list
}

/// Increase of usage over the old object.
fn difference(usage: &ResourceList, before: Option<ResourceList>) -> ResourceList {
    let mut difference = usage.clone();
    let Some(before) = before else { return difference };
    for (name, amount) in &mut difference {
        if let Some(before) = before.get(name) {
            *amount -= *before;
        }
    }
    difference.retain(|_, amount| amount.signum() > 0);
    difference
}
