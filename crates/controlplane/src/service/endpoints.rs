//! Kind Endpoints: strategy and validation.

use std::collections::HashSet;

use kevel_api::field_error::Path;
use kevel_api::ip::ip_warnings;
use kevel_api::name;
use kevel_api::value::Value;
use kevel_api::warning::WarningList;

use super::address::{endpoint_ip, legacy_ip};
use super::validation::PROTOCOLS;
use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::Field;

/// `endpoints`
pub static KIND: Kind = Kind {
    storage_key: Some("services/endpoints"),
    allow_create_on_update: true,
    columns: columns::service::ENDPOINTS,
    rules: Rules { validate_create, validate_update, warnings, ..Rules::NONE },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("", "endpoints")
};

fn validate_create(endpoints: Field) {
    endpoints.at("subsets").items().for_each(|subset| check_subset(&subset));
}

/// Checks subsets only if they change: stored ones may be invalid by today's rules.
fn validate_update(endpoints: Field, old: Field) {
    if !endpoints.at("subsets").same(&old.at("subsets")) {
        validate_create(endpoints);
    }
}

fn check_subset(subset: &Field) {
    let (ready, not_ready) = (subset.at("addresses"), subset.at("notReadyAddresses"));
    if ready.is_empty() && not_ready.is_empty() {
        subset.required("must specify `addresses` or `notReadyAddresses`");
    }
    ready.items().chain(not_ready.items()).for_each(|address| check_address(&address));
    let ports = subset.at("ports");
    for port in ports.items() {
        let name = port.at("name");
        match (name.is_empty(), ports.len() > 1) {
            (true, true) => name.required(""),
            (true, false) => {}
            (false, _) => name.form(name::is_dns1123_label),
        }
        port.at("port").in_range(1, 65_535);
        port.at("protocol").must_one_of("", PROTOCOLS);
        let application = port.at("appProtocol");
        if application.is_set() {
            application.form(name::is_label_key);
        }
    }
}

fn check_address(address: &Field) {
    let (ip, host, node) = (address.at("ip"), address.at("hostname"), address.at("nodeName"));
    legacy_ip(&ip, &HashSet::new());
    if !host.is_empty() {
        host.form(name::is_dns1123_label);
    }
    if node.is_set() {
        node.object_name(name::name_is_dns_subdomain);
    }
    endpoint_ip(&ip);
}

fn warnings(endpoints: &Value, _old: Option<&Value>) -> Vec<String> {
    const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
    // The endpoints controller only writes canonical addresses.
    if endpoints.str_at(&["metadata", "labels", MANAGED_BY]) == "endpoint-controller" {
        return Vec::new();
    }
    let mut warnings = WarningList::default();
    let root = Path::new("subsets");
    let list = |value: &'_ Value, field: &str| -> Vec<String> {
        let list = value.at(&[field]).and_then(Value::as_list).unwrap_or_default();
        list.iter().map(|address| address.str_at(&["ip"]).to_owned()).collect()
    };
    let subsets = endpoints.at(&["subsets"]).and_then(Value::as_list).unwrap_or_default();
    for (index, subset) in subsets.iter().enumerate() {
        let path = root.index(index);
        for field in ["addresses", "notReadyAddresses"] {
            let path = path.child(field);
            for (index, ip) in list(subset, field).iter().enumerate() {
                let path = path.index(index);
                warnings.extend(ip_warnings(&path.child("ip"), ip));
            }
        }
    }
    warnings.into_said()
}
