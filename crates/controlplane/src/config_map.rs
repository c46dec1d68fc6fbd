//! Kind ConfigMap: validation.

use kevel_api::name;

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::secret::{MAX_SIZE, bytes, sealed};
use crate::validation::Field;

/// `configmaps`
pub static KIND: Kind = Kind {
    columns: columns::core::CONFIG_MAP,
    rules: Rules { validate_create: check, validate_update, ..Rules::NONE },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("", "configmaps")
};

fn check(map: Field) {
    let (data, binary) = (map.at("data"), map.at("binaryData"));
    let mut size = 0;
    for (key, value) in data.entries() {
        key_form(value, key);
        if binary.key(key).is_set() {
            value.invalid_as(key, "duplicate of key present in binaryData");
        }
        size += value.len();
    }
    for (key, value) in binary.entries() {
        key_form(value, key);
        size += bytes(value);
    }
    if size > MAX_SIZE {
        map.at("").too_long(MAX_SIZE);
    }
}

/// Checks the key of an entry, which may become a file name.
pub fn key_form(entry: Field, key: &str) {
    name::is_config_map_key(key).into_iter().for_each(|problem| entry.invalid_as(key, problem));
}

fn validate_update(map: Field, old: Field) {
    sealed(map, old, &["data", "binaryData"]);
    map.metadata_again();
    check(map);
}
