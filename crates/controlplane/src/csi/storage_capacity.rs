//! Kind CSIStorageCapacity: available storage of a class in a topology segment.

use kevel_api::name;
use kevel_api::value::Value;
use kevel_api::warning::WarningList;

use crate::kind::{Kind, MetadataChecks};
use crate::node_labels;
use crate::rules::Rules;
use crate::validation::{self, Field, IMMUTABLE};

/// `csistoragecapacities`
pub static KIND: Kind = Kind {
    allow_unconditional_update: false,
    rules: Rules {
        validate_create: |capacity| check(capacity, false),
        validate_update: |capacity, old| {
            let topology = capacity.at("nodeTopology");
            check(capacity, old.at("nodeTopology").fails(|was| was.label_selector(false)));
            capacity.metadata_again();
            if !topology.same(&old.at("nodeTopology")) {
                topology.invalid(IMMUTABLE);
            }
            capacity.at("storageClassName").immutable(&old.at("storageClassName"));
        },
        warnings,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("storage.k8s.io", "csistoragecapacities")
};

fn check(capacity: Field, any_values: bool) {
    capacity.at("nodeTopology").label_selector(any_values);
    capacity.at("storageClassName").object_name(name::name_is_dns_subdomain);
    capacity.at("capacity").non_negative_quantity();
}

fn warnings(capacity: &Value, _: Option<&Value>) -> Vec<String> {
    let mut warnings = WarningList::default();
    validation::errors(capacity, |capacity| {
        node_labels::label_selector(capacity.at("nodeTopology"), &mut warnings);
    });
    warnings.into_said()
}
