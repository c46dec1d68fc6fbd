//! ResourceQuotaConfiguration: resources that may only be consumed if a quota covers them.

use kevel_api::field_error::{FieldError, Path, aggregate};
use kevel_api::value::Value;

use super::super::configuration;
use super::scopes::Scope;

/// API versions and kinds of the configuration.
const KINDS: [(&str, &str); 4] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

/// A limited resource.
#[derive(Debug)]
pub(super) struct LimitedResource {
    pub group: String,
    pub resource: String,
    /// `matchContains`: substrings of the limited resource names.
    pub contains: Vec<String>,
    pub scopes: Vec<Scope>,
}

/// Decodes a configuration; empty without one.
pub(super) fn read(text: Option<String>) -> Result<Vec<LimitedResource>, String> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let value = configuration::decode(&text, &KINDS)?;
    let limited: Vec<_> = value.list_at(&["limitedResources"]).iter().map(limited).collect();
    let root = Path::new("limitedResources");
    let unnamed = limited.iter().enumerate().filter(|(_, limited)| limited.resource.is_empty());
    let errors = unnamed.map(|(index, _)| {
        let item = root.index(index);
        FieldError::required(&item.child("resource"), "")
    });
    match aggregate(errors) {
        Some(error) => Err(error),
        None => Ok(limited),
    }
}

fn limited(value: &Value) -> LimitedResource {
    let contains = value.list_at(&["matchContains"]).iter().filter_map(Value::as_str);
    LimitedResource {
        group: value.str_at(&["apiGroup"]).to_owned(),
        resource: value.str_at(&["resource"]).to_owned(),
        contains: contains.map(str::to_owned).collect(),
        scopes: value.list_at(&["matchScopes"]).iter().map(Scope::read).collect(),
    }
}
