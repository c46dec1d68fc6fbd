//! Validation of projected volumes.

use std::collections::HashSet;

use kevel_api::name;

use super::Options;
use super::downward_api;
use super::volume_source::key_to_path;
use crate::validation::Field;

const CONFLICT: &str = "conflicting duplicate paths";
/// Limits on `expirationSeconds` of service account tokens; the maximum is 2^32.
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const MIN_TOKEN_SECONDS: i64 = 600;
/// Limits on `maxExpirationSeconds` of pod certificates; signers in `kubernetes.io` have a lower maximum.
const MAX_CERTIFICATE_SECONDS: i64 = 91 * 86_400;
const MAX_KUBERNETES_CERTIFICATE_SECONDS: i64 = 86_400;
const MIN_CERTIFICATE_SECONDS: i64 = 3600;

pub fn check(volume: Field, options: &Options) {
    volume.at("defaultMode").file_mode();
    let mut paths = HashSet::new();
    for source in volume.at("sources").items() {
        let mut found = 0;
        for kind in ["secret", "configMap"] {
            let projection = source.at(kind);
            if projection.is_set() {
                found += 1;
                projection.at("name").must("");
                for item in projection.at("items").items() {
                    key_to_path(item);
                    let path = item.at("path").str();
                    claim(volume, &mut paths, path, projection.at("name").str());
                }
            }
        }
        let downward = source.at("downwardAPI");
        if downward.is_set() {
            found += 1;
            for file in downward.at("items").items() {
                // The reference does not report the index of the item.
                downward_api::file(file.named(downward.path()));
                claim(volume, &mut paths, file.at("path").str(), file.at("path").str());
            }
        }
        let token = source.at("serviceAccountToken");
        if token.is_set() {
            found += 1;
            service_account_token(token, volume, options);
        }
        let bundle = source.at("clusterTrustBundle");
        if bundle.is_set() {
            found += 1;
            cluster_trust_bundle(bundle);
            let path = bundle.at("path");
            path.must("");
            path.local_unreserved_path();
            if !paths.insert(path.str()) {
                volume.invalid_as(path.str(), CONFLICT);
            }
        }
        let certificate = source.at("podCertificate");
        if certificate.is_set() {
            found += 1;
            pod_certificate(certificate, volume, &mut paths);
        }
        if found > 1 {
            source.forbidden("may not specify more than 1 volume type per source");
        }
    }
}

/// True if a service account token has a path that is no longer valid.
pub fn has_odd_token_path(volume: Field) -> bool {
    let projected = volume.at("projected");
    let sources = projected.at("sources");
    let mut tokens = sources.items().map(|source| source.at("serviceAccountToken").get());
    tokens.any(|token| {
        let token = projected.with(token);
        token.is_set() && token.fails(|token| token.at("path").local_unreserved_path())
    })
}

/// Records a path; an error if it is used already.
fn claim<'v>(volume: Field, paths: &mut HashSet<&'v str>, path: &'v str, shown: &str) {
    if !path.is_empty() && !paths.insert(path) {
        volume.invalid_as(shown, CONFLICT);
    }
}

fn service_account_token(token: Field, volume: Field, options: &Options) {
    let seconds = token.at("expirationSeconds");
    if seconds.int() < MIN_TOKEN_SECONDS {
        seconds.invalid_as(seconds.int(), "may not specify a duration less than 10 minutes");
    }
    if seconds.int() > MAX_TOKEN_SECONDS {
        seconds.invalid("may not specify a duration larger than 2^32 seconds");
    }
    let called = volume.at("path");
    let path = called.with(token.at("path").get());
    if path.must("") && !options.tolerates.token_paths {
        path.local_unreserved_path();
    }
}

