//! Names of schemas in OpenAPI documents.

use kevel_api::builtin;
use kevel_api::schema::{Scalar, TypeId};

use kevel_registry::resource::Resource;

/// `com.example.v1.Widget`
pub(super) fn defined_name(row: &Resource, kind: &str) -> String {
    let mut parts: Vec<&str> = row.kind.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{kind}", parts.join("."), row.kind.version)
}

/// Packages of types, by the first part of their definition's name.
const PACKAGES: [(&str, &str); 4] = [
    ("meta", "io.k8s.apimachinery.pkg.apis.meta"),
    ("apiextensions", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"),
    ("apiregistration", "io.k8s.kube-aggregator.pkg.apis.apiregistration"),
    ("internal", "io.k8s.api.apiserverinternal"),
];

/// Suffix of a custom kind whose name a built-in type has; built-in names have no second owner among custom kinds.
pub(super) const RENAMED: &str = "_v2";

/// Whether a name is that of a type of `api/`.
pub(super) fn is_built_in(name: &str) -> bool {
    let ids = 0..builtin::table().types.len() as TypeId;
    name.starts_with("io.k8s.")
        && ids.into_iter().any(|id| full_name(builtin::type_name(id)) == name)
}

/// Full name of a type of `api/`.
pub(super) fn full_name(name: &str) -> String {
    let (home, rest) = name.split_once('.').unwrap_or(("", name));
    match PACKAGES.iter().find(|(short, _)| *short == home) {
        Some((_, package)) => format!("{package}.{rest}"),
        None => format!("io.k8s.api.{name}"),
    }
}

pub(super) fn scalar_name(scalar: Scalar) -> Option<&'static str> {
    Some(match scalar {
        Scalar::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        Scalar::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        Scalar::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity",
        Scalar::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        Scalar::Raw => "io.k8s.apimachinery.pkg.runtime.RawExtension",
        Scalar::Json => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        Scalar::FieldsV1 => "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        _ => return None,
    })
}
