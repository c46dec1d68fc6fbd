//! Publication of this server's storage versions: before the first write of a kind, its StorageVersion lists the
//! versions that the server writes and reads, so that the servers of a cluster know what their peers can read (gates
//! `StorageVersionAPI`, `APIServerIdentity`; upstream: storageversion.Manager).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kevel_api::builtin;
use kevel_api::gvk::GroupResource;
use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_component::signals::Signal;
use kevel_controller_runtime::Client;
use kevel_registry::resource::{Resources, api_version};
use kevel_registry::storage::Storage;
use kevel_registry::user::{APISERVER, PRIVILEGED};
use kevel_registry::verb::Verb;
use kevel_server::handler::{Filter, Handler, Response};
use kevel_server::lifecycle::{HookContext, HookResult};
use kevel_server::request::Request;
use kevel_server::responses::failure_to;

use crate::rows::version_rank;

const PATH: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Interval of repetitions, in case the object was changed.
const INTERVAL: Duration = Duration::from_secs(600);
/// Attempts per kind, and delay after a failure.
const TRIES: usize = 3;
const RETRY: Duration = Duration::from_secs(1);
/// Interval of checks for the server's identity lease.
const LOOK: Duration = Duration::from_millis(100);
const CONDITION: &str = "AllEncodingVersionsEqual";

/// Publisher of this server's storage versions, and filter that delays writes until they are published.
#[derive(Debug)]
pub struct StorageVersionManager {
    client: Client,
    server_id: String,
    resources: Vec<ResourceInfo>,
    /// Resources not published yet, with the last error.
    pending: Mutex<HashMap<GroupResource, Option<String>>>,
    completed: Signal,
}

/// Storage versions of a resource.
#[derive(Debug)]
struct ResourceInfo {
    /// The resource, and others with the same stored objects.
    resources: Vec<GroupResource>,
    encoding: String,
    decodable: Vec<String>,
    served: Vec<String>,
}

impl StorageVersionManager {
    /// Name of the post-start hook.
    pub const HOOK: &str = "built-in-resources-storage-version-updater";

    /// Makes the manager; `tables` has the built-in kinds, `server_id` is the ID of this server.
    pub fn new(client: Client, server_id: String, tables: &[Arc<Resources>]) -> Self {
        let resources = resource_infos(tables);
        let known = resources.iter().flat_map(|info| &info.resources);
        let pending = known.map(|resource| (resource.clone(), None)).collect();
        let completed = Signal::new("StorageVersionsUpdated");
        StorageVersionManager {
            client,
            server_id,
            resources,
            pending: Mutex::new(pending),
            completed,
        }
    }

    /// Post-start hook: completes when all versions were published once.
    pub async fn start(self: Arc<Self>, context: HookContext) -> HookResult {
        let stop = context.stop.wait();
        let completed = self.completed.wait();
        context.spawn(Self::HOOK, async move {
            self.identity().await;
            loop {
                self.update().await;
                tokio::time::sleep(INTERVAL).await;
            }
        });
        tokio::select! {
            () = completed => {}
            () = stop => {}
        }
        Ok(())
    }

