//! Deprecated APIs: the warning, the metric and the audit annotations.

use crate::latency_trackers::LatencyTrackers;
use crate::request::Request;
use kevel_registry::audit::AuditEvent as _;
use kevel_registry::resource::Resource;

/// Audit annotation of requests to deprecated APIs.
const DEPRECATED: &str = "k8s.io/deprecated";
/// Audit annotation with the release that no longer has the API.
const REMOVED_RELEASE: &str = "k8s.io/removed-release";

/// Warns the client, and tells audit and metrics, if a deprecated API is used.
pub(super) fn tell(resource: &Resource, request: &Request) {
    let Some(text) = resource.strategy.deprecation() else { return };
    request.warnings.add(text);
    let built_in = !resource.conventions.published.by_definition();
    let removed = removed_release(text).filter(|_| built_in);
    request.audit.annotate(DEPRECATED, "true");
    if let Some(removed) = removed {
        request.audit.annotate(REMOVED_RELEASE, removed);
    }
    if let Some(series) = LatencyTrackers::of(request).and_then(LatencyTrackers::series) {
        series.deprecated(removed.unwrap_or_default());
    }
}

/// Release that no longer has the API, by the warning: `1.37`.
fn removed_release(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("unavailable in v")?;
    rest.split('+').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_name_the_release_without_the_api() {
        let text = "networking.k8s.io/v1beta1 ServiceCIDR is deprecated in v1.34+, \
                    unavailable in v1.37+";
        assert_eq!(removed_release(text), Some("1.37"));
        let text = "v1 ComponentStatus is deprecated in v1.19+";
        assert_eq!(removed_release(text), None);
    }
}