fn cluster_trust_bundle(bundle: Field) {
    let (name, signer) = (bundle.at("name"), bundle.at("signerName"));
    let selector = bundle.at("labelSelector");
    match (name.is_set(), signer.is_set()) {
        (true, true) => bundle.invalid("only one of name and signerName may be used"),
        (true, false) => {
            name.must("must be a valid object name");
            for problem in cluster_trust_bundle_name(name.str()) {
                name.invalid_as(
                    name.str(),
                    format!("not a valid clustertrustbundlename: {problem}"),
                );
            }
            if selector.is_set() {
                let why = "labelSelector must be unset if name is specified";
                selector.invalid(why);
            }
        }
        (false, true) => {
            signer.must("must be a valid signer name");
            signer_name(signer);
            selector.label_selector(false);
        }
        (false, false) => bundle.required("either name or signerName must be specified"),
    }
}

/// Checks the name of a ClusterTrustBundle, which begins with the name of its signer if it has one.
fn cluster_trust_bundle_name(name: &str) -> Vec<String> {
    match name.rsplit_once(':') {
        Some((signer, rest)) if !signer.is_empty() => {
            let _ = signer;
            name::name_is_dns_subdomain(rest, false)
        }
        Some(_) => {
            vec![
                "ClusterTrustBundle without signer name must not have \":\" in its name".to_owned(),
            ]
        }
        None => name::name_is_dns_subdomain(name, false),
    }
}

fn pod_certificate<'v>(certificate: Field<'v, '_>, volume: Field, paths: &mut HashSet<&'v str>) {
    signer_name(certificate.at("signerName"));
    let annotations = certificate.at("userAnnotations");
    for key in annotations.keys() {
        annotations.extend(name::is_domain_prefixed_key(&annotations.path(), &key.to_lowercase()));
    }
    certificate.at("keyType").one_of(&[
        "RSA3072",
        "RSA4096",
        "ECDSAP256",
        "ECDSAP384",
        "ECDSAP521",
        "ED25519",
    ]);
    let seconds = certificate.at("maxExpirationSeconds");
    if seconds.is_set() {
        if seconds.int() < MIN_CERTIFICATE_SECONDS {
            seconds.invalid("if provided, maxExpirationSeconds must be >= 3600");
        }
        let most = match is_kubernetes_signer(certificate.at("signerName").str()) {
            true => MAX_KUBERNETES_CERTIFICATE_SECONDS,
            false => MAX_CERTIFICATE_SECONDS,
        };
        if seconds.int() > most {
            seconds.invalid(format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
    }
    let files = ["credentialBundlePath", "keyPath", "certificateChainPath"];
    for path in files {
        let path = certificate.at(path);
        if !path.is_empty() {
            path.local_unreserved_path();
            claim(volume, paths, path.str(), path.str());
        }
    }
    if files.iter().all(|path| certificate.at(path).is_empty()) {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        certificate.required(why);
    }
}

/// True for signers in `kubernetes.io`.
fn is_kubernetes_signer(signer: &str) -> bool {
    let host = signer.split_once('/').map_or(signer, |(host, _)| host);
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// Checks the name of a signer: `example.com/signer-name`.
fn signer_name(signer: Field) {
    const MAX_PATH: usize = name::DNS_SUBDOMAIN_MAX_LENGTH + name::DNS_LABEL_MAX_LENGTH + 1;
    const MAX: usize = name::DNS_SUBDOMAIN_MAX_LENGTH + MAX_PATH + 1;
    if !signer.must("") {
        return;
    }
    let parts = signer.str().split_once('/').filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return signer.invalid(why);
    };
    if domain.len() > name::DNS_SUBDOMAIN_MAX_LENGTH {
        signer.too_long(name::DNS_SUBDOMAIN_MAX_LENGTH);
    }
    first_bad_label(signer, domain, name::is_dns1123_label);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        signer.invalid_as(domain, why);
    }
    first_bad_label(signer, path, name::is_dns1123_subdomain);
    if signer.len() > MAX {
        signer.too_long(MAX);
    }
}

fn first_bad_label(signer: Field, part: &str, problems: fn(&str) -> Vec<String>) {
    let labels = part.split('.').map(|label| (label, problems(label)));
    let bad = labels.into_iter().find(|(_, problems)| !problems.is_empty());
    for (label, problem) in
        bad.into_iter().flat_map(|(label, problems)| problems.into_iter().map(move |p| (label, p)))
    {
        signer.invalid_as(part, format!("validating label {label:?}: {problem}"));
    }
}
