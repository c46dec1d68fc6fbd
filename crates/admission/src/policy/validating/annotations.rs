//! Audit annotations of validating policies.

use kevel_api::json_string::write_json_string;
use kevel_registry::audit::AuditEvent;

use crate::policy::definition::Binding;

/// Key of the annotation for validation failures.
const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Longest annotation value, in bytes.
const MAX_VALUE: usize = 10 * 1024;

/// Values of `auditAnnotations`, by policy and key. Values from several bindings are joined.
#[derive(Debug, Default)]
pub(super) struct AuditAnnotations(Vec<(String, Vec<String>)>);

impl AuditAnnotations {
    /// Adds a value under a policy's key, unless the key has it already.
    pub fn add(&mut self, policy: &str, key: &str, mut value: String) {
        let end = (0..=MAX_VALUE).rev().find(|end| value.is_char_boundary(*end));
        value.truncate(end.unwrap_or_default());
        let key = format!("{policy}/{key}");
        let index = self.0.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            self.0.push((key, Vec::new()));
            self.0.len() - 1
        });
        let values = &mut self.0[index].1;
        if !values.contains(&value) {
            values.push(value);
        }
    }

    /// Adds all annotations to the audit event.
    pub fn publish(&self, audit: &dyn AuditEvent) {
        self.0.iter().for_each(|(key, values)| audit.annotate(key, &values.join(", ")));
    }
}

/// Key and value of the annotation for a validation that fails.
pub(super) fn validation_failure(
    binding: &Binding,
    index: usize,
    message: &str,
) -> (&'static str, String) {
    let mut json = Vec::new();
    for (name, text) in [
        (&b"[{\"message\":"[..], message),
        (b",\"policy\":", &binding.policy_name),
        (b",\"binding\":", &binding.name),
    ] {
        json.extend_from_slice(name);
        write_json_string(&mut json, text);
    }
    json.extend_from_slice(format!(",\"expressionIndex\":{index},").as_bytes());
    let actions: Vec<String> =
        binding.actions.iter().map(|action| format!("\"{}\"", action.name())).collect();
    json.extend_from_slice(format!("\"validationActions\":[{}]}}]", actions.join(",")).as_bytes());
    (VALIDATION_FAILURE, String::from_utf8_lossy(&json).into_owned())
}
