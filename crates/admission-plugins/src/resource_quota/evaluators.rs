//! Evaluators of all resources (upstream: quota.Registry).

use std::ops::Deref;

use kevel_clock::Clock;
use kevel_features::Feature;

use super::claims::{PersistentVolumeClaims, ResourceClaims};
use super::evaluator::{Count, Evaluator};
use super::pods::Pods;
use super::services::Services;

/// Evaluators of all resources.
#[derive(Debug)]
pub struct Evaluators {
    pods: Pods,
    claims: PersistentVolumeClaims,
}

/// Evaluator of one resource.
pub enum EvaluatorRef<'a> {
    /// Evaluator of a kind with usage rules of its own.
    Known(&'a dyn Evaluator),
    /// Evaluator that counts objects.
    Count(Box<dyn Evaluator>),
}

impl Evaluators {
    /// Evaluators with the feature gates that are on.
    pub fn new(feature: &dyn Fn(Feature) -> bool, clock: Clock) -> Self {
        Evaluators {
            pods: Pods::new(feature(Feature::PodLevelResources), clock),
            claims: PersistentVolumeClaims { classes: feature(Feature::VolumeAttributesClass) },
        }
    }

    /// Evaluator of a resource.
    pub fn of(&self, group: &str, plural: &str) -> EvaluatorRef<'_> {
        match (group, plural) {
            ("", "pods") => EvaluatorRef::Known(&self.pods),
            ("", "services") => EvaluatorRef::Known(&Services),
            ("", "persistentvolumeclaims") => EvaluatorRef::Known(&self.claims),
            ("resource.k8s.io", "resourceclaims") => EvaluatorRef::Known(&ResourceClaims),
            _ => EvaluatorRef::Count(Box::new(Count::new(group, plural))),
        }
    }
}

impl EvaluatorRef<'_> {
    /// Whether the evaluator counts objects, whatever is in them.
    pub fn only_counts(&self) -> bool {
        matches!(self, EvaluatorRef::Count(_))
    }
}

impl std::fmt::Debug for EvaluatorRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.only_counts() { "Count" } else { "Known" })
    }
}

impl<'a> Deref for EvaluatorRef<'a> {
    type Target = dyn Evaluator + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            EvaluatorRef::Known(known) => *known,
            EvaluatorRef::Count(count) => &**count,
        }
    }
}
