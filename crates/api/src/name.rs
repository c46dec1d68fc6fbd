//! Validation of names of objects, labels, ports and keys, with the messages of the reference. Each check returns the
//! problems; a valid name has none.

mod generate;
mod pattern;

pub use generate::{MAX_GENERATED_NAME_BASE, generate_name};

use crate::field_error::{FieldError, Path};
use pattern::{Unit, too_long};

/// Problems of a name, as messages.
pub type Problems = Vec<String>;

/// Validation of an object's name. With `prefix`, the name is a `generateName` and may end in a dash.
pub type ValidateName = fn(name: &str, prefix: bool) -> Problems;

/// The longest DNS label.
pub const DNS_LABEL_MAX_LENGTH: usize = 63;
/// The longest DNS subdomain.
pub const DNS_SUBDOMAIN_MAX_LENGTH: usize = 253;
/// The longest label value, and the longest name part of a label key.
pub const LABEL_MAX_LENGTH: usize = 63;

/// Validates a DNS label (RFC 1123): `my-name`, `123-abc`.
pub fn is_dns1123_label(value: &str) -> Problems {
    dns1123_label(value.as_bytes(), Unit::Characters)
}

/// Validates a DNS subdomain (RFC 1123): `example.com`.
pub fn is_dns1123_subdomain(value: &str) -> Problems {
    dns1123_subdomain(value.as_bytes(), Unit::Characters)
}

/// Validates the format `k8s-short-name`: an RFC 1123 label, with the messages of declarative validation.
pub fn is_short_name(value: &str) -> Problems {
    dns1123_label(value.as_bytes(), Unit::Bytes)
}

/// Validates the format `k8s-long-name`: an RFC 1123 subdomain, with the messages of declarative validation.
pub fn is_long_name(value: &str) -> Problems {
    dns1123_subdomain(value.as_bytes(), Unit::Bytes)
}

/// Validates the format `k8s-long-name-caseless`: an RFC 1123 subdomain with upper case allowed.
pub fn is_long_name_caseless(value: &str) -> Problems {
    let mut problems = too_long(value.as_bytes(), DNS_SUBDOMAIN_MAX_LENGTH, Unit::Bytes);
    problems.extend(pattern::DNS1123_SUBDOMAIN_CASELESS.check(value.as_bytes()));
    problems
}

/// Validates a DNS subdomain whose labels may contain underscores.
pub fn is_dns1123_subdomain_with_underscore(value: &str) -> Problems {
    let mut problems = too_long(value.as_bytes(), DNS_SUBDOMAIN_MAX_LENGTH, Unit::Characters);
    problems.extend(pattern::DNS1123_SUBDOMAIN_WITH_UNDERSCORE.check(value.as_bytes()));
    problems
}

/// Validates a wildcard DNS subdomain: `*.example.com`.
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Problems {
    let mut problems = too_long(value.as_bytes(), DNS_SUBDOMAIN_MAX_LENGTH, Unit::Characters);
    problems.extend(pattern::WILDCARD_DNS1123_SUBDOMAIN.check(value.as_bytes()));
    problems
}

/// Validates a DNS label (RFC 1035): `my-name`, not `123-abc`.
pub fn is_dns1035_label(value: &str) -> Problems {
    dns1035_label(value.as_bytes())
}

/// Validates a label key, also known as a qualified name: `name` or `example.com/name`.
pub fn is_label_key(value: &str) -> Problems {
    let mut problems = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')",
                pattern::LABEL_KEY.message()
            )];
        }
        Some(("", name)) => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let wrong = is_long_name(prefix).into_iter();
            problems.extend(wrong.map(|problem| format!("prefix part {problem}")));
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    let wrong = too_long(name.as_bytes(), LABEL_MAX_LENGTH, Unit::Bytes).into_iter();
    let wrong = wrong.chain(pattern::LABEL_KEY.check(name.as_bytes()));
    problems.extend(wrong.map(|problem| format!("name part {problem}")));
    problems
}

/// Validates an annotation key: a label key in any case.
pub fn is_annotation_key(value: &str) -> Problems {
    is_label_key(&value.to_lowercase())
}

