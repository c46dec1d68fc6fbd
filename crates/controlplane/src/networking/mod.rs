//! Who reaches whom.

pub mod ingress;
pub mod ingress_class;
pub mod network_policy;

use kevel_api::name;

use crate::validation::Field;

/// A kind and a name that can stand in a path, and the group that they are of.
fn typed_reference(reference: Field) {
    let group = reference.at("apiGroup");
    if group.is_set() {
        group.form(name::is_dns1123_subdomain);
    }
    for field in ["kind", "name"] {
        if reference.at(field).must("") {
            reference.at(field).object_name(name::is_path_segment_name);
        }
    }
}
