//! Validation of an EncryptionConfiguration, with the reference's messages.

use std::collections::BTreeSet;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::gvk::GroupResource;
use kevel_api::quote::quote;
use kevel_api::url::Url;
use kevel_codec::base64;

use super::{
    EncryptionConfiguration, Key, KmsConfiguration, ProviderConfiguration, group_resource, shown,
};

/// Lengths of AES keys.
const AES_KEYS: &[usize] = &[16, 24, 32];
/// Length of secretbox keys.
const SECRETBOX_KEYS: &[usize] = &[32];

/// Stored bookkeeping that is not a resource.
const NOT_RESOURCES: [&str; 3] =
    ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

pub(super) fn errors(config: &EncryptionConfiguration, reload: bool) -> Vec<FieldError> {
    let root = Path::new("resources");
    let at_least_one = |path: &Path<'_>, what: String| {
        FieldError::required(path, format!("at least one {what} is required"))
    };
    if config.resources.is_empty() {
        return vec![at_least_one(&root, root.to_string())];
    }
    let mut errors = Vec::new();
    let mut plugins = BTreeSet::new();
    for (index, config) in config.resources.iter().enumerate() {
        let at = root.index(index);
        let (resources, providers) = (at.child("resources"), at.child("providers"));
        if config.resources.is_empty() {
            errors.push(at_least_one(&resources, resources.to_string()));
        }
        overlap_errors(&config.resources, &resources, &mut errors);
        name_errors(&config.resources, &resources, &mut errors);
        if config.providers.is_empty() {
            errors.push(at_least_one(&providers, providers.to_string()));
        }
        for (index, provider) in config.providers.iter().enumerate() {
            provider_errors(provider, &providers.index(index), &mut errors);
            let at = providers.index(index);
            let ProviderConfiguration { aesgcm, aescbc, secretbox, kms, .. } = provider;
            if let Some(kms) = kms {
                kms_errors(kms, &at.child("kms"), &plugins, reload, &mut errors);
                plugins.insert(kms.name.as_str());
            } else if let Some(keys) = aesgcm {
                key_errors(keys, &at.child("aesgcm"), AES_KEYS, &mut errors);
            } else if let Some(keys) = aescbc {
                key_errors(keys, &at.child("aescbc"), AES_KEYS, &mut errors);
            } else if let Some(keys) = secretbox {
                key_errors(keys, &at.child("secretbox"), SECRETBOX_KEYS, &mut errors);
            }
        }
    }
    errors
}

/// Reports resources of one list that another entry of it covers.
fn overlap_errors(resources: &[String], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let parsed: Vec<GroupResource> = resources.iter().map(|text| group_resource(text)).collect();
    let (mut doubled, mut masked) = (false, false);
    for (index, one) in parsed.iter().enumerate() {
        for (_, other) in parsed.iter().enumerate().filter(|(other, _)| *other != index) {
            let all = |r: &GroupResource| r.resource == "*";
            if one == other && !doubled {
                doubled = true;
            } else {
                let in_group = one.group == other.group && (all(one) || all(other));
                masked |= in_group || (all(one) && one.group == "*");
            }
        }
    }
    let mut refuse = |problem: &'static str| {
        errors.push(FieldError::invalid(path, BadValue::strings(resources), problem));
    };
    if doubled {
        refuse("the same resource cannot be specified multiple times");
    }
    if masked {
        refuse(
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is \
             not allowed as they will be masked",
        );
    }
}

fn name_errors(resources: &[String], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for (index, name) in resources.iter().enumerate() {
        if let Some(problem) = name_problem(name) {
            errors.push(FieldError::invalid(&path.index(index), name.as_str(), problem));
        }
    }
}

fn name_problem(name: &str) -> Option<&'static str> {
    let GroupResource { group, resource } = group_resource(name);
    Some(match (group.as_str(), resource.as_str()) {
        _ if name.to_lowercase() != name => "resource name should not contain capital letters",
        _ if name == "*" => {
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all \
             resources"
        }
        _ if NOT_RESOURCES.contains(&name) => {
            "resources which do not have REST API/s cannot be encrypted"
        }
        ("events.k8s.io", _) => {
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use \
             'events' instead in the config file"
        }
        ("extensions", _) => {
            "'extensions' group has been removed and cannot be used for encryption"
        }
        ("*", resource) if resource != "*" => {
            "encrypting the same resource across groups is not supported"
        }
        _ => return None,
    })
}

