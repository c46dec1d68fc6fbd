//! Kind IPAddress: the allocation of an address to a Service.

use kevel_api::name;

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::Field;

/// `ipaddresses`
pub static KIND: Kind = Kind {
    validate_name: ip_address_name,
    generate_name: |base| base.to_owned(),
    columns: columns::networking::IP_ADDRESS,
    rules: Rules { validate_create, validate_update, ..Rules::NONE },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("networking.k8s.io", "ipaddresses")
};

fn validate_create(address: Field) {
    let spec = address.at("spec");
    let parent = spec.at("parentRef");
    if parent.is_absent() {
        return parent.required("");
    }
    let group = parent.at("group");
    if !group.is_empty() {
        group.form(name::is_dns1123_subdomain);
    }
    for (field, must) in [("resource", true), ("name", true), ("namespace", false)] {
        let part = parent.at(field);
        match (part.is_empty(), must) {
            (true, true) => part.required(""),
            (true, false) => {}
            (false, _) => part.object_name(name::is_path_segment_name),
        }
    }
}

fn validate_update(address: Field, old: Field) {
    validate_create(address);
    address.metadata_again();
    address.down("spec.parentRef").immutable(&old.down("spec.parentRef"));
}

/// Checks the name of an IPAddress: the address in canonical form.
fn ip_address_name(name: &str, _prefix: bool) -> Vec<String> {
    match name.parse::<std::net::IpAddr>() {
        Ok(address) if address.to_string() == name => Vec::new(),
        Ok(address) => vec![format!("must be in canonical form ({:?})", address.to_string())],
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}
