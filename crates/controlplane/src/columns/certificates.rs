//! `certificates.k8s.io`

use kevel_api::value::Value;
use kevel_server::columns::{Column, human_duration};

use super::Kind;
use super::cell::{NONE, Shown, cells};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "certificatesigningrequests",
        definitions: &[
            Column::NAME,
            Column::AGE,
            Column::text("SignerName", "certificates.v1.CertificateSigningRequestSpec#signerName"),
            Column::text("Requestor", "certificates.v1.CertificateSigningRequestSpec#request"),
            Column::text(
                "RequestedDuration",
                "certificates.v1.CertificateSigningRequestSpec#expirationSeconds",
            ),
            Column::text("Condition", "certificates.v1.CertificateSigningRequestStatus#conditions"),
        ],
        cells: signing_requests,
        ..Kind::PLAIN
    },
    Kind {
        plural: "clustertrustbundles",
        definitions: &[
            Column::NAME,
            Column::text("SignerName", "certificates.v1.ClusterTrustBundleSpec#signerName"),
        ],
        cells: |o| cells![o.name(), o.text_or("spec.signerName", NONE)],
        ..Kind::PLAIN
    },
    Kind {
        plural: "podcertificaterequests",
        definitions: &[
            Column::NAME,
            Column::text("PodName", "certificates.v1.PodCertificateRequestSpec#podName"),
            Column::text(
                "ServiceAccountName",
                "certificates.v1.PodCertificateRequestSpec#serviceAccountName",
            ),
            Column::text("NodeName", "certificates.v1.PodCertificateRequestSpec#nodeName"),
            Column::text("SignerName", "certificates.v1.PodCertificateRequestSpec#signerName"),
            Column::text("State", "How the request stands."),
            Column::text(
                "UnverifiedUserAnnotations",
                "certificates.v1.PodCertificateRequestSpec#unverifiedUserAnnotations",
            ),
        ],
        cells: pod_requests,
        ..Kind::PLAIN
    },
];

fn signing_requests(o: &Shown<'_>) -> Vec<Value> {
    let wanted = o.at("spec.expirationSeconds");
    let wanted = match wanted.is_set() {
        true => human_duration(wanted.as_int()),
        false => NONE.into(),
    };
    cells![
        o.name(),
        o.age(),
        o.text_or("spec.signerName", NONE),
        o.text("spec.username"),
        wanted,
        condition(o),
    ]
}

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

fn pod_requests(o: &Shown<'_>) -> Vec<Value> {
    let mut states = o.each("status.conditions").map(|condition| condition.text("type"));
    let state = states.rfind(|ty| matches!(*ty, "Issued" | "Denied" | "Failed"));
    cells![
        o.name(),
        o.text("spec.podName"),
        o.text("spec.serviceAccountName"),
        o.text("spec.nodeName"),
        o.text("spec.signerName"),
        state.unwrap_or("Pending"),
        o.labels("spec.unverifiedUserAnnotations"),
    ]
}