/// Validates a label value, which may be empty.
pub fn is_label_value(value: &str) -> Problems {
    let mut problems = too_long(value.as_bytes(), LABEL_MAX_LENGTH, Unit::Bytes);
    problems.extend(pattern::LABEL_VALUE.check(value.as_bytes()));
    problems
}

/// Validates a C identifier.
pub fn is_c_identifier(value: &str) -> Problems {
    Vec::from_iter(pattern::C_IDENTIFIER.check(value.as_bytes()))
}

/// Validates a port number.
pub fn is_valid_port_num(port: i64) -> Problems {
    is_in_range(port, 1, 65_535)
}

/// Validates a number in an inclusive range.
pub fn is_in_range(value: i64, min: i64, max: i64) -> Problems {
    if (min..=max).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {min} and {max}, inclusive")]
}

/// Validates a user or group ID.
pub fn is_valid_user_or_group_id(id: i64) -> Problems {
    is_in_range(id, 0, i64::from(i32::MAX))
}

/// Validates a port name (RFC 6335, in lower case).
pub fn is_valid_port_name(name: &str) -> Problems {
    let bytes = name.as_bytes();
    let mut problems = too_long(bytes, 15, Unit::Characters);
    for (wrong, message) in [
        (
            !pattern::non_empty_of(bytes, pattern::is_lower_alphanumeric_or_dash),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!bytes.iter().any(u8::is_ascii_lowercase), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ] {
        if wrong {
            problems.push(message.to_owned());
        }
    }
    problems
}

/// Validates a percentage: `93%`.
pub fn is_valid_percent(value: &str) -> Problems {
    Vec::from_iter(pattern::PERCENT.check(value.as_bytes()))
}

/// Validates an HTTP header name.
pub fn is_http_header_name(value: &str) -> Problems {
    Vec::from_iter(pattern::HTTP_HEADER_NAME.check(value.as_bytes()))
}

/// Validates an environment variable name by the strict rule.
pub fn is_env_var_name(value: &str) -> Problems {
    let mut problems = Vec::from_iter(pattern::ENV_VAR_NAME.check(value.as_bytes()));
    problems.extend(leaves_directory(value));
    problems
}

/// Validates an environment variable name by the relaxed rule, which applies to containers.
pub fn is_relaxed_env_var_name(value: &str) -> Problems {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other \
         than '='"
            .to_owned(),
    ]
}

/// Validates a key of a ConfigMap or Secret, which must be a valid file name.
pub fn is_config_map_key(value: &str) -> Problems {
    let mut problems = too_long(value.as_bytes(), DNS_SUBDOMAIN_MAX_LENGTH, Unit::Characters);
    problems.extend(pattern::CONFIG_MAP_KEY.check(value.as_bytes()));
    problems.extend(leaves_directory(value));
    problems
}

/// Validates an integer in canonical decimal form.
pub fn is_decimal_integer(value: &str) -> Problems {
    let digits = value.strip_prefix('-').unwrap_or(value).as_bytes();
    match digits {
        _ if value.is_empty() => vec!["must be non-empty".to_owned()],
        _ if value == "0" => Vec::new(),
        [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => Vec::new(),
        _ => vec!["must be a valid decimal integer in canonical form".to_owned()],
    }
}

/// Validates a name as a segment of a URL path; with `prefix`, as the beginning of one.
pub fn is_path_segment_name(name: &str, prefix: bool) -> Problems {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    let illegal = ["/", "%"].into_iter().filter(|&part| name.contains(part));
    illegal.map(|part| format!("may not contain '{part}'")).collect()
}

/// Validates a name as a DNS subdomain: the rule for most objects.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Problems {
    dns1123_subdomain(&masked(name, prefix), Unit::Characters)
}

/// Validates a name as an RFC 1123 label: the rule for namespaces.
pub fn name_is_dns_label(name: &str, prefix: bool) -> Problems {
    dns1123_label(&masked(name, prefix), Unit::Characters)
}

/// Validates a name as an RFC 1035 label: the rule for services.
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Problems {
    dns1035_label(&masked(name, prefix))
}

