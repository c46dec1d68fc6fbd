//! Strategy of APIServices: defaults and validation.

use kevel_api::field_error::{FieldError, FieldErrors, Path};
use kevel_api::name;
use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_clock::Clock;
use kevel_registry::strategy::{MetadataChecks, RESET_ALL_BUT_STATUS, Strategy};

use crate::api_service::{self, Condition};

/// Strategy of APIServices (upstream: apiservice's registry strategy).
#[derive(Clone, Debug)]
pub struct ApiServiceStrategy {
    /// Clock of the server.
    pub clock: Clock,
}

impl Strategy for ApiServiceStrategy {
    /// A local APIService is available at once.
    fn prepare_for_create(&self, object: &mut Value) {
        if let Some(object) = object.as_map_mut() {
            object.remove("status");
        }
        if api_service::is_local(object) {
            Condition::local().set(object, Time::now(&self.clock));
        }
    }

    fn validate_create(&self, object: &Value) -> FieldErrors {
        check(object).into()
    }

    fn validate_update(&self, object: &Value, _old: &Value) -> FieldErrors {
        check(object).into()
    }

    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks::UpdateThenMeta
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &["annotations", "finalizers", "labels", "ownerReferences"]
    }

    fn reset_by_status(&self) -> &'static [&'static [&'static str]] {
        RESET_ALL_BUT_STATUS
    }

    fn validate_status_update(&self, object: &Value, _old: &Value) -> FieldErrors {
        const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
        let root = Path::new("status");
        let conditions = root.child("conditions");
        let all = object.list_at(&["status", "conditions"]).iter().enumerate();
        let wrong = all.filter(|(_, condition)| !STATUSES.contains(&condition.str_at(&["status"])));
        let error = |(at, condition): (usize, &Value)| {
            let condition_at = conditions.index(at);
            let status =
                kevel_api::field_error::BadValue::named_string(condition.str_at(&["status"]));
            FieldError::not_supported(&condition_at.child("status"), status, STATUSES)
        };
        wrong.map(error).collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    /// The full name check needs the rest of the object.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        name::is_path_segment_name(name, prefix)
    }
}

/// Maximum priorities, inclusive, although the message says "less than".
const MAX_GROUP_PRIORITY: i64 = 20000;
const MAX_VERSION_PRIORITY: i64 = 1000;

fn check(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let text = |field: &str| object.str_at(&["spec", field]);
    let number = |field: &str| object.at(&["spec", field]).and_then(Value::as_int).unwrap_or(0);
    let (group, version) = (text("group"), text("version"));

    let required = format!("{version}.{group}");
    for (field, prefix) in [("generateName", true), ("name", false)] {
        let name = object.str_at(&["metadata", field]);
        if !name.is_empty()
            && name != required
            && name::is_path_segment_name(name, prefix).is_empty()
        {
            let metadata = Path::new("metadata");
            let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quote(&required));
            errors.push(FieldError::invalid(&metadata.child(field), name, detail));
        }
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&spec.child("group"), detail));
    }
    if !group.is_empty() {
        let problems = name::is_dns1123_subdomain(group).into_iter();
        let error = |problem| FieldError::invalid(&spec.child("group"), group, problem);
        errors.extend(problems.map(error));
    }
    let problems = name::is_dns1035_label(version).into_iter();
    let error = |problem| FieldError::invalid(&spec.child("version"), version, problem);
    errors.extend(problems.map(error));
    for (field, most) in
        [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)]
    {
        let value = number(field);
        if !(1..=most).contains(&value) {
            let detail = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(&spec.child(field), value, detail));
        }
    }
    match object.at(&["spec", "service"]) {
        None => errors.extend(check_local(object, &spec)),
        Some(service) => errors.extend(check_remote(object, service, &spec)),
    }
    errors
}

