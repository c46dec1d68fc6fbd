//! Validation of `status.loadBalancer` of Services and Ingresses.

use kevel_api::ip::ip_warnings;
use kevel_api::value::Value;
use kevel_api::warning::WarningList;

use super::errors;

/// Warnings about the addresses in `status.loadBalancer`.
pub(crate) fn load_balancer_warnings(object: &Value) -> Vec<String> {
    let mut warnings = WarningList::default();
    errors(object, |object| {
        for ingress in object.down("status.loadBalancer").at("ingress").items() {
            warnings.extend(ip_warnings(&ingress.path(), ingress.at("ip").str()));
        }
    });
    warnings.into_said()
}
