//! Error messages of the reference's scheme for an object of an unexpected kind (upstream: runtime.Scheme).

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::quote::quote;
use kevel_registry::resource::api_version;

/// Name of the scheme in messages.
pub(crate) const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// Message for a kind that is not registered; `None` for a registered kind.
pub(crate) fn not_registered(found: &GroupVersionKind) -> Option<String> {
    let GroupVersionKind { group, version, kind } = found;
    builtin::schema(group, version, kind).is_none().then(|| {
        let (kind, version) = (quote(kind), quote(&api_version(group, version)));
        format!("no kind {kind} is registered for version {version} in scheme {}", quote(SCHEME))
    })
}

/// Message for a conversion that does not exist between two kinds.
pub(crate) fn unknown_conversion(found: &GroupVersionKind, expected: &GroupVersionKind) -> String {
    let internal = match expected.group.split('.').next() {
        Some("") | None => "core",
        Some(group) => group,
    };
    let GroupVersionKind { version, kind, .. } = found;
    format!("converting ({version}.{kind}) to ({internal}.{}): unknown conversion", expected.kind)
}
