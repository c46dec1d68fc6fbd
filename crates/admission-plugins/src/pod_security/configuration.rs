//! PodSecurityConfiguration: default levels of namespaces without labels, and exemptions.

use kevel_api::field_error::{FieldError, Path, aggregate};
use kevel_api::name;
use kevel_api::value::Value;

use super::super::configuration;
use super::policy::{LevelVersion, Policy, parse_level, parse_version};

/// API versions and kinds of the configuration.
const KINDS: [(&str, &str); 3] = [
    ("pod-security.admission.config.k8s.io/v1", "PodSecurityConfiguration"),
    ("pod-security.admission.config.k8s.io/v1beta1", "PodSecurityConfiguration"),
    ("pod-security.admission.config.k8s.io/v1alpha1", "PodSecurityConfiguration"),
];

/// Decoded PodSecurityConfiguration.
#[derive(Debug)]
pub(super) struct Configuration {
    pub defaults: Policy,
    pub usernames: Vec<String>,
    pub namespaces: Vec<String>,
    pub runtime_classes: Vec<String>,
}

impl Configuration {
    /// Decodes a configuration; without one, every level is privileged.
    pub fn read(text: Option<String>) -> Result<Self, String> {
        let value = match text.filter(|text| !text.is_empty()) {
            Some(text) => configuration::decode(&text, &KINDS)?,
            None => Value::Null,
        };
        let mut errors = Vec::new();
        let mut of = |mode: &str| level_version(&value, mode, &mut errors);
        // In the order of the reference's error messages.
        let (enforce, warn, audit) = (of("enforce"), of("warn"), of("audit"));
        let exemptions = |field: &str| {
            let names = value.list_at(&["exemptions", field]).iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        let read = Configuration {
            defaults: Policy { enforce, audit, warn },
            usernames: exemptions("usernames"),
            namespaces: exemptions("namespaces"),
            runtime_classes: exemptions("runtimeClasses"),
        };
        check(&read.namespaces, "namespaces", |n| name::name_is_dns_label(n, false), &mut errors);
        let subdomain = |n: &str| name::name_is_dns_subdomain(n, false);
        check(&read.runtime_classes, "runtimeClasses", subdomain, &mut errors);
        let given = |name: &str| match name {
            "" => vec!["username must not be empty".to_owned()],
            _ => Vec::new(),
        };
        check(&read.usernames, "usernames", given, &mut errors);
        match aggregate(errors) {
            Some(error) => Err(format!("PodSecurity invalid: {error}")),
            None => Ok(read),
        }
    }
}

fn level_version(value: &Value, mode: &str, errors: &mut Vec<FieldError>) -> LevelVersion {
    let mut default = Policy::PRIVILEGED.enforce;
    let root = Path::new("defaults");
    let mut wrong = |field: &str, text: &str, error: String| {
        errors.push(FieldError::invalid(&root.child(field), text, error));
    };
    match value.str_at(&["defaults", mode]) {
        "" => {}
        text => match parse_level(text) {
            Ok(level) => default.level = level,
            Err(error) => wrong(mode, text, error),
        },
    }
    let field = format!("{mode}-version");
    match value.str_at(&["defaults", &field]) {
        "" => {}
        text => match parse_version(text) {
            Ok(version) => default.version = version,
            Err(error) => wrong(&field, text, error),
        },
    }
    default
}

fn check(
    names: &[String],
    field: &str,
    problems: impl Fn(&str) -> Vec<String>,
    errors: &mut Vec<FieldError>,
) {
    let root = Path::new("exemptions");
    let list = root.child(field);
    for (index, name) in names.iter().enumerate() {
        let problems = problems(name);
        if !problems.is_empty() {
            let problems = problems.join(", ");
            errors.push(FieldError::invalid(&list.index(index), name.as_str(), problems));
        } else if names.iter().take(index).any(|earlier| earlier == name) {
            errors.push(FieldError::duplicate(&list.index(index), name.as_str()));
        }
    }
}
