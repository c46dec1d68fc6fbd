//! Kind ResourcePoolStatusRequest: strategy and validation.
//!
//! Most rules are declarative in the reference: unchanged values are not checked again.

use std::collections::HashSet;

use kevel_api::name;
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use super::GROUP;
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE, null};

/// `resourcepoolstatusrequests`
pub static RESOURCE_POOL_STATUS_REQUEST: Kind = Kind {
    storage_version: Some("v1alpha3"),
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    status_has_rows: false,
    allow_unconditional_update: false,
    columns: columns::resource::RESOURCE_POOL_STATUS_REQUEST,
    rules: Rules {
        validate_create: |request| spec(request.at("spec")),
        validate_update: |request, old| {
            let spec = request.at("spec");
            if !spec.same(&old.at("spec")) {
                spec.invalid_as(null(), IMMUTABLE);
            }
        },
        validate_status_update: |request, old| status(request.at("status"), old.at("status")),
        ..Rules::NONE
    },
    ..Kind::new(GROUP, "resourcepoolstatusrequests")
};

/// Maximum number of pools in a request and its answer.
const MAX_POOLS: usize = 1000;
const MAX_CONDITIONS: usize = 10;
const MAX_POOL_NAME: usize = 253;
const MAX_VALIDATION_ERROR: usize = 256;

fn spec(spec: Field) {
    spec.at("driver").must_form("", name::is_long_name_caseless);
    if spec.at("poolName").is_set() {
        pool_name(spec.at("poolName"));
    }
    let limit = spec.at("limit");
    match limit.int_or_absent() {
        None => limit.required(""),
        Some(number) if number > MAX_POOLS as i64 => {
            limit.invalid(format!("must be less than or equal to {MAX_POOLS}"));
        }
        Some(_) => at_least(limit, 1),
    }
}

/// Checks a pool name: DNS subdomains separated by slashes.
fn pool_name(pool: Field) {
    if pool.len() > MAX_POOL_NAME {
        pool.too_long(MAX_POOL_NAME);
    }
    for (index, part) in pool.str().split('/').enumerate() {
        if part.is_empty() {
            pool.invalid(format!("segment {index}: must not be empty"));
            continue;
        }
        for problem in name::is_long_name(part) {
            pool.invalid_as(part, format!("segment {index}: {problem}"));
        }
    }
}

/// Checks the minimum of an optional number.
fn at_least(number: Field, min: i64) {
    if number.is_set() && number.int() < min {
        number.invalid(format!("must be greater than or equal to {min}"));
    }
}

fn status(status: Field, old: Field) {
    let changed = status.is_set() != old.is_set() || !status.same(&old);
    let conditions = status.at("conditions");
    if old.is_set() {
        if changed {
            status.invalid(IMMUTABLE);
        }
    } else {
        conditions.conditions();
    }
    if !changed || status.is_absent() {
        return;
    }
    let count = status.at("poolCount");
    if !count.same(&old.at("poolCount")) || old.is_absent() {
        match count.is_set() {
            true => at_least(count, 0),
            false => count.required(""),
        }
    }
    let pools = status.at("pools");
    if !pools.same(&old.at("pools")) && pools.at_most(MAX_POOLS) {
        pools.items().for_each(pool);
    }
    if !conditions.same(&old.at("conditions")) && conditions.at_most(MAX_CONDITIONS) {
        let mut seen = HashSet::new();
        for condition in conditions.items() {
            if !seen.insert(condition.at("type").str()) {
                condition.duplicate_as(condition.bad_value_versioned());
            }
        }
    }
}

fn pool(pool: Field) {
    pool.at("driver").must_form("", name::is_long_name_caseless);
    let (name, generation) = (pool.at("poolName"), pool.at("generation"));
    if name.must("") {
        pool_name(name);
    }
    if generation.must("") {
        at_least(generation, 0);
    }
    at_least(pool.at("resourceSliceCount"), 1);
    for count in ["totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"] {
        at_least(pool.at(count), 0);
    }
    let (node, error) = (pool.at("nodeName"), pool.at("validationError"));
    if node.is_set() {
        node.form(name::is_long_name);
    }
    if error.len() > MAX_VALIDATION_ERROR {
        error.too_long(MAX_VALIDATION_ERROR);
    }
}
