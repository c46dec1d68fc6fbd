//! `PodTopologyLabels`: pods know the zone and region of their node.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::{Context, Registration};
use kevel_controlplane::lister::Lister;
use kevel_features::Feature;

const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// `PodTopologyLabels`, as the command line knows it.
pub const REGISTRATION: Registration =
    Registration::on("PodTopologyLabels", |context| Ok(Arc::new(PodTopologyLabels::new(context)?)));

/// The admission plug-in of that name.
#[derive(Debug)]
pub struct PodTopologyLabels {
    nodes: Lister,
    /// `PodTopologyLabelsAdmission`
    enabled: bool,
}

impl PodTopologyLabels {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let enabled = (context.feature)(Feature::PodTopologyLabelsAdmission);
        Ok(PodTopologyLabels { nodes: context.lister("", "nodes")?, enabled })
    }

    async fn label(&self, object: &mut Value, node: String) -> Result<(), StatusError> {
        let mut nodes = self.nodes.snapshot(At::Any).await?;
        // One that the cache does not have may just have been made.
        if nodes.get(&node).is_none() {
            nodes = self.nodes.snapshot(At::Consistent).await?;
        }
        let Some(node) = nodes.get(&node) else { return Ok(()) };
        for key in LABELS {
            if let Some(value) = node.label(key) {
                object.make_map(&["metadata", "labels"]).insert(key, value.into());
            }
        }
        Ok(())
    }
}

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let pods = attributes.operation == Operation::Create && attributes.concerns("", "pods");
        let Some(object) = object.filter(|_| self.enabled && pods) else { return ready(Ok(())) };
        let node = match attributes.subresource {
            "" => object.str_at(&["spec", "nodeName"]),
            "binding" if object.str_at(&["target", "kind"]) == "Node" => {
                object.str_at(&["target", "name"])
            }
            _ => "",
        };
        if node.is_empty() {
            return ready(Ok(()));
        }
        let node = node.to_owned();
        Box::pin(self.label(object, node))
    }
}
