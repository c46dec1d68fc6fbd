//! Requests that neither webhooks nor policies see.

use super::World;
use crate::predicates::is_exempt;

/// Configurations can be repaired whatever they say; no other kind is exempt, of that group or another.
#[tokio::test]
async fn configurations_of_admission_are_exempt() {
    let world = World::new().await;
    let group = "admissionregistration.k8s.io/v1";
    for (resource, exempt) in [
        (format!("{group} validatingwebhookconfigurations"), true),
        (format!("{group} mutatingwebhookconfigurations"), true),
        (format!("{group} validatingadmissionpolicies"), true),
        (format!("{group} validatingadmissionpolicies/status"), true),
        (format!("{group} validatingadmissionpolicybindings"), true),
        (format!("{group} mutatingadmissionpolicies"), true),
        (format!("{group} mutatingadmissionpolicybindings"), true),
        (format!("{group} others"), false),
        ("example.com/v1 validatingwebhookconfigurations".to_owned(), false),
        ("v1 pods".to_owned(), false),
    ] {
        for operation in ["CREATE", "UPDATE", "DELETE"] {
            let write = format!("{operation} {resource} /x");
            let found = world.with(&write, async |subject, _| is_exempt(subject.attributes)).await;
            assert_eq!(found, exempt, "{write}");
        }
    }
}
