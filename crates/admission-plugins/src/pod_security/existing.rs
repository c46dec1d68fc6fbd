//! Warnings about existing pods when a namespace's enforce level changes, and the test whether a pod update is
//! relevant.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_clock::monotonic_now;
use kevel_store::cache::{At, Object};

use super::PodSecurity;
use super::checks::{Pod, violations};
use super::policy::LevelVersion;

/// Limits on the number of existing pods checked and on the time for it.
const MAX_PODS: usize = 3000;
const PATIENCE: Duration = Duration::from_secs(1);

impl PodSecurity {
    /// Warnings about existing pods that violate the new enforce level of their namespace.
    pub(super) async fn warn_of_pods(&self, namespace: &str, enforce: LevelVersion) -> Vec<String> {
        let Ok(snapshot) = self.pods.snapshot(At::Consistent).await else {
            return vec!["failed to list pods while checking new PodSecurity enforce level".into()];
        };
        let pods = self.prioritized(snapshot.range(&format!("{namespace}/"), None));
        let (mut checked, started) = (0, monotonic_now());
        // By violations: the first pod by name, and the number of pods.
        let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for object in pods.iter().take(MAX_PODS) {
            let pod = self.pods.tree(object).unwrap_or_default();
            let (metadata, spec) = (pod.at(&["metadata"]), pod.at(&["spec"]));
            let nothing = &Value::Null;
            let judged =
                Pod { metadata: metadata.unwrap_or(nothing), spec: spec.unwrap_or(nothing) };
            let wrong = violations(enforce, self.newest, &judged);
            if !wrong.is_empty() {
                let reasons: Vec<&str> = wrong.iter().map(|wrong| &*wrong.reason).collect();
                let name = object.name();
                let first = found.entry(reasons.join(", ")).or_insert((name.to_owned(), 0));
                if *name < *first.0 {
                    first.0 = name.to_owned();
                }
                first.1 += 1;
            }
            checked += 1;
            tokio::task::yield_now().await;
            if started.elapsed() > PATIENCE {
                break;
            }
        }
        let mut warnings = Vec::new();
        if checked < pods.len() {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {} \
                 existing pods",
                pods.len()
            ));
        }
        if !found.is_empty() {
            warnings.push(format!(
                "existing pods in namespace {} violate the new PodSecurity enforce level {}",
                quote(namespace),
                quote(&enforce.to_string())
            ));
        }
        let told = found.into_iter().map(|(reason, (name, count))| match count {
            1 => format!("{name}: {reason}"),
            2 => format!("{name} (and 1 other pod): {reason}"),
            count => format!("{name} (and {} other pods): {reason}", count - 1),
        });
        let mut told: Vec<String> = told.collect();
        told.sort();
        warnings.extend(told);
        warnings
    }

    /// One pod of each controller first, then the rest; without pods of exempt runtime classes.
    fn prioritized<'o>(&self, pods: impl Iterator<Item = &'o Arc<Object>>) -> Vec<Arc<Object>> {
        let (mut first, mut rest, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for object in pods {
            let Ok(pod) = self.pods.tree(object) else { continue };
            if self.is_exempt_class(pod.str_at(&["spec", "runtimeClassName"])) {
                continue;
            }
            let mut owners = pod.list_at(&["metadata", "ownerReferences"]).iter();
            let controls = |owner: &&Value| owner.at(&["controller"]) == Some(&Value::Bool(true));
            let controller = owners.find(controls).map(|owner| owner.str_at(&["uid"]).to_owned());
            match controller.is_none_or(|uid| seen.insert(uid)) {
                true => first.push(object.clone()),
                false => rest.push(object.clone()),
            }
        }
        first.extend(rest);
        first
    }
}

/// True if an update changes a container's image or adds a container: no other mutable field is relevant to the checks.
pub(super) fn changes(pod: &Value, old: &Value) -> bool {
    let image = |container: &Value| container.str_at(&["image"]).to_owned();
    let images =
        |pod: &Value, kind| pod.list_at(&["spec", kind]).iter().map(image).collect::<Vec<_>>();
    let differ = |kind| images(pod, kind) != images(old, kind);
    let before = old.list_at(&["spec", "ephemeralContainers"]).iter().rev();
    let before: HashMap<&str, String> =
        before.map(|container| (container.str_at(&["name"]), image(container))).collect();
    differ("containers")
        || differ("initContainers")
        || pod.list_at(&["spec", "ephemeralContainers"]).iter().any(|container| {
            let before = before.get(container.str_at(&["name"]));
            before.is_none_or(|before| *before != image(container))
        })
}
