//! Kind ServiceCIDR: networks from which cluster IPs are allocated.

use kevel_api::ip::{Cidr, is_valid_cidr};
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE};

/// `servicecidrs`
pub static KIND: Kind = Kind {
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    columns: columns::networking::SERVICE_CIDR,
    rules: Rules { validate_create, validate_update, ..Rules::NONE },
    ..Kind::new("networking.k8s.io", "servicecidrs")
};

fn validate_create(network: Field) {
    check_cidrs(&network.at("spec"));
}

/// Checks an update: a CIDR of the other family may be added, nothing else changes.
fn validate_update(network: Field, old: Field) {
    let spec = network.at("spec");
    let cidrs = spec.at("cidrs");
    let old = old.at("spec").at("cidrs").list();
    let mut kept = cidrs.items().zip(old);
    match (old.len(), cidrs.len()) {
        (before, now) if before == now => {
            for (cidr, _) in kept.filter(|(cidr, old)| cidr.get() != Some(*old)) {
                cidr.invalid(IMMUTABLE);
            }
        }
        (1, 2) => {
            if let Some((cidr, _)) = kept.next().filter(|(cidr, old)| cidr.get() != Some(*old)) {
                cidr.invalid(IMMUTABLE);
            }
            check_cidrs(&spec);
        }
        _ => cidrs.invalid(IMMUTABLE),
    }
}

fn check_cidrs(spec: &Field) {
    let cidrs = spec.at("cidrs");
    if cidrs.is_empty() {
        return cidrs.required("at least one CIDR required");
    }
    if cidrs.len() > 2 {
        // The reference shows the whole spec as the bad value.
        return cidrs.invalid_as(spec.bad_value(), "may only hold up to 2 values");
    }
    for cidr in cidrs.items() {
        cidr.extend(is_valid_cidr(&cidr.path(), cidr.str()));
    }
    let families: Vec<bool> = cidrs
        .items()
        .filter_map(|cidr| Cidr::parse_sloppy(cidr.str()))
        .map(|cidr| cidr.ip.is_ipv6())
        .collect();
    if matches!(families[..], [a, b] if a == b) {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                   2001:db8::/64";
        cidrs.invalid(why);
    }
}
