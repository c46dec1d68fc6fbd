//! Validation of a Service's `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`, which must agree; the
//! primary address and family are immutable.

use std::cmp::Ordering;
use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError, FieldErrors};
use kevel_api::value::Value;

use super::address::{is_ipv6, known, legacy_ip};
use super::spec::NONE;
use super::validation::{FIXED, is_headless};
use crate::capabilities::Capabilities;
use crate::validation::Field;

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Errors in the address fields of a Service.
pub fn find_errors(
    service: &Value,
    old: Option<&Value>,
    capabilities: &Capabilities,
) -> FieldErrors {
    capabilities.errors(service, |service| {
        let old = service.with(old);
        check(&service.at("spec"), &old.at("spec"));
    })
}

/// Checks addresses and families of a spec.
pub fn check(spec: &Field, before: &Field) {
    if spec.at("type").str() == "ExternalName" {
        return;
    }
    let (ip, ips, families) = (spec.at("clusterIP"), spec.at("clusterIPs"), spec.at("ipFamilies"));
    let first = ips.list().first().and_then(Value::as_str);
    match (ip.is_empty(), first) {
        (false, None) => ips.required(""),
        (false, Some(first)) if first != ip.str() => {
            ips.invalid("first value must match `clusterIP`");
        }
        (true, Some(_)) => {
            ips.invalid("must be empty when `clusterIP` is not specified");
        }
        _ => {}
    }
    let mut seen = HashSet::new();
    for family in families.items() {
        family.one_of(FAMILIES);
        if !seen.insert(family.str()) {
            family.duplicate_as(BadValue::named_string(family.str()));
        }
    }
    let policy = spec.at("ipFamilyPolicy");
    if policy.is_set() {
        policy.one_of(POLICIES);
    }
    let known = known(&before.at("clusterIPs"));
    let mut valid = true;
    for (index, ip) in ips.items().enumerate() {
        if index == 0 && ip.str() == NONE {
            if ips.len() > 1 {
                valid = false;
                ips.invalid("'None' must be the first and only value");
            }
            continue;
        }
        valid &= legacy_ip(&ip, &known);
    }
    if ips.len() > 2 {
        ips.invalid("may only hold up to 2 values");
    }
    if !valid {
        return;
    }
    let one_each = || {
        let v6 = ips.list().iter().filter(|ip| ip.as_str().is_some_and(is_ipv6)).count();
        (1..ips.len()).contains(&v6)
    };
    if ips.len() > 1 && !one_each() {
        ips.invalid("may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for ((index, ip), family) in ips.items().enumerate().zip(families.list()) {
        match (family.as_str().unwrap_or_default(), is_ipv6(ip.str())) {
            (family @ "IPv4", true) | (family @ "IPv6", false) => ip.invalid(format!(
                "expected an {family} value as indicated by `ipFamilies[{index}]`"
            )),
            _ => {}
        }
    }
}

/// Checks a change between two specs with addresses: only the secondary family may be added and removed.
pub fn check_change(spec: &Field, before: &Field) {
    change_of_cluster_ips(spec, before);
    change_of_families(spec, before);
}

fn change_of_cluster_ips(spec: &Field, before: &Field) {
    if is_headless(spec) && is_headless(before) {
        return;
    }
    let (ips, old) = (spec.at("clusterIPs"), before.at("clusterIPs"));
    let first = |error: &str| {
        let path = ips.path();
        let path = path.index(0);
        ips.push(FieldError::invalid(&path, ips.bad_value(), error.to_owned()));
    };
    let moved = !old.is_empty() && !ips.is_empty() && ips.list().first() != old.list().first();
    match ips.len().cmp(&old.len()) {
        Ordering::Equal => {
            for (ip, old) in ips.items().zip(old.list()) {
                if ip.get() != Some(old) {
                    ip.invalid_as(ips.bad_value(), FIXED);
                }
            }
        }
        Ordering::Less => {
            if ips.is_empty() {
                first("primary clusterIP can not be unset");
            }
            if moved {
                first(FIXED);
            }
            let policy = spec.at("ipFamilyPolicy");
            if ips.len() == 1 && policy.str() != "SingleStack" {
                let why = "must be set to 'SingleStack' when releasing the secondary clusterIP";
                policy.invalid_as(policy.bad_value_by_type(), why);
            }
        }
        Ordering::Greater if moved => first(FIXED),
        Ordering::Greater => {}
    }
}

fn change_of_families(spec: &Field, before: &Field) {
    if is_headless(spec) || is_headless(before) {
        return;
    }
    let (families, old) = (spec.at("ipFamilies"), before.at("ipFamilies"));
    let ips = spec.at("clusterIPs");
    let first = |shown: &Field, error: &str| {
        let path = families.path();
        let path = path.index(0);
        families.push(FieldError::invalid(&path, shown.bad_value(), error.to_owned()));
    };
    let moved =
        !old.is_empty() && !families.is_empty() && families.list().first() != old.list().first();
    match families.len().cmp(&old.len()) {
        Ordering::Equal => {
            for (family, old) in families.list().iter().zip(old.list()) {
                if family != old {
                    first(&families, FIXED);
                }
            }
        }
        Ordering::Less => {
            if ips.is_empty() {
                first(&families, "primary ipFamily can not be unset");
            }
            if moved {
                first(&ips, FIXED);
            }
            let policy = spec.at("ipFamilyPolicy");
            if families.len() == 1 && policy.str() != "SingleStack" {
                let why = "must be set to 'SingleStack' when releasing the secondary ipFamily";
                policy.invalid_as(policy.bad_value_by_type(), why);
            }
        }
        Ordering::Greater if moved => first(&ips, FIXED),
        Ordering::Greater => {}
    }
}
