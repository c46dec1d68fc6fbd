//! Quota evaluator of services: number of services, load balancers and node ports.

use kevel_api::quantity::{Format, Quantity};
use kevel_api::value::Value;
use kevel_registry::admission::{Attributes, Operation};

use super::super::resource_list::ResourceList;
use super::evaluator::{Evaluator, ONE};

const NAMES: [&str; 4] =
    ["count/services", "services", "services.loadbalancers", "services.nodeports"];

#[derive(Debug)]
pub(super) struct Services;

impl Evaluator for Services {
    fn handles(&self, attributes: &Attributes<'_>, _: &Value) -> bool {
        attributes.subresource.is_empty()
            && matches!(attributes.operation, Operation::Create | Operation::Update)
    }

    fn limited_by(&self, name: &str) -> bool {
        NAMES.contains(&name)
    }

    fn usage(&self, service: &Value) -> ResourceList {
        let ports = service.list_at(&["spec", "ports"]);
        let balanced = service.str_at(&["spec", "type"]) == "LoadBalancer";
        let node_ports = match service.str_at(&["spec", "type"]) {
            "NodePort" => ports.len(),
            "LoadBalancer" => match service.at(&["spec", "allocateLoadBalancerNodePorts"]) {
                Some(Value::Bool(false)) => {
                    ports.iter().filter(|port| port.at(&["nodePort"]).is_some()).count()
                }
                _ => ports.len(),
            },
            _ => 0,
        };
        let number = |number: usize| {
            Quantity::new(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSi)
        };
        let amounts = [ONE, ONE, number(usize::from(balanced)), number(node_ports)];
        NAMES.map(str::to_owned).into_iter().zip(amounts).collect()
    }
}