/// Validates a domain of at least three segments.
pub fn is_fully_qualified_name(path: &Path<'_>, name: &str) -> Vec<FieldError> {
    let problems = is_dns1123_subdomain(name);
    if name.is_empty() {
        vec![FieldError::required(path, "")]
    } else if !problems.is_empty() {
        vec![FieldError::invalid(path, name, problems.join(","))]
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        vec![FieldError::invalid(path, name, detail)]
    } else {
        Vec::new()
    }
}

/// Validates a domain of at least two segments, each a label, with an optional trailing dot.
pub fn is_fully_qualified_domain_name(path: &Path<'_>, name: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let problems = is_dns1123_subdomain(name);
    if !problems.is_empty() {
        return vec![FieldError::invalid(path, name, problems.join(","))];
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return vec![FieldError::invalid(path, name, detail)];
    }
    let wrong = name.split('.').map(|label| (label, is_dns1123_label(label)));
    let first = wrong.into_iter().find(|(_, problems)| !problems.is_empty());
    first
        .map(|(label, problems)| FieldError::invalid(path, label, problems.join(",")))
        .into_iter()
        .collect()
}

/// Validates a path below a domain: `acme.io/foo/bar`.
pub fn is_domain_prefixed_path(path: &Path<'_>, value: &str) -> Vec<FieldError> {
    if value.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let (host, http_path) = value.split_once('/').unwrap_or_default();
    if host.is_empty() || http_path.is_empty() {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![FieldError::invalid(path, value, detail)];
    }
    let host_problems = is_dns1123_subdomain(host).into_iter();
    let path_problem = pattern::HTTP_PATH.check(http_path.as_bytes());
    host_problems
        .map(|problem| FieldError::invalid(path, host, problem))
        .chain(path_problem.map(|problem| FieldError::invalid(path, http_path, problem)))
        .collect()
}

/// Validates a label key with a domain: `acme.io/foo`.
pub fn is_domain_prefixed_key(path: &Path<'_>, key: &str) -> Vec<FieldError> {
    if key.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut problems = is_label_key(key);
    if problems.is_empty() && !key.contains('/') {
        problems.push("must be a domain-prefixed key (such as \"acme.io/foo\")".to_owned());
    }
    problems.into_iter().map(|problem| FieldError::invalid(path, key, problem)).collect()
}

fn dns1123_label(value: &[u8], unit: Unit) -> Problems {
    let mut problems = too_long(value, DNS_LABEL_MAX_LENGTH, unit);
    if let Some(problem) = pattern::DNS1123_LABEL.check(value) {
        let dots = pattern::DNS1123_SUBDOMAIN.check(value).is_none();
        problems.push(if dots { "must not contain dots".to_owned() } else { problem });
    }
    problems
}

fn dns1123_subdomain(value: &[u8], unit: Unit) -> Problems {
    let mut problems = too_long(value, DNS_SUBDOMAIN_MAX_LENGTH, unit);
    problems.extend(pattern::DNS1123_SUBDOMAIN.check(value));
    problems
}

fn dns1035_label(value: &[u8]) -> Problems {
    let mut problems = too_long(value, DNS_LABEL_MAX_LENGTH, Unit::Characters);
    problems.extend(pattern::DNS1035_LABEL.check(value));
    problems
}

/// Name for the validation of a `generateName`: a trailing dash will be followed by a suffix. As in the reference, the
/// byte before the dash is replaced too.
fn masked(name: &str, prefix: bool) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    if prefix && bytes.len() > 1 && bytes.ends_with(b"-") {
        bytes.truncate(bytes.len() - 2);
        bytes.push(b'a');
    }
    bytes
}

/// Problem of a name that would refer to another directory as a file name.
fn leaves_directory(value: &str) -> Option<String> {
    let problem = match value {
        "." => "must not be '.'",
        ".." => "must not be '..'",
        _ if value.starts_with("..") => "must not start with '..'",
        _ => return None,
    };
    Some(problem.to_owned())
}

#[cfg(test)]
mod tests;
