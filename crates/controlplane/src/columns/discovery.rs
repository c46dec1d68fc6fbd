//! `discovery.k8s.io`

use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Few, Part, UNSET, cells};

pub(super) const KINDS: &[Kind] = &[Kind {
    plural: "endpointslices",
    definitions: &[
        Column::NAME,
        Column::text("AddressType", "discovery.v1.EndpointSlice#addressType"),
        Column::text("Ports", "discovery.v1.EndpointSlice#ports"),
        Column::text("Endpoints", "discovery.v1.EndpointSlice#endpoints"),
        Column::AGE,
    ],
    cells: |o| {
        let ports = Few::of(o.each("ports").map(port));
        let addresses = o.each("endpoints").flat_map(|endpoint| endpoint.each("addresses"));
        let addresses = Few::of(addresses.map(|address| address.as_text().to_owned()));
        cells![o.name(), o.text("addressType"), ports.or(UNSET), addresses.or(UNSET), o.age()]
    },
    ..Kind::PLAIN
}];

fn port(port: Part<'_>) -> String {
    match port.at("port").is_set() {
        true => port.int("port").to_string(),
        false => port.set_or("name", "*").to_owned(),
    }
}
