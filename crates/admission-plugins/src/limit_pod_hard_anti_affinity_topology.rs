//! `LimitPodHardAntiAffinityTopology` admission plug-in: required pod anti-affinity may only use the topology key
//! `kubernetes.io/hostname`.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;

const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: [&str; 4] =
    ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

/// Registration of the `LimitPodHardAntiAffinityTopology` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::off("LimitPodHardAntiAffinityTopology", |_| {
        Ok(Arc::new(LimitPodHardAntiAffinityTopology))
    });

/// The `LimitPodHardAntiAffinityTopology` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct LimitPodHardAntiAffinityTopology;

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let pod = object.filter(|_| writes && attributes.is("", "pods"));
        let terms = pod.map_or(&[][..], |pod| pod.list_at(&REQUIRED)).iter();
        let mut keys = terms.map(|term| term.str_at(&["topologyKey"]));
        ready(match keys.find(|key| *key != HOSTNAME) {
            None => Ok(()),
            Some(key) => Err(attributes.forbidden(
                object,
                format!(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but \
                     only key {HOSTNAME} is allowed"
                ),
            )),
        })
    }
}
