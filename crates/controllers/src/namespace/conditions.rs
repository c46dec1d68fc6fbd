//! Conditions of a namespace that is being deleted.

use std::collections::BTreeMap;

use kevel_api::value::{Map, Value};

/// A condition that this controller maintains, with reason and message where all is well.
struct Maintained {
    of: &'static str,
    reason: &'static str,
    message: &'static str,
}

const DISCOVERY: &str = "NamespaceDeletionDiscoveryFailure";
const CONTENT: &str = "NamespaceDeletionContentFailure";
const REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// The maintained conditions, in the order in which they are added.
const MAINTAINED: [Maintained; 5] = [
    Maintained {
        of: DISCOVERY,
        reason: "ResourcesDiscovered",
        message: "All resources successfully discovered",
    },
    Maintained {
        of: "NamespaceDeletionGroupVersionParsingFailure",
        reason: "ParsedGroupVersions",
        message: "All legacy kube types successfully parsed",
    },
    Maintained {
        of: CONTENT,
        reason: "ContentDeleted",
        message: "All content successfully deleted, may be waiting on finalization",
    },
    Maintained {
        of: REMAINING,
        reason: "ContentRemoved",
        message: "All content successfully removed",
    },
    Maintained {
        of: FINALIZERS,
        reason: "ContentHasNoFinalizers",
        message: "All content-preserving finalizers finished",
    },
];

/// Results of one pass over the content of a namespace.
#[derive(Debug, Default)]
pub(super) struct PassFindings {
    /// Number of groups that discovery lacks, and its error.
    pub discovery: Option<(usize, String)>,
    /// Errors of deletions.
    pub errors: Vec<String>,
    /// Number of remaining objects by `plural.group`.
    pub remaining: BTreeMap<String, usize>,
    /// Number of remaining objects by finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl PassFindings {
    /// Adds the remaining objects of a resource.
    pub fn add_remaining(
        &mut self,
        resource: String,
        count: usize,
        finalizers: &BTreeMap<String, usize>,
    ) {
        if count == 0 {
            return;
        }
        self.remaining.insert(resource, count);
        for (finalizer, count) in finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += count;
        }
    }

    /// Reason and message of a condition that is true.
    fn failure(&self, of: &str) -> Option<(&'static str, String)> {
        match of {
            DISCOVERY => self.discovery.as_ref().map(|(count, error)| {
                let message = format!("Discovery failed for some groups, {count} failing: {error}");
                ("DiscoveryFailed", message)
            }),
            CONTENT if !self.errors.is_empty() => {
                let mut errors = self.errors.clone();
                errors.sort();
                let (count, errors) = (errors.len(), errors.join(", "));
                let message =
                    format!("Failed to delete all resource types, {count} remaining: {errors}");
                Some(("ContentDeletionFailed", message))
            }
            REMAINING if !self.remaining.is_empty() => {
                let counts = self.remaining.iter();
                let told: Vec<String> = counts
                    .map(|(resource, count)| format!("{resource} has {count} resource instances"))
                    .collect();
                let message = format!("Some resources are remaining: {}", told.join(", "));
                Some(("SomeResourcesRemain", message))
            }
            FINALIZERS if !self.finalizers.is_empty() => {
                let counts = self.finalizers.iter();
                let told: Vec<String> = counts
                    .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
                    .collect();
                let told = told.join(", ");
                let message =
                    format!("Some content in the namespace has finalizers remaining: {told}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// Writes the conditions into a namespace; whether that changed it.
    pub fn write(&self, namespace: &mut Value, now: &str) -> bool {
        let conditions = namespace.make_list(&["status"], "conditions");
        let mut changed = false;
        for maintained in &MAINTAINED {
            let (status, (reason, message)) = match self.failure(maintained.of) {
                Some(failure) => ("True", failure),
                None => ("False", (maintained.reason, maintained.message.to_owned())),
            };
            let old = conditions.iter_mut().find(|c| c.str_at(&["type"]) == maintained.of);
            let same = old.as_ref().map(|old| {
                [("status", status), ("reason", reason), ("message", message.as_str())]
                    .map(|(field, value)| old.str_at(&[field]) == value)
            });
            if same == Some([true; 3]) {
                continue;
            }
            changed = true;
            let new = Map::from_iter([
                ("type", Value::from(maintained.of)),
                ("status", status.into()),
                ("reason", reason.into()),
                ("message", message.as_str().into()),
            ]);
            match (old.and_then(Value::as_map_mut), same) {
                (Some(old), Some([same_status, ..])) => {
                    new.into_entries().into_iter().for_each(|(field, value)| {
                        old.insert(field, value);
                    });
                    if !same_status {
                        old.insert("lastTransitionTime", now.into());
                    }
                }
                _ => {
                    let mut new = new;
                    new.insert("lastTransitionTime", now.into());
                    conditions.push(new.into());
                }
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(namespace: &Value) -> Vec<String> {
        let conditions = namespace.list_at(&["status", "conditions"]).iter();
        let show = |c: &Value| {
            let field = |field| c.str_at(&[field]);
            format!("{} {} {}", field("type"), field("status"), field("lastTransitionTime"))
        };
        conditions.map(show).collect()
    }

    #[test]
    fn conditions_follow_the_findings_of_each_pass() {
        let mut namespace = Value::Map(Map::new());
        let mut findings = PassFindings::default();
        let finalizers = BTreeMap::from([("example.com/a".to_owned(), 2)]);
        findings.add_remaining("pods.".to_owned(), 3, &finalizers);
        findings.errors = vec!["b".to_owned(), "a".to_owned()];
        assert!(findings.write(&mut namespace, "1"));
        let messages: Vec<&str> = namespace
            .list_at(&["status", "conditions"])
            .iter()
            .map(|condition| condition.str_at(&["message"]))
            .collect();
        assert_eq!(
            messages,
            [
                "All resources successfully discovered",
                "All legacy kube types successfully parsed",
                "Failed to delete all resource types, 2 remaining: a, b",
                "Some resources are remaining: pods. has 3 resource instances",
                "Some content in the namespace has finalizers remaining: \
                 example.com/a in 2 resource instances",
            ],
        );
        assert!(!findings.write(&mut namespace, "2"));
        assert!(PassFindings::default().write(&mut namespace, "3"));
        assert_eq!(
            shown(&namespace),
            [
                "NamespaceDeletionDiscoveryFailure False 1",
                "NamespaceDeletionGroupVersionParsingFailure False 1",
                "NamespaceDeletionContentFailure False 3",
                "NamespaceContentRemaining False 3",
                "NamespaceFinalizersRemaining False 3",
            ],
        );
    }
}
