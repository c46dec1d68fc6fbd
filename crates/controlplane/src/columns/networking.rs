//! `networking.k8s.io`

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Few, NONE, Shown, cells};
use super::service::load_balancer;
use super::storagemigration::resource;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "ingresses",
        definitions: &[
            Column::NAME,
            Column::text("Class", "Who serves the ingress."),
            Column::text("Hosts", "The first few hosts that it is for."),
            Column::text("Address", "Where traffic comes in."),
            Column::text("Ports", "The ports that are open."),
            Column::AGE,
        ],
        cells: ingresses,
        ..Kind::PLAIN
    },
    Kind {
        plural: "ingressclasses",
        definitions: &[
            Column::NAME,
            Column::text("Controller", "Who serves ingresses of this class."),
            Column::text("Parameters", "Where more is said about the class."),
            Column::AGE,
        ],
        cells: ingress_classes,
        ..Kind::PLAIN
    },
    Kind {
        plural: "ipaddresses",
        definitions: &[
            Column::NAME,
            Column::text("ParentRef", "networking.v1.IPAddressSpec#parentRef"),
        ],
        // There is a cell more than there are columns, as there is in the reference.
        cells: |o| cells![o.name(), parent(o), o.age()],
        ..Kind::PLAIN
    },
    Kind {
        plural: "networkpolicies",
        definitions: &[
            Column::NAME,
            Column::text("Pod-Selector", "networking.v1.NetworkPolicySpec#podSelector"),
            Column::AGE,
        ],
        cells: |o| cells![o.name(), o.selector("spec.podSelector"), o.age()],
        ..Kind::PLAIN
    },
    Kind {
        plural: "servicecidrs",
        definitions: &[
            Column::NAME,
            Column::text("CIDRs", "networking.v1.ServiceCIDRSpec#cidrs"),
            Column::AGE,
        ],
        cells: |o| cells![o.name(), o.joined("spec.cidrs", "", ","), o.age()],
        ..Kind::PLAIN
    },
];

fn ingresses(o: &Shown<'_>) -> Vec<Value> {
    cells![
        o.name(),
        o.set_or("spec.ingressClassName", NONE),
        hosts(o),
        load_balancer(o),
        if o.count("spec.tls") > 0 { "80, 443" } else { "80" },
        o.age(),
    ]
}

/// The first few hosts. How many more there are is counted in rules, with a host or without.
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

fn ingress_classes(o: &Shown<'_>) -> Vec<Value> {
    let default = o.annotation("ingressclass.kubernetes.io/is-default-class").as_text() == "true";
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
    cells![name, o.text("spec.controller"), parameters, o.age()]
}

/// `services/default/kubernetes`
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
