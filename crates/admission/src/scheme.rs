//! What the reference's scheme, where it registers kinds, says about an object of a kind that was not expected.

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::quote::quote;
use kevel_server::resource::api_version;

/// The scheme, as messages name it.
pub(crate) const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// That a kind is not registered; `None` for one that is.
pub(crate) fn not_registered(found: &GroupVersionKind) -> Option<String> {
    let GroupVersionKind { group, version, kind } = found;
    builtin::schema(group, version, kind).is_none().then(|| {
        let (kind, version) = (quote(kind), quote(&api_version(group, version)));
        format!("no kind {kind} is registered for version {version} in scheme {}", quote(SCHEME))
    })
}

/// That an object of one kind cannot become one of another.
pub(crate) fn unknown_conversion(found: &GroupVersionKind, expected: &GroupVersionKind) -> String {
    let internal = match expected.group.split('.').next() {
        Some("") | None => "core",
        Some(group) => group,
    };
    let GroupVersionKind { version, kind, .. } = found;
    format!("converting ({version}.{kind}) to ({internal}.{}): unknown conversion", expected.kind)
}
