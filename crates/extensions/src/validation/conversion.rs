//! Conversion between versions: what calls a webhook.

use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::name;
use kevel_api::value::Value;
use kevel_cel::Url;
use kevel_codec::base64;
use kevel_server::certificates::CaBundle;

use super::definition::Definition;
use super::options::Options;
use crate::schema::is_full;
use crate::schema::props::Props;

/// The versions of `ConversionReview` that are spoken.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// What is wrong with how objects are converted.
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

/// Whether a definition names a known version of reviews, or none at all.
pub(crate) fn has_known_review_version(definition: &Definition<'_>) -> bool {
    let path = ["spec", "conversion", "webhook", "conversionReviewVersions"];
    let versions = definition.crd.at(&path).and_then(Value::as_list).unwrap_or_default();
    let mut said = versions.iter().filter_map(Value::as_str);
    versions.is_empty() || said.any(|version| REVIEW_VERSIONS.contains(&version))
}

/// Whether the certificates of a definition's webhook are none.
pub(crate) fn has_bad_ca_bundle(definition: &Definition<'_>) -> bool {
    let bundle =
        definition.crd.str_at(&["spec", "conversion", "webhook", "clientConfig", "caBundle"]);
    !bundle.is_empty() && ca_bundle_problem(bundle).is_some()
}

fn check_client(client: Props<'_>, options: &Options, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = match (client.get("url"), client.get("service")) {
        (Some(url), None) => check_url(url.as_str().unwrap_or_default(), &path.child("url")),
        (None, Some(service)) => check_service(Props::new(service), &path.child("service")),
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

fn check_url(text: &str, path: &Path<'_>) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(why) => {
            let why = format!("url must be a valid URL: {why}{FORM}");
            return vec![FieldError::required(path, why)];
        }
    };
    let host = format!("host must be specified{FORM}");
    let scheme = format!("'https' is the only allowed URL scheme{FORM}");
    let wrong = [
        (url.scheme() != "https", url.scheme(), &*scheme),
        (url.host().is_empty(), url.host(), &*host),
        (
            url.user().is_some(),
            url.user().unwrap_or_default(),
            "user information is not permitted in the URL",
        ),
        (!url.fragment().is_empty(), url.fragment(), "fragments are not permitted in the URL"),
        (!url.query().is_empty(), url.query(), "query parameters are not permitted in the URL"),
    ];
    let wrong = wrong.into_iter().filter(|(is_wrong, _, _)| *is_wrong);
    wrong.map(|(_, part, why)| FieldError::invalid(path, part, why.to_owned())).collect()
}

fn check_service(service: Props<'_>, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // The reference takes each for the other here, and says so.
    for (field, said) in [("name", "namespace"), ("namespace", "name")] {
        if service.text(said).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    let port = service.int("port").unwrap_or(0);
    let problems = name::is_valid_port_num(port);
    if !problems.is_empty() {
        let why = format!("port is not valid: {}", problems.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, why));
    }
    let (said, path) = (service.text("path"), path.child("path"));
    if matches!(said, "" | "/") {
        return errors;
    }
    let mut invalid = |why: String| errors.push(FieldError::invalid(&path, said, why));
    if said == "//" {
        invalid("segment[0] may not be empty".to_owned());
        return errors;
    }
    if !said.starts_with('/') {
        invalid("must start with a '/'".to_owned());
    }
    let first = said.chars().next().map_or(0, char::len_utf8);
    let rest = said.get(first..).unwrap_or_default();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            invalid(format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in name::is_dns1123_subdomain(step) {
            invalid(format!("segment[{index}]: {problem}"));
        }
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
