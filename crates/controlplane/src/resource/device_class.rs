//! Classes of devices.

use kevel_api::name::name_is_dns_subdomain;
use kevel_api::value::Value;
use kevel_features::{Feature, Gated, drop_gated};

use super::claim::{MAX_CONFIGS, configuration};
use super::{GROUP, each, selector};
use crate::capabilities::Capabilities;
use crate::columns::Columns;
use crate::kind::{Kind, MetadataChecks};
use crate::pod::resources::is_extended;
use crate::rules::Rules;
use crate::validation::Field;

/// `deviceclasses`
pub static DEVICE_CLASS: Kind = Kind {
    returns_deleted_object: true,
    counts_generation: true,
    columns: Columns::NAME_AND_AGE,
    rules: Rules {
        prepare_for_create: |class, capabilities| prepare(class, None, capabilities),
        validate_create: |class| spec(class.at("spec")),
        prepare_for_update: |class, old, capabilities| prepare(class, Some(old), capabilities),
        validate_update: |class, _| spec(class.at("spec")),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaAndUpdate,
    // What a name is made of is not looked at, only the name that is made of it.
    validate_name: |name, prefix| match prefix {
        true => Vec::new(),
        false => name_is_dns_subdomain(name, false),
    },
    ..Kind::new(GROUP, "deviceclasses")
};

/// Gated fields of a class.
const GATED: &[Gated] =
    &[Gated::new(&[Feature::DRAExtendedResource], &["spec.extendedResourceName"])];

fn prepare(class: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    drop_gated(class, old, GATED, &capabilities.features);
}

fn spec(spec: Field) {
    selector::check(spec.at("selectors"));
    each(spec.at("config"), MAX_CONFIGS, configuration);
    let resource = spec.at("extendedResourceName");
    if resource.is_set() && !is_extended(resource.str()) {
        resource.invalid("must be a valid extended resource name");
    }
}