    /// Waits for this server's identity lease: entries of servers without one are removed.
    async fn identity(&self) {
        let lease = format!("{LEASES}/{}", self.server_id);
        while let Err(error) = self.client.get(&lease).await {
            tracing::debug!(target: "v4", %error, "Waiting for the identity lease");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn update(&self) {
        let mut failed = false;
        for info in &self.resources {
            let result = self.update_for(info).await;
            if let (Err(error), Some(resource)) = (&result, info.resources.first()) {
                tracing::error!(%resource, %error, "failed to update storage version");
            }
            failed |= result.is_err();
            let mut pending = self.pending();
            for resource in &info.resources {
                // A resource stays published after a later failure.
                match (&result, pending.get_mut(resource)) {
                    (Ok(()), _) => drop(pending.remove(resource)),
                    (Err(error), Some(last)) => *last = Some(error.to_string()),
                    (Err(_), None) => {}
                }
            }
        }
        if !failed {
            self.completed.signal();
        }
    }

    async fn update_for(&self, info: &ResourceInfo) -> Result<(), StatusError> {
        let mut failures = 0;
        loop {
            let Err(error) = self.update_once(info).await else { return Ok(()) };
            // Another server has written at the same time: no failure.
            if ![reason::ALREADY_EXISTS, reason::CONFLICT].contains(&error.reason()) {
                failures += 1;
            }
            if failures == TRIES {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn update_once(&self, info: &ResourceInfo) -> Result<(), StatusError> {
        let name = info.name();
        let path = format!("{PATH}/{name}");
        let mut version = match self.client.get(&path).await {
            Err(error) if error.reason() == reason::NOT_FOUND => {
                let metadata = Map::from_iter([("name", Value::from(name.as_str()))]);
                let version = Map::from_iter([
                    ("metadata", Value::Map(metadata)),
                    ("spec", Value::Map(Map::new())),
                    ("status", Value::Map(Map::new())),
                ]);
                self.client.create(PATH, &version.into()).await?
            }
            found => found?,
        };
        self.set(&mut version, info);
        self.client.update(&format!("{path}/status"), &version).await.map(drop)
    }

    /// Sets this server's entry among those of the others.
    fn set(&self, version: &mut Value, info: &ResourceInfo) {
        let list = |texts: &[String]| {
            Value::List(texts.iter().map(|text| Value::from(text.as_str())).collect())
        };
        let ours = Value::Map(Map::from_iter([
            ("apiServerID", Value::from(self.server_id.as_str())),
            ("decodableVersions", list(&info.decodable)),
            ("encodingVersion", Value::from(info.encoding.as_str())),
            ("servedVersions", list(&info.served)),
        ]));
        let all = version.make_list(&["status"], "storageVersions");
        match all.iter_mut().find(|server| server.str_at(&["apiServerID"]) == self.server_id) {
            Some(server) => *server = ours,
            None => all.push(ours),
        }
        set_common_encoding_version(version, Time::now(self.client.clock()));
    }

    /// True if a request may be served before all versions are published.
    fn passes(&self, request: &Request) -> bool {
        let info = &request.info;
        let of_apiserver = || {
            request.user.as_ref().is_some_and(|user| {
                user.name == APISERVER && user.groups.iter().any(|group| group == PRIVILEGED)
            })
        };
        !info.is_resource
            || matches!(info.verb, Verb::Get | Verb::List | Verb::Watch)
            || match (info.group.as_str(), info.resource.as_str()) {
                ("internal.apiserver.k8s.io", "storageversions") => true,
                // An identity is a Lease in `kube-system`.
                ("coordination.k8s.io", "leases") => info.namespace == "kube-system",
                ("", "namespaces") => info.verb == Verb::Create && of_apiserver(),
                _ => false,
            }
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<GroupResource, Option<String>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filter for StorageVersionManager {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if self.completed.is_signaled() || self.passes(&request) {
            return next.handle(request);
        }
        let resource = GroupResource::new(&request.info.group, &request.info.resource);
        let Some(error) = self.pending().get(&resource).cloned() else {
            return next.handle(request);
        };
        let error = error.as_deref().unwrap_or("<nil>");
        let why = format!(
            "wait for storage version registration to complete for resource: {resource}, last seen \
             error: {error}"
        );
        let refused = failure_to(&request, StatusError::service_unavailable(why));
        Box::pin(std::future::ready(refused))
    }
}

impl ResourceInfo {
    /// Name of the StorageVersion: `core.pods`.
    fn name(&self) -> String {
        let first = self.resources.first();
        first.map_or_else(String::new, |resource| {
            let group = if resource.group.is_empty() { "core" } else { &resource.group };
            format!("{group}.{}", resource.resource)
        })
    }
}

/// Stored resources by group and name, each storage once: Events of two groups are the same objects.
fn resource_infos(tables: &[Arc<Resources>]) -> Vec<ResourceInfo> {
    let mut stored: BTreeMap<(String, String), (Arc<Storage>, Vec<String>)> = BTreeMap::new();
    for table in tables {
        let rows = table.current();
        for (group, versions) in rows.groups() {
            let of_version = |version: &String| rows.version(group, version).into_iter().flatten();
            for (plural, row) in versions.iter().flat_map(of_version) {
                // Resources with a lister of their own are computed, not stored.
                let stored_in = row.storage.as_ref().filter(|_| row.lister.is_none());
                let Some(storage) = stored_in else { continue };
                let entry = stored.entry((group.clone(), plural.clone()));
                let (_, served) = entry.or_insert_with(|| (storage.clone(), Vec::new()));
                served.push(row.kind.version.to_string());
            }
        }
    }
    let mut infos: Vec<(Arc<Storage>, ResourceInfo)> = Vec::new();
    for ((group, plural), (storage, served)) in stored {
        let served = best_first(&group, served);
        let resource = GroupResource::new(&group, &plural);
        if let Some((_, info)) = infos.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &storage)) {
            info.resources.push(resource);
            info.decodable.extend(served);
            continue;
        }
        let encoding = api_version(&group, storage.encoding_version());
        let mut decodable = decodable(&group, &plural);
        if !decodable.contains(&encoding) {
            decodable.push(encoding.clone());
        }
        let resources = vec![resource];
        infos.push((storage, ResourceInfo { resources, encoding, decodable, served }));
    }
    infos.into_iter().map(|(_, info)| info).collect()
}

/// Known versions of a resource, served or not, by priority.
fn decodable(group: &str, plural: &str) -> Vec<String> {
    let known = builtin::resources().iter().filter(|r| (r.group, r.path) == (group, plural));
    best_first(group, known.map(|resource| resource.version.to_owned()).collect())
}

fn best_first(group: &str, mut versions: Vec<String>) -> Vec<String> {
    versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
    versions.iter().map(|version| api_version(group, version)).collect()
}

/// Sets `commonEncodingVersion` of a StorageVersion and its condition AllEncodingVersionsEqual, by the entries of the
/// servers.
pub fn set_common_encoding_version(version: &mut Value, now: Time) {
    let of_servers = version.list_at(&["status", "storageVersions"]);
    let mut all = of_servers.iter().map(|server| server.str_at(&["encodingVersion"]));
    let first = all.next();
    let common = first.filter(|first| all.all(|other| other == *first)).map(str::to_owned);
    let old = version.str_at(&["status", "commonEncodingVersion"]).to_owned();
    let status = version.make_map(&["status"]);
    let (holds, reason, message) = match &common {
        Some(common) => {
            status.insert("commonEncodingVersion", Value::from(common.as_str()));
            ("True", "CommonEncodingVersionSet", "Common encoding version set")
        }
        None => {
            status.remove("commonEncodingVersion");
            ("False", "CommonEncodingVersionUnset", "Common encoding version unset")
        }
    };
    let changed = !old.is_empty() && common.is_some_and(|common| common != old);
    let generation = version.at(&["metadata", "generation"]).cloned();
    let conditions = version.make_list(&["status"], "conditions");
    let known = conditions.iter().position(|known| known.str_at(&["type"]) == CONDITION);
    let mut condition = known.map_or_else(Value::default, |position| conditions.remove(position));
    let same = condition.str_at(&["status"]) == holds && !changed;
    let fields = condition.make_map(&[]);
    for (field, text) in
        [("type", CONDITION), ("status", holds), ("reason", reason), ("message", message)]
    {
        fields.insert(field, Value::from(text));
    }
    generation.map(|generation| fields.insert("observedGeneration", generation));
    if !same {
        fields.insert("lastTransitionTime", Value::from(now.to_string().as_str()));
    }
    conditions.insert(known.unwrap_or(conditions.len()), condition);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use kevel_server::request::{Connection, RequestBody};
    use kevel_server::responses;

    use super::*;

    /// Handler that serves and counts every request.
    #[derive(Default)]
    struct Served(AtomicUsize);

    impl Handler for Served {
        fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let answer = responses::failure_to(&request, StatusError::internal("served"));
            Box::pin(std::future::ready(answer))
        }
    }

    fn manager() -> StorageVersionManager {
        let client = Client::new(Arc::new(Served::default()));
        let manager = StorageVersionManager::new(client, "us".to_owned(), &[]);
        manager.pending().insert(GroupResource::new("", "configmaps"), None);
        manager.pending().insert(GroupResource::new("apps", "deployments"), Some("no".to_owned()));
        manager.pending().insert(GroupResource::new("coordination.k8s.io", "leases"), None);
        manager
    }

    async fn code(manager: &StorageVersionManager, method: &str, path: &str) -> u16 {
        let request = http::Request::builder().method(method).uri(path).body(()).unwrap();
        let connection = Arc::new(Connection::default());
        let body = RequestBody::Bytes(Bytes::new());
        let request = Request::new(request.into_parts().0, body, connection).unwrap();
        let next = Served::default();
        let answer = manager.filter(request, &next).await;
        assert_eq!(next.0.load(Ordering::Relaxed), usize::from(answer.status() == 500), "{path}");
        answer.status().as_u16()
    }

    #[tokio::test]
    async fn what_is_not_known_yet_is_not_written() {
        let manager = manager();
        let core = "/api/v1/namespaces/default";
        let leases = "/apis/coordination.k8s.io/v1/namespaces";
        for (method, path, expected) in [
            ("POST", format!("{core}/configmaps"), 503),
            ("PUT", format!("{core}/configmaps/a"), 503),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments/a".to_owned(), 503),
            ("POST", format!("{leases}/default/leases"), 503),
            // Reads, identity leases, resources that are not pending, and paths without a resource pass.
            ("GET", format!("{core}/configmaps"), 500),
            ("POST", format!("{leases}/kube-system/leases"), 500),
            ("POST", format!("{core}/secrets"), 500),
            ("POST", "/healthz".to_owned(), 500),
        ] {
            assert_eq!(code(&manager, method, &path).await, expected, "{method} {path}");
        }
        manager.completed.signal();
        assert_eq!(code(&manager, "POST", &format!("{core}/configmaps")).await, 500);
    }

    #[test]
    fn servers_agree_or_do_not() {
        let info = |encoding: &str| ResourceInfo {
            resources: vec![GroupResource::new("", "pods")],
            encoding: encoding.to_owned(),
            decodable: vec![encoding.to_owned()],
            served: Vec::new(),
        };
        let (us, mut version) = (manager(), Value::default());
        let them = StorageVersionManager { server_id: "them".to_owned(), ..manager() };
        let mut said = Vec::new();
        for (server, encoding) in [(&us, "v1"), (&them, "v2"), (&us, "v2"), (&them, "v2")] {
            server.set(&mut version, &info(encoding));
            let condition = &version.list_at(&["status", "conditions"])[0];
            let common = version.str_at(&["status", "commonEncodingVersion"]);
            said.push(format!("{} {common}", condition.str_at(&["status"])));
        }
        assert_eq!(said, ["True v1", "False ", "True v2", "True v2"]);
        assert_eq!(version.list_at(&["status", "storageVersions"]).len(), 2);
        assert_eq!(version.list_at(&["status", "conditions"]).len(), 1);
    }
}
