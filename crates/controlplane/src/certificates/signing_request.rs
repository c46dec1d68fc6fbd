//! Kind CertificateSigningRequest: the server records the requesting user, and the spec is immutable. Approvers and
//! signers write by subresources.

use std::collections::HashSet;

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_registry::user::User;
use kevel_server::certificates::{Certificate, CertificateRequest, PemBlock};

use super::{bytes, conditions, signer_name};
use crate::columns;
use crate::kind::{Kind, MetadataChecks, Selectable, Subresource};
use crate::rules::Rules;
use crate::validation::Field;

/// `certificatesigningrequests`: the name is any path segment, and signers write the status.
pub static KIND: Kind = Kind {
    validate_name: name::is_path_segment_name,
    selectable_fields: &[Selectable::field("spec.signerName")],
    reset_fields: &["spec"],
    reset_by_status: &[&["spec"], &["status", "conditions"]],
    subresources: &[(
        "approval",
        Subresource::Fields {
            paths: &[&["status", "conditions"]],
            metadata: true,
            rules: APPROVAL,
        },
    )],
    columns: columns::certificates::CERTIFICATE_SIGNING_REQUEST,
    rules: Rules {
        sign,
        validate_create: |request| check(request, &Allowed::default()),
        prepare_for_update: |request, old, _| keep_spec(request, old),
        validate_update: |request, old| {
            check_change(request, old, Allowed::since(request, old));
        },
        prepare_for_status_update: |request, old, capabilities| {
            keep_spec(request, old);
            conditions::keep_approvals(request, old);
            conditions::stamp(request, old, Time::now(&capabilities.clock));
        },
        validate_status_update: |request, old| {
            let since = Allowed::since(request, old);
            check_change(request, old, Allowed { certificate: true, ..since });
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("certificates.k8s.io", "certificatesigningrequests")
};

/// Rules of the `approval` subresource, which writes only conditions.
pub const APPROVAL: Rules = Rules {
    prepare_for_update: |request, old, capabilities| {
        keep_spec(request, old);
        conditions::stamp(request, old, Time::now(&capabilities.clock));
    },
    validate_update: |request, old| {
        let since = Allowed::since(request, old);
        check_change(request, old, Allowed { approvals: true, ..since });
    },
    ..Rules::NONE
};

/// Signer without a policy, which only old requests may name.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

/// Minimum `expirationSeconds`.
const MIN_EXPIRATION: i64 = 600;

/// Key usages, sorted.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Permissions of a write, and violations that the stored object has already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// Approved and Denied conditions may be added.
    pub approvals: bool,
    /// A certificate may be issued.
    certificate: bool,
    pub approved_and_denied: bool,
    pub duplicate_condition_types: bool,
    pub empty_condition_type: bool,
    any_certificate: bool,
    legacy_signer: bool,
    unknown_usages: bool,
    duplicate_usages: bool,
}

impl Allowed {
    /// Allows the violations that the stored request has already.
    fn since(request: Field, old: Field) -> Self {
        let usages = || old.at("spec").at("usages").strings().collect::<Vec<_>>();
        let certificate = old.down("status.certificate");
        let mut allowed = Allowed {
            any_certificate: same_bytes(request.down("status.certificate"), certificate)
                || check_certificate(&bytes(certificate)).is_err(),
            legacy_signer: old.down("spec.signerName").str() == LEGACY_SIGNER,
            unknown_usages: usages().iter().any(|usage| !USAGES.contains(usage)),
            duplicate_usages: usages().iter().collect::<HashSet<_>>().len() < usages().len(),
            ..Allowed::default()
        };
        conditions::tolerated(old.down("status.conditions"), &mut allowed);
        allowed
    }
}

/// Records the requesting user; fields from the client are replaced.
fn sign(request: &mut Value, user: &User) {
    let spec = request.make_map(&["spec"]);
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    let list = |items: &[String]| {
        Value::List(items.iter().map(|item| Value::from(item.as_str())).collect())
    };
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            spec.insert(field, text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        spec.insert("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = Map::new();
        for (key, values) in &user.extra {
            extra.insert(key.as_str(), list(values));
        }
        spec.insert("extra", extra.into());
    }
}

/// Keeps the stored spec, whatever the client or an admission plug-in sent.
fn keep_spec(request: &mut Value, old: &Value) {
    let Some(map) = request.as_map_mut() else { return };
    match old.at(&["spec"]) {
        Some(spec) => map.insert("spec", spec.clone()),
        None => map.remove("spec"),
    };
}

fn check(request: Field, allowed: &Allowed) {
    let spec = request.at("spec");
    if let Err(error) = check_request(&bytes(spec.at("request"))) {
        let asked = spec.at("request");
        asked.invalid(error);
    }
    check_usages(spec.at("usages"), allowed);
    let signer = spec.at("signerName");
    match !allowed.legacy_signer && signer.str() == LEGACY_SIGNER {
        true => signer.invalid("the legacy signerName is not allowed via this API version"),
        false => signer_name::check(signer),
    }
    let expiration = spec.at("expirationSeconds");
    if expiration.int_or_absent().is_some_and(|seconds| seconds < MIN_EXPIRATION) {
        expiration.invalid("may not specify a duration less than 600 seconds (10 minutes)");
    }
    let status = request.at("status");
    conditions::check(status.at("conditions"), allowed);
    if !allowed.any_certificate {
        let certificate = status.at("certificate");
        if let Err(error) = check_certificate(&bytes(certificate)) {
            certificate.invalid_as("<certificate data>", error);
        }
    }
}

fn check_change(request: Field, old: Field, allowed: Allowed) {
    check(request, &allowed);
    let (status, old_status) = (request.at("status"), old.at("status"));
    conditions::check_change(status.at("conditions"), old_status.at("conditions"), &allowed);
    let (certificate, before) = (status.at("certificate"), old_status.at("certificate"));
    if same_bytes(certificate, before) {
        return;
    }
    if !allowed.certificate {
        certificate.forbidden("updates may not set certificate content");
    } else if !before.is_empty() {
        certificate.forbidden("updates may not modify existing certificate content");
    }
}

fn check_usages(usages: Field, allowed: &Allowed) {
    usages.must("");
    if !allowed.unknown_usages {
        usages.items().for_each(|usage| usage.one_of(USAGES));
    }
    if !allowed.duplicate_usages {
        let mut seen = HashSet::new();
        for usage in usages.items().filter(|usage| !seen.insert(usage.str())) {
            usage.duplicate_as(BadValue::named_string(usage.str()));
        }
    }
}

/// Checks that the PKCS#10 request is signed with its own key, which proves possession.
fn check_request(pem: &[u8]) -> Result<(), String> {
    let request = CertificateRequest::from_pem(pem)?;
    CertificateRequest::parse(&request)?.check_signature()
}

/// Checks an issued chain: PEM blocks of type CERTIFICATE only.
fn check_certificate(pem: &[u8]) -> Result<(), String> {
    if pem.is_empty() {
        return Ok(());
    }
    let mut blocks = 0;
    for block in PemBlock::all(pem) {
        if block.label != "CERTIFICATE" {
            let label = kevel_api::quote::quote(&block.label);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        if block.headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        blocks += 1;
        let mut rest = &block.contents[..];
        if rest.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        while !rest.is_empty() {
            (_, rest) = Certificate::parse(rest)?;
        }
    }
    match blocks {
        0 => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
        _ => Ok(()),
    }
}

fn same_bytes(one: Field, other: Field) -> bool {
    one.str() == other.str() || bytes(one) == bytes(other)
}
