//! Audit annotations and warnings of webhook calls.

use kevel_api::json_string::write_json_string;
use kevel_api::name::is_label_key;
use kevel_codec::json;
use kevel_registry::admission::Attributes;
use kevel_registry::audit::Level;

use super::definition::{Step, Webhook};
use super::review::AdmissionResponse;

const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const PATCH: &str = "patch.webhook.admission.k8s.io/";
const FAILED_OPEN: [(Step, &str); 2] = [
    (Step::Admit, "failed-open.mutation.webhook.admission.k8s.io/"),
    (Step::Validate, "failed-open.validating.webhook.admission.k8s.io/"),
];

/// Adds a webhook's audit annotations, prefixed with its name, and its warnings to the request.
pub(super) fn pass_on(webhook: &str, response: &AdmissionResponse, attributes: &Attributes<'_>) {
    for (key, value) in &response.audit_annotations {
        let key = format!("{webhook}/{key}");
        // An annotation key needs exactly one prefix, a slash and a name.
        let problems = is_label_key(&key);
        match problems.is_empty() && key.matches('/').count() == 1 {
            true => attributes.audit.annotate(&key, value),
            false => tracing::warn!(
                webhook,
                key,
                "Failed to set admission audit annotation: annotation key has invalid format"
            ),
        }
    }
    response.warnings.iter().for_each(|warning| attributes.warnings.add(warning.as_str()));
}

/// Position of a call among the webhook calls for a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub round: u32,
    pub index: usize,
}

impl Place {
    fn key(self, prefix: &str) -> String {
        format!("{prefix}round_{}_index_{}", self.round, self.index)
    }

    /// Records that a webhook call failed and was ignored.
    pub fn failed_open(self, webhook: &Webhook, attributes: &Attributes<'_>) {
        let prefix = FAILED_OPEN.iter().find(|(step, _)| *step == webhook.step);
        if let Some((_, prefix)) = prefix {
            attributes.audit.annotate(&self.key(prefix), &webhook.name);
        }
    }

    /// Records whether a webhook changed the object.
    pub fn mutation(self, webhook: &Webhook, mutated: bool, attributes: &Attributes<'_>) {
        if attributes.audit.level() >= Level::Metadata {
            let mut value = by(webhook);
            value.extend_from_slice(br#","mutated":"#);
            value.extend_from_slice(if mutated { b"true}" } else { b"false}" });
            attributes.audit.annotate(&self.key(MUTATION), &String::from_utf8_lossy(&value));
        }
    }

    /// Records a webhook's patch, at audit level Request and above.
    pub fn patch(self, webhook: &Webhook, patch: &[u8], attributes: &Attributes<'_>) {
        if attributes.audit.level() < Level::Request {
            return;
        }
        let Ok(patch) = json::decode_any(patch, json::Unknown::Ignore) else { return };
        let mut value = by(webhook);
        value.extend_from_slice(br#","patch":"#);
        json::encode_any(&patch.value, &mut value);
        value.extend_from_slice(br#","patchType":"JSONPatch"}"#);
        attributes.audit.annotate(&self.key(PATCH), &String::from_utf8_lossy(&value));
    }
}

/// Beginning of an annotation value: configuration and webhook.
fn by(webhook: &Webhook) -> Vec<u8> {
    let mut value = br#"{"configuration":"#.to_vec();
    write_json_string(&mut value, &webhook.configuration);
    value.extend_from_slice(br#","webhook":"#);
    write_json_string(&mut value, &webhook.name);
    value
}