fn check_local(object: &Value, spec: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let ca_bundle = api_service::ca_bundle(object);
    if !ca_bundle.is_empty() {
        let shown = format!("{} bytes", ca_bundle.len());
        let detail = "local APIServices may not have a caBundle";
        errors.push(FieldError::invalid(&spec.child("caBundle"), shown, detail));
    }
    if api_service::insecure_skip_tls_verify(object) {
        let detail = "local APIServices may not have insecureSkipTLSVerify";
        errors.push(FieldError::invalid(&spec.child("insecureSkipTLSVerify"), true, detail));
    }
    errors
}

fn check_remote(object: &Value, service: &Value, spec: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = spec.child("service");
    for field in ["namespace", "name"] {
        if service.str_at(&[field]).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    let port = service.at(&["port"]).and_then(Value::as_int).unwrap_or(0);
    let problems = name::is_valid_port_num(port);
    if !problems.is_empty() {
        let detail = format!("port is not valid: {}", problems.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    let insecure = api_service::insecure_skip_tls_verify(object);
    if insecure && !api_service::ca_bundle(object).is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(&spec.child("insecureSkipTLSVerify"), true, detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    fn object(name: &str, spec: &str) -> Value {
        let text = format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#);
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    fn strategy() -> ApiServiceStrategy {
        ApiServiceStrategy { clock: Clock::system() }
    }

    #[test]
    fn wrong_api_services_are_refused_in_the_reference_s_words() {
        let good =
            r#""group":"a.io","version":"v1","groupPriorityMinimum":100,"versionPriority":10"#;
        let service = r#""service":{"namespace":"n","name":"s","port":443}"#;
        for (name, spec, expected) in [
            ("v1.a.io", good.to_owned(), &[][..]),
            ("v1.a.io", format!("{good},{service}"), &[]),
            (
                "v1.b.io",
                good.to_owned(),
                &[
                    r#"metadata.name: Invalid value: "v1.b.io": must be `spec.version+"."+spec.group`: "v1.a.io""#,
                ],
            ),
            (
                "v2.",
                r#""version":"v2","groupPriorityMinimum":20001,"versionPriority":-1"#.to_owned(),
                &[
                    "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
                    "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                    "spec.versionPriority: Invalid value: -1: must be positive and less than 1000",
                ],
            ),
            (
                "v1.a.io",
                format!(r#"{good},"caBundle":"YWJj","insecureSkipTLSVerify":true"#),
                &[
                    r#"spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle"#,
                    "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
                ],
            ),
            (
                "v1.a.io",
                format!(r#"{good},"caBundle":"YWJj","insecureSkipTLSVerify":true,{service}"#),
                &[
                    "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
                ],
            ),
            (
                "v1.a.io",
                format!(r#"{good},"service":{{"port":70000}}"#),
                &[
                    "spec.service.namespace: Required value",
                    "spec.service.name: Required value",
                    "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
                ],
            ),
        ] {
            let found: Vec<_> = check(&object(name, &spec)).iter().map(|e| e.to_string()).collect();
            assert_eq!(found, expected, "{name} {spec}");
        }
    }

    #[test]
    fn new_local_services_are_available_and_remote_ones_not() {
        let mut local = object("v1.a.io", r#""group":"a.io""#);
        let mut remote = object("v1.a.io", r#""service":{"name":"s"}"#);
        for object in [&mut local, &mut remote] {
            object
                .make_map(&["status"])
                .insert("conditions", Value::List([Value::Null].into_iter().collect()));
            strategy().prepare_for_create(object);
        }
        assert!(Condition::is_available(&local));
        assert_eq!(remote.at(&["status"]), None);
    }

    #[test]
    fn a_condition_is_one_of_three() {
        let old = object("v1.a.io", r#""group":"a.io""#);
        let mut new = old.clone();
        let condition = Value::Map([("status", Value::from("Maybe"))].into_iter().collect());
        new.make_list(&["status"], "conditions").push(condition);
        assert_eq!(
            strategy().validate_status_update(&new, &old)[0].to_string(),
            r#"status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown""#,
        );
    }
}
