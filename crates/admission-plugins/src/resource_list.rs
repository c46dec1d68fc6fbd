//! ResourceList: amounts by resource name, and the total requests and limits of a pod.

use std::collections::{BTreeMap, HashMap};

use kevel_api::name;
use kevel_api::quantity::Quantity;
use kevel_api::value::Value;

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Reads the ResourceList at a path.
pub fn at(value: &Value, path: &[&str]) -> ResourceList {
    let entries = value.at(path).and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    let amount =
        |(name, text): (&str, &Value)| Some((name.to_owned(), text.as_str()?.parse().ok()?));
    entries.filter_map(amount).collect()
}

/// Adds amounts to a list.
pub fn add(list: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        list.entry(name.clone()).and_modify(|sum| *sum += *amount).or_insert(*amount);
    }
}

/// Raises amounts to those of another list where those are larger.
pub(super) fn max(list: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let most = list.entry(name.clone()).or_insert(*amount);
        if *amount > *most {
            *most = *amount;
        }
    }
}

/// Prints `name=amount` pairs, separated by commas.
pub(super) fn print(list: &ResourceList) -> String {
    let parts = list.iter().map(|(name, amount)| format!("{name}={amount}"));
    parts.collect::<Vec<_>>().join(",")
}

/// Prefix of requests in quotas.
const QUOTA_REQUESTS: &str = "requests.";

/// True for native resources: without a domain, or in `kubernetes.io`.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// True for extended resources.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(QUOTA_REQUESTS)
        && name::is_label_key(&format!("{QUOTA_REQUESTS}{name}")).is_empty()
}

/// Rules for adding up a pod's resources (upstream: PodResourcesOptions).
#[derive(Clone, Copy, Debug)]
pub(super) struct PodResources {
    /// Include the resources in container statuses: the larger of actual and desired.
    pub status: bool,
    /// Include the pod's overhead.
    pub overhead: bool,
    /// Resources that pod-level requests and limits may set instead of the containers.
    pub pod_level: fn(&str) -> bool,
}

impl PodResources {
    /// Total requests of a pod.
    pub fn requests(&self, pod: &Value) -> ResourceList {
        let mut list = self.sum(pod, "requests");
        self.replace_by_pod_level(pod, "requests", &mut list);
        if self.overhead {
            add(&mut list, &at(pod, &["spec", "overhead"]));
        }
        list
    }

    /// Total limits of a pod.
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

    /// Sum over containers. Containers run in parallel, after the init containers, which run one after the other;
    /// restartable init containers run on beside all later ones.
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
            // A restartable init container is in `staying` already.
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

    /// Container statuses by container name; empty unless `status` is set.
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
        // An infeasible resize does not count.
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
