//! Amounts of resources by name, and what a pod asks for in all.

use std::collections::{BTreeMap, HashMap};

use kevel_api::name;
use kevel_api::quantity::Quantity;
use kevel_api::value::Value;

/// Amounts by the name of what they are of.
pub(super) type ResourceList = BTreeMap<String, Quantity>;

/// The amounts that stand at a path.
pub(super) fn at(value: &Value, path: &[&str]) -> ResourceList {
    let entries = value.at(path).and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    let amount =
        |(name, text): (&str, &Value)| Some((name.to_owned(), text.as_str()?.parse().ok()?));
    entries.filter_map(amount).collect()
}

/// Adds amounts to others.
pub(super) fn add(list: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        list.entry(name.clone()).and_modify(|sum| *sum += *amount).or_insert(*amount);
    }
}

/// Raises amounts to others where those are larger.
pub(super) fn max(list: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let most = list.entry(name.clone()).or_insert(*amount);
        if *amount > *most {
            *most = *amount;
        }
    }
}

/// `name=amount` of all, between commas.
pub(super) fn print(list: &ResourceList) -> String {
    let parts = list.iter().map(|(name, amount)| format!("{name}={amount}"));
    parts.collect::<Vec<_>>().join(",")
}

/// How quotas call what is requested of a resource.
const QUOTA_REQUESTS: &str = "requests.";

/// Whether a resource is one of Kubernetes' own.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is one that somebody added to nodes.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(QUOTA_REQUESTS)
        && name::is_label_key(&format!("{QUOTA_REQUESTS}{name}")).is_empty()
}

/// What counts when a pod's resources are added up.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodResources {
    /// What containers have already, too: the larger of it and what is wanted.
    pub status: bool,
    /// What a runtime class adds.
    pub overhead: bool,
    /// Which resources a pod may ask for as a whole, which goes before what its containers ask for.
    pub pod_level: fn(&str) -> bool,
}

impl PodResources {
    /// What a pod requests.
    pub fn requests(&self, pod: &Value) -> ResourceList {
        let mut list = self.sum(pod, "requests");
        self.replace_by_pod_level(pod, "requests", &mut list);
        if self.overhead {
            add(&mut list, &at(pod, &["spec", "overhead"]));
        }
        list
    }

    /// What a pod is limited to.
    pub fn limits(&self, pod: &Value) -> ResourceList {
        let mut list = self.sum(pod, "limits");
        self.replace_by_pod_level(pod, "limits", &mut list);
        if self.overhead {
            for (name, amount) in at(pod, &["spec", "overhead"]) {
                if let Some(limit) = list.get_mut(&name).filter(|limit| !limit.is_zero()) {
                    *limit += amount;
                }
            }
        }
        list
    }

    fn replace_by_pod_level(&self, pod: &Value, kind: &str, list: &mut ResourceList) {
        let own = at(pod, &["spec", "resources", kind]).into_iter();
        list.extend(own.filter(|(name, _)| (self.pod_level)(name)));
    }

    /// Containers run beside each other, init containers before them, one after the other; those
    /// that are restarted stay beside all that follow.
    fn sum(&self, pod: &Value, kind: &str) -> ResourceList {
        let mut sum = ResourceList::new();
        let statuses = self.statuses(pod, "containerStatuses");
        for container in pod.list_at(&["spec", "containers"]) {
            add(&mut sum, &Self::container(pod, container, &statuses, kind));
        }
        let statuses = self.statuses(pod, "initContainerStatuses");
        let (mut staying, mut most) = (ResourceList::new(), ResourceList::new());
        for container in pod.list_at(&["spec", "initContainers"]) {
            let stays = container.str_at(&["restartPolicy"]) == "Always";
            let mut list = match stays {
                true => Self::container(pod, container, &statuses, kind),
                false => at(container, &["resources", kind]),
            };
            if stays {
                add(&mut sum, &list);
                add(&mut staying, &list);
            }
            // Of other resources, what stays has been counted when it came.
            for (name, amount) in &mut list {
                match staying.get(name) {
                    Some(all) if stays => *amount = *all,
                    Some(all) => *amount += *all,
                    None => {}
                }
            }
            max(&mut most, &list);
        }
        max(&mut sum, &most);
        sum
    }

    /// What containers have, by their names, where it counts.
    fn statuses<'v>(&self, pod: &'v Value, list: &str) -> HashMap<&'v str, &'v Value> {
        let all = pod.list_at(&["status", list]).iter().filter(|_| self.status);
        all.rev().map(|status| (status.str_at(&["name"]), status)).collect()
    }

    fn container(
        pod: &Value,
        container: &Value,
        statuses: &HashMap<&str, &Value>,
        kind: &str,
    ) -> ResourceList {
        let wanted = at(container, &["resources", kind]);
        let status = statuses.get(container.str_at(&["name"]));
        let status = status.filter(|status| status.at(&["resources"]).is_some());
        let Some(status) = status else { return wanted };
        let mut list = at(status, &["resources", kind]);
        if kind == "requests" {
            max(&mut list, &at(status, &["allocatedResources"]));
        }
        // What cannot be had is not counted.
        if !resize_is_infeasible(pod) {
            max(&mut list, &wanted);
        }
        list
    }
}

fn resize_is_infeasible(pod: &Value) -> bool {
    let mut conditions = pod.list_at(&["status", "conditions"]).iter();
    let pending = conditions.find(|condition| condition.str_at(&["type"]) == "PodResizePending");
    pending.is_some_and(|condition| condition.str_at(&["reason"]) == "Infeasible")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::{Unknown, decode_any};

    #[test]
    fn a_pod_needs_what_its_containers_need_at_one_time() {
        let counted =
            PodResources { status: true, overhead: true, pod_level: |name| name == "cpu" };
        let container = |cpu: &str| {
            format!(r#"{{"name":"{cpu}","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}"#)
        };
        let stays = |cpu: &str| container(cpu).replacen('{', r#"{"restartPolicy":"Always","#, 1);
        for (containers, init, rest, cpu) in [
            (vec![container("1"), container("2")], vec![], "", "3"),
            (vec![container("1")], vec![container("2"), container("3")], "", "3"),
            (vec![container("1")], vec![stays("2"), container("3")], "", "5"),
            (vec![container("1")], vec![container("3"), stays("2")], "", "3"),
            (vec![container("1")], vec![], r#","overhead":{"cpu":"500m"}"#, "1500m"),
            (vec![container("1")], vec![], r#","resources":{"requests":{"cpu":"4"}}"#, "4"),
        ] {
            let pod = format!(
                r#"{{"spec":{{"containers":[{}],"initContainers":[{}]{rest}}}}}"#,
                containers.join(","),
                init.join(",")
            );
            let value = decode_any(pod.as_bytes(), Unknown::Ignore).unwrap().value;
            assert_eq!(print(&counted.requests(&value)), format!("cpu={cpu}"), "{pod}");
        }
    }
}
