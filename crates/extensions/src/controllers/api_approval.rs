//! Condition KubernetesAPIApprovalPolicyConformant of definitions in protected groups (upstream:
//! KubernetesAPIApprovalPolicyConformantConditionController).

use kevel_api::value::Value;

use super::Context;
use crate::definition::{Condition, Definition, condition, set_condition};

/// Annotation with the URL of the approval, or with the reason why there is none.
const ANNOTATION: &str = "api-approved.kubernetes.io";

pub(super) async fn reconcile(context: &Context, name: &str) -> Result<(), String> {
    let Some(mut value) = context.find(name) else { return Ok(()) };
    let definition = Definition(&value);
    let (status, reason, message) = judge(approval(&value));
    let known = definition.condition(condition::API_APPROVED);
    let judged = Condition {
        message: message.into(),
        ..Condition::new(condition::API_APPROVED, status, reason, "")
    };
    if known.as_ref() == Some(&judged) {
        return Ok(());
    }
    set_condition(&mut value, &judged, context.now());
    context.update_status(&value).await.map(drop)
}

/// Whether a group belongs to the Kubernetes project.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].into_iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn approval(definition: &Value) -> &str {
    definition.str_at(&["metadata", "annotations", ANNOTATION])
}

fn judge(approval: &str) -> (&'static str, &'static str, String) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let must = format!("protected groups must have approval annotation {ANNOTATION:?}");
    match approval {
        "" => ("False", "MissingAnnotation", format!("{must}, {SEE}")),
        why if why.starts_with("unapproved") => {
            let why = kevel_api::quote::quote(why);
            ("False", "UnapprovedAnnotation", format!("not approved: {why}"))
        }
        url if is_url(url) => ("True", "ApprovedAnnotation", format!("approved in {url}")),
        _ => {
            let with = "with either a URL or a reason starting with \"unapproved\"";
            ("False", "InvalidAnnotation", format!("{must} {with}, {SEE}"))
        }
    }
}

fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let known = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    known && !host.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvals_are_urls_or_reasons() {
        for (approval, expected) in [
            ("", "MissingAnnotation"),
            ("unapproved, experimental", "UnapprovedAnnotation"),
            ("https://github.com/kubernetes/enhancements/pull/1111", "ApprovedAnnotation"),
            ("https://", "InvalidAnnotation"),
            ("yes", "InvalidAnnotation"),
        ] {
            assert_eq!(judge(approval).1, expected, "{approval}");
        }
        for (group, expected) in [
            ("k8s.io", true),
            ("storage.k8s.io", true),
            ("x.kubernetes.io", true),
            ("notk8s.io", false),
            ("example.com", false),
        ] {
            assert_eq!(is_protected(group), expected, "{group}");
        }
    }
}
