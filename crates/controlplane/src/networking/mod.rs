//! networking.k8s.io: Ingress, IngressClass, NetworkPolicy.

pub mod ingress;
pub mod ingress_class;
pub mod network_policy;

use kevel_api::name;

use crate::validation::Field;

/// Checks a reference by API group, kind and name; kind and name must be path segments.
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
