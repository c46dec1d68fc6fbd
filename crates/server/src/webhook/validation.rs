//! Validation of webhook client configurations, for conversion and admission.

use kevel_api::field_error::{FieldError, Path};
use kevel_api::name;
use kevel_api::url::Url;
use kevel_api::value::Value;

/// Validates the URL of a webhook.
///
/// ```
/// use kevel_api::field_error::Path;
/// use kevel_server::webhook::validate_webhook_url;
/// assert!(validate_webhook_url(&Path::new("url"), "https://example.com/admit").is_empty());
/// let errors = validate_webhook_url(&Path::new("url"), "https://example.com?a=b");
/// assert_eq!(
///     errors[0].to_string(),
///     r#"url: Invalid value: "a=b": query parameters are not permitted in the URL"#
/// );
/// ```
pub fn validate_webhook_url(path: &Path<'_>, text: &str) -> Vec<FieldError> {
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

/// Validates the service reference of a webhook: `namespace`, `name`, `port` and `path`.
pub fn validate_webhook_service(path: &Path<'_>, service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // The reference swaps the two names in its errors.
    for (field, said) in [("name", "namespace"), ("namespace", "name")] {
        if service.str_at(&[said]).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    let port = service.at(&["port"]).and_then(Value::as_int).unwrap_or(0);
    let problems = name::is_valid_port_num(port);
    if !problems.is_empty() {
        let why = format!("port is not valid: {}", problems.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, why));
    }
    validate_path(&path.child("path"), service.str_at(&["path"]), &mut errors);
    errors
}

fn validate_path(path: &Path<'_>, said: &str, errors: &mut Vec<FieldError>) {
    if matches!(said, "" | "/") {
        return;
    }
    let mut invalid = |why: String| errors.push(FieldError::invalid(path, said, why));
    if said == "//" {
        return invalid("segment[0] may not be empty".to_owned());
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
}
