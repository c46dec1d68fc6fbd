//! `ExtendedResourceToleration` admission plug-in: pods that request extended resources tolerate the taints of nodes
//! dedicated to those resources.

use std::collections::BTreeSet;
use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;
use super::resource_list::is_extended;
use super::tolerations;

/// Effect of the tolerations.
const EFFECT: &str = "NoSchedule";

/// Registration of the `ExtendedResourceToleration` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::off("ExtendedResourceToleration", |_| Ok(Arc::new(ExtendedResourceToleration)));

/// The `ExtendedResourceToleration` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct ExtendedResourceToleration;

impl Plugin for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if let Some(pod) = object.filter(|_| writes && attributes.is("", "pods")) {
            let resources = extended_resources(pod);
            if !resources.is_empty() {
                tolerate(pod, resources);
            }
        }
        ready(Ok(()))
    }
}

fn extended_resources(pod: &Value) -> BTreeSet<String> {
    let kinds = ["containers", "initContainers"].into_iter();
    let containers = kinds.flat_map(|kind| pod.list_at(&["spec", kind]));
    let requests = containers.filter_map(|c| c.at(&["resources", "requests"])?.as_map());
    let names = requests.flat_map(Map::iter).map(|(name, _)| name);
    names.filter(|name| is_extended(name)).map(str::to_owned).collect()
}

/// Adds a toleration for each resource, replacing an equal one.
fn tolerate(pod: &mut Value, resources: BTreeSet<String>) {
    let list = pod.make_list(&["spec"], "tolerations");
    let mut found = BTreeSet::new();
    for other in list.iter_mut() {
        let text = |field| other.str_at(&[field]);
        let same = (text("operator"), text("value"), text("effect")) == ("Exists", "", EFFECT);
        if let Some(resource) = resources.get(text("key")).filter(|_| same) {
            *other = tolerations::exists(resource, EFFECT, None);
            found.insert(resource);
        }
    }
    let others = resources.iter().filter(|resource| !found.contains(resource));
    list.extend(others.map(|resource| tolerations::exists(resource, EFFECT, None)));
}
