//! Validation of `spec.conversion`.

use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::name;
use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_server::certificates::CaBundle;
use kevel_server::webhook::{validate_webhook_service, validate_webhook_url};

use super::definition::Definition;
use super::options::Options;
use crate::schema::is_full;
use crate::schema::props::Props;

/// Supported versions of ConversionReview.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Errors of `spec.conversion`.
pub(crate) fn check(new: &Definition<'_>, options: &Options, path: &Path<'_>) -> Vec<FieldError> {
    let Some(conversion) = new.spec.get("conversion").map(Props::new) else { return Vec::new() };
    let mut errors = Vec::new();
    let strategy = conversion.text("strategy");
    let at_strategy = path.child("strategy");
    match strategy {
        "" => errors.push(FieldError::required(&at_strategy, "")),
        "None" | "Webhook" => {}
        other => {
            errors.push(FieldError::not_supported(&at_strategy, other, ["None", "Webhook"]));
        }
    }
    let webhook = conversion.get("webhook").map(Props::new);
    let client = webhook.and_then(|webhook| webhook.get("clientConfig"));
    let versions: Vec<&str> = webhook
        .map_or_else(Vec::new, |webhook| webhook.texts("conversionReviewVersions").collect());
    let (at_client, at_versions) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if strategy == "Webhook" {
        match client {
            None => {
                let why = "required when strategy is set to Webhook";
                errors.push(FieldError::required(&at_client, why));
            }
            Some(client) => {
                errors.extend(check_client(Props::new(client), options, &at_client));
            }
        }
        let known = options.known_review_versions;
        errors.extend(check_review_versions(&versions, known, &at_versions));
        return errors;
    }
    let why = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        errors.push(FieldError::forbidden(&at_client, why));
    }
    if !versions.is_empty() {
        errors.push(FieldError::forbidden(&at_versions, why));
    }
    errors
}

/// Whether a definition names a supported version of ConversionReview, or none at all.
pub(crate) fn has_known_review_version(definition: &Definition<'_>) -> bool {
    let path = ["spec", "conversion", "webhook", "conversionReviewVersions"];
    let versions = definition.crd.at(&path).and_then(Value::as_list).unwrap_or_default();
    let mut said = versions.iter().filter_map(Value::as_str);
    versions.is_empty() || said.any(|version| REVIEW_VERSIONS.contains(&version))
}

/// Whether the CA bundle of a definition's webhook is invalid.
pub(crate) fn has_bad_ca_bundle(definition: &Definition<'_>) -> bool {
    let bundle =
        definition.crd.str_at(&["spec", "conversion", "webhook", "clientConfig", "caBundle"]);
    !bundle.is_empty() && ca_bundle_problem(bundle).is_some()
}

fn check_client(client: Props<'_>, options: &Options, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = match (client.get("url"), client.get("service")) {
        (Some(url), None) => {
            validate_webhook_url(&path.child("url"), url.as_str().unwrap_or_default())
        }
        (None, Some(service)) => validate_webhook_service(&path.child("service"), service),
        _ => vec![FieldError::required(path, "exactly one of url or service is required")],
    };
    let bundle = client.text("caBundle");
    if !bundle.is_empty()
        && !options.any_ca_bundle
        && let Some(why) = ca_bundle_problem(bundle)
    {
        let shown = BadValue::named_string(bundle);
        errors.push(FieldError::invalid(&path.child("caBundle"), shown, why));
    }
    errors
}

fn check_review_versions(
    versions: &[&str],
    must_be_known: bool,
    path: &Path<'_>,
) -> Vec<FieldError> {
    if versions.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        if is_full(&errors) {
            return errors;
        }
        let path = path.index(index);
        if !seen.insert(*version) {
            errors.push(FieldError::invalid(&path, *version, "duplicate version"));
            continue;
        }
        for problem in name::is_dns1035_label(version) {
            errors.push(FieldError::invalid(&path, *version, problem));
        }
    }
    if must_be_known && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::invalid(path, BadValue::strings(versions), why));
    }
    errors
}

fn ca_bundle_problem(bundle: &str) -> Option<String> {
    let mut pem = Vec::new();
    let decoded = base64::decode_into(bundle, &mut pem).is_ok();
    if decoded && CaBundle::parse(&pem).is_ok() {
        return None;
    }
    let is_pem = pem.windows(10).any(|part| part == b"-----BEGIN");
    let why = match is_pem {
        false => "unable to parse bytes as PEM block",
        true => "no valid certificate authority data seen",
    };
    Some(format!("unable to load root certificates: {why}"))
}
