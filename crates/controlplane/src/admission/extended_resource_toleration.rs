//! `ExtendedResourceToleration`: pods that ask for special resources may go to the nodes that are
//! kept for those.

use std::collections::BTreeSet;

use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_server::admission::{Attributes, Operation, Plugin, settled};
use kevel_server::handler::Pending;

use super::resource_list::is_extended;
use super::tolerations;

/// The admission plug-in of that name.
#[derive(Clone, Copy, Debug)]
pub struct ExtendedResourceToleration;

impl Plugin for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        "ExtendedResourceToleration"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if let Some(pod) = object.filter(|_| writes && attributes.is("", "pods")) {
            for resource in extended_resources(pod) {
                tolerate(pod, tolerations::exists(&resource, "NoSchedule", None));
            }
        }
        settled(Ok(()))
    }
}

fn extended_resources(pod: &Value) -> BTreeSet<String> {
    let kinds = ["containers", "initContainers"].into_iter();
    let containers = kinds.flat_map(|kind| pod.list_at(&["spec", kind]));
    let requests = containers.filter_map(|c| c.at(&["resources", "requests"])?.as_map());
    let names = requests.flat_map(Map::iter).map(|(name, _)| name);
    names.filter(|name| is_extended(name)).map(str::to_owned).collect()
}

/// Adds a toleration, in the place of one of the same taint.
fn tolerate(pod: &mut Value, toleration: Value) {
    let same = |other: &Value| {
        let fields = ["key", "operator", "value", "effect"];
        fields.iter().all(|field| toleration.str_at(&[field]) == other.str_at(&[field]))
    };
    let list = pod.make_list(&["spec"], "tolerations");
    let mut found = false;
    for other in list.iter_mut().filter(|other| same(other)) {
        *other = toleration.clone();
        found = true;
    }
    if !found {
        list.push(toleration);
    }
}
