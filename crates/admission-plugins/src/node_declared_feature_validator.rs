//! `NodeDeclaredFeatureValidator`: running pods change only in ways that their node knows.

use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::{Context, Registration};
use kevel_controlplane::lister::{Facts, Lister};
use kevel_features::Feature;

/// Features that a Pod update may need of its node, each with its test. Sorted by name.
const FEATURES: [(&str, Needs); 2] = [
    ("InPlacePodLevelResourcesVerticalScaling", resizes_pod),
    ("InPlacePodVerticalScalingInitContainers", resizes_init_container),
];

/// Test whether a pod's update needs a feature of its node.
type Needs = fn(&Value, &Value) -> bool;

/// `NodeDeclaredFeatureValidator`, as the command line knows it.
pub const REGISTRATION: Registration =
    Registration::on("NodeDeclaredFeatureValidator", |context| {
        Ok(Arc::new(NodeDeclaredFeatureValidator::new(context)?))
    });

/// The admission plug-in of that name.
#[derive(Debug)]
pub struct NodeDeclaredFeatureValidator {
    nodes: Lister<DeclaredFeatures>,
    /// `NodeDeclaredFeatures`
    enabled: bool,
}

/// The features that a node declares, of those that are asked for.
#[derive(Debug)]
struct DeclaredFeatures(Vec<&'static str>);

impl Facts for DeclaredFeatures {
    fn read(node: &Value) -> Self {
        let declared = node.list_at(&["status", "declaredFeatures"]);
        let has = |name: &&str| declared.iter().any(|known| known.as_str() == Some(name));
        DeclaredFeatures(FEATURES.iter().map(|(name, _)| *name).filter(has).collect())
    }
}

impl NodeDeclaredFeatureValidator {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let enabled = (context.feature)(Feature::NodeDeclaredFeatures);
        Ok(NodeDeclaredFeatureValidator { nodes: context.lister("", "nodes")?, enabled })
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        pod: &Value,
        needed: Vec<&str>,
    ) -> Result<(), StatusError> {
        let name = pod.str_at(&["spec", "nodeName"]);
        let Some(node) = self.nodes.get("", name, At::Any).await? else {
            let error = format!("node {} not found", quote(name));
            return Err(attributes.forbidden(Some(pod), error));
        };
        let has = |feature: &&str| node.0.contains(feature);
        let missing: Vec<&str> = needed.into_iter().filter(|feature| !has(feature)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let error = format!(
            "pod update requires features {} which are not available on node {}",
            missing.join(", "),
            quote(name)
        );
        Err(attributes.forbidden(Some(pod), error))
    }
}

impl Plugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let concerns = self.enabled
            && attributes.operation == Operation::Update
            && attributes.concerns("", "pods")
            && matches!(attributes.subresource, "" | "resize");
        let (Some(pod), Some(old)) = (object.filter(|_| concerns), attributes.old) else {
            return ready(Ok(()));
        };
        if !changes_on_node(pod, old) {
            return ready(Ok(()));
        }
        let needed = FEATURES.iter().filter(|(_, needs)| needs(pod, old)).map(|(name, _)| *name);
        let needed: Vec<&str> = needed.collect();
        match needed.is_empty() {
            true => ready(Ok(())),
            false => Box::pin(self.check(attributes, pod, needed)),
        }
    }
}

/// Whether the spec of a scheduled pod changes.
pub(super) fn changes_on_node(pod: &Value, old: &Value) -> bool {
    let generation = |pod: &Value| pod.at(&["metadata", "generation"]).and_then(Value::as_int);
    !pod.str_at(&["spec", "nodeName"]).is_empty() && generation(pod) != generation(old)
}

fn resizes_pod(pod: &Value, old: &Value) -> bool {
    pod.at(&["spec", "resources"]) != old.at(&["spec", "resources"])
}

fn resizes_init_container(pod: &Value, old: &Value) -> bool {
    let containers = |pod: &Value| pod.list_at(&["spec", "initContainers"]).to_vec();
    // Whether an empty one is sent is up to the client.
    let resources = |container: &Value| {
        container.at(&["resources"]).filter(|resources| !resources.is_empty()).cloned()
    };
    let mut both = containers(old).into_iter().zip(containers(pod));
    both.any(|(old, new)| {
        old.str_at(&["restartPolicy"]) != "Always" && resources(&old) != resources(&new)
    })
}
