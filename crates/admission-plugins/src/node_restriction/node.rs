//! NodeRestriction of nodes: a kubelet writes only its own Node, and not the labels and taints reserved for
//! administrators.

use std::collections::BTreeSet;

use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_registry::admission::Operation;

use super::Write;

/// Labels in `kubernetes.io` that kubelets may set.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// Prefixes of further labels that kubelets may set.
const KUBELET_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Prefix of labels that kubelets may never set.
const RESTRICTED_PREFIX: &str = "node-restriction.kubernetes.io";

pub(super) fn check(node: &str, write: &Write<'_>) -> Result<(), StatusError> {
    let asked = write.attributes.name;
    let own = asked == node;
    let node = quote(node);
    if !own {
        let error = format!("node {node} is not allowed to modify node {}", quote(asked));
        return write.forbid(error);
    }
    let (new, old) = (write.object(), write.old());
    let source = new.at(&["spec", "configSource"]);
    match write.attributes.operation {
        Operation::Create => {
            if source.is_some() {
                return write.forbid(format!(
                    "node {node} is not allowed to create pods with a non-nil configSource"
                ));
            }
            let labels = forbidden_labels(new, old);
            if !labels.is_empty() {
                return write.forbid(format!(
                    "node {node} is not allowed to set the following labels: {}",
                    labels.join(", ")
                ));
            }
        }
        Operation::Update => {
            if source.is_some() && source != old.at(&["spec", "configSource"]) {
                return write.forbid(format!(
                    "node {node} is not allowed to update configSource to a new non-nil \
                     configSource"
                ));
            }
            for path in [["spec", "taints"], ["metadata", "ownerReferences"]] {
                if list(new, &path) != list(old, &path) {
                    let field = path[1];
                    return write.forbid(format!("node {node} is not allowed to modify {field}"));
                }
            }
            let labels = forbidden_labels(new, old);
            if !labels.is_empty() {
                let labels = labels.join(", ");
                return write.forbid(format!("is not allowed to modify labels: {labels}"));
            }
        }
        Operation::Delete | Operation::Connect => {}
    }
    Ok(())
}

/// Labels set, changed or removed by the update that a kubelet may not modify; sorted.
fn forbidden_labels<'v>(new: &'v Value, old: &'v Value) -> Vec<&'v str> {
    let label = |node: &'v Value, key: &str| node.at(&["metadata", "labels", key]);
    let keys = |node: &'v Value| {
        let labels = node.at(&["metadata", "labels"]).and_then(Value::as_map);
        labels.into_iter().flat_map(Map::iter).map(|(key, _)| key)
    };
    let all: BTreeSet<&str> = keys(new).chain(keys(old)).collect();
    let touched = all.into_iter().filter(|key| label(new, key) != label(old, key));
    touched.filter(|key| is_forbidden(key)).collect()
}

fn is_forbidden(label: &str) -> bool {
    let prefix = label.split_once('/').map_or("", |(prefix, _)| prefix);
    let within = |domain: &str| {
        prefix == domain || prefix.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    };
    let kubernetes = within("kubernetes.io") || within("k8s.io");
    let kubelet = KUBELET_LABELS.contains(&label) || KUBELET_PREFIXES.into_iter().any(within);
    within(RESTRICTED_PREFIX) || (kubernetes && !kubelet)
}

fn list<'v>(node: &'v Value, path: &[&str]) -> &'v [Value] {
    node.at(path).and_then(Value::as_list).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::is_forbidden;

    #[test]
    fn some_labels_are_out_of_a_node_s_reach() {
        for (label, forbidden) in [
            ("example.com/x", false),
            ("x", false),
            ("kubernetes.io/hostname", false),
            ("topology.kubernetes.io/zone", false),
            ("node.kubernetes.io/anything", false),
            ("x.kubelet.kubernetes.io/anything", false),
            ("notkubernetes.io/x", false),
            ("node-restriction.kubernetes.io/x", true),
            ("x.node-restriction.kubernetes.io/x", true),
            ("node-role.kubernetes.io/control-plane", true),
            ("kubernetes.io/x", true),
            ("k8s.io/x", true),
            ("x.k8s.io/x", true),
            ("topology.kubernetes.io/rack", true),
        ] {
            assert_eq!(is_forbidden(label), forbidden, "{label}");
        }
    }
}
