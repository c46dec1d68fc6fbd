//! Columns of `discovery.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::{Few, FieldValue, UNSET};
use super::{Columns, columns};

pub(crate) const ENDPOINT_SLICE: Columns = columns!(
    |o| where {
        let ports = Few::of(o.each("ports").map(port));
        let addresses = o.each("endpoints").flat_map(|endpoint| endpoint.each("addresses"));
        let addresses = Few::of(addresses.map(|address| address.as_text().to_owned()));
    }
    Column::NAME => o.name(),
    Column::text("AddressType", "discovery.v1.EndpointSlice#addressType") => o.text("addressType"),
    Column::text("Ports", "discovery.v1.EndpointSlice#ports") => ports.or(UNSET),
    Column::text("Endpoints", "discovery.v1.EndpointSlice#endpoints") => addresses.or(UNSET),
    Column::AGE => o.age(),
);

fn port(port: FieldValue<'_>) -> String {
    match port.at("port").is_set() {
        true => port.int("port").to_string(),
        false => port.set_or("name", "*").to_owned(),
    }
}