fn provider_errors(
    provider: &ProviderConfiguration,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let ProviderConfiguration { aesgcm, aescbc, secretbox, identity, kms } = provider;
    let there = [aesgcm.is_some(), aescbc.is_some(), secretbox.is_some(), *identity, kms.is_some()];
    let problem = match there.into_iter().filter(|there| *there).count() {
        0 => {
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, \
             Secretbox, Identity"
        }
        1 => return,
        _ => {
            "more than one provider specified in a single element, should split into different \
             list elements"
        }
    };
    errors.push(FieldError::invalid(path, shown::provider(provider), problem));
}

fn key_errors(keys: &[Key], provider: &Path<'_>, lengths: &[usize], errors: &mut Vec<FieldError>) {
    let path = provider.child("keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&path, "at least one keys is required"));
    }
    for (index, key) in keys.iter().enumerate() {
        let at = path.index(index);
        if key.name.is_empty() {
            let problem = "name is a mandatory field for a key";
            errors.push(FieldError::required(&at.child("name"), problem));
        }
        let at = at.child("secret");
        if key.secret.is_empty() {
            errors.push(FieldError::required(&at, "secret is a mandatory field for a key"));
            continue;
        }
        let mut secret = Vec::new();
        if base64::decode_into(&key.secret, &mut secret).is_err() {
            errors.push(FieldError::invalid(&at, "REDACTED", "secrets must be base64 encoded"));
        } else if !lengths.contains(&secret.len()) {
            let expected: Vec<String> = lengths.iter().map(ToString::to_string).collect();
            let problem = format!(
                "secret is not of the expected length, got {}, expected one of [{}]",
                secret.len(),
                expected.join(" ")
            );
            errors.push(FieldError::invalid(&at, "REDACTED", problem));
        }
    }
}

fn kms_errors(
    kms: &KmsConfiguration,
    path: &Path<'_>,
    others: &BTreeSet<&str>,
    reload: bool,
    errors: &mut Vec<FieldError>,
) {
    let (name, at) = (kms.name.as_str(), path.child("name"));
    let is_v1 = kms.api_version == "v1";
    if name.is_empty() {
        errors.push(FieldError::required(&at, "name is a mandatory field for a provider"));
    }
    if !is_v1 && name.contains(':') {
        let problem = format!("invalid KMS provider name {name}, must not contain ':'");
        errors.push(FieldError::invalid(&at, name, problem));
    }
    if (reload || !is_v1) && others.contains(name) {
        let problem = format!("duplicate KMS provider name {name}, names must be unique");
        errors.push(FieldError::invalid(&at, name, problem));
    }
    if kms.timeout.0 <= 0 {
        let shown = BadValue::Text(format!("\"{}\"", kms.timeout));
        let problem = "timeout should be a positive value";
        errors.push(FieldError::invalid(&path.child("timeout"), shown, problem));
    }
    if let Some(problem) = endpoint_problem(&kms.endpoint) {
        errors.push(FieldError::invalid(&path.child("endpoint"), kms.endpoint.as_str(), problem));
    }
    let at = path.child("cachesize");
    match kms.cache_size {
        Some(size) if !is_v1 => {
            errors.push(FieldError::invalid(&at, size, "cachesize is not supported in v2"));
        }
        Some(0) => {
            let problem = "cachesize should be a positive value, or negative to disable";
            errors.push(FieldError::invalid(&at, 0, problem));
        }
        _ => {}
    }
    if !matches!(kms.api_version.as_str(), "v1" | "v2") {
        let problem =
            "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        let at = path.child("apiVersion");
        errors.push(FieldError::invalid(&at, kms.api_version.as_str(), problem));
    }
}

fn endpoint_problem(endpoint: &str) -> Option<String> {
    if endpoint.is_empty() {
        return Some("endpoint is a mandatory field for a kms".to_owned());
    }
    match Url::parse(endpoint) {
        Err(error) => Some(format!("invalid endpoint for kms provider, error: {error}")),
        Ok(url) if url.scheme() != "unix" => Some(format!(
            "unsupported scheme {} for KMS provider, only unix is supported",
            quote(url.scheme())
        )),
        Ok(_) => None,
    }
}
