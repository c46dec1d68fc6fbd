//! `RuntimeClass` admission plug-in: sets the overhead and scheduling constraints of a pod's RuntimeClass.

use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;
use super::{Context, resource_list, tolerations};
use kevel_controlplane::lister::{Facts, Lister};

/// Registration of the `RuntimeClass` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::on("RuntimeClass", |context| Ok(Arc::new(RuntimeClass::new(context)?)));

/// The `RuntimeClass` admission plug-in.
#[derive(Debug)]
pub struct RuntimeClass {
    classes: Lister<RuntimeFacts>,
}

/// Overhead and scheduling that a RuntimeClass adds to its pods.
#[derive(Debug)]
struct RuntimeFacts {
    overhead: Option<Value>,
    scheduling: Option<Value>,
}

impl Facts for RuntimeFacts {
    fn read(class: &Value) -> Self {
        let part = |field: &str| class.at(&[field]).cloned();
        RuntimeFacts { overhead: part("overhead"), scheduling: part("scheduling") }
    }
}

impl RuntimeClass {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(RuntimeClass { classes: context.lister("node.k8s.io", "runtimeclasses")? })
    }

    async fn class(
        &self,
        attributes: &Attributes<'_>,
        pod: &Value,
        name: &str,
    ) -> Result<Arc<RuntimeFacts>, StatusError> {
        let found = self.classes.find("", name).await?;
        let error = || format!("pod rejected: RuntimeClass {} not found", quote(name));
        found.ok_or_else(|| attributes.forbidden(Some(pod), error()))
    }

    async fn complete(
        &self,
        attributes: &Attributes<'_>,
        pod: &mut Value,
        name: String,
    ) -> Result<(), StatusError> {
        let class = self.class(attributes, pod, &name).await?;
        if let Some(overhead) = &class.overhead {
            let given = pod.at(&["spec", "overhead"]).is_some_and(|overhead| !overhead.is_empty());
            if given && !same_overhead(pod, overhead) {
                return Err(other_overhead(attributes, pod));
            }
            let fixed = overhead.at(&["podFixed"]).cloned();
            let spec = pod.make_map(&["spec"]);
            match fixed {
                Some(fixed) => spec.insert("overhead", fixed),
                None => spec.remove("overhead"),
            };
        }
        match &class.scheduling {
            Some(scheduling) => schedule(attributes, pod, scheduling),
            None => Ok(()),
        }
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        pod: &Value,
        name: &str,
    ) -> Result<(), StatusError> {
        let class = self.class(attributes, pod, name).await?;
        match &class.overhead {
            None => check_no_overhead(attributes, pod),
            Some(overhead) if same_overhead(pod, overhead) => Ok(()),
            Some(_) => Err(other_overhead(attributes, pod)),
        }
    }
}

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let Some(pod) = object.filter(|_| concerns(attributes)) else { return ready(Ok(())) };
        match pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) {
            Some(name) => {
                let name = name.to_owned();
                Box::pin(self.complete(attributes, pod, name))
            }
            None => ready(Ok(())),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let Some(pod) = object.filter(|_| concerns(attributes)) else { return ready(Ok(())) };
        match pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) {
            Some(name) => Box::pin(self.check(attributes, pod, name)),
            None => ready(check_no_overhead(attributes, pod)),
        }
    }
}

fn concerns(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.is("", "pods")
}

fn same_overhead(pod: &Value, overhead: &Value) -> bool {
    resource_list::at(pod, &["spec", "overhead"]) == resource_list::at(overhead, &["podFixed"])
}

fn other_overhead(attributes: &Attributes<'_>, pod: &Value) -> StatusError {
    let error = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
    attributes.forbidden(Some(pod), error)
}

fn check_no_overhead(attributes: &Attributes<'_>, pod: &Value) -> Result<(), StatusError> {
    let error =
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    match pod.at(&["spec", "overhead"]) {
        Some(_) => Err(attributes.forbidden(Some(pod), error)),
        None => Ok(()),
    }
}

/// Adds the class's node selector and tolerations to a pod.
fn schedule(
    attributes: &Attributes<'_>,
    pod: &mut Value,
    scheduling: &Value,
) -> Result<(), StatusError> {
    let selector = scheduling.at(&["nodeSelector"]).and_then(Value::as_map);
    for (key, value) in selector.into_iter().flat_map(Map::iter) {
        let asked = pod.at(&["spec", "nodeSelector", key]);
        if let Some(asked) = asked.filter(|asked| *asked != value) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let error = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; \
                 pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(asked)
            );
            return Err(attributes.forbidden(Some(pod), error));
        }
        pod.make_map(&["spec", "nodeSelector"]).insert(key, value.clone());
    }
    let (own, added) =
        (pod.list_at(&["spec", "tolerations"]), scheduling.list_at(&["tolerations"]));
    let merged = tolerations::merge(own, added);
    if !merged.is_empty() {
        pod.make_map(&["spec"]).insert("tolerations", Value::List(merged.into_iter().collect()));
    }
    Ok(())
}
