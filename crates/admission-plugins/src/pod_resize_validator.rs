//! `PodResizeValidator` admission plug-in: a resized pod must fit into its node's allocatable resources.

use std::sync::Arc;

use kevel_api::quantity::Quantity;
use kevel_api::quote::quote;
use kevel_api::status::{StatusCause, StatusError};
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::node_declared_feature_validator::changes_on_node;
use super::resource_list::{self, PodResources};
use super::{Context, Registration};
use kevel_controlplane::lister::{Facts, Lister};

/// Pod-level resources take precedence over the sum of the containers.
const RESOURCES: PodResources = PodResources {
    status: false,
    overhead: true,
    pod_level: |name| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-"),
};

type Unit = fn(&Quantity) -> i64;

/// Resources that are checked, with the unit of the messages.
const UNITS: [(&str, Unit); 2] = [("cpu", Quantity::milli_value), ("memory", Quantity::value)];

/// Registration of the `PodResizeValidator` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("PodResizeValidator", |context| {
    Ok(Arc::new(PodResizeValidator::new(context)?))
});

/// The `PodResizeValidator` admission plug-in.
#[derive(Debug)]
pub struct PodResizeValidator {
    nodes: Lister<NodeCapacity>,
}

/// Facts about a node that the check of a resize needs.
#[derive(Debug)]
struct NodeCapacity {
    system: Option<String>,
    /// Allocatable amounts of the resources in [`UNITS`].
    allocatable: resource_list::ResourceList,
}

impl Facts for NodeCapacity {
    fn read(node: &Value) -> Self {
        let system = node.at(&["metadata", "labels", "kubernetes.io/os"]).and_then(Value::as_str);
        let mut allocatable = resource_list::at(node, &["status", "allocatable"]);
        allocatable.retain(|name, _| UNITS.iter().any(|(unit, _)| unit == name));
        NodeCapacity { system: system.map(str::to_owned), allocatable }
    }
}

impl PodResizeValidator {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(PodResizeValidator { nodes: context.lister("", "nodes")? })
    }

    async fn check(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
        let name = pod.str_at(&["spec", "nodeName"]);
        let Some(node) = self.nodes.get("", name, At::Any).await? else {
            let error = format!("node {} not found", quote(name));
            return Err(attributes.forbidden(Some(pod), error));
        };
        let refused = |error: String, reason: &'static str| {
            let cause = StatusCause { reason: reason.into(), ..StatusCause::default() };
            Err(attributes.forbidden(Some(pod), error).with_cause(cause))
        };
        if let Some(system) = node.system.as_deref().filter(|system| *system != "linux") {
            let (node, system) = (quote(name), quote(system));
            let error =
                format!("pod resize is only supported on linux nodes, node {node} is {system}");
            return refused(error, "UnsupportedPlatform");
        }
        let requests = RESOURCES.requests(pod);
        let missing = UNITS.into_iter().filter_map(|(name, unit)| {
            let amount = |list: &resource_list::ResourceList| list.get(name).copied();
            let asked = amount(&requests).unwrap_or_default();
            let there = amount(&node.allocatable).unwrap_or_default();
            let (asked_units, there_units) = (unit(&asked), unit(&there));
            (asked > there)
                .then(|| format!("{name}, requested: {asked_units}, allocatable: {there_units}"))
        });
        let missing: Vec<String> = missing.collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join("; ");
        let error = format!("node didn't have enough allocatable resources: {missing}");
        refused(error, "NodeCapacity")
    }
}

impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let resizes = attributes.operation == Operation::Update
            && attributes.subresource == "resize"
            && attributes.concerns("", "pods");
        match (object, attributes.old) {
            (Some(pod), Some(old)) if resizes && changes_on_node(pod, old) => {
                Box::pin(self.check(attributes, pod))
            }
            _ => ready(Ok(())),
        }
    }
}
