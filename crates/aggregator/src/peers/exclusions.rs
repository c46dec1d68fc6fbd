//! Group versions that are not proxied to peers: those of custom resources and APIServices, which all servers know from
//! the same objects. A peer that has not seen a deletion yet must not bring the version back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use kevel_api::value::Value;
use kevel_clock::monotonic_now;
use kevel_controller_runtime::{Informer, run};

use super::{GroupVersion, Peer, Peers};

/// Time for which a removed version is excluded.
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);
/// Queue key of all APIServices; names of CustomResourceDefinitions contain a dot.
const API_SERVICES: &str = "apiservices";

/// Excluded group versions.
#[derive(Debug, Default)]
pub(super) struct Exclusions {
    /// By the name of the CustomResourceDefinition, or the key of all APIServices.
    active: HashMap<String, BTreeSet<GroupVersion>>,
    gone: BTreeMap<GroupVersion, Instant>,
}

impl Exclusions {
    /// Records the present versions of an object.
    fn note(&mut self, key: &str, versions: BTreeSet<GroupVersion>, now: Instant) {
        let before = self.active.insert(key.to_owned(), versions).unwrap_or_default();
        let left: Vec<_> = before.into_iter().filter(|version| !self.is_active(version)).collect();
        self.gone.extend(left.into_iter().map(|version| (version, now)));
        self.gone.retain(|_, since| now.duration_since(*since) < GRACE_PERIOD);
        self.active.retain(|_, versions| !versions.is_empty());
    }

    fn is_active(&self, version: &GroupVersion) -> bool {
        self.active.values().any(|versions| versions.contains(version))
    }

    fn all(&self) -> BTreeSet<&GroupVersion> {
        self.active.values().flatten().chain(self.gone.keys()).collect()
    }

    /// A peer's resources without the excluded versions.
    pub fn without(&self, peer: &Peer) -> Peer {
        let all = self.all();
        if !peer.resources.iter().any(|(version, _)| all.contains(version)) {
            return peer.clone();
        }
        let resources = peer.resources.iter().filter(|(version, _)| !all.contains(version));
        let groups = peer.groups.iter().filter_map(|group| {
            let name = group.str_at(&["metadata", "name"]);
            let kept = |version: &&Value| {
                !all.contains(&(name.to_owned(), version.str_at(&["version"]).to_owned()))
            };
            let versions: Vec<Value> =
                group.list_at(&["versions"]).iter().filter(kept).cloned().collect();
            let mut group = group.clone();
            (!versions.is_empty()).then(|| {
                group.make_map(&[]).insert("versions", Value::List(versions.into_iter().collect()));
                group
            })
        });
        Peer { resources: resources.cloned().collect(), groups: groups.collect() }
    }
}

impl Peers {
    /// Watches CustomResourceDefinitions and APIServices; never returns.
    pub(super) async fn follow_exclusions(self: std::sync::Arc<Self>) {
        let queue = self.exclusion_queue.clone();
        let heard = queue.clone();
        self.services.listen(move |_| heard.add(API_SERVICES));
        queue.add(API_SERVICES);
        let definitions = self.definitions.as_ref().map(|storage| storage.cache.clone());
        let hear = async {
            match definitions {
                Some(cache) => {
                    let queue = queue.clone();
                    Informer::new(cache).for_each(move |object| queue.add(object.key())).await;
                }
                None => std::future::pending().await,
            }
        };
        let this = self.clone();
        let reconcile = move |key: String| {
            let this = this.clone();
            async move { this.note_exclusions(&key) }
        };
        tokio::join!(hear, run(queue.clone(), "active-gv-tracker", 1, reconcile));
    }

    fn note_exclusions(&self, key: &str) -> Result<(), String> {
        let versions = match key {
            API_SERVICES => {
                let remote = self.services.remote();
                let version =
                    |one: &crate::api_service::ApiService| (one.group.clone(), one.version.clone());
                remote.values().map(|one| version(&one.service)).collect()
            }
            name => self.versions_of_definition(name)?,
        };
        let known = self.state().exclusions.active.get(key).cloned().unwrap_or_default();
        if known.is_empty() && versions.is_empty() && self.state().exclusions.gone.is_empty() {
            return Ok(());
        }
        if !known.is_subset(&versions) {
            // By then the removed versions are no longer excluded.
            self.exclusion_queue.add_after(key, GRACE_PERIOD);
        }
        self.publish(|state| state.exclusions.note(key, versions, monotonic_now()));
        Ok(())
    }

    fn versions_of_definition(&self, name: &str) -> Result<BTreeSet<GroupVersion>, String> {
        let Some(storage) = &self.definitions else { return Ok(BTreeSet::new()) };
        let Some(object) = storage.cache.latest().get(name).cloned() else {
            return Ok(BTreeSet::new());
        };
        let wire = object.wire().map_err(|error| error.to_string())?;
        let definition = storage.read(wire)?;
        let group = definition.str_at(&["spec", "group"]);
        let version = |version: &Value| (group.to_owned(), version.str_at(&["name"]).to_owned());
        Ok(definition.list_at(&["spec", "versions"]).iter().map(version).collect())
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    fn versions(text: &str) -> BTreeSet<GroupVersion> {
        let version = |(group, version): (&str, &str)| (group.to_owned(), version.to_owned());
        text.split_whitespace().filter_map(|text| text.split_once('/')).map(version).collect()
    }

    fn peer() -> Peer {
        let group = |text: &str| decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
        let mut peer = Peer::default();
        for text in [
            r#"{"metadata":{"name":"x.io"},"versions":[{"version":"v1","resources":[{"resource":"xs"}]},{"version":"v2","resources":[{"resource":"xs"}]}]}"#,
            r#"{"metadata":{"name":"batch"},"versions":[{"version":"v1","resources":[{"resource":"jobs"}]}]}"#,
        ] {
            peer.add(&group(text));
        }
        peer
    }

    fn shown(exclusions: &Exclusions) -> String {
        let peer = exclusions.without(&peer());
        let mut resources: Vec<String> = peer
            .resources
            .iter()
            .map(|((group, version), resource)| format!("{group}/{version}/{resource}"))
            .collect();
        resources.sort();
        let groups: Vec<&str> =
            peer.groups.iter().map(|group| group.str_at(&["metadata", "name"])).collect();
        format!("{} in {}", resources.join(" "), groups.join(" "))
    }

    /// A removed version that a peer may still list is not brought back.
    #[test]
    fn deleted_versions_are_excluded_from_peers_for_a_while() {
        let (mut exclusions, start) = (Exclusions::default(), monotonic_now());
        let all = "batch/v1/jobs x.io/v1/xs x.io/v2/xs in x.io batch";
        assert_eq!(shown(&exclusions), all);
        exclusions.note("xs.x.io", versions("x.io/v1 x.io/v2"), start);
        assert_eq!(shown(&exclusions), "batch/v1/jobs in batch");
        exclusions.note("ys.x.io", versions("x.io/v2"), start);
        exclusions.note("xs.x.io", versions(""), start);
        assert_eq!(shown(&exclusions), "batch/v1/jobs in batch");
        exclusions.note("xs.x.io", versions(""), start + GRACE_PERIOD);
        assert_eq!(shown(&exclusions), "batch/v1/jobs x.io/v1/xs in x.io batch");
        exclusions.note("ys.x.io", versions(""), start + GRACE_PERIOD);
        exclusions.note("ys.x.io", versions(""), start + 2 * GRACE_PERIOD);
        assert_eq!(shown(&exclusions), all);
    }
}
