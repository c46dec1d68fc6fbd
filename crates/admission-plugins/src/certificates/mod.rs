//! Admission plug-ins of certificates.k8s.io: `CertificateApproval`, `CertificateSigning`,
//! `CertificateSubjectRestriction`, `ClusterTrustBundleAttest`, and the authorization of PodCertificateRequest status.

pub mod approval;
pub mod attest;
mod pod_signing;
pub mod signing;
pub mod subject_restriction;

pub use pod_signing::PodCertificateSigning;

use kevel_registry::selectors::NO_SELECTORS;
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Authorizer, Decision};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";

/// True if the user has the verb on the signer or on all signers of its domain (`domain/*`).
async fn may(authorizer: &dyn Authorizer, user: &User, verb: &str, signer: &str) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, &domain] {
        let asked = Attributes {
            user,
            verb,
            is_resource: true,
            path: "",
            group: GROUP,
            version: "*",
            namespace: "",
            resource: "signers",
            subresource: "",
            name,
            selectors: &NO_SELECTORS,
        };
        let opinion = authorizer.authorize(&asked).await;
        if opinion.decision == Decision::Allow && opinion.error.is_none() {
            return true;
        }
    }
    false
}
