//! Kind ClusterTrustBundle: trust anchors. The name of a bundle with a signer begins with the signer's name.

use std::collections::BTreeMap;

use kevel_api::name::{self, Problems};
use kevel_server::certificates::{Certificate, PemBlock};

use super::signer_name;
use crate::columns;
use crate::kind::{Kind, Selectable};
use crate::rules::Rules;
use crate::validation::Field;

/// `clustertrustbundles`
pub static KIND: Kind = Kind {
    // The valid form depends on the signer, so that the rules check the name.
    validate_name: name::is_path_segment_name,
    selectable_fields: &[Selectable::field("spec.signerName")],
    storage_version: Some("v1beta1"),
    allow_unconditional_update: false,
    columns: columns::certificates::CLUSTER_TRUST_BUNDLE,
    rules: Rules {
        validate_create: |bundle| {
            check(bundle);
            check_anchors(bundle.down("spec.trustBundle"));
        },
        validate_update: |bundle, old| {
            check(bundle);
            let (anchors, before) = (bundle.down("spec.trustBundle"), old.down("spec.trustBundle"));
            if !anchors.same(&before) {
                check_anchors(anchors);
            }
            bundle.down("spec.signerName").immutable(&old.down("spec.signerName"));
        },
        ..Rules::NONE
    },
    ..Kind::new("certificates.k8s.io", "clustertrustbundles")
};

/// Maximum size of a bundle in bytes.
const MAX_SIZE: usize = 1 << 20;

fn check(bundle: Field) {
    let (metadata, spec) = (bundle.at("metadata"), bundle.at("spec"));
    let signer = spec.at("signerName");
    for (field, prefix) in [("generateName", true), ("name", false)] {
        let name = metadata.at(field);
        if !name.is_empty() {
            let problems = name_problems(name.str(), signer.str(), prefix);
            problems.into_iter().for_each(|problem| name.invalid(problem));
        }
    }
    if !signer.is_empty() {
        signer_name::check(signer);
    }
}

/// Problems of a name, which must begin with the signer's name with colons for slashes.
fn name_problems(name: &str, signer: &str, prefix: bool) -> Problems {
    if signer.is_empty() {
        return match name.contains(':') {
            true => {
                vec![
                    "ClusterTrustBundle without signer name must not have \":\" in its name"
                        .to_owned(),
                ]
            }
            false => name::name_is_dns_subdomain(name, prefix),
        };
    }
    let required = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&required) {
        Some(own) => name::name_is_dns_subdomain(own, prefix),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {required}"
        )],
    }
}

/// Checks that a bundle has at least one CA certificate, and none twice.
fn check_anchors(bundle: Field) {
    if bundle.len() > MAX_SIZE {
        return bundle.too_long(MAX_SIZE);
    }
    let wrong = |why: String| bundle.invalid_as("<value omitted>", why);
    let found = bundle.found();
    let mut anchors: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
    for (index, block) in PemBlock::all(bundle.str().as_bytes()).enumerate() {
        if block.label != "CERTIFICATE" {
            wrong(format!("entry {index} has bad block type: {}", block.label));
        } else if block.headers {
            wrong(format!("entry {index} has PEM block headers"));
        } else {
            match Certificate::parse(&block.contents) {
                Ok((certificate, [])) if certificate.is_authority() => {
                    anchors.entry(block.contents).or_default().push(index.to_string());
                }
                Ok((_, [])) => wrong(format!("entry {index} does not have the CA bit set")),
                _ => wrong(format!("entry {index} does not parse as X.509")),
            }
        }
    }
    if bundle.found() > found {
        return;
    }
    if anchors.is_empty() {
        wrong("at least one trust anchor must be provided".to_owned());
    }
    for indices in anchors.values().filter(|indices| indices.len() > 1) {
        wrong(format!("duplicate trust anchor (indices [{}])", indices.join(" ")));
    }
}
