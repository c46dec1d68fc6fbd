//! Columns of `networking.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::{Few, NONE, Shown};
use super::service::load_balancer;
use super::storagemigration::resource;
use super::{Columns, columns};

pub(crate) const INGRESS: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Class", "Who serves the ingress.") => o.set_or("spec.ingressClassName", NONE),
    Column::text("Hosts", "The first few hosts that it is for.") => hosts(o),
    Column::text("Address", "Where traffic comes in.") => load_balancer(o),
    Column::text("Ports", "The ports that are open.") =>
        if o.count("spec.tls") > 0 { "80, 443" } else { "80" },
    Column::AGE => o.age(),
);

pub(crate) const INGRESS_CLASS: Columns = columns!(
    |o| where {
        let default = o.annotation("ingressclass.kubernetes.io/is-default-class");
        let default = default.as_text() == "true";
        let name = if default { format!("{} (default)", o.name()) } else { o.name().into() };
        let parameters = o.at("spec.parameters");
        let parameters = match (parameters.is_set(), parameters.at("apiGroup").is_set()) {
            (false, _) => NONE.into(),
            (true, false) => format!("{}/{}", parameters.text("kind"), parameters.text("name")),
            (true, true) => {
                let [kind, group, name] = ["kind", "apiGroup", "name"].map(|f| parameters.text(f));
                format!("{kind}.{group}/{name}")
            }
        };
    }
    Column::NAME => name,
    Column::text("Controller", "Who serves ingresses of this class.") => o.text("spec.controller"),
    Column::text("Parameters", "Where more is said about the class.") => parameters,
    Column::AGE => o.age(),
);

pub(crate) const IP_ADDRESS: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("ParentRef", "networking.v1.IPAddressSpec#parentRef") => parent(o),
    + o.age(),
);

pub(crate) const NETWORK_POLICY: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Pod-Selector", "networking.v1.NetworkPolicySpec#podSelector") =>
        o.selector("spec.podSelector"),
    Column::AGE => o.age(),
);

pub(crate) const SERVICE_CIDR: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("CIDRs", "networking.v1.ServiceCIDRSpec#cidrs") => o.joined("spec.cidrs", "", ","),
    Column::AGE => o.age(),
);

/// The first hosts of an Ingress. The number of further ones counts rules, with a host or without.
fn hosts(o: &Shown<'_>) -> String {
    let rules = o.each("spec.rules");
    let count = rules.len();
    let with_host = rules.enumerate().filter(|(_, rule)| !rule.text("host").is_empty());
    let shown: Vec<(usize, &str)> =
        with_host.take(Few::MAX).map(|(index, rule)| (index, rule.text("host"))).collect();
    let cut = shown.len() == Few::MAX && shown.last().is_some_and(|(last, _)| last + 1 < count);
    let hosts = shown.iter().map(|(_, host)| (*host).to_owned()).collect();
    Few { shown: hosts, count: if cut { count } else { shown.len() } }.or("*")
}

/// Parent of an IPAddress: `services/default/kubernetes`.
fn parent(o: &Shown<'_>) -> String {
    let parent = o.at("spec.parentRef");
    if !parent.is_set() {
        return NONE.into();
    }
    let (of, name) = (resource(parent).to_lowercase(), parent.text("name"));
    match parent.text("namespace") {
        "" => format!("{of}/{name}"),
        namespace => format!("{of}/{namespace}/{name}"),
    }
}
