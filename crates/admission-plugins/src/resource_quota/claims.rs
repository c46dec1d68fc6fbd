//! Quota evaluators of PersistentVolumeClaims (number and size) and ResourceClaims (number of devices), in total and
//! by class.

use std::collections::{BTreeMap, BTreeSet};

use kevel_api::quantity::{Format, Quantity};
use kevel_api::value::Value;
use kevel_registry::admission::{Attributes, Operation};

use super::super::persistent_volume_claim_resize::class;
use super::super::resource_list::ResourceList;
use super::evaluator::{Evaluator, ONE};
use super::scopes::Scope;

const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const COUNT: &str = "count/persistentvolumeclaims";
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";

#[derive(Debug)]
pub(super) struct PersistentVolumeClaims {
    /// `VolumeAttributesClass`: claims can be limited by their classes.
    pub classes: bool,
}

impl Evaluator for PersistentVolumeClaims {
    fn handles(&self, attributes: &Attributes<'_>, claim: &Value) -> bool {
        match attributes.subresource {
            "" => matches!(attributes.operation, Operation::Create | Operation::Update),
            "status" => {
                let allocated =
                    |claim: &Value| claim.at(&["status", "allocatedResources", "storage"]).cloned();
                attributes.old.is_some_and(|old| {
                    allocated(old) != allocated(claim)
                        || attributes_classes(old) != attributes_classes(claim)
                })
            }
            _ => false,
        }
    }

    fn limited_by(&self, name: &str) -> bool {
        let of_class = |what| name.strip_suffix(what).is_some_and(|name| name.ends_with(BY_CLASS));
        [COUNT, CLAIMS, STORAGE].contains(&name) || of_class(CLAIMS) || of_class(STORAGE)
    }

    fn usage(&self, claim: &Value) -> ResourceList {
        let mut usage = ResourceList::from([(CLAIMS.to_owned(), ONE), (COUNT.to_owned(), ONE)]);
        let class = class(claim);
        if !class.is_empty() {
            usage.insert(format!("{class}{BY_CLASS}{CLAIMS}"), ONE);
        }
        let amount = |path: &[&str]| {
            let mut amount: Quantity = claim.at(path)?.as_str()?.parse().ok()?;
            amount.round_up(0);
            Some(amount)
        };
        if let Some(wanted) = amount(&["spec", "resources", "requests", "storage"]) {
            let allocated = amount(&["status", "allocatedResources", "storage"]);
            let storage = allocated.filter(|allocated| *allocated > wanted).unwrap_or(wanted);
            usage.insert(STORAGE.to_owned(), storage);
            if !class.is_empty() {
                usage.insert(format!("{class}{BY_CLASS}{STORAGE}"), storage);
            }
        }
        usage
    }

    fn is_in(&self, scope: &Scope, claim: &Value) -> bool {
        let classes: Vec<&str> = attributes_classes(claim).into_iter().collect();
        self.classes && scope.name == "VolumeAttributesClass" && scope.selects(&classes)
    }
}

/// VolumeAttributesClasses of a claim: requested, current and target.
fn attributes_classes(claim: &Value) -> BTreeSet<&str> {
    let paths: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    paths.into_iter().map(|path| claim.str_at(path)).filter(|name| !name.is_empty()).collect()
}

const DEVICE_CLAIMS: &str = "count/resourceclaims.resource.k8s.io";
const BY_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Number of devices charged for the allocation mode All.
const ALL_DEVICES: i64 = 32;

#[derive(Debug)]
pub(super) struct ResourceClaims;

impl Evaluator for ResourceClaims {
    fn handles(&self, attributes: &Attributes<'_>, _: &Value) -> bool {
        attributes.subresource.is_empty()
            && matches!(attributes.operation, Operation::Create | Operation::Update)
    }

    fn limited_by(&self, name: &str) -> bool {
        name == DEVICE_CLAIMS || name.ends_with(BY_DEVICE_CLASS)
    }

    fn usage(&self, claim: &Value) -> ResourceList {
        let mut devices: BTreeMap<String, i64> = BTreeMap::new();
        for request in claim.list_at(&["spec", "devices", "requests"]) {
            let alternatives = request.list_at(&["firstAvailable"]).iter();
            let wanted = alternatives.chain(request.at(&["exactly"]));
            // Of a request's alternatives, the largest count of each class is charged.
            let mut most: BTreeMap<String, i64> = BTreeMap::new();
            for wanted in wanted {
                let class = format!("{}{BY_DEVICE_CLASS}", wanted.str_at(&["deviceClassName"]));
                let count = match wanted.str_at(&["allocationMode"]) {
                    "ExactCount" => wanted.at(&["count"]).and_then(Value::as_int).unwrap_or(0),
                    "All" => ALL_DEVICES,
                    _ => 0,
                };
                let known = most.entry(class).or_default();
                *known = count.max(*known);
            }
            for (class, count) in most {
                let sum = devices.entry(class).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let number = |(class, count)| (class, Quantity::new(count, Format::DecimalSi));
        let mut usage: ResourceList = devices.into_iter().map(number).collect();
        usage.insert(DEVICE_CLAIMS.to_owned(), ONE);
        usage
    }
}
