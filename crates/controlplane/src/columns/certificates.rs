//! Columns of `certificates.k8s.io`.

use kevel_registry::columns::{Column, human_duration};

use super::cell::{NONE, Shown};
use super::{Columns, columns};

pub(crate) const CERTIFICATE_SIGNING_REQUEST: Columns = columns!(
    |o| where {
        let wanted = o.at("spec.expirationSeconds");
        let wanted = match wanted.is_set() {
            true => human_duration(wanted.as_int()),
            false => NONE.into(),
        };
    }
    Column::NAME => o.name(),
    Column::AGE => o.age(),
    Column::text("SignerName", "certificates.v1.CertificateSigningRequestSpec#signerName") =>
        o.text_or("spec.signerName", NONE),
    Column::text("Requestor", "certificates.v1.CertificateSigningRequestSpec#request") =>
        o.text("spec.username"),
    Column::text(
        "RequestedDuration",
        "certificates.v1.CertificateSigningRequestSpec#expirationSeconds",
    ) => wanted,
    Column::text("Condition", "certificates.v1.CertificateSigningRequestStatus#conditions") =>
        condition(o),
);

pub(crate) const CLUSTER_TRUST_BUNDLE: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("SignerName", "certificates.v1.ClusterTrustBundleSpec#signerName") =>
        o.text_or("spec.signerName", NONE),
);

pub(crate) const POD_CERTIFICATE_REQUEST: Columns = columns!(
    |o| where {
        let mut states = o.each("status.conditions").map(|condition| condition.text("type"));
        let state = states.rfind(|ty| matches!(*ty, "Issued" | "Denied" | "Failed"));
    }
    Column::NAME => o.name(),
    Column::text("PodName", "certificates.v1.PodCertificateRequestSpec#podName") =>
        o.text("spec.podName"),
    Column::text(
        "ServiceAccountName",
        "certificates.v1.PodCertificateRequestSpec#serviceAccountName",
    ) => o.text("spec.serviceAccountName"),
    Column::text("NodeName", "certificates.v1.PodCertificateRequestSpec#nodeName") =>
        o.text("spec.nodeName"),
    Column::text("SignerName", "certificates.v1.PodCertificateRequestSpec#signerName") =>
        o.text("spec.signerName"),
    Column::text("State", "How the request stands.") => state.unwrap_or("Pending"),
    Column::text(
        "UnverifiedUserAnnotations",
        "certificates.v1.PodCertificateRequestSpec#unverifiedUserAnnotations",
    ) => o.labels("spec.unverifiedUserAnnotations"),
);

fn condition(o: &Shown<'_>) -> String {
    let has = |ty: &str| o.condition(ty).is_some();
    let mut condition = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (false, true) => "Approved".to_owned(),
        _ => "Pending".to_owned(),
    };
    if has("Failed") {
        condition += ",Failed";
    }
    if !o.text("status.certificate").is_empty() {
        condition += ",Issued";
    }
    condition
}
