//! Kind PodCertificateRequest: a kubelet requests a certificate for a pod and proves possession of the key. Admission
//! (`NodeRestriction`) checks that the kubelet may act for the pod.

use kevel_api::name;
use kevel_registry::strategy::STATUS_METADATA;
use kevel_server::certificates::{
    CertificateRequest, Hash, KeyKind, PublicKey, SignatureAlgorithm,
};

use super::{bytes, pod_request_status, signer_name};
use crate::columns;
use crate::kind::{Kind, Selectable};
use crate::rules::Rules;
use crate::validation::Field;

/// `podcertificaterequests`: the spec is immutable, and signers write the status.
pub static KIND: Kind = Kind {
    selectable_fields: &[
        Selectable::field("spec.signerName"),
        Selectable::field("spec.podName"),
        Selectable::field("spec.nodeName"),
    ],
    field_labels: &[
        ("metadata.name", "metadata.name"),
        ("spec.nodeName", "spec.nodeName"),
        ("spec.podName", "spec.podName"),
        ("spec.signerName", "spec.signerName"),
    ],
    storage_version: Some("v1beta1"),
    kept_by_status: &STATUS_METADATA,
    allow_unconditional_update: false,
    columns: columns::certificates::POD_CERTIFICATE_REQUEST,
    rules: Rules {
        validate_create: |request| check(request.at("spec")),
        validate_update: |request, old| {
            request.at("spec").immutable(&old.at("spec"));
        },
        validate_status_update: pod_request_status::check,
        ..Rules::NONE
    },
    ..Kind::new("certificates.k8s.io", "podcertificaterequests")
};

/// Maximum length of a UID.
const MAX_UID: usize = 128;
/// Maximum size of key, proof and request in bytes.
const MAX_KEY: usize = 10 << 10;
/// Limits of `maxExpirationSeconds`: an hour to a day for signers in `kubernetes.io`, else an hour to 91 days.
const MIN_EXPIRATION: i64 = 60 * 60;
const MAX_KUBERNETES_EXPIRATION: i64 = 24 * 60 * 60;
const MAX_EXPIRATION: i64 = 91 * 24 * 60 * 60;

fn check(spec: Field) {
    let signer = spec.at("signerName");
    signer_name::check(signer);
    user_annotations(spec.at("unverifiedUserAnnotations"));
    for (name, uid) in [
        ("podName", "podUID"),
        ("serviceAccountName", "serviceAccountUID"),
        ("nodeName", "nodeUID"),
    ] {
        spec.at(name).object_name(name::name_is_dns_subdomain);
        let uid = spec.at(uid);
        if uid.is_empty() {
            uid.invalid("must not be empty");
        }
        if uid.len() > MAX_UID {
            uid.too_long(MAX_UID);
        }
    }
    let expiration = spec.at("maxExpirationSeconds");
    if expiration.is_absent() {
        return expiration.required("must be set");
    }
    let longest = match signer_name::is_kubernetes(signer.str()) {
        true => MAX_KUBERNETES_EXPIRATION,
        false => MAX_EXPIRATION,
    };
    if !(MIN_EXPIRATION..=longest).contains(&expiration.int()) {
        expiration.invalid(format!("must be in the range [{MIN_EXPIRATION}, {longest}]"));
    }
    let [stub, key, proof] = ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"]
        .map(|name| spec.at(name).is_empty());
    match (stub, key, proof) {
        (false, true, true) => check_stub(spec.at("stubPKCS10Request")),
        (true, false, false) => check_key(spec),
        _ => spec.invalid_silently(
            "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
        ),
    }
}

/// Checks `unverifiedUserAnnotations`: qualified keys, and the total size limit of annotations.
fn user_annotations(annotations: Field) {
    const MAX: usize = 256 << 10;
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.len();
        annotations
            .extend(name::is_domain_prefixed_key(&annotations.path(), &key.to_ascii_lowercase()));
    }
    if size > MAX {
        annotations.too_long(MAX);
    }
}

fn check_stub(stub: Field) {
    let request = bytes(stub);
    if request.len() > MAX_KEY {
        return stub.too_long(MAX_KEY);
    }
    let Ok(request) = CertificateRequest::parse(&request) else {
        return stub.invalid_silently("must be a valid PKCS#10 CSR");
    };
    let curves = "elliptic public keys must use curve P256, P384, or P521";
    if is_strong(stub, request.public_key.kind, curves) && request.check_signature().is_err() {
        stub.invalid_silently("invalid signature");
    }
}

/// Checks the deprecated form: a public key, and the pod's UID signed with it.
fn check_key(spec: Field) {
    let (key, proof) = (spec.at("pkixPublicKey"), spec.at("proofOfPossession"));
    let (info, signature) = (bytes(key), bytes(proof));
    if info.len() > MAX_KEY {
        return key.too_long(MAX_KEY);
    }
    if signature.len() > MAX_KEY {
        return proof.too_long(MAX_KEY);
    }
    let Ok(public) = PublicKey::parse(&info) else {
        return key.invalid("must be a valid PKIX-serialized public key");
    };
    let algorithm = match public.kind {
        KeyKind::Rsa(_) => SignatureAlgorithm::RsaPss(Hash::Sha256),
        KeyKind::Ecdsa(_) => SignatureAlgorithm::Ecdsa(Hash::Sha256),
        _ => SignatureAlgorithm::Ed25519,
    };
    let curves = "elliptic public keys must use curve P256 or P384";
    let pod = spec.at("podUID").str().as_bytes();
    if is_strong(key, public.kind, curves) && public.verify(algorithm, pod, &signature).is_err() {
        proof.invalid_silently("could not verify proof-of-possession signature");
    }
}

/// True if the type and size of a key are allowed.
fn is_strong(field: Field, kind: KeyKind, curves: &'static str) -> bool {
    match kind {
        KeyKind::Ed25519 | KeyKind::Rsa(3072 | 4096) => return true,
        KeyKind::Ecdsa("P-224") => field.invalid_as("curve P-224", curves),
        KeyKind::Ecdsa(_) => return true,
        KeyKind::Rsa(bits) => field.invalid_as(
            format!("{bits}-bit modulus"),
            "RSA keys must have modulus size 3072 or 4096",
        ),
        KeyKind::Unknown => field.invalid_silently(
            "unknown public key type; supported types are Ed25519, ECDSA, and RSA",
        ),
    }
    false
}
